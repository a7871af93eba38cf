"""Texts tokenised in several processes, and given back in the order in which they came."""

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Rows = list[NDArray[np.int64]]
AHEAD = 3  # batches for each process, of which one is worked at and the others wait: memory is bounded by them


class Backend(Protocol):
    """What tokenises; it is sent to the processes."""

    def rows(self, texts: Sequence[str], *, split: bool, target: bool) -> Rows: ...


def tokenised_batches(backend: Backend, batches: Iterable[list[str]], jobs: int) -> Iterator[tuple[list[str], Rows]]:
    """Each batch of texts and their ids, without special tokens; by this process alone where jobs is 1."""
    if jobs == 1:
        for batch in batches:
            yield batch, backend.rows(batch, split=False, target=False)
        return
    context = get_context("spawn")  # a fork of a process with threads may never come to its end
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin, initargs=(backend,)) as pool:
        waiting: deque[tuple[list[str], Future[tuple[NDArray[Any], list[int]]]]] = deque()
        try:
            for batch in batches:
                waiting.append((batch, pool.submit(_tokenise, batch)))
                if len(waiting) == AHEAD * jobs:
                    yield _taken(waiting)
            while waiting:
                yield _taken(waiting)
        except BrokenProcessPool:
            raise ValueError(
                "a process that tokenises was killed, perhaps for want of memory: start again with fewer jobs, and it "
                "goes on after the last finished shard"
            ) from None
        finally:
            for _, future in waiting:
                future.cancel()


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _taken(waiting: deque[tuple[list[str], "Future[tuple[NDArray[Any], list[int]]]"]]) -> tuple[list[str], Rows]:
    batch, future = waiting.popleft()
    ids, lengths = future.result()
    return batch, np.split(ids, np.cumsum(lengths[:-1]))


_BACKENDS: list[Backend] = []  # of a process of the pool: its one


def _begin(backend: Backend) -> None:
    _BACKENDS.append(backend)


def _tokenise(batch: list[str]) -> tuple[NDArray[Any], list[int]]:
    """All ids in one array, which travels faster than one for each text, and how many there are of each."""
    rows = _BACKENDS[0].rows(batch, split=False, target=False)
    return np.concatenate([np.zeros(0, np.int64), *rows]).astype(np.int32), [len(row) for row in rows]
