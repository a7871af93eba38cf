"""Strategies side by side: each writes what generate writes, and is measured by what the model itself thinks of it."""

import json
import math
import re
from html.parser import HTMLParser

import pytest
import torch

import glassformer as gf
from families import POSITIONS, SMALL_GPT, random_model
from generators import logits, sharp, unforced
from glassformer.compare.decoding import compare
from glassformer.generate.strategies import STRATEGIES
from tasks.language import tokenizer_of

PROMPTS = ["the cat sat", "猫", "on the mat, the cat", "a"]
TEXT = ["the cat sat on the mat.", "猫坐在垫子上。 <img src=x onerror=alert(1)>"]
NEW = 10
SEQ2SEQ = {"embedding_size": 12, "hidden_size": 16, "initializer_range": 1.0, "attention": "general"}
SIDES = {f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in
         {"layers": 1, "attention_heads": 2, "ffn_dim": 24}.items()}  # fmt: skip
KINDS = {
    "gpt2": ("text-generation", {key: value for key, value in SMALL_GPT.items() if key != "vocab_size"}),
    "glassformer-rnn": ("text-generation", {"hidden_size": 16, "embedding_size": 12}),
    "glassformer-seq2seq": ("text2text-generation", SEQ2SEQ),
    "marian": ("text2text-generation", {**SIDES, "d_model": 16, "max_position_embeddings": POSITIONS}),
}


@pytest.fixture(scope="module")
def tokenizer():
    return tokenizer_of(TEXT * 9, "bpe", 290)


def model_of(kind, tokenizer):
    head, sizes = KINDS[kind]
    end = tokenizer.eos_token_id
    special = {"eos_token_id": end, "bos_token_id": end, "pad_token_id": end, "decoder_start_token_id": end}
    return unforced(sharp(random_model(kind, head, {"vocab_size": len(tokenizer), **special, **sizes}, 1), by=2))


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", KINDS)
def test_every_strategy_writes_what_generate_writes(tokenizer, kind):
    model = model_of(kind, tokenizer)
    found = compare(model, tokenizer, PROMPTS, max_new_tokens=NEW, seed=3)
    assert found.left_out == {}
    assert [one.strategy for one in found.results] == list(STRATEGIES)
    for one in found.results:
        asked = {"num_beams": 1, **STRATEGIES[one.strategy], "max_new_tokens": NEW, "seed": 3}
        written = gf.generate(model, tokenizer, PROMPTS, return_dict_in_generate=True, **asked)
        start = written.sequences.shape[1] - written.logprobs.shape[1]
        rows = [
            ids[start : start + n].tolist() for ids, n in zip(written.sequences, written.lengths.tolist(), strict=True)
        ]
        assert one.texts == [tokenizer.decode(row, skip_special_tokens=True) for row in rows]
        tokens, total = sum(map(len, rows)), float(written.logprobs.sum())
        assert one.scores["length"] == tokens / len(PROMPTS)
        assert one.scores["likelihood"] == pytest.approx(total / len(PROMPTS), abs=1e-3)
        assert one.scores["perplexity"] == pytest.approx(math.exp(-total / tokens), rel=1e-4)
        assert one.scores["tokens_per_second"] > 0
    by_name = {one.strategy: one for one in found.results}
    assert by_name["greedy"].texts == by_name["speculative"].texts


@pytest.mark.parametrize("kind", KINDS)
def test_the_choices_shown_are_the_models_own(tokenizer, kind):
    model = model_of(kind, tokenizer)
    found = compare(model, tokenizer, PROMPTS, strategies=["greedy"], max_new_tokens=NEW, shown=2, alternatives=3)
    (greedy,) = found.results
    seq2seq = model.config.is_encoder_decoder
    source = tokenizer(PROMPTS[2], add_special_tokens=seq2seq)["input_ids"]
    new = gf.generate(model, None, torch.tensor([source]), max_new_tokens=NEW)[0, 1 if seq2seq else len(source) :]
    ids = [*([model.config.decoder_start_token_id] if seq2seq else source), *new.tolist()]
    chances = logits(model, source, ids).softmax(-1)[-len(new) - 1 : -1]
    assert [step.token for step in greedy.steps] == [tokenizer.decode([id_]) for id_ in new.tolist()]
    for step, row, id_ in zip(greedy.steps, chances, new.tolist(), strict=True):
        assert step.chance == pytest.approx(float(row[id_]), abs=1e-5)
        assert [chance for _, chance in step.top] == pytest.approx(row.topk(3).values.tolist(), abs=1e-5)
        assert step.top[0][0] == step.token  # greedy takes the likeliest
    assert found.tree is None


def test_prompts_come_in_batches_as_if_alone(tokenizer):
    model = model_of("gpt2", tokenizer)
    prompts = [f"the cat {n}" for n in range(19)]
    together = compare(model, tokenizer, prompts, strategies=["greedy", "beam"], max_new_tokens=4)
    alone = compare(model, tokenizer, prompts[18:], strategies=["greedy", "beam"], max_new_tokens=4)
    for one, other in zip(together.results, alone.results, strict=True):
        assert one.texts[18:] == other.texts
    assert alone.results[0].scores["self_bleu"] is None  # there is nothing to compare it with


def test_what_cannot_be_used_is_left_out_with_its_reason(tokenizer):
    model = model_of("gpt2", tokenizer)
    room = POSITIONS + 1 - len(tokenizer("a")["input_ids"])  # contrastive search reads one token more than the others
    found = compare(model, tokenizer, ["a"], strategies=["greedy", "constrained", "contrastive"], max_new_tokens=room)
    assert [one.strategy for one in found.results] == ["greedy"]
    assert "needs words that must be written" in found.left_out["constrained"]
    assert "do not fit into the model's" in found.left_out["contrastive"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strategies": ["greedy", "magic"]}, "no strategy 'magic'; choose from greedy, beam"),
        ({"strategies": []}, "choose from greedy, beam"),
        ({"shown": 4}, "no prompt 5 to be shown; there are 4"),
        ({"max_new_tokens": 999}, "999 new tokens"),
        ({"strategies": ["constrained"]}, "no strategy could be used: constrained: it needs"),
    ],
)
def test_wrong_requests_are_named(tokenizer, options, message):
    with pytest.raises(ValueError, match=message):
        compare(model_of("gpt2", tokenizer), tokenizer, PROMPTS, **{"max_new_tokens": 3, **options})


# The command.


@pytest.fixture
def folder(tokenizer, tmp_path):
    return gf.save(model_of("gpt2", tokenizer), tmp_path / "model", tokenizer=tokenizer)


@pytest.fixture
def prompts(tmp_path):
    (tmp_path / "prompts.txt").write_text("\n".join([*PROMPTS, "", "<img src=x onerror=alert(1)>"]), encoding="utf-8")
    return tmp_path / "prompts.txt"


def test_the_command_prints_a_table_and_an_example_of_each(glassformer, folder, prompts):
    words = ("--prompts", prompts, "--strategies", "greedy, top-p,constrained", "--max-new-tokens", 6)
    code, out, err = glassformer("compare", "decoding", folder, *words)
    assert (code, err) == (0, "")
    head, *rows = [line.split() for line in out.splitlines()]
    assert head[:3] == ["strategy", "likelihood", "perplexity"]
    assert [row[0] for row in rows[:2]] == ["greedy", "top-p"]
    assert len(rows[0]) == 9
    assert PROMPTS[0] in out
    assert "left out: constrained: it needs words" in out
    _, out, _ = glassformer("compare", "decoding", folder, *words, "--json")
    told = json.loads(out)
    assert told["prompts"] == [*PROMPTS, "<img src=x onerror=alert(1)>"]
    assert [one["strategy"] for one in told["strategies"]] == ["greedy", "top-p"]
    assert f"{told['strategies'][0]['scores']['perplexity']:.2f}" == rows[0][2]
    assert all(len(one["texts"]) == 5 for one in told["strategies"])


def test_the_command_writes_a_page(glassformer, folder, prompts, tmp_path):
    words = ("--prompts", prompts, "--strategies", "greedy,beam", "--max-new-tokens", 5, "--shown", 5)
    code, out, _ = glassformer("compare", "decoding", folder, *words, "--out", tmp_path / "new" / "page.html")
    assert code == 0
    assert f"the page is in {tmp_path / 'new' / 'page.html'}" in out
    page = (tmp_path / "new" / "page.html").read_text(encoding="utf-8")
    tags = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: tags.append((tag, dict(attributes)))
    parser.feed(page)
    names = [tag for tag, _ in tags]
    assert "img" not in names
    assert "script" not in names
    nodes = [attributes["class"] for tag, attributes in tags if tag == "g" and "node" in attributes.get("class", "")]
    assert len(nodes) == 5 * 8  # twice as many candidates as beams at each step
    assert sum("best" in look for look in nodes) == 5
    assert "&lt;img src=x onerror=alert(1)&gt;" in page


def test_the_page_shows_variety_against_likelihood(glassformer, folder, prompts, tmp_path):
    words = ("--prompts", prompts, "--strategies", "greedy,beam,top-p", "--max-new-tokens", 6, "--json")
    _, out, _ = glassformer("compare", "decoding", folder, *words, "--out", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count("Variety against likelihood</text>") == 1
    for one in json.loads(out)["strategies"]:
        x, y = one["scores"]["perplexity"], one["scores"]["distinct_2"]
        (shown,) = re.findall(rf"<title>{one['strategy']}: (\S+), (\S+)</title>", page)
        assert [float(value) for value in shown] == pytest.approx([x, y], rel=1e-4)


def test_texts_without_pairs_of_tokens_make_no_plot(glassformer, folder, prompts, tmp_path):
    words = ("--prompts", prompts, "--strategies", "greedy", "--max-new-tokens", 1, "--out", tmp_path / "page.html")
    assert glassformer("compare", "decoding", folder, *words)[0] == 0
    assert "Variety against likelihood" not in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_command_says_what_is_wrong(glassformer, folder, prompts, tmp_path):
    (tmp_path / "empty.txt").write_text("\n \n")
    for words, message in (
        (("--prompts", tmp_path / "empty.txt"), "holds no prompt"),
        (("--prompts", tmp_path / "nowhere.txt"), "there is no file"),
        (("--prompts", prompts, "--out", tmp_path), "is a folder: name a file"),
    ):
        code, out, err = glassformer("compare", "decoding", folder, *words)
        assert (code, out) == (1, "")
        assert message in err
        assert len(err.splitlines()) == 1


def test_it_has_an_example(glassformer):
    assert "Example: glassformer compare decoding" in glassformer("compare", "decoding", "--help")[1]
