"""A cell of an experiment: one contestant at one place of the grid, from one seed; and what became of it."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from glassformer.files import read_json, write_json

SPEC, RESULT, LOG, RUN = "cell.json", "result.json", "log.txt", "run"  # in the folder of a cell
State = Literal["waiting", "running", "done", "failed", "skipped"]
Place = Mapping[str, str | int | float]
"""Where a cell stands in the grid: {"examples": 1000}."""


def file_name(name: str) -> str:
    """A name as that of a file."""
    return re.sub(r"[^\w.+-]+", "-", name)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What is to be done: a run by a recipe, a measurement, or a measurement of what the run has trained.

    `recipe` holds the settings of gf.train but `out` and `seed`; `measure` names a module of compare/experiments with a
    function `measure(cell, folder)` that returns facts as JSON has them, or Scored. A cell with a `reason` is not
    carried out.
    """

    contestant: str
    seed: int = 0
    place: Place = field(default_factory=dict)
    recipe: Mapping[str, Any] | None = None
    budget: str | None = None  # of the training: see budget.py
    measure: str | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)  # of `measure`
    reason: str | None = None  # why it is skipped

    @property
    def name(self) -> str:
        """What its folder is called."""
        parts = [self.contestant, *(f"{axis}-{value}" for axis, value in self.place.items()), f"seed-{self.seed}"]
        return "_".join(map(file_name, parts))

    @property
    def title(self) -> str:
        place = ", ".join(f"{axis} {value}" for axis, value in self.place.items())
        return f"{self.contestant}{f' ({place})' if place else ''}, seed {self.seed}"

    def write(self, folder: Path) -> None:
        write_json(folder / SPEC, asdict(self))

    @classmethod
    def read(cls, folder: Path) -> Self:
        return cls(**read_json(folder / SPEC))

    def is_in(self, folder: Path) -> bool:
        """Whether the folder is this cell's."""
        return (folder / SPEC).is_file() and read_json(folder / SPEC) == json.loads(json.dumps(asdict(self)))


@dataclass(frozen=True, kw_only=True)
class CellResult:
    """What became of a cell: one line of results.jsonl.

    `cost`: parameters, train_seconds, core_seconds (of the processor, all cores together), peak_memory in bytes,
    texts_per_second when it is used. `facts` are those of `measure`.
    """

    contestant: str
    seed: int
    place: Place
    state: State
    folder: str  # beside results.jsonl
    metric: str | None = None  # the task's: "-" before the name for less is better
    scores: Mapping[str, Mapping[str, float]] = field(default_factory=dict)  # by split
    reports: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)  # by split and class
    cost: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    machine: str | None = None  # that it was carried out on

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """None where the cell has not come to its end."""
        path = folder / RESULT
        return cls(**read_json(path)) if path.is_file() else None

    def write(self, folder: Path) -> None:
        write_json(folder / RESULT, asdict(self))

    @property
    def split(self) -> str:
        """The split that counts: the test's, else dev."""
        return "test" if "test" in self.scores else "dev"
