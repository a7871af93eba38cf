"""What waits for a model, and what of it goes together: equal calls, up to a budget, and nobody behind a crowd."""

import heapq
from collections.abc import Mapping
from itertools import count
from typing import NamedTuple

from .messages import Submit

BYTES_A_TOKEN = 3  # of UTF-8, about: four of an English word's, three of a Chinese character
LEAST = 8  # tokens that any input counts for: a batch of nothing but short ones has an end too


class QueueEntry(NamedTuple):
    """A part that waits; entries are compared by their turn, then by when they came."""

    turn: int
    order: int
    cost: int
    key: str
    submit: Submit


class BatchQueue:
    """Parts of requests, in a fair order: the k-th part of a request has its turn k batches after the request came.

    So a request of 2,048 texts keeps nobody waiting for all of them, and whoever comes later does not put it off.
    """

    def __init__(self, budget: int) -> None:
        self.budget, self._round, self._order = budget, 0, count()
        self._waiting: list[QueueEntry] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def push(self, one: Submit) -> None:
        entry = QueueEntry(self._round + one.part, next(self._order), cost(one), one.call.key, one)
        heapq.heappush(self._waiting, entry)

    def cancel(self, request: int) -> None:
        """Drop all parts of a request."""
        kept = [entry for entry in self._waiting if entry.submit.id != request]
        if len(kept) < len(self._waiting):
            self._waiting = kept
            heapq.heapify(kept)

    def take(self) -> list[Submit]:
        """The next batch: whose turn it is, and what else may share it, as far as the budget goes."""
        if not self._waiting:
            return []
        first = heapq.heappop(self._waiting)
        self._round += 1
        batch, left, rest = [first.submit], self.budget - first.cost, []
        while self._waiting and left > 0:
            entry = heapq.heappop(self._waiting)
            if entry.key == first.key and entry.cost <= left:
                batch.append(entry.submit)
                left -= entry.cost
            else:
                rest.append(entry)
        for entry in rest:
            heapq.heappush(self._waiting, entry)
        return batch


def cost(one: Submit) -> int:
    """About how many tokens a part has."""
    return sum(max(LEAST, _bytes(value) // BYTES_A_TOKEN) for value in one.call.inputs)


def _bytes(value: object) -> int:
    match value:
        case str():
            return len(value.encode(errors="replace"))
        case Mapping():
            return sum(map(_bytes, value.values()))
        case list() | tuple():
            return sum(map(_bytes, value))
    return BYTES_A_TOKEN  # a token's id
