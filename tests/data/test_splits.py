"""Splits: a text has one side, whatever its neighbours, and no side is empty that need not be."""

import logging
import os
import random
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.examples import Labelled
from glassformer.data.splits import draw, keep_labels, overlap, place_of, plain, repeats, split_by_hash

TEXTS = st.lists(st.text(min_size=1, max_size=8), max_size=40)
SHARES = st.sampled_from([(0.1, 0.0), (0.1, 0.1), (0.5, 0.3), (0.0, 0.2), (0.0, 0.0), (0.01, 0.01)])
MANY = [f"text {number}" for number in range(3000)]


def same(text):
    return text


SIDES = {text: side for side, split in enumerate(split_by_hash(MANY, same, dev=0.1, test=0.1)) for text in split}


@given(TEXTS, SHARES)
def test_every_example_is_in_one_split_and_in_order(texts, shares):
    examples = list(enumerate(texts))
    splits = split_by_hash(examples, lambda one: one[1], dev=shares[0], test=shares[1])
    assert sorted([*splits.train, *splits.dev, *splits.test]) == examples
    for split in splits:
        assert split == sorted(split)


@given(TEXTS, SHARES)
def test_equal_texts_are_never_on_two_sides(texts, shares):
    varied = [*texts, *(f"  {text.upper()}\n" for text in texts), *texts]
    train, dev, test = split_by_hash(varied, same, dev=shares[0], test=shares[1])
    assert overlap(train, dev) == overlap(train, test) == overlap(dev, test) == 0


@given(TEXTS, SHARES)
def test_no_split_is_empty_that_need_not_be(texts, shares):
    dev, test = shares
    distinct = len({plain(text) for text in texts})
    splits = split_by_hash(texts, same, dev=dev, test=test)
    asked_for = [splits.train, *([splits.dev] if dev else []), *([splits.test] if test else [])]
    assert all(asked_for[:distinct]), "train comes first, then dev, then test"
    assert dev > 0 or not splits.dev
    assert test > 0 or not splits.test


@given(st.lists(st.sampled_from(MANY), min_size=300, unique=True, max_size=500), st.randoms())
def test_a_text_keeps_its_split_whatever_its_neighbours(some, chance):
    chance.shuffle(some)
    for side, split in enumerate(split_by_hash(some, same, dev=0.1, test=0.1)):
        assert {SIDES[text] for text in split} <= {side}


@pytest.mark.parametrize(("dev", "test"), [(0.1, 0.0), (0.2, 0.3), (0.05, 0.05)])
def test_shares_are_about_what_was_asked_for(dev, test):
    splits = split_by_hash(MANY, same, dev=dev, test=test)
    for split, share in zip(splits, (1 - dev - test, dev, test), strict=True):
        spread = (share * (1 - share) * len(MANY)) ** 0.5
        assert abs(len(split) - share * len(MANY)) <= 4 * spread


def test_the_split_is_the_same_in_every_process():
    script = "from glassformer.data.splits import place_of; print(place_of('a text'), place_of('文'))"
    for salt in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": salt}
        run = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, check=True)
        assert run.stdout.decode().split() == [str(place_of("a text")), str(place_of("文"))]
    assert place_of("a text") == 0.32574514005307587


def test_sizes_are_announced(caplog):
    with caplog.at_level(logging.INFO, "glassformer"):
        train, dev, test = split_by_hash(MANY, same, dev=0.2, test=0.1)
    assert f"{len(train)} for training, {len(dev)} for dev, {len(test)} for test" in caplog.text


@pytest.mark.parametrize(("dev", "test"), [(1.0, 0.0), (-0.1, 0.0), (0.6, 0.4), (0.0, 1.5)])
def test_shares_must_leave_something_to_train_with(dev, test):
    with pytest.raises(ValueError, match=f"dev={dev} and test={test}: give shares"):
        split_by_hash(MANY, same, dev=dev, test=test)


def test_duplicates_are_counted_across_and_within():
    assert overlap(["a", "B", "c"], ["b", "d", " b ", "C"]) == 3
    assert overlap(["a"], []) == overlap([], ["a"]) == 0
    assert repeats(["a", "A", "b", "a", "b  c", "b c"]) == 3


# Rare labels.

LABELLED = st.lists(
    st.builds(Labelled, st.sampled_from("abcdefghijklmnop"), st.none(), st.sampled_from(("x", "y", "z", "rare"))),
    min_size=2,
)


def key(one):
    return one.text


def labels_in(one):
    return (one.label,)


@given(LABELLED)
def test_every_label_is_in_training_and_no_text_on_two_sides(examples):
    train, dev, _ = split_by_hash(examples, key, dev=0.4)
    kept = keep_labels(train, dev, key, labels_in)
    assert {one.label for one in kept.train} == {one.label for one in examples}
    assert not {one.text for one in kept.train} & {one.text for one in kept.dev}
    assert sorted(map(repr, [*kept.train, *kept.dev])) == sorted(map(repr, examples))
    assert set(kept.labels) == {one.label for one in dev} - {one.label for one in train}
    assert kept.train[: len(train)] == train  # what was there stays where it was
    if not kept.labels:
        assert kept.dev == dev


@given(LABELLED, st.data())
def test_some_examples_hold_every_label_if_they_are_enough(examples, data):
    count = data.draw(st.integers(1, len(examples)))
    some = draw(examples, count, labels_in)
    assert len(some) == count
    assert len({one.label for one in some}) == min(count, len({one.label for one in examples}))
    places = [next(place for place, one in enumerate(examples) if one is other) for other in some]
    assert places == sorted(places)
    assert draw(examples, count, lambda _: ()) == [
        examples[place] for place in sorted(random.Random(0).sample(range(len(examples)), count))
    ]
