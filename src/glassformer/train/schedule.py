"""Schedules: the share of the full learning rate at every step, so that resuming needs no more than the step's number.

Step 0 is the first update. Where there is a warm-up it has the rate 0, as in `transformers`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

ScheduleName = Literal["linear", "cosine", "inverse_sqrt", "constant", "plateau"]
UNWARMED = 10_000  # steps: the time scale of inverse_sqrt where no warm-up gives one
PLATEAU_SHRINK, PLATEAU_PATIENCE, PLATEAU_THRESHOLD = 0.5, 2, 1e-4


@dataclass(frozen=True)
class Span:
    """The steps of a run: how many warm up, how many there are, and the share of the rate left at their end."""

    warmup: int
    total: int
    final: float

    def progress(self, step: int) -> float:
        """From 0 after the warm-up to 1 at the end, where it stays."""
        return min(1.0, (step - self.warmup) / max(1, self.total - self.warmup))


def linear(step: int, span: Span) -> float:
    """Straight down to the final share."""
    return span.final + (1 - span.final) * (1 - span.progress(step))


def cosine(step: int, span: Span) -> float:
    """Down to the final share along half a cosine."""
    return span.final + (1 - span.final) * 0.5 * (1 + math.cos(math.pi * span.progress(step)))


def inverse_sqrt(step: int, span: Span) -> float:
    """Down as 1/√step, the 2017 paper's; the full rate is reached when the warm-up ends, as in fairseq."""
    scale = span.warmup or UNWARMED
    return math.sqrt(scale / (step - span.warmup + scale))


def constant(_step: int, _span: Span) -> float:
    """The full rate."""
    return 1.0


SHAPES: Mapping[str, Callable[[int, Span], float]] = {
    "linear": linear,
    "cosine": cosine,
    "inverse_sqrt": inverse_sqrt,
    "constant": constant,
}


class Rate:
    """The share of the full rate at a step: a pure function of it, but for "plateau", which hears the evaluations."""

    def __init__(
        self, name: ScheduleName, *, total: int, warmup: float = 0, final: float = 0.0, lower: bool = True
    ) -> None:
        """`warmup` counts steps, or below 1 is a share of all; `lower`: of the metric observed, less is better."""
        if name not in (*SHAPES, "plateau"):
            raise ValueError(f"there is no schedule {name!r}; choose one of {', '.join(SHAPES)}, plateau")
        if not 0 <= final <= 1:
            raise ValueError(f"the share of the rate left at the end lies between 0 and 1, not at {final}")
        self.name = name
        self.span = Span(warmup_steps(warmup, total), total, final)
        self.plateau = Plateau(lower=lower, floor=final) if name == "plateau" else None

    def __call__(self, step: int) -> float:
        if step < self.span.warmup:
            return step / self.span.warmup
        return SHAPES[self.name](step, self.span) if self.plateau is None else self.plateau.factor

    def observe(self, value: float) -> None:
        """Take note of an evaluation."""
        if self.plateau is not None:
            self.plateau.observe(value)

    def state(self) -> dict[str, Any]:
        """All that does not follow from the step: plain numbers."""
        return {} if self.plateau is None else self.plateau.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        if self.plateau is not None:
            self.plateau.restore(state)


class Plateau:
    """A factor that shrinks whenever the metric has not improved for more than `patience` evaluations in a row."""

    def __init__(
        self,
        *,
        lower: bool = True,
        shrink: float = PLATEAU_SHRINK,
        patience: int = PLATEAU_PATIENCE,
        threshold: float = PLATEAU_THRESHOLD,
        floor: float = 0.0,
    ) -> None:
        """`threshold`: the share of the best value by which a new one must be better to count."""
        self.lower, self.shrink, self.patience, self.threshold, self.floor = lower, shrink, patience, threshold, floor
        self.factor = 1.0
        self.best: float | None = None
        self.stale = 0

    def observe(self, value: float) -> None:
        if self._is_better(value):
            self.best, self.stale = value, 0
            return
        self.stale += 1
        if self.stale > self.patience:
            self.factor, self.stale = max(self.floor, self.factor * self.shrink), 0

    def _is_better(self, value: float) -> bool:
        if self.best is None:
            return not math.isnan(value)
        return value < self.best * (1 - self.threshold) if self.lower else value > self.best * (1 + self.threshold)

    def state(self) -> dict[str, Any]:
        return {"factor": self.factor, "best": self.best, "stale": self.stale}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.factor, self.best, self.stale = state["factor"], state["best"], state["stale"]


def warmup_steps(warmup: float, total: int) -> int:
    """A warm-up in steps, or as a share of all steps, rounded up."""
    if not (warmup >= 0 and math.isfinite(warmup)):
        raise ValueError(f"warmup must be 0 or more, not {warmup}: steps, or below 1 a share of all steps")
    if warmup < 1:
        return math.ceil(warmup * total)
    if warmup != int(warmup):
        raise ValueError(f"warmup={warmup} is neither a whole number of steps nor a share below 1")
    return int(warmup)
