"""The results of a grid, asked: scores and costs of a contestant over its seeds, and who is ahead of whom."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from glassformer.jobs.run_folder import EXAMPLES
from glassformer.tasks.metrics.examples import ExampleScores, read_examples
from glassformer.tasks.metrics.intervals import Interval

from .cell import RUN, CellResult
from .grid import CELLS
from .statistics import RESAMPLES, Difference, Rows, Score, bootstrap_mean, over_seeds, paired, spread

CORRELATIONS = ("mcc", "spearman", "pearson")
PERCENT = ("accuracy", "f1", "exact_match", "precision", "recall", "subset", "recall_at", *CORRELATIONS)
LOWER = ("loss", "perplexity", "bits_per_byte", "mse")  # scores of which less is better


class Summary(NamedTuple):
    """A score over seeds: mean, standard deviation (None of one), the single values."""

    mean: float
    deviation: float | None
    values: list[float]


@dataclass(frozen=True)
class Results:
    """The cells of an experiment that have ended, in the order of its grid, and the folder that holds them."""

    folder: Path
    cells: Sequence[CellResult]
    _examples: dict[str, ExampleScores | None] = field(default_factory=dict, repr=False)
    _intervals: dict[tuple[str, ...], Interval | None] = field(default_factory=dict, repr=False)
    score: str | None = None  # the one that counts, if it is another than the runs were judged by

    @property
    def done(self) -> list[CellResult]:
        return [one for one in self.cells if one.state == "done"]

    @property
    def contestants(self) -> list[str]:
        """Those with a cell that is done, in the order of the grid."""
        return list(dict.fromkeys(one.contestant for one in self.done))

    def places(self, axis: str) -> list[str | int | float]:
        """The values of an axis, in the order of the grid."""
        return list(dict.fromkeys(one.place[axis] for one in self.done if axis in one.place))

    def at(self, **place: object) -> "Results":
        """Those at one place of the grid."""
        fits = [one for one in self.cells if all(one.place.get(axis) == value for axis, value in place.items())]
        return replace(self, cells=fits)

    def by(self, score: str) -> "Results":
        """The same with another score that counts: BLEU, say, of runs that were judged by their loss."""
        return replace(self, score=score)

    def of(self, contestant: str) -> list[CellResult]:
        """The cells of a contestant that are done."""
        return [one for one in self.done if one.contestant == contestant]

    @cached_property
    def metric(self) -> str:
        """The score that counts: by default that of the task, which all share."""
        if self.score is not None:
            return self.score
        named = [one.metric for one in self.done if one.metric is not None]
        return named[0].removeprefix("-") if named else "loss"

    @property
    def lower_is_better(self) -> bool:
        return is_lower_better(self.metric)

    def summary(self, contestant: str, score: str | None = None) -> Summary | None:
        """A score on the split that counts; None where no cell has it."""
        name = score or self.metric
        found = [one.scores.get(one.split, {}).get(name) for one in self.of(contestant)]
        return summarised(value for value in found if value is not None)

    def cost(self, contestant: str, name: str) -> Summary | None:
        """Something of what the cells cost."""
        return summarised(one.cost[name] for one in self.of(contestant) if name in one.cost)

    def fact(self, contestant: str, name: str) -> Summary | None:
        """A number that was measured."""
        return summarised(one.facts[name] for one in self.of(contestant) if name in one.facts)

    @property
    def chosen_on_dev(self) -> bool:
        """Whether all were scored on a test too, so that the best one is chosen on dev."""
        return all({"dev", "test"} <= one.scores.keys() for one in self.done)

    def best(self, among: Iterable[str] | None = None) -> str | None:
        """Who has the best mean: on dev where there is a test, so that the test stays unseen. Those who have lost a
        seed do not count, unless all have."""
        names = list(among or self.contestants)
        names = [name for name in names if not self.lost(name)] or names
        found = {name: self._mean_of(name, "dev" if self.chosen_on_dev else None) for name in names}
        known = {name: mean for name, mean in found.items() if mean is not None}
        return (min if self.lower_is_better else max)(known, key=lambda name: known[name]) if known else None

    def against_best(self) -> list[tuple[str, str]]:
        """The best, paired with each of the others."""
        best = self.best()
        return [(best, one) for one in self.contestants if one != best] if best is not None else []

    def _mean_of(self, contestant: str, split: str | None) -> float | None:
        values = [one.scores.get(split or one.split, {}).get(self.metric) for one in self.of(contestant)]
        mean = summarised(value for value in values if value is not None)
        return None if mean is None else mean.mean

    def lost(self, contestant: str) -> int:
        """How many of a contestant's cells have failed."""
        return sum(one.contestant == contestant and one.state == "failed" for one in self.cells)

    @property
    def split(self) -> str:
        """What is shown: the test's scores, or dev's."""
        return next((one.split for one in self.done if one.scores), "test")

    def run_folder(self, result: CellResult) -> Path:
        """The folder of what a cell has trained."""
        return self.folder / CELLS / result.folder / RUN

    def examples(self, result: CellResult) -> ExampleScores | None:
        """The scores of each example of the split that counts, if the cell or its run has kept them one for one."""
        if result.folder not in self._examples:
            own = self.folder / CELLS / result.folder / EXAMPLES
            path = own if own.is_file() else self.run_folder(result) / EXAMPLES
            found = read_examples(path).get(result.split) if path.is_file() else None
            self._examples[result.folder] = found if found is not None and found.in_order else None
        return self._examples[result.folder]

    def interval(self, contestant: str, score: str | None = None) -> Interval | None:
        """95 % of what the mean over seeds would be on other examples and seeds, by the bootstrap."""
        cells, name = self.of(contestant), score or self.metric
        key = (name, *(cell.folder for cell in cells))
        if key not in self._intervals:
            found = self._rows(cells, name)
            self._intervals[key] = None if found is None else within_scale(name, bootstrap_mean(*found))
        return self._intervals[key]

    def difference(
        self, one: str, other: str, score: str | None = None, *, resamples: int = RESAMPLES
    ) -> Difference | None:
        """How far `one` is above `other`: paired over examples where all runs were scored on the same ones."""
        name = score or self.metric
        sides = self.of(one), self.of(other)
        if not all(sides):
            return None
        both = self._rows([*sides[0], *sides[1]], name)
        if both is not None:
            rows, score_of = both
            found = paired(rows[: len(sides[0])], rows[len(sides[0]) :], score_of, resamples=resamples)
            trained = any("train_seconds" in cell.cost for cell in (*sides[0], *sides[1]))
            return found if trained else found._replace(one_seed=False)  # without training all seeds are the same
        means = [self.summary(side, name) for side in (one, other)]
        return None if means[0] is None or means[1] is None else over_seeds(means[0].values, means[1].values)

    def _rows(self, cells: Sequence[CellResult], score: str) -> tuple[list[Rows], Score] | None:
        """The rows of each cell and what scores them; None unless all were scored on the same examples."""
        kept = [self.examples(cell) for cell in cells]
        known = [one for one in kept if one is not None and score in one.scores()]
        alike = {(one.data, one.rows_of(score).shape) for one in known}
        if not known or len(known) < len(cells) or len(alike) > 1:
            return None
        return [one.exchangeable_rows(score) for one in known], known[0].scorer(score)


def summarised(values: Iterable[float]) -> Summary | None:
    listed = [float(value) for value in values]
    return Summary(*spread(listed), listed) if listed else None


def is_lower_better(score: str) -> bool:
    return score.startswith(LOWER) or score.endswith(("_loss", "perplexity"))


def within_scale(name: str, ends: Interval) -> Interval:
    """An interval, no wider than the scale of its score: with few seeds Student's t knows nothing of 0 and 100 %."""
    if as_shown(name, 1.0) == 1.0:
        return ends
    least = -1.0 if name.startswith(CORRELATIONS) else 0.0
    return Interval(max(least, ends.low), min(1.0, ends.high))


def as_shown(name: str, value: float) -> float:
    """A score on the scale that people write it in: shares as percent."""
    return 100 * value if name.startswith(PERCENT) or name.endswith(("_f1", "accuracy")) else value


def shown_score(name: str, value: float) -> str:
    shown = as_shown(name, value)
    return f"{shown:.4g}" if shown == value else f"{shown:.1f}"
