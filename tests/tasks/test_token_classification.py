"""Token classification: every word one target and one prediction, entities as transformers groups them."""

import pickle
import random
from collections import Counter
from itertools import chain, pairwise

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from language import learn, tokenizer_of
from torch.testing import assert_close
from vocabularies import small_tokenizer

from glassformer.data import microworld
from glassformer.data.batches import Budget
from glassformer.data.examples import Tagged
from glassformer.hub.load import load, load_tokenizer
from glassformer.hub.registry import build
from glassformer.tasks.grouping import scored_tokens
from glassformer.tasks.metrics import Entities
from glassformer.tasks.task import evaluate
from glassformer.tasks.token_classification import TokenClassification
from glassformer.tasks.windows import shares, tokenised, windows

KINDS = ("wordpiece", "roberta", "bpe", "unigram", "character")
LABELS = ["O", "B-LOC", "B-PER", "I-LOC", "I-PER"]
TEXTS = [
    "Anna Lindqvist met unbelievable Wolfgang in New York.",
    "Mr. O'Neill's café re-opened, near the harbour!",
    "北京 xyzzyqux 😀 Straße",
    "a",
]
PLAIN = ["Anna", "met", "unbelievably", "O'Neill", "in", "New", "York", ",", "1984-85", ";"]
some_words = st.sampled_from(
    ["Anna", "unbelievably", "New York", "O'Neill", "北京", "", " ", "\u200b", "[PAD]", "\x07"]
)
words = st.lists(some_words | st.text(max_size=8), max_size=30).map(tuple)


def small_model(kind="bert", tokenizer=None, labels=LABELS, head="token-classification", **options):
    tokenizer = tokenizer or small_tokenizer("wordpiece")
    sizes = {
        "bert": {"hidden_size": 12, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 16},
        "glassformer-rnn": {"kind": "lstm", "embedding_size": 8, "hidden_size": 8, "bidirectional": True},
    }[kind]
    torch.manual_seed(0)
    sizes |= {"vocab_size": len(tokenizer), "id2label": dict(enumerate(labels)), "initializer_range": 0.5}
    return build(kind, head, **sizes | options)


def tagged(sentences, labels=LABELS, seed=0):
    chance = random.Random(seed)
    return [Tagged(tuple(one), tuple(chance.choices(labels, k=len(one)))) for one in sentences]


def long_and_short(seed=0):
    chance = random.Random(seed)
    every = " ".join(TEXTS).split()
    return tagged([chance.choices(every, k=size) for size in (40, 3, 1, 25, 8, 2)], seed=seed)


# Words and windows.


@given(st.integers(0, 300), st.integers(1, 40), st.data())
def test_windows_leave_nothing_out_and_share_as_much_as_asked(size, room, data):
    overlap = data.draw(st.integers(0, room - 1))
    found = windows(size, room, overlap)
    assert found[0][0] == 0
    assert found[-1][1] == size
    for (start, stop), (after, end) in pairwise(found):
        assert stop - start == end - after == room
        assert start < after <= stop - overlap


@given(st.integers(1, 300), st.integers(1, 40), st.data())
def test_a_token_belongs_to_the_window_where_it_has_most_text_around_it(size, room, data):
    spans = windows(size, room, data.draw(st.integers(0, room - 1)))
    owned = [token for start, stop in shares(spans) for token in range(start, stop)]
    assert owned == list(range(size))
    for (start, stop), (first, after) in zip(spans, shares(spans), strict=True):
        for token in range(first, after):
            around = max(min(token - a, b - 1 - token) for a, b in spans if a <= token < b)
            assert min(token - start, stop - 1 - token) == around


@pytest.mark.parametrize("kind", KINDS)
@given(st.lists(words, max_size=4), st.integers(3, 20), st.integers(0, 2))
@example([("",), ("\u200b", "Anna", "", "York", " ")], 3, 1)
def test_every_word_is_a_target_once(kind, sentences, max_length, context):
    task = TokenClassification(small_tokenizer(kind), LABELS, max_length=max_length, context=context)
    examples = tagged(sentences)
    items = task.encode(examples)
    assert items.lengths.max(initial=0) <= max_length
    found = Counter((owner, word) for row, owner in enumerate(items.owners) for word in items.words[row])
    assert found == Counter((owner, word) for owner, one in enumerate(examples) for word in range(len(one.words)))
    for row, owner in enumerate(items.owners):
        tags = [examples[owner].tags[word] for word in items.words[row]]
        assert [LABELS[label] for label in items.labels[row]] == tags
        assert (np.diff(items.places[row]) > 0).all()
        assert items.places[row].max() < items.lengths[row]


@pytest.mark.parametrize("kind", KINDS)
@given(st.lists(st.sampled_from(PLAIN), max_size=9))
def test_the_target_is_the_first_sub_word(kind, sentence):
    """The tokens from one target to the next spell the word, whatever the tokenizer makes of it."""
    tokenizer = small_tokenizer(kind)
    task = TokenClassification(tokenizer, LABELS)
    items = task.encode([Tagged(tuple(sentence))])
    if not sentence:
        assert len(items.rows) == 0
        return
    ids = items.rows[0].tolist()
    edges = [*items.places[0].tolist(), len(ids) - (task.frame.special - task.frame.before(0))]
    spelt = [tokenizer.decode(ids[a:b]).replace(" ", "") for a, b in pairwise(edges)]
    assert spelt == list(sentence)


def test_only_the_first_token_of_a_word_counts():
    task = TokenClassification(small_tokenizer("wordpiece"), LABELS)
    items = task.encode([Tagged(("Anna", "Lindqvist", "\u200b", "met"), ("B-PER", "I-PER", "O", "O"))])
    tokens, places = task.tokenizer.convert_ids_to_tokens(items.rows[0]), items.places[0].tolist()
    assert (tokens[0], tokens[-1]) == ("[CLS]", "[SEP]")
    assert items.words[0].tolist() == [0, 1, 2, 3]
    assert [task.labels[number] for number in items.labels[0]] == ["B-PER", "I-PER", "O", "O"]
    assert tokens[places[2]] == "[UNK]"  # of a word that the tokenizer makes nothing of
    assert places[2] - places[1] > 1  # Lindqvist has several
    assert "".join(token.removeprefix("##") for token in tokens[places[1] : places[2]]).lower() == "lindqvist"


def test_context_is_read_and_is_no_target():
    sentences = [text.split() for text in TEXTS]
    alone = TokenClassification(small_tokenizer("wordpiece"), LABELS).encode(tagged(sentences))
    beside = TokenClassification(small_tokenizer("wordpiece"), LABELS, context=1).encode(tagged(sentences))
    for row in range(len(sentences)):
        near = [alone.rows[other][1:-1].tolist() for other in (row - 1, row, row + 1) if 0 <= other < len(sentences)]
        assert beside.rows[row][1:-1].tolist() == list(chain(*near))
        assert beside.rows[row][beside.places[row]].tolist() == alone.rows[row][alone.places[row]].tolist()
    short = TokenClassification(small_tokenizer("wordpiece"), LABELS, context=3, max_length=60).encode(
        tagged(sentences)
    )
    for row in range(len(sentences)):
        assert short.lengths[row] == 60  # context fills what the sentence leaves
        assert short.rows[row][short.places[row]].tolist() == alone.rows[row][alone.places[row]].tolist()


# The loss.


@pytest.mark.parametrize("kind", ["bert", "glassformer-rnn"])
@settings(max_examples=20)
@given(st.integers(1, 5), st.integers(0, 99))
def test_the_loss_is_a_sum_over_words_however_they_are_batched(kind, parts, seed):
    model = small_model(kind)
    task = TokenClassification.for_model(small_tokenizer("wordpiece"), model, max_length=16)
    examples = long_and_short(seed)
    items = task.encode(examples)
    order = np.random.default_rng(seed).permutation(len(items.rows))
    batches = [task.batch(items, part) for part in np.array_split(order, parts)]
    whole = task.batch(items, order)
    assert sum(batch.count for batch in batches) == whole.count == sum(len(one.words) for one in examples)
    with torch.no_grad():
        assert_close(sum(task.loss(model, batch) for batch in batches), task.loss(model, whole), rtol=1e-4, atol=1e-4)


def test_a_word_spelt_like_padding_is_learnt_all_the_same():
    model = small_model()
    task = TokenClassification.for_model(small_tokenizer("wordpiece"), model)
    items = task.encode([Tagged(("[PAD]", "Anna", "[PAD]"), ("B-LOC", "O", "I-PER"))])
    batch = task.batch(items, np.arange(1))
    assert batch.inputs["input_ids"][0, 1] == task.tokenizer.pad_token_id
    assert batch.targets["labels"].tolist() == [LABELS.index(tag) for tag in ("B-LOC", "O", "I-PER")]


# Predictions.


WORDS_BY_SPACES = [
    "Anna Lindqvist met unbelievable Wolfgang in New York.",
    "Mr. O'Neill's re-opened, near (the) harbour!",
]
TOKENIZERS = {"wordpiece": TEXTS, "roberta": WORDS_BY_SPACES, "unigram": WORDS_BY_SPACES}


@pytest.fixture(scope="module", params=TOKENIZERS)
def folder(tmp_path_factory, request):
    """A BERT with random weights and a tokenizer that marks the inside of words, or does not; from transformers."""
    transformers = pytest.importorskip("transformers")
    path = tmp_path_factory.mktemp(request.param)
    small_tokenizer(request.param).save(path)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(small_tokenizer(request.param)),
        hidden_size=12,
        num_attention_heads=2,
        num_hidden_layers=2,
        intermediate_size=16,
        initializer_range=0.7,
        id2label=dict(enumerate(LABELS)),
        label2id={label: number for number, label in enumerate(LABELS)},
    )
    transformers.BertForTokenClassification(config).save_pretrained(path)
    return path


@pytest.mark.parametrize("strategy", ["none", "simple", "first", "average", "max"])
@pytest.mark.parametrize("ignored", [("O",), ("PER", "B-PER"), ()])
@pytest.mark.filterwarnings("ignore:Tokenizer does not support real words")
def test_entities_are_those_of_transformers(folder, strategy, ignored):
    transformers = pytest.importorskip("transformers")
    texts = TOKENIZERS[folder.name.rstrip("0123456789")]
    theirs = transformers.pipeline("token-classification", model=str(folder), device="cpu")
    model = load(folder)
    task = TokenClassification.for_model(load_tokenizer(folder), model)
    found = task.predict(model, texts, aggregation_strategy=strategy, ignore_labels=ignored)
    for text, ours in zip(texts, found, strict=True):
        wanted = theirs(text, aggregation_strategy=strategy, ignore_labels=list(ignored))
        assert [{**one, "score": 0} for one in ours] == [{**one, "score": 0} for one in wanted]
        scores = [float(one["score"]) for one in wanted]
        assert_close([one["score"] for one in ours], scores, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["wordpiece", "roberta", "unigram", "character"])
def test_a_chinese_character_is_a_word_to_any_tokenizer(kind):
    tokenizer = small_tokenizer(kind)
    model = small_model(tokenizer=tokenizer, labels=["A"])  # so that each word can only be told by its own entity
    task = TokenClassification.for_model(tokenizer, model)
    text = "北京 和上海很大"
    (pieces,) = tokenised(task.tokenizer, [text])
    scores = np.ones((len(pieces.ids), 1), np.float32)
    tokens = scored_tokens(text, pieces, scores, tokenizer=task.tokenizer, before=0)
    starts = {one.start + text[one.start : one.end].count(" ") for one in tokens if not one.is_subword}
    assert sorted(starts) == [place for place, char in enumerate(text) if char != " "]


@pytest.mark.parametrize("strategy", ["simple", "first", "average", "max"])
def test_letters_that_are_no_ascii_stay_whole(strategy):
    """In transformers a word is decoded twice, and Zürich becomes Z�rich where bytes are tokens."""
    tokenizer = small_tokenizer("roberta")
    model = small_model(tokenizer=tokenizer, labels=["A"])
    task = TokenClassification.for_model(tokenizer, model)
    (found,) = task.predict(model, ["Zürich, café"], aggregation_strategy=strategy)
    assert [one["word"] for one in found] == ["Zürich, café"]


@pytest.mark.parametrize("stride", [0, 3, 9])
def test_windows_share_as_many_tokens_as_are_asked_for(stride):
    text, model = " ".join(TEXTS), small_model()
    task = TokenClassification.for_model(small_tokenizer("wordpiece"), model, max_length=12)
    (found,) = task.predict(model, [text], ignore_labels=(), stride=stride)
    (usual,) = task.predict(model, [text], ignore_labels=())
    assert [one["start"] for one in found] == [one["start"] for one in usual]
    with pytest.raises(ValueError, match="stride=10: a window has 10 tokens; give fewer"):
        task.predict(model, [text], stride=10)


@pytest.mark.parametrize("kind", ["bert", "glassformer-rnn"])
def test_every_input_is_tagged_as_if_alone(kind):
    model = small_model(kind)
    task = TokenClassification.for_model(small_tokenizer("wordpiece"), model, max_length=12, context=2)
    inputs = [TEXTS[0], ["Anna", "", "met"], "", [], Tagged(("New", "York")), " ".join(TEXTS), TEXTS[1].split()]
    together = task.predict(model, inputs, aggregation_strategy="none")
    alone = [task.predict(model, [one], aggregation_strategy="none")[0] for one in inputs]
    for one, other in zip(together, alone, strict=True):
        assert [{**word, "score": 0} for word in one] == [{**word, "score": 0} for word in other]
        assert_close([word["score"] for word in one], [word["score"] for word in other], atol=1e-5, rtol=1e-5)
    assert [word["word"] for word in together[1]] == ["Anna", "", "met"]
    assert together[2] == together[3] == []


@pytest.mark.parametrize("max_length", [4, 9, None])
def test_a_long_text_is_tagged_whole_and_in_order(max_length):
    text = " ".join(TEXTS)
    model = small_model()
    task = TokenClassification.for_model(small_tokenizer("wordpiece"), model, max_length=max_length)
    (found,) = task.predict(model, [text], aggregation_strategy="none", ignore_labels=())
    offsets = task.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    assert [(one["start"], one["end"]) for one in found] == offsets
    assert [one["index"] for one in found] == list(range(1, len(offsets) + 1))
    (groups,) = task.predict(model, [text], aggregation_strategy="first", ignore_labels=())
    assert "".join(text[one["start"] : one["end"]] for one in groups).replace(" ", "") == text.replace(" ", "")


# Scores.


@settings(max_examples=20)
@given(st.integers(0, 99), st.integers(1, 4))
def test_scores_are_those_of_the_predicted_tags_over_any_batches_and_processes(seed, processes):
    model = small_model()
    task = TokenClassification.for_model(small_tokenizer("wordpiece"), model, max_length=16)
    examples = long_and_short(seed)
    items = task.encode(examples)
    order = np.random.default_rng(seed).permutation(len(items.rows))
    sheets = [task.metrics() for _ in range(processes)]
    with torch.no_grad():
        for place, row in enumerate(order):
            sheets[place % processes].update(model, task.batch(items, np.array([row])))
    first, *others = [pickle.loads(pickle.dumps(sheet)) for sheet in sheets]
    for other in others:
        first.merge(other)
    wanted = Entities()
    tags = [[word["entity"] for word in one] for one in task.predict(model, examples)]
    wanted.update(tags, [one.tags for one in examples])
    found = first.compute()
    assert not first.meters["scores"].metric.parts
    assert {name: found[name] for name in wanted.compute()} == wanted.compute()
    assert first.report() == wanted.report()
    with torch.no_grad():
        loss = task.loss(model, task.batch(items, order)) / sum(len(one.words) for one in examples)
    assert_close(found["loss"], float(loss), rtol=1e-4, atol=1e-4)


def test_intervals_hold_the_scores():
    model = small_model()
    task = TokenClassification.for_model(small_tokenizer("wordpiece"), model)
    items = task.encode([one for seed in range(5) for one in long_and_short(seed)])
    sheet = evaluate(model, task, items, budget=Budget(rows=4), keep_examples=True)
    for name, interval in sheet.intervals().items():
        assert interval.low <= sheet.compute()[name] <= interval.high


def test_plain_tags_are_scored_by_accuracy():
    labels = ["DT", "NN", "VB"]
    examples = tagged([text.split() for text in TEXTS], labels)
    task = TokenClassification.for_data(small_tokenizer("wordpiece"), examples)
    assert (task.labels, task.metric) == (labels, "accuracy")
    model = small_model(labels=labels)
    scores = evaluate(model, task, task.encode(examples), budget=Budget(rows=2)).compute()
    said = [word["entity"] for one in task.predict(model, examples) for word in one]
    true = chain(*(one.tags for one in examples))
    assert scores["accuracy"] == np.mean([one == other for one, other in zip(said, true, strict=True)])


# Labels, and what cannot be used.


def test_labels_begin_with_o_and_know_how_a_type_goes_on():
    examples = [Tagged(("a", "b"), ("B-PER", "O")), Tagged(("c", "d"), ("B-LOC", "I-LOC"))]
    task = TokenClassification.for_data(small_tokenizer("wordpiece"), examples)
    assert task.labels == LABELS
    assert task.settings() == {"labels": LABELS}


@pytest.mark.parametrize(
    ("act", "words_of_the_error"),
    [
        (lambda: TokenClassification.labels_of([Tagged(("a",), ("O",))]), "only the tag 'O'"),
        (lambda: TokenClassification.labels_of([Tagged(("a",))]), "no tag"),
        (lambda: _task().encode([Tagged(("a",), ("B-MISC",))]), "tag 'B-MISC' is not one of the model's"),
        (lambda: _task().encode([Tagged(("a", "b"), ("O",))]), "2 words but 1 tags"),
        (lambda: _task(max_length=2).encode([Tagged(("a",))]), "max_length=2 leaves no room"),
        (lambda: _task(context=-1), "context=-1"),
        (lambda: _task().predict(small_model(), [3]), "a text or a list of words"),
        (lambda: _task().predict(small_model(), ["a"], aggregation_strategy="best"), "'best' is not known"),
        (lambda: _loss_without_tags(), "no tags"),
        (lambda: TokenClassification.for_model(_tokenizer(), small_model(head="fill-mask")), "head"),
        (lambda: TokenClassification.for_model(_tokenizer(), small_model(labels=["O", "O"])), "two numbers"),
    ],
)
def test_what_cannot_be_used_is_named(act, words_of_the_error):
    with pytest.raises(ValueError, match=words_of_the_error):
        act()


def _tokenizer():
    return small_tokenizer("wordpiece")


def _task(**options):
    return TokenClassification(_tokenizer(), LABELS, **options)


def _loss_without_tags():
    task = _task()
    return task.loss(small_model(), task.batch(task.encode([Tagged(("a",))]), np.arange(1)))


# Real data, and learning.


@pytest.mark.slow
def test_conll_has_a_target_for_every_word(data, minilm):
    examples = TokenClassification.read([str(data / "conll2003" / "eng.testb")]).examples
    task = TokenClassification.for_data(load_tokenizer(minilm), examples, max_length=32, context=1)
    items = task.encode(examples)
    assert task.labels == ["O", *(f"{letter}-{kind}" for letter in "BI" for kind in ("LOC", "MISC", "ORG", "PER"))]
    assert len(items.rows) > len(examples)
    assert items.num_truncated == 0
    assert items.places.lengths.sum() == sum(len(one.words) for one in examples) == 46435


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bert", "glassformer-rnn"])
def test_a_small_model_learns_the_micro_world(kind):
    train, dev = (microworld.examples("tagged", count, seed=seed) for count, seed in ((800, 0), (300, 1)))
    tokenizer = tokenizer_of(TokenClassification.texts(train), "wordpiece", 500)
    task = TokenClassification.for_data(tokenizer, train)
    lr, sizes = 5e-3, {"hidden_size": 48, "num_attention_heads": 4, "intermediate_size": 96, "initializer_range": 0.02}
    if kind == "glassformer-rnn":
        lr, sizes = 1e-2, {"embedding_size": 32, "hidden_size": 32, "initializer_range": 0.1}
    model = small_model(kind, tokenizer, task.labels, **sizes)
    task = TokenClassification.for_model(tokenizer, model)
    learn(model, task, task.encode(train), steps=150, lr=lr, rows=16)
    scores = evaluate(model, task, task.encode(dev), budget=Budget(rows=50)).compute()
    assert scores["f1"] >= 0.9
