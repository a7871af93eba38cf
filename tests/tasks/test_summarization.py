"""Summarization: from a table to a model, its ROUGE and its summaries; what T5 and BART say of it in their configs."""

import csv
import json

import pytest
import torch
from language import learn, tokenizer_of
from vocabularies import small_tokenizer

import glassformer as gf
from glassformer.data import microworld
from glassformer.data.batches import Budget
from glassformer.data.examples import Parallel
from glassformer.data.parallel import SUMMARIES, read_parallel
from glassformer.tasks.metrics import Rouge
from glassformer.tasks.summarization import Summarization
from glassformer.tasks.task import evaluate
from glassformer.tasks.translation import Translation
from tasks.cases import SMALL as SMALL_MODELS

SMALL = ["--set", "config.embedding_size=12", "--set", "config.hidden_size=12", "--set", "vocab_size=300"]
SIZES = {"embedding_size": 16, "hidden_size": 16}


def model_of(task, **sizes):
    torch.manual_seed(0)
    return gf.build("glassformer-seq2seq", "text2text-generation", **{**SIZES, **sizes}, **task.settings()).eval()


# From a file to a model.


def write(path, rows):
    """Rows as csv or as jsonl, as the name says."""
    with path.open("w", encoding="utf-8", newline="") as file:
        if path.suffix == ".csv":
            table = csv.DictWriter(file, list(rows[0]))
            table.writeheader()
            table.writerows(rows)
        else:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    return path


@pytest.mark.parametrize("name", ["news.csv", pytest.param("news.jsonl", marks=pytest.mark.slow)])
def test_one_command_trains_and_others_use_it(tmp_path, glassformer, name):
    rows = [
        {"id": place, "dialogue": one.source, "summary": one.target}
        for place, one in enumerate(microworld.examples("summaries", 60, short=True))
    ]
    data, dev = write(tmp_path / name, rows[:40]), write(tmp_path / f"dev-{name}", rows[40:])
    run = tmp_path / "run"
    code, out, _ = glassformer(
        *("train", "summarization", "--arch", "gru", "--data", data, "--dev", dev, "--out", run, "--steps", 3),
        *("--device", "cpu", *SMALL),
    )
    assert code == 0
    assert "source: column 'dialogue'; target: column 'summary'" in out
    scores = json.loads((run / "run.json").read_text())["scores"]["dev"]
    assert {"loss", "rouge1", "rouge2", "rougeL"} <= scores.keys()
    code, out, _ = glassformer("eval", run, "--data", dev, "--json")
    assert code == 0
    assert json.loads(out.splitlines()[-1]) == pytest.approx(scores, abs=1e-5)
    (wanted,) = gf.pipeline("summarization", run)(rows[0]["dialogue"], max_new_tokens=4)
    code, out, _ = glassformer("predict", run, rows[0]["dialogue"], "--set", "max_new_tokens=4")
    assert (code, out.strip()) == (0, wanted["summary_text"].strip())
    code, out, _ = glassformer("predict", run, "--file", dev, "--json", "--set", "max_new_tokens=4")
    assert code == 0
    assert [json.loads(line)["input"] for line in out.splitlines()] == [row["dialogue"] for row in rows[40:]]


@pytest.mark.parametrize(
    ("columns", "source", "target"),
    [
        (["id", "dialogue", "summary"], "dialogue", "summary"),
        (["article", "highlights", "id"], "article", "highlights"),
        (["document", "summary", "id"], "document", "summary"),
        (["title", "text", "summary"], "text", "summary"),
        (["headline", "content"], "content", "headline"),
        (["one", "other"], "one", "other"),
    ],
)
def test_columns_are_known_by_the_names_of_real_data_sets(tmp_path, columns, source, target):
    path = write(tmp_path / "a.jsonl", [{name: f"{name} {row}" for name in columns} for row in range(3)])
    found = read_parallel([str(path)], names=SUMMARIES).examples
    assert found == [Parallel(f"{source} {row}", f"{target} {row}") for row in range(3)]


def test_columns_that_nobody_knows_are_asked_for(tmp_path):
    path = write(tmp_path / "a.csv", [{"id": "1", "kind": "x", "words": "a b"}])
    with pytest.raises(ValueError, match="known to be the source: give --columns source=NAME, one of 'id', 'kind', 'w"):
        Summarization.read([str(path)])
    columns = {"source": "words", "target": "kind"}
    assert Summarization.read([str(path)], columns=columns).examples == [Parallel("a b", "x")]


# Scores, lengths and prefixes.


def test_scores_are_the_rouge_of_what_is_written_over_any_batches():
    pairs = microworld.examples("summaries", 9, short=True)
    task = Summarization.for_data(small_tokenizer("unigram"), pairs, generate={"max_new_tokens": 6}, rouge=True)
    model, items = model_of(task), task.encode(pairs)
    parts = [evaluate(model, task, items, budget=Budget(rows=2), share=(rank, 2)) for rank in range(2)]
    parts[0].merge(parts[1])
    wanted = Rouge()
    written = [one["summary_text"] for one in task.predict(model, [one.source for one in pairs])]
    wanted.update(written, [one.target for one in pairs])
    found = parts[0].compute()
    assert {name: found[name] for name in wanted.compute()} == pytest.approx(wanted.compute())
    assert task.metric == "rougeL"
    assert "rouge1" not in evaluate(model, Summarization(task.tokenizer), items, budget=Budget(rows=9)).compute()


def test_texts_and_summaries_have_lengths_of_their_own():
    pairs = [Parallel("near the old harbour " * 9, "the old harbour " * 9)]
    task = Summarization(small_tokenizer("unigram"), max_source_length=20, max_target_length=7)
    items = task.encode(pairs)
    assert (items.sources.lengths.tolist(), items.targets.lengths.tolist()) == ([20], [6])  # cut, so that it has no end
    assert task.max_new_tokens(20, model_of(task)) == 7
    assert Summarization(small_tokenizer("unigram")).max_new_tokens(2000, model_of(task)) == 256


def test_an_empty_text_is_refused_with_its_number():
    task = Summarization(small_tokenizer("unigram"))
    with pytest.raises(ValueError, match="^text 1 is '  ', with nothing to summarise: leave it out$"):
        task.predict(model_of(task), ["a text", "  "])


def said_by(folder, **params):
    """A folder whose config.json says something of single tasks."""
    tokenizer = small_tokenizer("unigram")
    gf.save(model_of(Translation(tokenizer)), folder, tokenizer=tokenizer)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "task_specific_params": params}))
    return folder


def test_a_folder_says_what_stands_before_a_text_and_how_long_its_summary_is(tmp_path):
    """As T5's config.json: a prefix and settings for each task, told by the name under which it is asked for."""
    folder = said_by(
        tmp_path,
        summarization={"prefix": "the near ", "max_length": 4, "num_beams": 2, "prefix_length": 3},
        translation_en_to_de={"prefix": "Anna met ", "max_length": 9},
        translation_en_to_fr={"prefix": "it was "},
    )
    text, plain = "the old harbour", gf.pipeline("text2text-generation", folder)

    def written(task, **settings):
        (found,) = gf.pipeline(task, folder)(text, **settings)
        return next(iter(found.values()))

    def wanted(prefix, **settings):
        return plain(prefix + text, **settings)[0]["generated_text"]

    assert plain.task.prefix == ""
    assert written("summarization") == wanted("the near ", max_length=4, num_beams=2)
    assert written("summarization", max_new_tokens=6) == wanted("the near ", max_new_tokens=6, num_beams=2)
    assert written("translation_en_to_de") == wanted("Anna met ", max_length=9)
    assert written("translation") == wanted("")  # of which language, nobody has said
    french = gf.pipeline("translation", folder, src_lang="en", tgt_lang="fr", max_new_tokens=5)
    assert french(text) == [{"translation_text": wanted("it was ", max_new_tokens=5)}]
    assert gf.pipeline("summarization", folder, prefix="")(text) == [
        {"summary_text": wanted("", max_length=4, num_beams=2)}
    ]


@pytest.mark.parametrize("arch", ["t5", "glassformer-transformer", "glassformer-seq2seq"])
def test_what_a_folder_says_of_tasks_stays_with_its_model(tmp_path, arch):
    """In memory, and in a folder that it is saved to anew."""
    tokenizer = small_tokenizer("unigram")
    sizes = {"vocab_size": len(tokenizer), "eos_token_id": tokenizer.eos_token_id}
    params = {"summarization": {"prefix": "the near ", "max_length": 4}}
    gf.save(
        gf.build(arch, "text2text-generation", **sizes, **SMALL_MODELS[arch]), tmp_path / "first", tokenizer=tokenizer
    )
    config = json.loads((tmp_path / "first" / "config.json").read_text())
    (tmp_path / "first" / "config.json").write_text(json.dumps({**config, "task_specific_params": params}))
    model = gf.load(tmp_path / "first")
    gf.save(model, tmp_path / "again", tokenizer=tokenizer)
    assert json.loads((tmp_path / "again" / "config.json").read_text())["task_specific_params"] == params
    for pipe in (gf.pipeline("summarization", tmp_path / "again"), gf.pipeline("summarization", model, tokenizer)):
        assert (pipe.task.prefix, pipe.task.generate) == ("the near ", {"max_length": 4})
    assert gf.pipeline("summarization", model, tokenizer, prefix="").task.prefix == ""


def test_a_t5_of_transformers_summarises_and_translates_as_it_did_there(tmp_path):
    transformers = pytest.importorskip("transformers")
    tokenizer, text = small_tokenizer("unigram"), "Anna met Mr. O'Neill near the old harbour"
    ids = {"pad_token_id": tokenizer.pad_token_id, "decoder_start_token_id": tokenizer.pad_token_id}
    sizes = {"d_model": 16, "d_kv": 5, "d_ff": 24, "num_layers": 2, "num_heads": 2}
    torch.manual_seed(0)
    config = transformers.T5Config(vocab_size=len(tokenizer), eos_token_id=tokenizer.eos_token_id, **sizes, **ids)
    reference = transformers.T5ForConditionalGeneration(config).eval()
    for parameter in reference.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    reference.save_pretrained(tmp_path)
    tokenizer.save(tmp_path)
    params = {
        "summarization": {"prefix": "summarize: ", "num_beams": 4, "max_length": 12, "min_length": 5},
        "translation_en_to_de": {"prefix": "translate English to German: ", "max_length": 9},
    }
    written = json.loads((tmp_path / "config.json").read_text()) | {"task_specific_params": params}
    (tmp_path / "config.json").write_text(json.dumps(written))
    for task, settings in params.items():
        prefix = settings.pop("prefix")
        read = torch.tensor([tokenizer(prefix + text)["input_ids"]])
        wanted = tokenizer.decode(reference.generate(read, **settings)[0].tolist(), skip_special_tokens=True)
        (found,) = gf.pipeline(task, tmp_path)(text)
        assert list(found.values()) == [wanted]


def test_what_is_trained_with_a_prefix_is_used_with_it(tmp_path):
    pairs = write(tmp_path / "a.jsonl", [{"text": f"a {n} b", "summary": f"{n}"} for n in range(30)])
    settings = {
        "task": "summarization",
        "arch": "gru",
        "data": str(pairs),
        "steps": 1,
        "device": "cpu",
        "config": SIZES,
    }
    run = gf.train(**settings, out=str(tmp_path / "run"), prefix="summarize: ", vocab_size=100, log=lambda _: None)
    (run.folder / "recipe.toml").unlink()  # the model alone, as others get it
    assert gf.pipeline("summarization", run.folder).task.prefix == "summarize: "
    again = gf.train(
        **{**settings, "arch": None, "config": None, "model": str(run.folder)},
        out=str(tmp_path / "x"),
        log=lambda _: None,
    )
    assert gf.pipeline("summarization", again.folder).task.prefix == "summarize: "


@pytest.mark.parametrize("wrong", [3, {"summarization": 3}, {"summarization": {"prefix": 3}}])
def test_a_config_that_says_nonsense_of_a_task_is_refused(tmp_path, wrong):
    folder = said_by(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "task_specific_params": wrong}))
    with pytest.raises(ValueError, match="config.json: .*is 3; it must be") as error:
        gf.pipeline("summarization", folder)
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_a_small_model_learns_what_comes_first():
    pairs = [Parallel(f"{one} {other}", f"{one}") for one in range(0, 99, 3) for other in range(5, 99, 9)]
    tokenizer = tokenizer_of(Summarization.texts(pairs), "character", 60)
    task = Summarization.for_data(tokenizer, pairs, rouge=True, max_source_length=16)
    model = model_of(task, embedding_size=48, hidden_size=48)
    task = Summarization.for_model(tokenizer, model, rouge=True, max_source_length=16)
    learn(model, task, task.encode(pairs), steps=150, lr=1e-2, rows=16)
    scores = evaluate(model, task, task.encode(pairs[::7]), budget=Budget(tokens=2048)).compute()
    assert scores["rougeL"] > 0.9
