"""Whether one contestant is ahead of another: paired tests over the same examples, and over seeds.

S seeds, N examples, F numbers that describe one of them.
"""

from collections.abc import Callable, Sequence
from math import atan, hypot, pi, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glassformer.tasks.metrics.intervals import Interval

Rows = NDArray[Any]
Score = Callable[[Rows], float]
RESAMPLES = 2000
LEVEL = 0.95


class Difference(NamedTuple):
    """How far one is ahead of another: the difference of the means, its 95 % interval, and how likely so much is by
    chance (two-sided). p is None where there is nothing to tell chance by. With `one_seed` of a contestant the interval
    knows nothing of other seeds: two runs are compared, not two kinds of model."""

    ahead: float
    interval: Interval | None
    p: float | None
    one_seed: bool = False

    @property
    def is_shown(self) -> bool:
        """Whether chance is an unlikely explanation: neither that of the examples (p), nor with it that of the seeds
        (the interval)."""
        ends = self.interval
        clear = self.p is not None and self.p < 1 - LEVEL and ends is not None and not ends.low <= 0 <= ends.high
        return clear and not self.one_seed


def paired(
    one: Sequence[Rows], other: Sequence[Rows], score: Score, *, resamples: int = RESAMPLES, seed: int = 0
) -> Difference:
    """Two contestants on the same N examples: the rows (N, F) of each seed, and the score of any set of rows.

    The interval joins two doubts: a bootstrap's over examples (the same ones for both), and Student's over seeds. p is
    that of a permutation test: the share of random exchanges of the two contestants, example by example, that put one
    as far ahead or further.
    """
    counts = {len(rows) for rows in (*one, *other)}
    if len(counts) != 1 or 0 in counts:
        raise ValueError(f"only scores of the same examples can be paired, not of {sorted(counts)} examples")
    (count,) = counts
    random = np.random.default_rng(seed)
    scores = [[score(rows) for rows in side] for side in (one, other)]
    ahead = float(np.mean(scores[0]) - np.mean(scores[1]))
    drawn = []
    for _ in range(resamples):
        examples = random.integers(count, size=count)
        drawn.append(_mean([rows[examples] for rows in one], score) - _mean([rows[examples] for rows in other], score))
    interval = _widened(_middle(drawn), ahead, _reach(*scores))
    p = _permutation_p(one, other, score, random, resamples)
    return Difference(ahead, interval, p, one_seed=min(len(one), len(other)) == 1)


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
    """95 % of what the mean score over seeds would be from other examples and, if there are several, other seeds."""
    random, count = np.random.default_rng(seed), len(side[0])
    scores = [score(rows) for rows in side]
    drawn = []
    for _ in range(resamples):
        examples = random.integers(count, size=count)
        drawn.append(_mean([rows[examples] for rows in side], score))
    return _widened(_middle(drawn), float(np.mean(scores)), _reach(scores))


def over_seeds(one: Sequence[float], other: Sequence[float]) -> Difference:
    """Two contestants by the scores of their seeds alone: Welch's test of the means."""
    ahead = float(np.mean(one) - np.mean(other))
    if len(one) < 2 or len(other) < 2:
        return Difference(ahead, None, None, one_seed=True)
    error, freedom = _welch(one, other)
    p = student_p(ahead / error, freedom) if error else float(ahead == 0)
    return Difference(ahead, _widened(Interval(ahead, ahead), ahead, _reach(one, other)), p)


def _welch(*sides: Sequence[float]) -> tuple[float, float]:
    """The standard error of a mean, or of the difference of two, and its degrees of freedom."""
    parts = [float(np.var(side, ddof=1)) / len(side) for side in sides]
    weighed = sum(part**2 / (len(side) - 1) for part, side in zip(parts, sides, strict=True))
    return sqrt(sum(parts)), sum(parts) ** 2 / weighed if weighed else 1.0


def _reach(*sides: Sequence[float]) -> float:
    """How far other seeds may move a mean, or the difference of two: half of Student's 95 % interval."""
    several = [side for side in sides if len(side) > 1]
    if not several:
        return 0.0
    error, freedom = _welch(*several)
    return error * student_quantile(freedom)


def _widened(ends: Interval, middle: float, reach: float) -> Interval:
    """An interval over examples, widened by the doubt of the seeds, which is independent of it."""
    return Interval(middle - hypot(middle - ends.low, reach), middle + hypot(ends.high - middle, reach))


def student_p(t: float, freedom: float) -> float:
    """How likely Student's t is as far from 0, or further; of θ, where t = √freedom · tan θ, the density is
    cos^(freedom-1) θ."""
    edge = atan(abs(t) / sqrt(freedom))
    tail, whole = (np.linspace(start, pi / 2, 4001) for start in (edge, 0.0))
    areas = [np.trapezoid(np.cos(angles) ** (freedom - 1), angles) for angles in (tail, whole)]
    return float(areas[0] / areas[1])


def student_quantile(freedom: float, level: float = LEVEL) -> float:
    """The t that lies beyond chance at a level (two-sided), by bisection."""
    low, high = 0.0, 1e4
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student_p(middle, freedom) > 1 - level else (low, middle)
    return high


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
