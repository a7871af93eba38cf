"""What every metric is: a total over rows of numbers, one row an example.

N examples, F numbers that describe one of them.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from glassformer.tasks.metrics.intervals import Interval, bootstrap, wilson

Array = NDArray[Any]
Values = Tensor | Array | Sequence[float] | float


class Metric(ABC):
    """Takes examples batch by batch (`update`, which each metric has in its own way) and holds no more than a total.

    It is plain data: processes can pickle and gather their metrics and `merge` them, in any order, into what one
    process would have. With keep_examples it holds the rows as well, which `intervals` needs.
    """

    order: list[int] | None = None  # the number of each row's example, where it is not that of the sheet
    shares: tuple[str, ...] = ()  # scores that are a share of the examples: Wilson's interval fits them

    def __init__(self, total: Array, *, keep_examples: bool) -> None:
        self.count = 0
        self.total = total
        self.rows: list[Array] | None = [] if keep_examples else None

    def merge(self, other: Self) -> None:
        """Count what another metric of the same settings has counted, too."""
        if (self.rows is None) != (other.rows is None):
            raise ValueError("only one of these two metrics keeps its examples; give both the same keep_examples")
        self.count += other.count
        self.total = self._join(self.total, other.total)
        if self.rows is not None:
            self.rows += other.rows or []

    def compute(self) -> dict[str, float]:
        """Every score by its name."""
        self._expect_examples()
        return self._scores(self.total)

    def intervals(self, *, resamples: int = 1000, level: float = 0.95, seed: int = 0) -> dict[str, Interval]:
        """An interval for every score of `compute`: Wilson's for plain shares, the bootstrap's for the rest."""
        self._expect_examples()
        if self.rows is None:
            raise ValueError("intervals need the examples; make the metric with keep_examples=True")
        rows = np.concatenate(self.rows)
        found = bootstrap(rows, self.scores_of, resamples=resamples, level=level, seed=seed)
        computed = self.compute()
        for name in self.shares:
            found[name] = wilson(round(computed[name] * self.count), self.count, level=level)
        return {name: found[name] for name in computed if name in found}

    def report(self) -> dict[str, dict[str, float]]:
        """Scores of each class or type by itself; most metrics have none."""
        return {}

    def signatures(self) -> dict[str, str]:
        """How scores were made, in the words of the library that made them; most are made here."""
        return {}

    @abstractmethod
    def _scores(self, total: Array) -> dict[str, float]:
        """The scores of a total."""

    def _condense(self, rows: Array) -> Array:
        """The total (any shape) of some rows (N, F)."""
        return np.asarray(rows.sum(0, dtype=np.float64))

    def _join(self, one: Array, other: Array) -> Array:
        """The total of two sets of rows from the total of each."""
        return one + other

    def scores_of(self, rows: Array) -> dict[str, float]:
        """The scores that examples with these rows (N, F) have."""
        return self._scores(self._condense(rows))

    def exchangeable(self, rows: Array, score: str) -> Array:
        """The rows (N, F) on a scale that those of another model have too, so that examples of both can be exchanged;
        the score of all of them is the same."""
        del score
        return rows

    def _add(self, rows: Array) -> None:
        if len(rows) == 0:
            return
        self.count += len(rows)
        self.total = self._join(self.total, self._condense(rows))
        if self.rows is not None:
            self.rows.append(rows)

    def _expect_examples(self) -> None:
        if self.count == 0:
            raise ValueError("there is no score of no examples; update the metric with at least one")

    def _expect_numbers(self, values: Array, what: str) -> None:
        """Complain about a value that is not finite, naming the first example (axis 0) that has one."""
        wrong = ~np.isfinite(values)
        if wrong.any():
            example = np.argwhere(wrong)[0]
            raise ValueError(
                f"the {what} of example {self.count + example[0]} is {values[tuple(example)]}, which cannot be scored; "
                "look for what made it, or leave that example out"
            )


class DeferredMetric(ABC):
    """A metric of what is known only when all has come: it keeps what that takes, and `judge`s it when asked to."""

    count: int

    @abstractmethod
    def merge(self, other: Self) -> None:
        """Keep what another metric has kept, too."""

    @abstractmethod
    def judge(self) -> Metric:
        """The metric of all that was kept."""

    def compute(self) -> dict[str, float]:
        return self.judge().compute()

    def intervals(self) -> dict[str, Interval]:
        return self.judge().intervals()

    def report(self) -> dict[str, dict[str, float]]:
        return {}

    def signatures(self) -> dict[str, str]:
        return {}


def as_array(values: Values) -> Array:
    """Numbers from wherever they are, as an array of at least one dimension; those of a model become float64."""
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        values = (values.double() if values.is_floating_point() else values).numpy()
    return np.atleast_1d(np.asarray(values))


def f1_table(hits: Array, predicted: Array, gold: Array) -> Array:
    """Precision, recall and F1, stacked on a new last axis, from counts; 0 where there is nothing to divide by."""
    parts, wholes = np.stack([hits, hits, 2 * hits], -1), np.stack([predicted, gold, predicted + gold], -1)
    return np.asarray(parts / np.maximum(wholes, 1))  # a whole of 0 has a part of 0
