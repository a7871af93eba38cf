"""Scores of numbers: correlation by value (Pearson) and by rank (Spearman), and squared error.

N examples, each a predicted and a gold number. Moments are (count, mean of each, spread of each about its mean, their
common spread, sum of squared errors), kept in float64 and joined without ever squaring a large mean.
"""

from math import sqrt

import numpy as np

from glassformer.tasks.metrics.metric import Array, Metric, Values, as_array

NO_SPREAD = 1e-13  # of the mean: what rounding leaves of a constant


class Correlation(Metric):
    """Pearson's and Spearman's correlation; 0 where either side is constant, as it then tells nothing.

    Ranks need every value: examples are kept (in float32) unless told otherwise, and without them there is no Spearman.
    """

    def __init__(self, *, keep_examples: bool = True) -> None:
        super().__init__(np.zeros(7), keep_examples=keep_examples)

    def update(self, predicted: Values, gold: Values) -> None:
        """Predicted and gold numbers, both (N,)."""
        pairs = np.stack([as_array(predicted), as_array(gold)], -1).astype(np.float64)
        for column, what in ((0, "prediction"), (1, "gold score")):
            self._expect_numbers(pairs[:, column], what)
        self._add(pairs)
        if self.rows is not None and len(pairs):
            self.rows[-1] = pairs.astype(np.float32)

    def compute(self) -> dict[str, float]:
        """Every score by its name."""
        by_value = super().compute()
        return by_value if self.rows is None else by_value | _by_rank(np.concatenate(self.rows))

    def _condense(self, rows: Array) -> Array:
        return _moments(rows)

    def _join(self, one: Array, other: Array) -> Array:
        count = one[0] + other[0]
        x, y = other[1:3] - one[1:3]
        share = other[0] / max(count, 1)
        between = one[0] * share * np.array([x * x, y * y, x * y])
        return np.concatenate(
            [[count], one[1:3] + share * np.array([x, y]), one[3:6] + other[3:6] + between, one[6:] + other[6:]]
        )

    def _scores(self, total: Array) -> dict[str, float]:
        return {"pearson": _pearson(total)}

    def scores_of(self, rows: Array) -> dict[str, float]:
        return super().scores_of(rows) | _by_rank(rows)

    def exchangeable(self, rows: Array, score: str) -> Array:
        """Predictions as ranks, or by Pearson's lights in units of their spread: correlations see no other scale."""
        predicted = rows[:, 0].astype(np.float64)
        if score == "spearman":
            predicted = _ranks(predicted)
        elif score == "pearson":
            predicted = (predicted - predicted.mean()) / (predicted.std() or 1.0)
        return np.stack([predicted, rows[:, 1]], -1)


class Regression(Correlation):
    """The correlations, and the mean squared error."""

    def _scores(self, total: Array) -> dict[str, float]:
        return {"mse": float(total[6] / total[0]), **super()._scores(total)}


def _moments(rows: Array) -> Array:
    rows = rows.astype(np.float64)
    mean = rows.mean(0)
    x, y = (rows - mean).T
    error = rows[:, 0] - rows[:, 1]
    return np.array([len(rows), *mean, x @ x, y @ y, x @ y, error @ error])


def _pearson(moments: Array) -> float:
    count, mean_x, mean_y, x, y, together = moments[:6].tolist()
    if any(sqrt(spread) <= NO_SPREAD * abs(mean) * sqrt(count) for spread, mean in ((x, mean_x), (y, mean_y))):
        return 0.0
    return float(np.clip(together / sqrt(x) / sqrt(y), -1, 1))


def _by_rank(pairs: Array) -> dict[str, float]:
    return {"spearman": _pearson(_moments(np.stack([_ranks(column) for column in pairs.T], -1)))}


def _ranks(values: Array) -> Array:
    """The rank of every value; equal values share the mean of theirs."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (counts.cumsum() - (counts - 1) / 2)[places]
