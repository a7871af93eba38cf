"""The fingerprint of data: the same when it is made again, another one when an input or a target is another."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data import microworld
from glassformer.data.blocks import Reframed
from glassformer.data.fingerprint import fingerprint
from glassformer.data.shard_writer import tokenise_to_shards
from tasks.cases import NAMES, case

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)


@given(PLAIN, PLAIN)
def test_equal_values_and_only_they_have_the_same(one, other):
    assert fingerprint(one) == fingerprint(one)
    assert (fingerprint(one) == fingerprint(other)) == (repr(one) == repr(other))


@given(st.lists(st.integers(0, 255), min_size=1, max_size=9), st.data())
def test_arrays(numbers, data):
    array = np.array(numbers, np.int32)
    place = data.draw(st.integers(0, len(numbers) - 1))
    changed = array.copy()
    changed[place] += 1
    others = [changed, array.astype(np.int64), array.astype(np.float32), array[None], array.tolist()]
    assert fingerprint(np.repeat(array, 2)[::2]) == fingerprint(array)  # however it lies in memory
    assert fingerprint(array) not in [fingerprint(one) for one in others]


def altered(example, others):
    """The same example, but for what is to be learnt from it."""
    if hasattr(example, "tags"):
        return replace(example, tags=tuple("O" if tag != "O" else "B-PER" for tag in example.tags))
    if hasattr(example, "answers"):
        first = example.context.split()[0]
        return replace(example, answers=tuple(replace(one, text=first, start=0) for one in example.answers))
    name = next((name for name in ("target", "label") if getattr(example, name, None) is not None), "text")
    value = getattr(example, name)
    return replace(example, **{name: next(getattr(one, name) for one in others if getattr(one, name) != value)})


@pytest.mark.parametrize("name", NAMES)
def test_every_task_tells_changed_targets(name):
    one = case(name)
    known = fingerprint(one.items)
    assert fingerprint(one.task.encode(one.splits.train)) == known
    first, *rest = one.splits.train
    assert fingerprint(one.task.encode([altered(first, rest), *rest])) != known
    assert fingerprint(one.task.encode([*rest, first])) != known


def test_shards_are_told_by_what_their_files_hold(tmp_path):
    tokenizer = case("text-generation/gpt2").task.tokenizer
    texts = microworld.examples("documents", 9)
    made = [
        tokenise_to_shards(some, tokenizer, tmp_path / name, identity=name)
        for name, some in (("one", texts), ("same", texts), ("other", texts[::-1]))
    ]
    one, same, other = (fingerprint(Reframed(shards, before=[1])) for shards in made)
    assert one == same != other
