"""Whether one contestant is ahead of another: paired tests over the same examples, and over seeds.

S seeds, N examples, F numbers that describe one of them.
"""

from collections.abc import Callable, Sequence
from itertools import combinations
from math import comb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glassformer.tasks.metrics.intervals import Interval

Rows = NDArray[Any]
Score = Callable[[Rows], float]
RESAMPLES = 2000
LEVEL = 0.95
LISTED = 20_000  # permutations of seeds: as many are all looked at


class Difference(NamedTuple):
    """How far one is ahead of another: the difference of the means, its 95 % interval, and how likely so much is by
    chance (two-sided). p is None where there is nothing to tell chance by."""

    ahead: float
    interval: Interval | None
    p: float | None

    @property
    def is_shown(self) -> bool:
        """Whether chance is an unlikely explanation: neither that of the examples (p), nor with it that of the seeds
        (the interval)."""
        ends = self.interval
        return self.p is not None and self.p < 1 - LEVEL and ends is not None and not ends.low <= 0 <= ends.high


def paired(
    one: Sequence[Rows], other: Sequence[Rows], score: Score, *, resamples: int = RESAMPLES, seed: int = 0
) -> Difference:
    """Two contestants on the same N examples: the rows (N, F) of each seed, and the score of any set of rows.

    The interval is a bootstrap's over examples (the same ones for both) and seeds. p is that of a permutation test: the
    share of random exchanges of the two contestants, example by example, that put one as far ahead or further.
    """
    counts = {len(rows) for rows in (*one, *other)}
    if len(counts) != 1 or 0 in counts:
        raise ValueError(f"only scores of the same examples can be paired, not of {sorted(counts)} examples")
    (count,) = counts
    random = np.random.default_rng(seed)
    ahead = _mean(one, score) - _mean(other, score)
    drawn = []
    for _ in range(resamples):
        examples = random.integers(count, size=count)
        sides = [
            [side[place][examples] for place in random.integers(len(side), size=len(side))] for side in (one, other)
        ]
        drawn.append(_mean(sides[0], score) - _mean(sides[1], score))
    return Difference(ahead, _middle(drawn), _permutation_p(one, other, score, random, resamples))


def _permutation_p(
    one: Sequence[Rows], other: Sequence[Rows], score: Score, random: np.random.Generator, resamples: int
) -> float:
    """The share of exchanges that put one as far ahead; of unequal numbers of seeds the fewer are taken in turn."""
    seeds = max(len(one), len(other))
    pairs = [(one[place % len(one)], other[place % len(other)]) for place in range(seeds)]

    def ahead(exchanged: Rows) -> float:
        sides = [(np.where(exchanged, b, a), np.where(exchanged, a, b)) for a, b in pairs]
        return abs(_mean([side[0] for side in sides], score) - _mean([side[1] for side in sides], score))

    shape = (len(one[0]), *[1] * (one[0].ndim - 1))
    found = ahead(np.zeros(shape, bool)) - 1e-12
    further = sum(ahead(random.random(shape) < 0.5) >= found for _ in range(resamples))
    return (further + 1) / (resamples + 1)


def bootstrap_mean(side: Sequence[Rows], score: Score, *, resamples: int = RESAMPLES, seed: int = 0) -> Interval:
    """95 % of what the mean score over seeds would be from other examples and other seeds."""
    random, count = np.random.default_rng(seed), len(side[0])
    drawn = []
    for _ in range(resamples):
        examples = random.integers(count, size=count)
        drawn.append(_mean([side[place][examples] for place in random.integers(len(side), size=len(side))], score))
    return _middle(drawn)


def over_seeds(
    one: Sequence[float], other: Sequence[float], *, resamples: int = RESAMPLES, seed: int = 0
) -> Difference:
    """Two contestants by the scores of their seeds alone: a permutation test of the means.

    From three seeds each, 10 % is the least that p can be: to show a difference in this way takes four.
    """
    ahead = float(np.mean(one) - np.mean(other))
    if len(one) < 2 or len(other) < 2:
        return Difference(ahead, None, None)
    both, size = np.array([*one, *other]), len(one)
    random = np.random.default_rng(seed)
    splits = [*_halves(len(both), size, random, resamples)]
    means = [abs(both[chosen].mean() - np.delete(both, chosen).mean()) for chosen in splits]
    further = sum(mean >= abs(ahead) - 1e-12 for mean in means)
    drawn = [random.choice(one, len(one)).mean() - random.choice(other, len(other)).mean() for _ in range(resamples)]
    return Difference(ahead, _middle(drawn), further / len(splits))


def _halves(count: int, size: int, random: np.random.Generator, resamples: int) -> Sequence[list[int]]:
    """Ways to choose so many: all of them, or as many random ones as are asked for."""
    if comb(count, size) <= LISTED:
        return [list(chosen) for chosen in combinations(range(count), size)]
    return [random.permutation(count)[:size].tolist() for _ in range(resamples)]


def holm(values: Sequence[float | None]) -> list[float | None]:
    """p values of several tests at once, corrected by Holm's method; None stays None."""
    known = sorted((value, place) for place, value in enumerate(values) if value is not None)
    found: list[float | None] = [None] * len(values)
    least = 0.0
    for rank, (value, place) in enumerate(known):
        least = max(least, min(1.0, value * (len(known) - rank)))
        found[place] = least
    return found


class Exponent(NamedTuple):
    """k of a growth like n^k, and its standard error; None where two points leave nothing to tell it by."""

    value: float
    error: float | None


def fit_exponent(sizes: Sequence[float], values: Sequence[float]) -> Exponent:
    """By least squares on a double logarithmic scale. Refused: fewer than two sizes, what is not above zero."""
    if len({*sizes}) < 2 or min(*sizes, *values) <= 0:
        raise ValueError(f"growth needs two sizes or more and values above zero, not {list(sizes)} and {list(values)}")
    x, y = np.log(np.asarray(sizes, float)), np.log(np.asarray(values, float))
    centred = x - x.mean()
    slope = float(centred @ y / (centred @ centred))
    if len(x) < 3:
        return Exponent(slope, None)
    residuals = y - y.mean() - slope * centred
    return Exponent(slope, float(np.sqrt(residuals @ residuals / (len(x) - 2) / (centred @ centred))))


def spread(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and standard deviation (of a sample); None of a single value."""
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None


def _mean(side: Sequence[Rows], score: Score) -> float:
    return float(np.mean([score(rows) for rows in side]))


def _middle(drawn: Sequence[float]) -> Interval:
    return Interval(*np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist())
