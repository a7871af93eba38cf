"""Fill-mask: what is hidden and what is not, a loss at hidden places alone, and answers as Hugging Face gives them."""

import math
import pickle

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from language import ROWS, gradients, learn, micro_world, small_bert, tokenizer_of, unigram_entropy
from torch.testing import assert_close

import glassformer as gf
from glassformer.data.examples import Document
from glassformer.data.masking import sentences_of
from glassformer.data.shard_writer import tokenise_to_shards
from glassformer.hub.registry import build
from glassformer.tasks.fill_mask import FillMask
from glassformer.tasks.task import evaluate
from glassformer.text.train import train

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
TEXTS = [
    "the cat sat on the mat.\n\nthe dog saw the cat\n",
    "a dog",
    "somebody laughed unbelievably loudly at the cats and dogs",
    "the mat " * 20,
]
DOCUMENTS = [Document(text) for text in TEXTS]
FAMILIES = ("bert", "roberta", "distilbert")


@pytest.fixture(scope="module")
def tokenizer():
    return tokenizer_of(TEXTS, "wordpiece")


@given(max_length=st.integers(3, 60))
def test_blocks_are_the_documents_with_separators_between(tokenizer, max_length):
    items = FillMask(tokenizer, max_length=max_length).encode(DOCUMENTS)
    rows = [items.rows[index] for index in range(len(items.lengths))]
    assert [len(row) for row in rows] == items.lengths.tolist()
    assert all(len(row) == max_length for row in rows[:-1])
    assert {(row[0], row[-1]) for row in rows} == {(tokenizer.cls_token_id, tokenizer.sep_token_id)}
    ids = [tokenizer.encode(text, add_special_tokens=False) for text in TEXTS]
    expected = [index for row in ids for index in [*row, tokenizer.sep_token_id]][:-1]
    assert np.concatenate([row[1:-1] for row in rows]).tolist() == expected
    assert items.num_truncated == 0


def small_modernbert(tokenizer):
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 24}
    torch.manual_seed(0)
    return build("modernbert", "fill-mask", vocab_size=len(tokenizer), max_position_embeddings=64, **sizes)


def test_modernbert_hides_three_tokens_in_ten_unless_told_otherwise(tokenizer):
    model, bert = small_modernbert(tokenizer), small_bert(len(tokenizer))
    assert FillMask.for_model(tokenizer, bert).masking.rate == 0.15
    assert FillMask.for_model(tokenizer, model, mask_rate=0.2).masking.rate == 0.2
    task = FillMask.for_model(tokenizer, model, max_length=32)
    items = task.encode([Document("the cat sat on the mat " * 400)])
    batch = task.batch(items, np.arange(len(items.lengths)), seed=1)
    assert batch.count / (items.lengths - 2).sum() == pytest.approx(0.3, abs=0.03)
    inputs, places = batch.inputs["input_ids"], batch.targets["places"]
    assert (inputs.ravel()[places] == tokenizer.mask_token_id).float().mean() == pytest.approx(0.8, abs=0.05)
    logits = model(**batch.inputs).logits.flatten(0, 1).log_softmax(-1)  # by hand: at the hidden places alone
    by_hand = -sum(logits[place, word] for place, word in zip(places, batch.targets["words"], strict=True))
    assert_close(task.loss(model, batch), by_hand)


@given(seeds=st.lists(st.integers(0, 2**62), min_size=30, max_size=30, unique=True))
@settings(max_examples=10)
def test_static_masks_are_so_many_and_no_more(tokenizer, seeds):
    task, fixed = FillMask(tokenizer, max_length=64), FillMask(tokenizer, max_length=64, static_masks=3)
    items = task.encode([Document("the cat sat on the mat " * 40)])
    anew, few = (
        {bytes(one.batch(items, np.arange(2), seed).inputs["input_ids"].numpy()) for seed in seeds}
        for one in (task, fixed)
    )
    assert len(anew) == len(seeds)
    assert len(few) == len({seed % 3 for seed in seeds})


def test_without_packing_a_line_is_an_example(tokenizer):
    items = FillMask(tokenizer, max_length=10, packing=False).encode(DOCUMENTS)
    lines = [line for text in TEXTS for line in text.splitlines() if line.strip()]
    ids = [tokenizer.encode(line) for line in lines]
    assert [items.rows[index].tolist() for index in range(len(ids))] == [
        [*row[:-1][:9], tokenizer.sep_token_id] for row in ids
    ]
    assert items.num_truncated == sum(max(0, len(row) - 10) for row in ids) > 0


@given(data=st.data(), seed=st.integers(0, 2**62), whole_words=st.booleans(), packing=st.booleans())
def test_masks_depend_on_the_seed_and_the_example_alone(tokenizer, data, seed, whole_words, packing):
    task = FillMask(tokenizer, max_length=12, whole_words=whole_words, packing=packing)
    items = task.encode(DOCUMENTS)
    indices = np.array(data.draw(st.lists(st.integers(0, len(items.lengths) - 1), min_size=1, max_size=6, unique=True)))
    batch = task.batch(items, indices, seed)
    width = batch.inputs["input_ids"].shape[1]
    places, words = batch.targets["places"], batch.targets["words"]
    for row, index in enumerate(indices):
        alone = task.batch(items, np.array([index]), seed)
        length = items.lengths[index]
        assert batch.inputs["input_ids"][row, :length].tolist() == alone.inputs["input_ids"][0].tolist()
        here = places // width == row
        assert (places[here] % width).tolist() == alone.targets["places"].tolist()
        assert words[here].tolist() == alone.targets["words"].tolist()
        restored = alone.inputs["input_ids"][0].index_copy(0, alone.targets["places"], alone.targets["words"])
        assert restored.tolist() == items.rows[index].tolist()
    assert not set(words.tolist()) & set(tokenizer.all_special_ids)
    assert batch.count == len(places) >= len(indices)


def test_masks_are_new_with_every_seed_and_as_many_as_asked_for(tokenizer):
    task = FillMask(tokenizer, max_length=32, mask_rate=0.3)
    items = task.encode([Document("the cat saw the dog on the mat " * 300)])
    every = np.arange(len(items.lengths))
    first, second = (task.batch(items, every, seed) for seed in (1, 2))
    assert not torch.equal(first.inputs["input_ids"], second.inputs["input_ids"])
    tokens = int(items.lengths.sum()) - 2 * len(every)
    assert first.count / tokens == pytest.approx(0.3, abs=0.03)
    masked = first.inputs["input_ids"].flatten()[first.targets["places"]] == tokenizer.mask_token_id
    assert float(masked.float().mean()) == pytest.approx(0.8, abs=0.05)


@pytest.mark.parametrize("kind", FAMILIES)
@settings(max_examples=10)
@given(data=st.data(), seed=st.integers(0, 99), packing=st.booleans())
def test_parts_of_a_batch_add_up(tokenizer, kind, data, seed, packing):
    task, model = FillMask(tokenizer, max_length=16, packing=packing), small_bert(len(tokenizer), kind=kind)
    items = task.encode(DOCUMENTS)
    order = data.draw(st.permutations(range(len(items.lengths))))
    cut = data.draw(st.integers(1, len(order) - 1))
    whole = gradients(model, task, items, [order], seed)
    parts = gradients(model, task, items, [order[:cut], order[cut:]], seed)
    assert whole[1] == parts[1]
    assert_close(parts[0], whole[0])
    assert_close(parts[2], whole[2], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", FAMILIES)
@torch.no_grad()
def test_scores_are_those_of_all_logits_and_merge(tokenizer, kind):
    task, model = FillMask(tokenizer, max_length=16, packing=False), small_bert(len(tokenizer), kind=kind).eval()
    items = task.encode(DOCUMENTS)
    batch = task.batch(items, np.arange(len(items.lengths)))
    logits = model(**batch.inputs).logits.flatten(0, 1)[batch.targets["places"]]
    expected = torch.nn.functional.cross_entropy(logits, batch.targets["words"])
    assert_close(task.loss(model, batch) / batch.count, expected)
    scores = evaluate(model, task, items, budget=ROWS, final=True).compute()
    assert scores["loss"] == pytest.approx(float(expected))
    assert scores["perplexity"] == pytest.approx(math.exp(float(expected)))
    hits = logits.argmax(-1) == batch.targets["words"]
    assert scores["accuracy"] == pytest.approx(float(hits.float().mean()))
    shares = [pickle.loads(pickle.dumps(evaluate(model, task, items, budget=ROWS, share=(n, 2)))) for n in (0, 1)]
    shares[0].merge(shares[1])
    assert shares[0].compute() == pytest.approx({name: scores[name] for name in ("loss", "perplexity", "accuracy")})


@torch.no_grad()
def test_pseudo_perplexity_masks_each_token_by_itself(tokenizer):
    task, model = FillMask(tokenizer, max_length=40, packing=False), small_bert(len(tokenizer)).eval()
    nats = []
    for line in (line for text in TEXTS for line in text.splitlines() if line.strip()):
        ids = torch.tensor([[*tokenizer.encode(line)[:-1][:39], tokenizer.sep_token_id]])
        for place in range(1, ids.shape[1] - 1):
            hidden = ids.clone()
            hidden[0, place] = tokenizer.mask_token_id
            nats.append(-model(hidden).logits[0, place].log_softmax(-1)[ids[0, place]])
    expected = math.exp(float(torch.stack(nats).mean()))
    final = evaluate(model, task, task.encode(DOCUMENTS), budget=ROWS, final=True).compute()  # few: all are sampled
    assert final["pseudo_perplexity"] == pytest.approx(expected, rel=1e-4)


def test_shards_are_read_as_documents_are(tokenizer, tmp_path):
    shards = tokenise_to_shards(DOCUMENTS, tokenizer, tmp_path, end_token_id=tokenizer.sep_token_id, shard_tokens=20)
    task = FillMask(tokenizer, max_length=16)
    items, known = task.encode(shards), task.encode(DOCUMENTS)
    indices = np.arange(len(known.lengths))
    assert_close(task.batch(items, indices, 5).inputs, task.batch(known, indices, 5).inputs)
    assert items.lengths.tolist() == known.lengths.tolist()
    with pytest.raises(ValueError, match="shards hold one stream of text"):
        FillMask(tokenizer, packing=False).encode(shards)


@pytest.fixture(scope="module", params=["bert", "roberta"])
def filler(request, tokenizer, tmp_path_factory):
    """A model, its task and the pipeline that transformers makes of their folder."""
    model, own = small_bert(len(tokenizer), kind=request.param).eval(), tokenizer
    if request.param == "roberta":
        special = {"mask_token": "<mask>", "pad_token": "<pad>", "unk_token": "<unk>"}
        path = tmp_path_factory.mktemp("text") / "corpus.txt"
        path.write_text("\n".join(TEXTS), encoding="utf-8")
        own = train([path], kind="bpe", vocab_size=300, special=special)
        model = small_bert(len(own), kind="roberta", pad_token_id=own.pad_token_id).eval()
    folder = tmp_path_factory.mktemp(request.param)
    gf.save(model, folder, tokenizer=own)
    return model, FillMask.for_model(own, model), transformers.pipeline("fill-mask", model=str(folder), device="cpu")


def test_answers_are_those_of_transformers(filler):
    model, task, theirs = filler
    mask = task.tokenizer.mask_token
    prompts = [f"the {mask} sat", f"{mask}", f"the {mask} saw the {mask} on the mat", f"a dog on {mask} mat. the cat"]
    wanted = ["the"] if task.tokenizer.cls_token else [" cat", " dog"]
    for options in ({}, {"top_k": 3}, {"targets": wanted}, {"targets": [*wanted, "a"], "top_k": 1}):
        ours = task.predict(model, prompts, **options)
        for found, expected in zip(ours, (theirs(prompt, **options) for prompt in prompts), strict=True):
            compare(found, expected)


def compare(ours, theirs):
    if isinstance(ours, list):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            compare(one, other)
    else:
        assert ours["score"] == pytest.approx(theirs["score"], rel=1e-4)
        assert {**ours, "score": 0} == {**theirs, "score": 0}


def test_answers_in_a_batch_are_as_if_alone(filler):
    model, task, _ = filler
    mask = task.tokenizer.mask_token
    prompts = [f"the {mask} sat", f"the {mask} saw the {mask} on the mat, and so on", mask]
    for found, prompt in zip(task.predict(model, prompts), prompts, strict=True):
        compare(found, task.predict(model, [{"text": prompt}])[0])


def test_another_tokenizers_mask_is_taken_for_its_own(filler):
    model, task, _ = filler
    own = task.tokenizer.mask_token
    (wanted,) = task.predict(model, [f"the {own} sat"])
    for mask in ("[MASK]", "<mask>"):
        (found,) = task.predict(model, [f"the {mask} sat"])
        compare(found, wanted)
        assert task.with_own_mask(f"{own} and {mask}") == f"{own} and {mask}"


def test_what_cannot_be_filled_is_refused(tokenizer):
    task, model = FillMask(tokenizer), small_bert(len(tokenizer))
    with pytest.raises(ValueError, match=r"there is no \[MASK\] in 'the cat'; write it"):
        task.predict(model, ["the cat"])
    with pytest.raises(ValueError, match="92 tokens do not fit into this model's 64 positions"):
        task.predict(model, ["[MASK]" + " the" * 89])
    with pytest.raises(ValueError, match="the target '' has no token"):
        task.predict(model, ["[MASK]"], targets="")
    with pytest.raises(ValueError, match="has no mask token"):
        FillMask(tokenizer_of(TEXTS, "bpe"))


@pytest.mark.slow
def test_a_small_bert_learns_more_than_how_often_words_come():
    tokenizer, *documents = micro_world("wordpiece", 600)
    task = FillMask(tokenizer, max_length=24, packing=False)
    sentences = [[Document("\n".join(sentences_of(one.text))) for one in some] for some in documents]
    items, dev = map(task.encode, sentences)
    model = small_bert(len(tokenizer), hidden_size=64, num_hidden_layers=1, max_position_embeddings=24)
    learn(model, task, items, steps=250, lr=4e-3, rows=32)
    scores = evaluate(model, task, dev, budget=ROWS).compute()
    assert scores["loss"] < 4.5 < 5 < unigram_entropy(dev.rows.flat[task.ordinary[dev.rows.flat]])


@pytest.mark.slow
def test_wikitext_in_blocks_is_all_there(data):
    path = data / "wikitext2" / "test.txt"
    if not path.is_file():
        pytest.skip(f"no {path}")
    examples = FillMask.read([str(path)], unit="article").examples
    tokenizer = train([path], kind="wordpiece", vocab_size=3000)
    items = FillMask(tokenizer, max_length=128).encode(examples)
    stream = np.concatenate([items.rows[index][1:-1] for index in range(len(items.lengths))])
    assert int((stream == tokenizer.sep_token_id).sum()) == len(examples) - 1
    whole = tokenizer.encode(path.read_text(encoding="utf-8"), add_special_tokens=False)
    assert stream[stream != tokenizer.sep_token_id].tolist() == whole
