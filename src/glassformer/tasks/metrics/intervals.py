"""How sure a score is: the bootstrap for any score of examples, and Wilson's interval for a share.

N examples, each a row of numbers.
"""

from collections.abc import Callable, Mapping
from math import sqrt
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Interval(NamedTuple):
    """The ends of an interval."""

    low: float
    high: float


def bootstrap(
    rows: NDArray[Any],
    scores: Callable[[NDArray[Any]], Mapping[str, float]],
    *,
    resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> dict[str, Interval]:
    """For every score, the middle `level` of what it is over N rows drawn with replacement, many times.

    The same rows give the same intervals in whatever order they come, so also from however many processes.
    """
    tails = _tails(level)
    if resamples < 1 or len(rows) == 0:
        raise ValueError(f"{resamples} resamples of {len(rows)} examples give no interval; both must be at least 1")
    table = np.reshape(rows, (len(rows), -1))
    rows = rows[np.lexsort(table.T)]
    random = np.random.default_rng(seed)
    found: dict[str, list[float]] = {}
    for _ in range(resamples):
        for name, score in scores(rows[random.integers(len(rows), size=len(rows))]).items():
            found.setdefault(name, []).append(score)
    return {name: Interval(*np.quantile(values, tails).tolist()) for name, values in found.items()}


def wilson(hits: int, count: int, *, level: float = 0.95) -> Interval:
    """Wilson's interval for a share of `count` examples: honest at 0 and 1, where a bootstrap sees no doubt at all."""
    if not 0 <= hits <= count or count == 0:
        raise ValueError(f"{hits} hits among {count} examples are no share; count both over the same examples")
    z = NormalDist().inv_cdf(_tails(level)[1])
    share, width = hits / count, z * z / count
    middle = (share + width / 2) / (1 + width)
    reach = sqrt(share * (1 - share) * width + width * width / 4) / (1 + width)
    return Interval(max(0.0, middle - reach), min(1.0, middle + reach))


def _tails(level: float) -> tuple[float, float]:
    if not 0 < level < 1:
        raise ValueError(f"level must be above 0 and below 1, such as 0.95, not {level}")
    return (1 - level) / 2, (1 + level) / 2
