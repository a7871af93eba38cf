"""Carries out one cell: `python -m glassformer.compare.worker FOLDER` in a process of its own, or a call in this one.

Whatever happens is written down: a cell that fails is a result too.
"""

import os
import platform
import resource
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any

import torch

from glassformer.files import read_json, write_json
from glassformer.jobs.data import read_splits
from glassformer.jobs.predict import pipeline
from glassformer.jobs.recipe import Recipe
from glassformer.jobs.run_folder import RESULT as RUN_RESULT
from glassformer.jobs.tasks import task_class
from glassformer.jobs.train import run
from glassformer.tasks.running_text import RunningTextTask
from glassformer.train.signals import Terminated

from .budget import TrainingBudget, device_named
from .cell import RUN, Cell, CellResult, State
from .scoring import Scored

Log = Callable[[str], None]
PLANNED, COST = "planned.json", "cost.json"  # what a budget came to, and what broken attempts have cost
WARM, TIMED = 16, 256  # texts at most that are read to see how fast a model is, after some that are not timed


def carry_out(folder: Path, log: Log = print) -> CellResult:
    """Train and measure what a cell asks for, from where it stopped; the result is in the folder."""
    cell = Cell.read(folder)
    device = device_named(str((cell.recipe or cell.arguments).get("device", "auto")))
    clock = CostClock(folder, device)
    known: dict[str, Any] = {}
    state: State = "failed"
    error = None
    try:
        if cell.recipe is not None:
            known = _train(cell, folder, clock, log)
        if cell.measure is not None:
            module = import_module(f"glassformer.compare.experiments.{cell.measure}")
            found = module.measure(cell, folder)
            if isinstance(found, Scored):
                known |= {**vars(found), "cost": {**known.get("cost", {}), **found.cost}}
            else:
                known["facts"] = found
        state = "done"
    except (KeyboardInterrupt, Terminated):
        clock.keep()
        raise
    except Exception as problem:  # one red row, whatever it is
        log(traceback.format_exc())
        error = _in_one_line(problem)
    total = clock.total()
    cost = {**total, **known.pop("cost", {}), "wall_seconds": total["wall_seconds"]}
    result = CellResult(
        contestant=cell.contestant, seed=cell.seed, place=cell.place, state=state, folder=folder.name,
        error=error, machine=machine(device), cost=cost, **known,
    )  # fmt: skip
    with suppress(OSError):  # a disk that is full: whoever waits for the cell says so
        result.write(folder)
    return result


def _train(cell: Cell, folder: Path, clock: "CostClock", log: Log) -> dict[str, Any]:
    """The run of a cell: its scores and what it cost."""
    assert cell.recipe is not None
    recipe, found = train_run({**cell.recipe, "seed": cell.seed}, folder, budget=cell.budget, log=log)
    found["cost"] |= {**clock.total(), **speed(recipe)}
    return found


def train_run(
    settings: Mapping[str, object], folder: Path, *, budget: str | None, log: Log
) -> tuple[Recipe, dict[str, Any]]:
    """The run in FOLDER/run, begun or resumed unless it has ended: its recipe, and its scores and what it cost."""
    settings = {**settings, "out": str(folder / RUN)}
    recipe = Recipe.of({**settings, **planned(budget, folder, settings)})
    if not (folder / RUN / RUN_RESULT).is_file():
        resume = (folder / RUN / "recipe.toml").is_file()
        outcome = run(recipe, resume=resume, log=log).outcome
        if outcome.stopped:
            raise KeyboardInterrupt
    found = read_json(folder / RUN / RUN_RESULT)
    return recipe, {
        "metric": found["metric"],
        "scores": found["scores"],
        "reports": found["reports"],
        "cost": {
            "parameters": found["parameters"],
            "train_seconds": found["progress"]["seconds"],
            "steps": found["progress"]["step"],
            "tokens": found["progress"]["tokens"],
        },
    }


def planned(budget: str | None, folder: Path, settings: Mapping[str, object]) -> dict[str, Any]:
    """What a budget comes to for this recipe: found once, so that a resumed run keeps to it."""
    if budget is None:
        return {}
    if not (folder / PLANNED).is_file():
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / PLANNED, TrainingBudget.of(budget).steps(settings))
    return read_json(folder / PLANNED)


def speed(recipe: Recipe) -> dict[str, float]:
    """How many texts of test (or dev) a trained model answers in a second, in batches of like length; of running text
    there are none."""
    cls = task_class(recipe.task)
    if issubclass(cls, RunningTextTask):
        return {}
    splits = read_splits(recipe, cls)
    texts = splits.test or splits.dev or splits.train
    pipe = pipeline(recipe.task, recipe.out, device=recipe.device)
    pipe.score(texts[:WARM])
    begun = time.perf_counter()
    pipe.score(texts[:TIMED])
    return {"texts_per_second": len(texts[:TIMED]) / (time.perf_counter() - begun)}


class CostClock:
    """Processor seconds and the most memory of this process, and of attempts before it that were broken off; what a
    killed one has cost is not known."""

    def __init__(self, folder: Path, device: torch.device) -> None:
        self.path = folder / COST
        self.before = read_json(self.path) if self.path.is_file() else {}
        self.begun, self.wall = _core_seconds(), time.perf_counter()
        self.memory = PeakMemory(device)

    def total(self) -> dict[str, float]:
        return {
            "wall_seconds": self.before.get("wall_seconds", 0.0) + time.perf_counter() - self.wall,
            "core_seconds": self.before.get("core_seconds", 0.0) + _core_seconds() - self.begun,
            "peak_memory": max(self.before.get("peak_memory", 0.0), self.memory.peak()),
        }

    def keep(self) -> None:
        write_json(self.path, self.total())


def machine(device: torch.device) -> str:
    """What this runs on, in words."""
    gpu = f"{torch.cuda.get_device_name(device)}, " if device.type == "cuda" else ""
    return f"{gpu}{os.cpu_count()} cores ({platform.machine()}), torch {torch.__version__}"


def _core_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class PeakMemory:
    """The most bytes since it was made: on a GPU those of torch's allocator, else those of the process."""

    def __init__(self, device: torch.device) -> None:
        self.cuda = device.type == "cuda"
        if self.cuda:
            torch.cuda.reset_peak_memory_stats()
        else:
            with suppress(OSError):  # Linux forgets the highest mark; it would else be that of the process before
                Path("/proc/self/clear_refs").write_text("5", encoding="ascii")

    def peak(self) -> float:
        if self.cuda:
            return float(torch.cuda.max_memory_allocated())
        with suppress(OSError):
            marks = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text("utf-8").splitlines())
            return 1024.0 * int(marks["VmHWM"].split()[0])
        unit = 1 if sys.platform == "darwin" else 1024
        return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)


def _in_one_line(problem: Exception) -> str:
    text = " ".join(str(problem).split())[:500]
    return text if isinstance(problem, ValueError) and text else f"{type(problem).__name__}: {text}"


def _leave_with_parent() -> None:
    """End when the process that began this one does: it holds the other end of the standard input."""

    def wait() -> None:
        os.read(sys.stdin.fileno(), 1)  # not through its buffer, which the end of the program would wait for
        os._exit(1)

    Thread(target=wait, daemon=True).start()


def main() -> None:
    folder, threads = Path(sys.argv[1]), int(sys.argv[2])
    if threads:
        torch.set_num_threads(threads)
    _leave_with_parent()
    try:
        result = carry_out(folder, log=lambda text: print(text, flush=True))
    except (KeyboardInterrupt, Terminated):
        sys.exit("stopped before its end")
    sys.exit(0 if result.state == "done" else 1)


if __name__ == "__main__":
    main()
