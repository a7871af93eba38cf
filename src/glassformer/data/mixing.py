"""Several corpora learnt together: which examples belong to which, and how often each is seen.

With weights an epoch has as many examples as there are in all, of each corpus as many as its share. A corpus is seen in
orders of its own, one after the other, so that none of its examples comes again before all have come.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
PIECES = 8  # stretches of neighbouring examples that make a window; of several corpora, each has its share of them


@dataclass(frozen=True)
class CorpusPart:
    """A corpus among others: its examples are those from `first` on, so many of all."""

    name: str
    first: int
    count: int
    weight: float | None = None  # its share of what is learnt; None: as large as it is


def drawn_windows(
    lengths: Numbers, tokens: int, *, chance: np.random.Generator, pieces: int = PIECES
) -> Iterator[Numbers]:
    """Every example once, in random order: all together where they hold up to so many tokens.

    Of more, a window is a few stretches of neighbours from anywhere, mixed: what lies elsewhere is then read stretch by
    stretch, once an epoch.
    """
    total, size = len(lengths), int(tokens / max(1.0, float(lengths.mean())))
    if total <= size:
        yield chance.permutation(total)
        return
    stretch = max(1, size // pieces)
    order = chance.permutation(-(-total // stretch))
    for first in range(0, len(order), pieces):
        parts = [np.arange(one * stretch, min(total, (one + 1) * stretch)) for one in order[first : first + pieces]]
        yield chance.permutation(np.concatenate(parts))


def mixed_windows(
    sources: Sequence[CorpusPart], lengths: Numbers, tokens: int, *, seed: int, epoch: int
) -> Iterator[Numbers]:
    """The examples of an epoch by the weights of their sources, mixed among about so many tokens."""
    chance = np.random.Generator(np.random.Philox(key=[seed, epoch]))
    shares = shares_of(sources, len(lengths))
    windows = max(1, -(-len(lengths) // max(1, int(tokens / max(1.0, float(lengths.mean()))))))
    visits = []
    for number, (one, share) in enumerate(zip(sources, shares, strict=True)):
        own = tokens * share // max(1, len(lengths))  # of a window
        part = lengths[one.first : one.first + one.count]
        pieces = max(1, round(PIECES * share / max(1, len(lengths))))
        visits.append(_Visits(one, part, max(1, own), pieces, seed=(seed, number), start=epoch * share))
    for window in range(windows):
        borders = [(share * window // windows, share * (window + 1) // windows) for share in shares]
        found = [one.take(stop - start) for one, (start, stop) in zip(visits, borders, strict=True)]
        yield chance.permutation(np.concatenate(found))


def shares_of(sources: Sequence[CorpusPart], total: int) -> list[int]:
    """How many examples of each source an epoch of so many has."""
    weights = np.array([one.count if one.weight is None else one.weight for one in sources], np.float64)
    borders = np.round(np.cumsum(weights / weights.sum()) * total).astype(np.int64)
    return [int(one) for one in np.diff(borders, prepend=0)]


def tokens_by_source(sources: Sequence[CorpusPart], lengths: Numbers, indices: Numbers) -> Mapping[str, int]:
    """How many tokens some examples have of each source."""
    owners = np.searchsorted([one.first for one in sources], indices, side="right") - 1
    sums = np.bincount(owners, weights=lengths[indices], minlength=len(sources))
    return {one.name: int(tokens) for one, tokens in zip(sources, sums, strict=True)}


class _Visits:
    """The examples of one source, order after order, from some place on."""

    def __init__(
        self, source: CorpusPart, lengths: Numbers, tokens: int, pieces: int, *, seed: tuple[int, int], start: int
    ) -> None:
        self.left = np.zeros(0, np.int64)
        first, skipped = divmod(start, source.count)
        chances = (np.random.Generator(np.random.Philox(np.random.SeedSequence([*seed, one]))) for one in count(first))
        orders = (drawn_windows(lengths, tokens, chance=chance, pieces=pieces) for chance in chances)
        self.more = self._from(source.first, chain.from_iterable(orders), skipped)

    def _from(self, first: int, windows: Iterator[Numbers], skipped: int) -> Iterator[Numbers]:
        for drawn in windows:
            yield first + drawn[skipped:]
            skipped = max(0, skipped - len(drawn))

    def take(self, number: int) -> Numbers:
        parts = [self.left]
        while sum(map(len, parts)) < number:
            parts.append(next(self.more))
        found = np.concatenate(parts)
        self.left = found[number:]
        return found[:number]
