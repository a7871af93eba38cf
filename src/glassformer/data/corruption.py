"""Span corruption (Raffel et al. 2020): stretches of a text are taken out, and are to be written behind sentinels.

N tokens of a text, S stretches.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]


class Corrupted(NamedTuple):
    """What a model reads, a sentinel in the place of each stretch, and what it writes: sentinels and stretches."""

    source: Ids
    target: Ids


def num_spans(length: int, *, rate: float, mean_span: float) -> tuple[int, int]:
    """Of a text of so many tokens, how many are taken out, and in how many stretches."""
    taken = min(max(round(length * rate), 1), length - 1)
    return taken, min(max(round(taken / mean_span), 1), taken, length - taken + 1)


def draw_spans(length: int, *, rate: float, mean_span: float, chance: np.random.Generator) -> NDArray[np.int64]:
    """(S, 2): where stretches begin and end, all ways to take them out being equally likely; no two touch."""
    if length < 2:
        return np.zeros((0, 2), np.int64)
    taken, spans = num_spans(length, rate=rate, mean_span=mean_span)
    sizes = _summands(taken, spans, chance)
    gaps = _summands(length - taken + 2, spans + 1, chance)  # 1 or more between two, 0 or more at both ends
    gaps[0] -= 1
    starts = np.cumsum(gaps[:-1]) + np.cumsum(sizes) - sizes
    return np.stack([starts, starts + sizes], axis=1)


def _summands(total: int, number: int, chance: np.random.Generator) -> Ids:
    """Numbers of 1 or more with this sum, all such rows being equally likely."""
    cuts = np.sort(chance.choice(total - 1, number - 1, replace=False)) + 1
    return np.diff(np.concatenate([[0], cuts, [total]]))


def corrupt(ids: Ids, spans: NDArray[np.int64], sentinels: Sequence[int], end: int) -> Corrupted:
    """The text without its stretches, and the stretches; each ends with the end token."""
    source, target, place = list[int](), list[int](), 0
    for sentinel, (start, stop) in zip(sentinels, spans.tolist(), strict=False):
        source += [*ids[place:start].tolist(), sentinel]
        target += [sentinel, *ids[start:stop].tolist()]
        place = stop
    source += [*ids[place:].tolist(), end]
    target += [sentinels[len(spans)], end]
    return Corrupted(np.array(source, np.int64), np.array(target, np.int64))
