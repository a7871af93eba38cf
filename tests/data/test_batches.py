"""Batches: every example once, under the budget, the same for a seed; and a prefetcher that loses nothing."""

import threading
import time

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.batches import Budget, Prefetch, Schedule, in_order, share_out
from glassformer.data.mixing import PIECES, CorpusPart, shares_of, tokens_by_source
from glassformer.data.ragged import Ragged

LENGTHS = st.lists(st.integers(1, 60), min_size=1, max_size=300).map(lambda sizes: np.array(sizes, np.int64))
BUDGETS = st.one_of(
    st.builds(Budget, rows=st.integers(1, 40)),
    st.builds(Budget, tokens=st.integers(1, 300)),
)


@given(LENGTHS, BUDGETS, st.integers(0, 5), st.integers(0, 3))
def test_every_example_once_and_never_over_the_budget(lengths, budget, seed, epoch):
    for batches in (in_order(lengths, budget), Schedule(lengths, budget, seed=seed).epoch(epoch)):
        assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
        for batch in batches:
            if budget.rows is not None:
                assert len(batch) <= budget.rows
            else:
                assert len(batch) == 1 or int(lengths[batch].max()) * len(batch) <= budget.tokens


def test_epochs_and_seeds_differ_and_repeat():
    lengths = np.arange(1, 200)

    def order(seed, epoch):
        return np.concatenate(Schedule(lengths, Budget(rows=8), seed=seed).epoch(epoch)).tolist()

    assert order(0, 0) == order(0, 0)
    assert len({tuple(order(seed, epoch)) for seed in range(3) for epoch in range(3)}) == 9


def test_buckets_waste_little():
    lengths = np.random.default_rng(0).integers(1, 100, 20_000)

    def padding(batches):
        places = sum(int(lengths[one].max()) * len(one) for one in batches)
        return 1 - lengths.sum() / places

    arrival = [np.arange(start, start + 32) for start in range(0, 20_000, 32)]
    assert padding(Schedule(lengths, Budget(rows=32), seed=0).epoch(0)) < 0.03 < 0.4 < padding(arrival)


@given(LENGTHS, BUDGETS, st.integers(0, 40))
def test_a_schedule_can_be_entered_at_any_step(lengths, budget, step):
    schedule = Schedule(lengths, budget, seed=3)
    turns = schedule.after(0)
    walked = [next(turns) for _ in range(step + 3)]
    entered = schedule.after(step)
    for expected in walked[step:]:
        found = next(entered)
        assert found.epoch == expected.epoch
        assert found.closes_epoch == expected.closes_epoch
        np.testing.assert_array_equal(found.indices, expected.indices)


@given(LENGTHS, BUDGETS, st.integers(1, 3))
def test_steps_counts_the_batches_of_whole_epochs(lengths, budget, epochs):
    schedule = Schedule(lengths, budget, seed=1)
    assert schedule.steps(epochs) == sum(len(schedule.epoch(number)) for number in range(epochs))


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 8))
def test_shares_add_up(indices, parts):
    shares = share_out(np.array(indices, np.int64), parts)
    assert len(shares) == parts
    assert sorted(np.concatenate(shares).tolist()) == sorted(indices)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize(("rows", "tokens"), [(None, None), (1, 1), (0, None), (None, -1)])
def test_a_budget_is_one_positive_number(rows, tokens):
    with pytest.raises(ValueError, match="batch_"):
        Budget(rows, tokens)


def test_prefetch_keeps_order_and_passes_faults_on():
    def source():
        yield from range(50)
        raise ValueError("broken data")

    feed = Prefetch(source())
    assert [next(feed) for _ in range(50)] == list(range(50))
    with pytest.raises(ValueError, match="broken data"):
        next(feed)
    feed.close()
    assert feed.waited >= 0


def test_prefetch_ends_and_leaves_no_thread():
    before = threading.active_count()
    assert list(Prefetch(iter([1, 2]))) == [1, 2]
    endless = Prefetch(iter(int, 1))
    next(endless)
    endless.close()
    assert threading.active_count() == before


@given(st.lists(st.lists(st.integers(0, 99), max_size=9), min_size=1, max_size=20), st.data())
def test_ragged_rows_come_back_padded(rows, data):
    ragged = Ragged.of(rows)
    indices = np.array(data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=9)), np.int64)
    table, mask = ragged.padded(indices, 7), ragged.mask(indices)
    assert table.shape == mask.shape == (len(indices), max(len(rows[i]) for i in indices))
    for line, real, index in zip(table, mask.bool(), indices, strict=True):
        assert line[real].tolist() == rows[index] == ragged[index].tolist()
        assert torch.equal(line[~real], torch.full_like(line[~real], 7))


@given(LENGTHS, BUDGETS, st.integers(1, 4000), st.integers(0, 3), st.integers(1, 2))
def test_windows_lose_nothing_and_need_as_many_steps(lengths, budget, window, seed, epochs):
    schedule = Schedule(lengths, budget, seed=seed, window=window)
    windows = list(schedule.windows(1))
    found = np.concatenate([batch for batches in windows for batch in batches])
    assert sorted(found.tolist()) == list(range(len(lengths)))
    assert schedule.steps(epochs) == sum(len(schedule.epoch(number)) for number in range(epochs))
    size = int(window / lengths.mean())
    stretch, spare = max(1, size // PIECES), budget.rows or 0  # those that are left over by the window before
    for batches in windows if len(lengths) > size else []:
        touched = [index // stretch for batch in batches for index in batch.tolist()]
        assert len(set(touched)) <= PIECES + spare
    if len(lengths) <= size:
        assert len(windows) == 1


PARTS = st.lists(st.tuples(st.integers(1, 60), st.floats(0.05, 5)), min_size=1, max_size=4)


def parts_of(sizes):
    firsts = np.cumsum([0, *(count for count, _ in sizes)]).tolist()
    return [
        CorpusPart(f"corpus {number}", first, count, weight)
        for number, (first, (count, weight)) in enumerate(zip(firsts, sizes, strict=False))
    ]


@given(PARTS, st.integers(1, 500), st.integers(1, 9), st.integers(0, 3), st.data())
def test_corpora_are_seen_by_their_weights_and_in_turns(sizes, window, rows, seed, data):
    parts = parts_of(sizes)
    total = sum(one.count for one in parts)
    lengths = np.array(data.draw(st.lists(st.integers(1, 9), min_size=total, max_size=total)))
    schedule = Schedule(lengths, Budget(rows=rows), seed=seed, window=window, sources=parts)
    shares, epochs = shares_of(parts, total), 4
    assert sum(shares) == total
    found = [np.concatenate(schedule.epoch(epoch)) for epoch in range(epochs)]
    ledger = tokens_by_source(parts, lengths, np.concatenate(found))
    for one, share in zip(parts, shares, strict=True):
        own = [epoch[(epoch >= one.first) & (epoch < one.first + one.count)] for epoch in found]
        assert [len(epoch) for epoch in own] == [share] * epochs
        assert abs(share - total * one.weight / sum(weight for _, weight in sizes)) < 1.001
        seen = np.concatenate(own) - one.first
        times = np.bincount(seen, minlength=one.count)
        assert times.max() - times.min() <= 1  # none again before all have come
        assert ledger[one.name] == int(lengths[seen + one.first].sum())
    assert schedule.steps(epochs) == sum(len(schedule.epoch(epoch)) for epoch in range(epochs))


def test_without_weights_corpora_are_one():
    lengths, parts = np.full(90, 4), [CorpusPart("a", 0, 40), CorpusPart("b", 40, 50)]
    one, other = (Schedule(lengths, Budget(rows=7), seed=1, sources=sources) for sources in ((), parts))
    assert [batch.tolist() for batch in one.epoch(2)] == [batch.tolist() for batch in other.epoch(2)]


@given(LENGTHS, st.integers(1, 400), st.integers(0, 12))
def test_what_comes_next_is_said_before_it_is_asked_for(lengths, window, step):
    schedule, known = Schedule(lengths, Budget(rows=3), seed=0, window=window), set()
    for found in schedule.after(step % len(schedule.epoch(0))):
        assert known or found.coming is not None
        known |= set() if found.coming is None else set(found.coming.tolist())
        assert set(found.indices.tolist()) <= known
        if found.epoch == 1:
            break


@given(st.integers(1, 200), st.integers(1, 9), st.integers(1, 300))
def test_a_text_in_order_is_foreseen_part_by_part(count, rows, window):
    lengths = np.full(count, 4)
    parts, whole = (
        Schedule(lengths, Budget(rows=rows), seed=0, ordered=True, window=size) for size in (window, 4 * count)
    )
    assert [one.tolist() for one in parts.epoch(0)] == [one.tolist() for one in whole.epoch(0)]
    assert max(len(batches) for batches in parts.windows(0)) <= max(1, window // (4 * min(rows, count)) + 1)


def test_what_comes_after_the_last_step_is_not_foreseen():
    schedule = Schedule(np.full(64, 4), Budget(rows=4), seed=0, window=128)  # two windows of eight steps
    said = {}
    for total in (None, 20, 16):
        turns = schedule.after(0, total=total)
        said[total] = [at for at in range(20) if next(turns).coming is not None]
    assert said == {None: [0, 8, 16], 20: [0, 8], 16: [0]}


def test_a_feed_that_waits_is_not_waited_for():
    begun, never = threading.Event(), threading.Event()

    def source():
        begun.set()
        yield never.wait(60)

    feed = Prefetch(source())
    begun.wait()
    before = time.monotonic()
    feed.close()
    assert time.monotonic() - before < 30
    never.set()
