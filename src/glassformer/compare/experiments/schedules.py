"""Schedules: the learning rate over the steps of a run, with and without a warm-up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

from glassformer.files.schema import Positive
from glassformer.train.schedule import ScheduleName
from glassformer.view.report import Text

from ..tuning import TunedExperiment


@dataclass(frozen=True, kw_only=True)
class Schedules(TunedExperiment):
    """Every shape of the learning rate, from its full value at once or after a warm-up."""

    name: ClassVar[str] = "schedules"
    question: ClassVar[Text] = Text(
        "Which course of the learning rate comes furthest in the same number of steps, and is a warm-up worth it?",
        "同样的步数内，学习率怎样变化走得最远？预热是否值得？",
    )

    warmup: Positive = 0.1  # steps, or below 1 a share of all

    def ways(self) -> Mapping[str, Mapping[str, Any]]:
        return {
            f"{name}{', warm-up' if warmup else ''}": {"schedule": name, "warmup": warmup}
            for name in get_args(ScheduleName)
            for warmup in (0.0, self.warmup)
        }

    def rates_of(self, contestant: str) -> Sequence[float]:
        del contestant  # the rate is the highest of every course
        return (5e-4, 2e-3) if self.model is None else (5e-5, 2e-4)
