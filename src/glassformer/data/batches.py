"""Which examples go together: batches from length buckets, under a budget of rows or tokens, the same for a seed.

They are what a DataLoader's batch sampler gives. The order depends on the seed and the epoch alone, so that a run can
go on from any step.
"""

import queue
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count, pairwise
from typing import NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from glassformer.data.mixing import CorpusPart, drawn_windows, mixed_windows

Indices = NDArray[np.int64]

POOL = 64  # batches are sorted by length within so many: little padding, yet well mixed
WINDOW = 1 << 29  # tokens among which examples are mixed
PATIENCE = 1.0  # seconds that a feed has to end
T = TypeVar("T")


@dataclass(frozen=True)
class Budget:
    """How much goes into one batch: so many rows, or so many tokens, padding counted."""

    rows: int | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        if (self.rows is None) == (self.tokens is None):
            raise ValueError("give batch_size (rows) or batch_tokens, one of the two")
        for name, value in (("batch_size", self.rows), ("batch_tokens", self.tokens)):
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")

    @classmethod
    def of(cls, batch_size: int | None, batch_tokens: int) -> Self:
        """So many rows where they are asked for, else so many tokens."""
        return cls(tokens=batch_tokens) if batch_size is None else cls(rows=batch_size)

    def rows_of(self, length: int) -> int:
        """How many examples of this length make a batch."""
        return self.rows or max(1, (self.tokens or 0) // length)

    def split(self, ordered: Indices, lengths: NDArray[np.int64]) -> list[Indices]:
        """Neighbours put together; an example beyond the budget goes alone."""
        if self.rows is not None:
            return [ordered[start : start + self.rows] for start in range(0, len(ordered), self.rows)]
        assert self.tokens is not None
        batches, start, longest = [], 0, 0
        for place, length in enumerate(lengths[ordered].tolist()):
            longest = max(longest, length)
            if longest * (place - start + 1) > self.tokens and place > start:
                batches.append(ordered[start:place])
                start, longest = place, length
        return [*batches, ordered[start:]] if start < len(ordered) else batches


def in_order(lengths: NDArray[np.int64], budget: Budget) -> list[Indices]:
    """For evaluation: every example once, shortest first, so that next to nothing is padded."""
    return budget.split(np.argsort(lengths, kind="stable"), lengths)


def shuffled(
    lengths: NDArray[np.int64],
    budget: Budget,
    *,
    seed: int,
    epoch: int,
    window: int = WINDOW,
    sources: Sequence[CorpusPart] = (),
) -> Iterator[list[Indices]]:
    """For training: every example once, or by the weights of its source; neighbours of like length, batches in random
    order. A list for each window: more than `window` tokens are mixed a part at a time (see `drawn_windows`)."""
    chance = np.random.Generator(np.random.Philox(key=[seed, epoch]))
    if budget.rows is not None:
        size = budget.rows * POOL
    else:
        assert budget.tokens is not None
        size = max(1, int(budget.tokens / max(1.0, float(lengths.mean())))) * POOL
    if any(one.weight is not None for one in sources):
        windows = mixed_windows(sources, lengths, window, seed=seed, epoch=epoch)
    else:
        windows = drawn_windows(lengths, window, chance=chance)
    for drawn in in_multiples(windows, budget.rows or 1):
        batches = []
        for start in range(0, len(drawn), size):
            pool = drawn[start : start + size]
            batches += budget.split(pool[np.argsort(lengths[pool], kind="stable")], lengths)
        yield [batches[place] for place in chance.permutation(len(batches))]


def in_multiples(windows: Iterable[Indices], multiple: int) -> Iterator[Indices]:
    """The same examples in the same order, cut so that every window but the last has a multiple of so many."""
    waiting = np.zeros(0, np.int64)
    for number, drawn in enumerate(windows):
        cut = len(waiting) - len(waiting) % multiple
        if cut:
            yield waiting[:cut]
        waiting = np.concatenate([waiting[cut:], drawn]) if number else drawn
    yield waiting


def contiguous(count: int, rows: int) -> list[Indices]:
    """Each of so many examples once, in the order of a text that is read at `rows` places at once: row by row, a batch
    goes on where the one before it ended. The last row may end earlier."""
    length = -(-count // rows)
    return [np.arange(start, count, length) for start in range(length)]


class BatchIndices(NamedTuple):
    """The examples of one step."""

    epoch: int
    indices: Indices
    closes_epoch: bool
    coming: Indices | None = None  # with the first batch of a window the examples of the next; at first, of its own too


class Schedule:
    """The batch of every step, over as many epochs as it takes."""

    def __init__(
        self,
        lengths: NDArray[np.int64],
        budget: Budget,
        *,
        seed: int,
        ordered: bool = False,
        window: int = WINDOW,
        sources: Sequence[CorpusPart] = (),
    ) -> None:
        """`ordered`: batches go on where the ones before them ended (`contiguous`), instead of being shuffled."""
        if not len(lengths):
            raise ValueError("there is no example to train on")
        self.lengths, self.budget, self.seed, self.ordered = lengths, budget, seed, ordered
        self.window, self.sources = window, sources

    def windows(self, number: int) -> Iterator[list[Indices]]:
        """The batches of an epoch, window by window."""
        if self.ordered:
            batches = contiguous(len(self.lengths), self.budget.rows_of(int(self.lengths.max())))
            some = max(1, int(self.window * len(batches) / max(1, int(self.lengths.sum()))))
            return (batches[start : start + some] for start in range(0, len(batches), some))
        return shuffled(
            self.lengths, self.budget, seed=self.seed, epoch=number, window=self.window, sources=self.sources
        )

    def epoch(self, number: int) -> list[Indices]:
        return [batch for window in self.windows(number) for batch in window]

    def steps(self, epochs: float) -> int:
        """How many batches so many epochs have; the last may be a part of one."""
        whole = int(epochs)
        if self.ordered:
            return max(1, round(epochs * len(self.epoch(0))))
        if self.budget.rows is not None:
            return max(1, round(epochs * -(-len(self.lengths) // self.budget.rows)))
        steps = sum(len(self.epoch(number)) for number in range(whole))
        return max(1, steps + round((epochs - whole) * len(self.epoch(whole))) if epochs > whole else steps)

    def after(self, step: int, *, total: int | None = None) -> Iterator["BatchIndices"]:
        """The examples of each step after `step`, without end; those after `total` are not said to come."""
        passed, begun = 0, False
        every = ((epoch, batches) for epoch in count() for batches in self.windows(epoch))
        for (epoch, batches), (following, coming) in pairwise(every):
            later = coming if total is None or passed + len(batches) < total else []
            for place in range(max(0, step - passed), len(batches)):
                closes = place + 1 == len(batches) and following != epoch
                soon = later if begun and place == 0 else [*batches, *later] if not begun else []
                yield BatchIndices(epoch, batches[place], closes, np.concatenate(soon) if soon else None)
                begun = True
            passed += len(batches)


def share_out(indices: Indices, parts: int) -> list[Indices]:
    """A batch dealt out into micro-batches; neighbours in length are dealt like cards, so that all weigh the same."""
    return [indices[part::parts] for part in range(parts)]


class Prefetch(Iterator[T]):
    """A DataLoader of one worker: a thread makes the next items while the model works; `waited` counts the seconds that
    it was still waited for."""

    def __init__(self, source: Iterator[T], *, depth: int = 3) -> None:
        self.waited = 0.0
        self._queue: queue.Queue[T | BaseException] = queue.Queue(depth)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._work, args=(source,), daemon=True)
        self._thread.start()

    def _work(self, source: Iterator[T]) -> None:
        while not self._closed.is_set():
            try:
                item: T | BaseException = next(source)
            except BaseException as error:  # the end, or a fault: both belong to the reader
                item = error
            self._offer(item)
            if isinstance(item, BaseException):
                return

    def _offer(self, item: T | BaseException) -> None:
        while not self._closed.is_set():
            with suppress(queue.Full):
                self._queue.put(item, timeout=0.1)
                return

    def __next__(self) -> T:
        began = time.perf_counter()
        item = self._queue.get()
        self.waited += time.perf_counter() - began
        if isinstance(item, BaseException):
            raise item
        return item

    def close(self) -> None:
        """Let it end; what it waits for from elsewhere is not waited for."""
        self._closed.set()
        self._thread.join(PATIENCE)
