"""The score sheet of a split: metrics under the names that they are reported by."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import numpy as np

from glassformer.models.contract import Model
from glassformer.tasks.batch import Batch
from glassformer.tasks.metrics.intervals import Interval
from glassformer.tasks.metrics.metric import Array, DeferredMetric, Metric

V = TypeVar("V")
Update = Callable[[Model, Batch], None]  # of the sheet's metrics, from what a model makes of a batch


@dataclass(frozen=True)
class Meter:
    """A metric, and how the sheet names its scores; with `only`, some of them and no report."""

    metric: Metric | DeferredMetric
    prefix: str = ""
    suffix: str = ""
    only: tuple[str, ...] = ()

    def named(self, values: Mapping[str, V]) -> dict[str, V]:
        chosen = self.only or tuple(values)
        return {f"{self.prefix}{name}{self.suffix}": value for name, value in values.items() if name in chosen}


class ScoreSheet:
    """Filled batch by batch by a task's `update`; sheets of several processes travel without it, and merge."""

    def __init__(self, update: Update, **meters: Metric | DeferredMetric | Meter) -> None:
        self._update: Update | None = update
        self.meters = {name: one if isinstance(one, Meter) else Meter(one) for name, one in meters.items()}
        self.order: list[int] = []  # the numbers of the examples, as they came

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_update": None}  # scores travel, models and tokenizers do not

    def update(self, model: Model, batch: Batch) -> None:
        assert self._update is not None
        self._update(model, batch)

    def merge(self, other: Self) -> None:
        """Count what another sheet of the same task has counted, too."""
        self.order += other.order
        for name, meter in other.meters.items():
            self.meters[name].metric.merge(meter.metric)  # type: ignore[arg-type] # both sheets are of one task

    def compute(self) -> dict[str, float]:
        """Every score by its name."""
        return {name: value for one in self._filled() for name, value in one.named(one.metric.compute()).items()}

    def intervals(self) -> dict[str, Interval]:
        """95 % intervals of some of the scores, where the sheet was made with keep_examples."""
        return {name: value for one in self._filled() for name, value in one.named(one.metric.intervals()).items()}

    def report(self) -> dict[str, dict[str, float]]:
        """Scores of each class or type by itself; empty where there is none."""
        return {name: row for one in self._filled() if not one.only for name, row in one.metric.report().items()}

    def signatures(self) -> dict[str, str]:
        """How scores were made, in the words of the library that made them."""
        return {name: text for one in self._filled() for name, text in one.named(one.metric.signatures()).items()}

    def _filled(self) -> Iterator[Meter]:
        """The meters that have something to say; where none has, all, to say that there is nothing."""
        meters = self.meters.values()
        empty = not any(one.metric.count for one in meters)
        return (one for one in meters if empty or one.metric.count)


class MeanLoss(Metric):
    """The loss a target, without an interval."""

    def __init__(self) -> None:
        super().__init__(np.zeros(2), keep_examples=False)  # loss, targets

    def update(self, loss: float, count: int) -> None:
        """The sum over `count` targets."""
        self._add(np.array([[loss, count]], np.float64))

    def intervals(self, **_: object) -> dict[str, Interval]:
        return {}

    def _scores(self, total: Array) -> dict[str, float]:
        return {"loss": float(total[0] / max(1, total[1]))}
