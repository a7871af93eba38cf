"""A budget of training, the same for every contestant: seconds, steps, tokens or epochs, as steps of a recipe."""

import re
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Self

import torch

from glassformer.hub.load import usable
from glassformer.jobs.assemble import assemble
from glassformer.jobs.progress import NullListener
from glassformer.jobs.recipe import Recipe, changed
from glassformer.train.loop import Fit, Progress
from glassformer.train.processes import local_device
from glassformer.train.update import schedule_of

UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
SIZES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "B": 10**9}
WRITTEN = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<size>[kMGB]?)\s*(?P<unit>steps?|tokens?|epochs?|s|min|m|h)")
EVALUATIONS = 10
TRIAL, WARM = 12, 4  # steps that are timed, after some that are not


class TrainingBudget(NamedTuple):
    """So much of one thing."""

    number: float
    unit: str  # seconds, steps, tokens or epochs

    @classmethod
    def of(cls, text: str) -> Self:
        """From "10m", "90s", "2h", "500 steps", "2M tokens" or "3 epochs"."""
        found = WRITTEN.fullmatch(text.strip())
        number = float(found["number"]) if found else 0.0
        if found is None or not number or (found["unit"] in UNITS and found["size"]):
            raise ValueError(
                f"the budget {text!r} is no length of training: write 10m, 90s, 500steps, 2Mtokens, 3epochs"
            )
        if found["unit"] in UNITS:
            return cls(number * UNITS[found["unit"]], "seconds")
        return cls(number * SIZES[found["size"]], found["unit"].removesuffix("s") + "s")

    def steps(self, settings: Mapping[str, object]) -> dict[str, Any]:
        """What a recipe must say to keep to it: its steps, or its epochs.

        Seconds and tokens are turned into steps by a trial of some steps that nothing is kept of, so that the schedule
        of the learning rate fits, and the run can be resumed and done again. Evaluations do not count.
        """
        if self.unit == "epochs":
            return {"epochs": self.number}
        if self.unit == "steps":
            if self.number < 1:
                raise ValueError(f"the budget of {self.number:g} steps is too small for one step")
            return _steps(round(self.number), settings)
        seconds, tokens = trial(settings) if self.unit == "seconds" else (0.0, tokens_a_step(settings))
        each = seconds if self.unit == "seconds" else tokens
        if self.number < each:
            raise ValueError(f"the budget of {self.number:g} {self.unit} is too small for one step, of {each:.3g}")
        return _steps(int(self.number / each), settings)


def _steps(count: int, settings: Mapping[str, object]) -> dict[str, Any]:
    """So many steps, scored ten times unless the recipe says how often: the best is kept, so a small set that is learnt
    by heart does no harm."""
    return {"steps": count, "eval_every": settings.get("eval_every", max(1, count // EVALUATIONS))}


def trial(settings: Mapping[str, object]) -> tuple[float, float]:
    """Seconds and tokens of a step of a recipe, by some steps that nothing is kept of."""
    with TemporaryDirectory() as folder:
        recipe = Recipe.of(changed(settings, {"steps": TRIAL + WARM, "out": folder}))
        splits, task, model, plan = assemble(recipe, device_named(recipe.device))
        clock = StepClock()
        items = task.encode(splits.train)
        Fit(model, task, plan, items, None, folder=Path(folder), save=lambda _: None, listener=clock).run()
    return clock.seconds / TRIAL, clock.tokens / TRIAL


def tokens_a_step(settings: Mapping[str, object]) -> float:
    """Tokens, without padding, of a batch on average."""
    with TemporaryDirectory() as folder:
        recipe = Recipe.of(changed(settings, {"steps": 1, "out": folder}))
        splits, task, _, plan = assemble(recipe, torch.device("cpu"))
        items = task.encode(splits.train)
    return float(items.lengths.sum()) / len(schedule_of(task, items, plan).epoch(0))


class StepClock(NullListener):
    """Times steps, those that warm up not counted."""

    seconds = tokens = 0.0

    def stepped(self, progress: Progress) -> None:
        if progress.step == WARM:
            self.start = progress.seconds, progress.tokens
        elif progress.step == WARM + TRIAL:
            self.seconds, self.tokens = progress.seconds - self.start[0], progress.tokens - self.start[1]


def device_named(name: str) -> torch.device:
    """The device of this process; "auto" is a GPU where there is one."""
    return torch.device(local_device(str(usable(name))))
