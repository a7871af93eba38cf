"""Sentence similarity: vectors as Sentence-Transformers makes them, losses as they are defined, models that learn."""

import json
import math
import pickle

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from language import gradients, learn, small_bert, tokenizer_of
from torch.testing import assert_close
from vocabularies import small_tokenizer

import glassformer as gf
from glassformer.data import microworld
from glassformer.data.batches import Budget
from glassformer.data.examples import Labelled
from glassformer.hub.registry import build
from glassformer.models.outputs import Hidden
from glassformer.tasks.pooling import MODES, PoolingOptions, read_pooling, write_pooling
from glassformer.tasks.sentence_similarity import FeatureExtraction, SentenceSimilarity
from glassformer.tasks.task import evaluate

every_mode = pytest.mark.parametrize("mode", MODES)
TEXTS = [
    "Anna met Mr. O'Neill near the old harbour.",
    "a",
    "北京 和 上海 很大。",
    "the old harbour " * 6,
    "in New York",
]
PAIRS = [Labelled(one, other, float(place)) for place, (one, other) in enumerate(zip(TEXTS, TEXTS[::-1], strict=True))]


def task_of(examples=PAIRS, kind="wordpiece", **options):
    return SentenceSimilarity.for_data(small_tokenizer(kind), examples, **options)


def model_of(task, kind="bert"):
    size = len(task.tokenizer)
    if kind == "glassformer-rnn":
        torch.manual_seed(0)
        model = build(kind, None, vocab_size=size, embedding_size=16, hidden_size=16, bidirectional=True)
    else:
        model = small_bert(size, head=None, kind=kind)
    return model


# Pooling.


@every_mode
@given(data=st.data())
def test_only_real_tokens_are_pooled(mode, data):
    rows, length, width = 3, data.draw(st.integers(1, 6)), 4
    hidden = torch.randn(rows, length, width, generator=torch.Generator().manual_seed(0))
    lengths = [data.draw(st.integers(1, length)) for _ in range(rows)]
    left = data.draw(st.booleans())
    pool = PoolingOptions(mode, normalize=False)
    mask = torch.zeros(rows, length, dtype=torch.long)
    for row, real in enumerate(lengths):
        mask[row, -real:] = 1
        if not left:
            mask[row] = mask[row].flip(0)
    hidden[mask == 0] = float("nan")  # what stands at padding must not matter at all
    for row in range(rows):
        real = hidden[row][mask[row] == 1]
        expected = {"mean": real.mean(0), "cls": real[0], "max": real.amax(0)}[mode]
        assert_close(pool(hidden, mask)[row], expected)


@every_mode
@pytest.mark.parametrize("normalize", [True, False])
def test_what_is_written_is_read(mode, normalize, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"dim": 12}))
    write_pooling(tmp_path, PoolingOptions(mode, normalize, 77))
    assert read_pooling(tmp_path) == PoolingOptions(mode, normalize, 77)
    assert json.loads((tmp_path / "1_Pooling/config.json").read_text())["word_embedding_dimension"] == 12


def test_folders_of_others_are_read(minilm, tmp_path):
    assert read_pooling(minilm) == PoolingOptions("mean", True, 256)
    assert read_pooling(tmp_path) is None
    module = {
        "idx": 0,
        "name": "0",
        "path": "here",
        "type": "sentence_transformers.sentence_transformer.modules.Pooling",
    }
    (tmp_path / "here").mkdir()
    (tmp_path / "modules.json").write_text(json.dumps([module]))
    for written, mode in (("cls", "cls"), (["max"], "max")):  # as versions from 5 on write it
        (tmp_path / "here/config.json").write_text(json.dumps({"embedding_dimension": 4, "pooling_mode": written}))
        assert read_pooling(tmp_path) == PoolingOptions(mode, False, None)


@pytest.mark.parametrize(
    ("modules", "config", "message"),
    [
        ([("Pooling", "")], {"pooling_mode": "weightedmean"}, "pooling by weightedmean; supported: one of mean"),
        ([("Pooling", "")], {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}, "cls and mean"),
        ([("Pooling", ""), ("Dense", "2_Dense")], {}, "asks for Dense"),
        ("no list", {}, "it must be a list, each of it an object"),
    ],
)
def test_what_is_not_supported_is_named(modules, config, message, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(config))
    if isinstance(modules, list):
        modules = [{"type": f"sentence_transformers.models.{kind}", "path": path} for kind, path in modules]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ValueError, match=message):
        read_pooling(tmp_path)


def test_pooling_is_written_beside_a_model(tmp_path):
    with pytest.raises(ValueError, match="save the model there first"):
        write_pooling(tmp_path, PoolingOptions())


@pytest.mark.few(1)
@pytest.mark.filterwarnings("ignore")  # not ours to mend
@every_mode
@pytest.mark.parametrize("normalize", [True, False])
def test_a_folder_of_ours_embeds_the_same_in_sentence_transformers(mode, normalize, tmp_path):
    peers = pytest.importorskip("sentence_transformers")
    task = task_of(pooling=mode, normalize=normalize, max_length=16)
    model = model_of(task)
    gf.save(model, tmp_path, tokenizer=task.tokenizer)
    task.write_extras(tmp_path)
    expected = peers.SentenceTransformer(str(tmp_path), device="cpu").encode(TEXTS, convert_to_tensor=True)
    assert_close(task.embed(model, TEXTS), expected, atol=1e-5, rtol=1e-5)
    again = SentenceSimilarity.for_model(task.tokenizer, gf.load(tmp_path), **SentenceSimilarity.read_extras(tmp_path))
    assert_close(again.embed(gf.load(tmp_path), TEXTS), task.embed(model, TEXTS))


# Losses.


def cosines(model, task, pairs):
    one, other = (F.normalize(task.embed(model, list(side)), dim=-1) for side in zip(*pairs, strict=True))
    return one @ other.T


@every_mode
def test_the_cosine_loss_is_the_squared_error_on_a_scale_of_0_to_1(mode):
    examples = [Labelled(one.text, one.pair, 1 + 4 * one.label / 4) for one in PAIRS]  # from 1 to 5
    task = task_of(examples, pooling=mode)
    assert task.score_range == (1.0, 5.0)
    model = model_of(task)
    batch = task.batch(task.encode(examples), np.arange(5))
    found = cosines(model, task, [(one.text, one.pair) for one in examples]).diag()
    expected = sum((found[place] - place / 4) ** 2 for place in range(5))
    assert_close(task.loss(model, batch).detach(), expected, atol=1e-5, rtol=1e-5)
    assert batch.count == 5


def test_the_contrastive_loss_knows_no_twin_of_the_right_answer_as_wrong():
    examples = [Labelled("one", "Anna"), Labelled("two", "the harbour"), Labelled("three", "Anna"), Labelled("4", "a")]
    task = task_of(examples, loss="contrastive", scale=7.0)
    model = model_of(task)
    likeness = 7 * cosines(model, task, [(one.text, one.pair) for one in examples])
    expected = 0.0
    for row, one in enumerate(examples):
        wrong = [place for place, other in enumerate(examples) if other.pair != one.pair]
        expected -= float(likeness[row, row] - likeness[row, [row, *wrong]].logsumexp(0))
    loss = task.loss(model, task.batch(task.encode(examples), np.arange(4)))
    assert float(loss.detach()) == pytest.approx(expected, abs=1e-4)


class Bag(torch.nn.Module):
    """Vectors of words and nothing else, so that mixed precision can only touch the loss."""

    def __init__(self, size):
        super().__init__()
        self.words = torch.nn.Embedding(size, 10)

    def forward(self, input_ids, **_):
        return Hidden(self.words(input_ids))


def test_cosines_are_float32_in_mixed_precision():
    task = task_of([Labelled(one.text, one.pair) for one in PAIRS], loss="contrastive")
    torch.manual_seed(0)
    model, batch = Bag(len(task.tokenizer)), task.batch(task.encode(PAIRS), np.arange(5))
    exact = task.loss(model, batch)
    with torch.autocast("cpu", torch.bfloat16):
        assert_close(task.loss(model, batch), exact)


@settings(max_examples=5)
@given(seed=st.integers(0, 99))
def test_micro_batches_have_the_gradient_of_the_whole(seed):
    task = task_of()
    model, items = model_of(task).train(), task.encode(PAIRS)
    order = np.random.default_rng(seed).permutation(5)
    whole, count, expected = gradients(model, task, items, [order], seed)
    parts, again, found = gradients(model, task, items, [order[:1], order[1:4], order[4:]], seed)
    assert count == again == 5
    assert_close(parts, whole, rtol=1e-5, atol=1e-5)
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other, rtol=1e-4, atol=1e-5)


# Predictions.


@pytest.mark.parametrize("kind", ["bert", "distilbert", "glassformer-rnn"])
@every_mode
def test_each_text_has_the_vector_it_has_alone(kind, mode):
    model = model_of(task_of(), kind)
    task = SentenceSimilarity.for_model(small_tokenizer("wordpiece"), model, pooling=mode)
    together = task.embed(model, TEXTS, batch_tokens=60)
    for row, text in zip(together, TEXTS, strict=True):
        assert_close(row, task.embed(model, [text])[0], atol=1e-5, rtol=1e-4)
    assert_close(together.norm(dim=-1), torch.ones(len(TEXTS)))


def test_predictions_have_the_shapes_of_hugging_face():
    task = task_of(normalize=False)
    model = model_of(task)
    features = FeatureExtraction.for_model(task.tokenizer, model, normalize=False)
    vectors = F.normalize(torch.tensor(features.predict(model, TEXTS, pooled=True)), dim=-1)
    asked = {"source_sentence": TEXTS[0], "sentences": TEXTS[1:]}
    many, one, example = task.predict(model, [asked, (TEXTS[1], TEXTS[2]), Labelled(TEXTS[1], TEXTS[2])])
    assert many == pytest.approx((vectors[0] @ vectors[1:].T).tolist(), abs=1e-5)
    assert one == example == pytest.approx(float(vectors[1] @ vectors[2]), abs=1e-5)
    tokens = features.predict(model, TEXTS)
    for text, found in zip(TEXTS, tokens, strict=True):
        assert np.array(found).shape == (1, len(task.tokenizer(text)["input_ids"]), 32)
    assert_close(torch.tensor(tokens[1])[0].mean(0), torch.tensor(features.predict(model, [TEXTS[1]], pooled=True)[0]))
    assert task.predict(model, []) == features.predict(model, []) == []


def test_wrong_input_is_named():
    task = task_of()
    with pytest.raises(ValueError, match="not 'one text'"):
        task.predict(model_of(task), ["one text"])
    with pytest.raises(ValueError, match="example 1 has no second text"):
        task.encode([Labelled("a", "b"), Labelled("c")])
    with pytest.raises(ValueError, match="no two different scores"):
        task_of([Labelled("a", "b", 1.0), Labelled("a", "c", 1.0)])
    with pytest.raises(ValueError, match="no two different scores"):
        task_of([Labelled("a", "b"), Labelled("a", "c")])
    with pytest.raises(ValueError, match="must be one of mean, cls, max, not 'sum'"):
        task_of(pooling="sum")
    with pytest.raises(ValueError, match="must be one of cosine, contrastive, not 'cos'"):
        task_of(loss="cos")


def test_files_are_read_with_and_without_scores(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text("sentence1,sentence2,score\nx one,y one,0.5\nx two,y two,nan\n")
    scored = SentenceSimilarity.read([str(path)])
    assert scored.examples == [Labelled("x one", "y one", 0.5)]
    assert sum(one.count for one in scored.report.skipped.values()) == 1
    belonging = SentenceSimilarity.read([str(path)], loss="contrastive")
    assert belonging.examples == [Labelled("x one", "y one"), Labelled("x two", "y two")]


# Scores.


def test_scores_of_processes_are_those_of_the_whole():
    for options in ({}, {"loss": "contrastive"}):
        examples = [Labelled(one.text, one.pair, None if options else one.label) for one in PAIRS * 2]
        task = task_of(examples, **options)
        model, items = model_of(task), task.encode(examples)
        given = {"budget": Budget(rows=3), "keep_examples": True}
        parts = [pickle.loads(pickle.dumps(evaluate(model, task, items, share=(n, 2), **given))) for n in range(2)]
        parts[0].merge(parts[1])
        whole = evaluate(model, task, items, budget=Budget(rows=10)).compute()
        assert parts[0].compute() == pytest.approx(whole, abs=1e-5)
        assert set(parts[0].intervals()) == set(whole)
        assert task.metric in whole


def test_a_text_is_looked_for_among_all_different_seconds():
    """A model that gives all texts one vector finds nothing; one whose pairs are the same text finds each."""
    examples = [Labelled(text, text) for text in TEXTS * 3]
    task = task_of(examples, loss="contrastive")
    model, items = model_of(task), task.encode(examples)
    found = evaluate(model, task, items, budget=Budget(rows=4)).compute()
    assert found == {"retrieval@1": 1.0, "retrieval@5": 1.0, "retrieval@10": 1.0, "mrr": 1.0}
    for tensor in model.parameters():
        tensor.data.zero_()
    model.layers[-1].feed_forward_norm.bias.data.fill_(1.0)
    found = evaluate(model, task, items, budget=Budget(rows=4)).compute()
    assert found["retrieval@1"] == 0
    assert found["mrr"] == pytest.approx(1 / len(TEXTS))


@pytest.mark.slow
def test_minilm_reaches_its_published_score(minilm, data):
    """STS-B test, Spearman of the cosine: 82.03 is published."""
    file = data / "glue/STS-B/sts-test-labelled.tsv"
    columns = {"text": "5", "pair": "6", "label": "4"}
    read = SentenceSimilarity.read([str(file)], columns=columns)
    assert len(read.examples) == 1379
    model, tokenizer = gf.load(minilm, head=None), gf.load_tokenizer(minilm)
    task = SentenceSimilarity.for_model(tokenizer, model, **SentenceSimilarity.read_extras(minilm))
    scores = evaluate(model, task, task.encode(read.examples), budget=Budget(tokens=4096), final=True).compute()
    assert 100 * scores["spearman"] == pytest.approx(82.03, abs=0.02)
    assert math.isfinite(scores["pearson"])


# Learning.


@pytest.mark.slow
def test_likeness_is_learnt_from_scores():
    train, dev = (microworld.examples("scored", count, seed=seed) for count, seed in ((600, 0), (150, 1)))
    task = SentenceSimilarity.for_data(tokenizer_of(SentenceSimilarity.texts(train), "wordpiece", 800), train)
    model = model_of(task)
    items = task.encode(dev)
    before = evaluate(model, task, items, budget=Budget(rows=64)).compute()
    learn(model, task, task.encode(train), steps=60, lr=3e-3, rows=32)
    after = evaluate(model, task, items, budget=Budget(rows=64)).compute()
    assert after["spearman"] > 0.85
    assert after["spearman"] > before["spearman"] + 0.05  # random vectors of words already count common words


@pytest.mark.slow
def test_pairs_that_belong_together_find_each_other():
    """English sentences and their German translations, which share names at most."""
    train, dev = (
        [Labelled(one.source, one.target) for one in microworld.examples("parallel", count, seed=seed)]
        for count, seed in ((800, 0), (100, 1))
    )
    tokenizer = tokenizer_of(SentenceSimilarity.texts(train), "wordpiece", 1200)
    task = SentenceSimilarity.for_data(tokenizer, train, loss="contrastive")
    model = model_of(task)
    items = task.encode(dev)
    before = evaluate(model, task, items, budget=Budget(rows=50)).compute()
    learn(model, task, task.encode(train), steps=80, lr=5e-3, rows=32)
    after = evaluate(model, task, items, budget=Budget(rows=50)).compute()
    assert before["mrr"] < 0.4
    assert after["mrr"] > 0.8
