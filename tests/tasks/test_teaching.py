"""The teaching tasks: examples that can be trusted, and models of every family that learn them."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from language import gradients, learn, small_bert, small_gpt, tokenizer_of
from torch.testing import assert_close

import glassformer as gf
from glassformer.data.batches import Budget
from glassformer.data.examples import Parallel
from glassformer.hub.registry import build
from glassformer.tasks.task import evaluate
from glassformer.tasks.teaching import FEWEST, LONGEST, SHORTEST, Adding, Copy, Parity, Reverse, examples

LESSONS = {"copy": Copy, "reverse": Reverse, "parity": Parity, "adding": Adding}
RIGHT = {"copy": lambda digits: digits, "reverse": lambda digits: digits[::-1]}
RIGHT["parity"] = lambda digits: str(sum(map(int, digits)) % 2)
RIGHT["adding"] = lambda digits: str(sum(int(digits[place + 1]) for place, one in enumerate(digits) if one == "*"))
every_lesson = pytest.mark.parametrize("lesson", LESSONS)
FORMS = [
    ("copy", "text2text-generation", "transformer"),
    ("reverse", "text2text-generation", "seq2seq"),
    ("parity", "text2text-generation", "seq2seq"),
    ("copy", "text-generation", "gpt2"),
    ("reverse", "text-generation", "rnn"),
    ("parity", "text-generation", "rnn"),
    ("parity", "text-classification", "rnn"),
    ("parity", "text-classification", "bert"),
    ("adding", "text-classification", "rnn"),
    ("adding", "text2text-generation", "transformer"),
]


def task_of(lesson, head="text2text-generation"):
    cls = LESSONS[lesson]
    train = examples(lesson, 300, seed=0)
    return cls.for_data(tokenizer_of(cls.texts(train), cls.vocabulary, 40), train, head=head)


def lesson_of(lesson, head, family, **options):
    """A task and a model for it."""
    task = task_of(lesson, head)
    told = {"vocab_size": len(task.tokenizer), **task.settings()}
    if "labels" in told:
        told = {"vocab_size": len(task.tokenizer), "id2label": dict(enumerate(told["labels"]))}
    torch.manual_seed(0)
    if family == "gpt2":
        model = small_gpt(**{**told, **options})
    elif family == "bert":
        model = small_bert(head=task.head, **{**told, **options})
    elif family == "rnn":
        model = build("glassformer-rnn", task.head, **{"embedding_size": 32, "hidden_size": 64, **told, **options})
    elif family == "seq2seq":
        small = {"embedding_size": 32, "hidden_size": 64, "initializer_range": 1.0, "bidirectional": True}
        model = build("glassformer-seq2seq", task.head, **{**small, **told, **options})
    else:
        sides = {"layers": 1, "attention_heads": 2, "ffn_dim": 32}
        sides = {f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in sides.items()}
        model = build("glassformer-transformer", task.head, **{"d_model": 32, **sides, **told, **options})
    return LESSONS[lesson].for_model(task.tokenizer, model), model


# Examples.


@every_lesson
@given(seed=st.integers(0, 1000), count=st.integers(0, 30))
def test_examples_are_right_and_the_same_for_a_seed(lesson, seed, count):
    found = examples(lesson, count, seed=seed)
    assert found == examples(lesson, count + 5, seed=seed)[:count]
    for one in found:
        assert one.source.endswith("=")
        digits = one.source[:-1]
        assert one.target == RIGHT[lesson](digits)
        assert (SHORTEST if seed % 3 else FEWEST[lesson]) <= len(digits.replace("*", "")) <= LONGEST[lesson]


@pytest.mark.few(2)
@every_lesson
def test_no_model_has_seen_what_it_is_tested_on(lesson):
    seen = [{one.source for one in examples(lesson, 600, seed=seed)} for seed in range(3)]
    assert sum(map(len, seen)) == len(set.union(*seen))
    lengths = [len(source.replace("*", "")) - 1 for source in seen[0]]
    assert {*range(FEWEST[lesson], LONGEST[lesson] + 1)} == {*lengths}


@every_lesson
@given(seed=st.integers(0, 100), length=st.integers(2, 60))
def test_a_length_is_the_most_that_is_trained_and_exactly_what_is_tested(lesson, seed, length):
    found = examples(lesson, 20, seed=seed, length=length)
    assert all(one.target == RIGHT[lesson](one.source[:-1]) for one in found)
    lengths = {len(one.source.replace("*", "")) - 1 for one in found}
    assert lengths <= {*range(FEWEST[lesson], length + 1)} if seed % 3 == 0 else lengths == {length}


@given(seed=st.integers(0, 100), length=st.integers(2, 60))
def test_the_digits_to_add_stand_in_the_two_halves(seed, length):
    for one in examples("adding", 20, seed=seed, length=length):
        text = one.source[:-1]
        first, second = (place - 1 for place, char in enumerate(text, 1) if char == "*")
        digits = len(text) - 2
        assert first < digits // 2 <= second - 1


def test_a_length_that_is_too_short_is_refused():
    with pytest.raises(ValueError, match="length=1 is too short for adding; it takes 2 digits or more"):
        examples("adding", 1, seed=0, length=1)


@pytest.mark.slow
def test_the_share_of_a_sequence_tells_nothing_of_its_parity():
    for seed in range(3):
        odd = np.mean([one.target == "1" for one in examples("parity", 2000, seed=seed)])
        assert abs(odd - 0.5) < 0.04  # more than three standard deviations


# Batches.


@pytest.mark.parametrize(("lesson", "family"), [("copy", "gpt2"), ("reverse", "rnn"), ("parity", "gpt2")])
def test_a_language_model_is_judged_by_its_answers_alone(lesson, family):
    """What each place is to say next, against the plain text with its end; and what the loss makes of it."""
    task, model = lesson_of(lesson, "text-generation", family)
    given_ = examples(lesson, 7, seed=1)
    items = task.encode(given_)
    batch = task.batch(items, np.arange(7))
    width, total = batch.inputs["input_ids"].shape[1], 0.0
    for row, one in enumerate(given_):
        ids = task.tokenizer(one.source + one.target)["input_ids"] + [task.tokenizer.eos_token_id]
        prompt = len(one.source)
        assert batch.inputs["input_ids"][row, : len(ids) - 1].tolist() == ids[:-1]
        mine = batch.targets["rows"] == row
        assert (batch.targets["places"][mine] - row * width).tolist() == list(range(prompt - 1, len(ids) - 1))
        assert batch.targets["labels"][mine].tolist() == ids[prompt:]
        logs = model(torch.tensor([ids[:-1]])).logits[0, prompt - 1 :].log_softmax(-1)
        total -= float(logs.gather(1, torch.tensor(ids[prompt:])[:, None]).sum().detach())
    assert float(task.loss(model, batch).detach()) == pytest.approx(total, rel=1e-4)


@pytest.mark.parametrize(("lesson", "head", "family"), FORMS)
def test_micro_batches_have_the_gradient_of_the_whole(lesson, head, family):
    task, model = lesson_of(lesson, head, family, **({"dropout": 0.0} if family == "transformer" else {}))
    items = task.encode(examples(lesson, 8, seed=0))
    whole, count, expected = gradients(model, task, items, [range(8)], 3)
    parts, again, found = gradients(model, task, items, [[5], [0, 7, 2], [1, 3, 4, 6]], 3)
    assert count == again
    assert_close(parts, whole, rtol=1e-5, atol=1e-4)
    for one, other in zip(found, expected, strict=True):
        assert_close(one, other, rtol=1e-4, atol=1e-4)


# Predictions.


@pytest.mark.few(2)
@pytest.mark.parametrize(("lesson", "head", "family"), FORMS)
def test_each_answer_is_as_if_alone_and_the_equals_sign_may_be_left_out(lesson, head, family):
    task, model = lesson_of(lesson, head, family)
    model = model.double()
    texts = ["1", "12345678=", "4711", Parallel("98765="), {"text": "2"}]
    together = task.predict(model, texts)
    assert together == [task.predict(model, [text])[0] for text in texts]
    assert together[0] == task.predict(model, ["1="])[0]
    assert all(list(one) == ["answer"] for one in together)


def test_a_head_that_cannot_learn_a_lesson_is_refused():
    with pytest.raises(ValueError, match="the head text2text-generation or text-generation, not"):
        task_of("copy", "text-classification")


# Learning.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lesson", "head", "family", "steps", "lr", "reached"),
    [
        ("parity", "text-classification", "rnn", 250, 1e-2, 0.95),
        ("parity", "text-generation", "rnn", 400, 1e-2, 0.95),
        ("copy", "text2text-generation", "seq2seq", 250, 1e-2, 0.8),
    ],
)
def test_a_lesson_is_learnt(lesson, head, family, steps, lr, reached, tmp_path):
    """Answers to sequences never seen, of four digits and more; parity stays at 0.5 without the short ones."""
    cls = LESSONS[lesson]
    task, model = lesson_of(lesson, head, family)
    dev = task.encode(examples(lesson, 200, seed=1))
    learn(model, task, task.encode(examples(lesson, 3000, seed=0)), steps=steps, lr=lr, rows=64)
    scores = evaluate(model, task, dev, budget=Budget(rows=64), final=True).compute()
    assert scores[task.metric] > reached
    gf.save(model, tmp_path, tokenizer=task.tokenizer)
    again = cls.for_model(gf.load_tokenizer(tmp_path), gf.load(tmp_path))
    texts = ["123456", "40506", "11"]
    assert again.predict(gf.load(tmp_path), texts) == task.predict(model, texts)
