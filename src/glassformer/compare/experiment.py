"""An experiment: a question whose answer is a grid of cells and a report; and the one way that all of them are run."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from glassformer.compare import EXPERIMENTS
from glassformer.files import conform, read_toml, write_text
from glassformer.files.schema import Size, hints_of
from glassformer.jobs.data import Splits, examples_with_labels, read_splits
from glassformer.jobs.models import able, check_arch, check_model
from glassformer.jobs.recipe import Recipe, changed, write_toml
from glassformer.jobs.run_folder import locked
from glassformer.jobs.tasks import taken, task_class
from glassformer.view.report import Report, Section, Text

from .budget import TrainingBudget
from .cell import Cell, Place
from .cluster import RayExecutor
from .grid import Changed, Executor, InlineExecutor, ProcessExecutor, check_grid, run_grid
from .reporting import report_of, write_report
from .results import Results
from .slurm import SlurmExecutor

EXPERIMENT = "experiment.toml"
HEADER = "# An experiment, as glassformer wrote it down: glassformer compare THIS_FILE does it again.\n"


@dataclass(frozen=True, kw_only=True)
class Experiment(ABC):
    """The settings that all experiments have; each has its own beside them, and a question."""

    name: ClassVar[str]
    question: ClassVar[Text]

    out: str
    seeds: Size = 3  # so many of each cell: 0, 1, 2, …
    budget: str | None = None  # of training, for each cell: 10m, 500steps, 2Mtokens, 3epochs
    device: str = "auto"

    def __post_init__(self) -> None:
        hints = hints_of(type(self))
        for one in fields(self):
            conform(getattr(self, one.name), hints[one.name], one.name)
        if self.budget is not None:
            TrainingBudget.of(self.budget)
        if not self.out.strip():
            raise ValueError("out is empty, perhaps a variable that is not set: name the folder of the experiment")

    @abstractmethod
    def cells(self) -> list[Cell]:
        """The whole grid. Refused here: what no cell could do."""

    @abstractmethod
    def sections(self, results: Results) -> list[Section]:
        """What the report shows."""

    @abstractmethod
    def findings(self, results: Results) -> list[Text]:
        """The answer in sentences."""

    def prepare(self, cells: Sequence[Cell]) -> None:  # noqa: B027
        """Make what the cells share, in the folder of the experiment; most share nothing."""

    def each_seed(self, cell: Cell) -> list[Cell]:
        return [replace(cell, seed=seed) for seed in range(self.seeds)]

    def settings(self) -> dict[str, Any]:
        """What was set, as a TOML file has it."""
        values = {one.name: getattr(self, one.name) for one in fields(self) if getattr(self, one.name) != _default(one)}
        return {"experiment": self.name, **values}


@dataclass(frozen=True, kw_only=True)
class DataExperiment(Experiment):
    """An experiment on the user's data: every contestant is trained by a recipe on the same splits."""

    task: str = "text-classification"
    data: str | Sequence[str]
    dev: str | Sequence[str] | None = None
    test: str | Sequence[str] | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    set: Mapping[str, Any] = field(default_factory=dict)  # settings of every recipe: {"lr": 1e-3}

    def recipe(self, **settings: object) -> dict[str, Any]:
        """The settings of a contestant's recipe: what all share, and over it its own."""
        shared = {"task": self.task, "data": self.data, "dev": self.dev, "test": self.test, "device": self.device}
        known: dict[str, Any] = {name: value for name, value in shared.items() if value is not None}
        if self.columns:
            known["columns"] = dict(self.columns)
        return changed({**known, **settings}, self.set)

    def read(self) -> Splits:
        """The splits that all contestants share; see `checked_splits`."""
        return checked_splits({**self.recipe(arch=next(iter(able(task_class(self.task))))), "out": self.out})

    def train_cells(self, contestant: str, place: Place | None = None, **settings: object) -> list[Cell]:
        """The cells of a contestant, a seed each; skipped with the reason if its kind of model cannot do the task."""
        recipe = self.recipe(**settings)
        reason = unable(recipe)
        if reason is None:
            Recipe.of({**recipe, "out": self.out})  # what is wrong in it is wrong for all seeds
        return self.each_seed(
            Cell(contestant=contestant, place=place or {}, recipe=recipe, budget=self.budget, reason=reason)
        )


def checked_splits(settings: Mapping[str, object]) -> Splits:
    """The splits of a recipe. Refused: data that teaches nothing, classes that only dev or test has."""
    recipe = Recipe.of(settings)
    cls = task_class(recipe.task)
    splits = read_splits(recipe, cls)
    cls.spec_of_data(examples_with_labels(cls, splits), **taken(cls, recipe.options))
    if not cls.labels_of_all:
        seen = {label for one in splits.train for label in cls.labels_in(one)}
        for name, examples in (("dev", splits.dev), ("test", splits.test)):
            if unseen := sorted({label for one in examples for label in cls.labels_in(one)} - seen):
                listed = ", ".join(map(repr, unseen[:5]))
                raise ValueError(f"the {name} data has labels that no training example has: {listed}")
    return splits


def unable(recipe: Mapping[str, Any]) -> str | None:
    """Why a kind of model cannot do a task; None if it can."""
    task = task_class(recipe["task"])
    try:
        if recipe.get("model") is not None:
            check_model(recipe["model"], task)
        else:
            check_arch(str(recipe.get("arch")), task)
    except ValueError as error:
        return str(error)
    return None


def chosen(names: Sequence[str], known: Iterable[str]) -> list[str]:
    """The contestants that are asked for, by default all. Refused: one that there is not."""
    listed = list(known)
    if wrong := [one for one in names if one not in listed]:
        raise ValueError(f"there is no contestant {wrong[0]!r}; there are: {', '.join(listed)}")
    return list(names) or listed


def listed(given: str | Sequence[str] | None) -> list[str]:
    """One name, several or none, as a list."""
    return [] if given is None else [given] if isinstance(given, str) else list(given)


@dataclass(frozen=True)
class Comparison:
    """An experiment that has been carried out: its folder, its results and its report."""

    experiment: Experiment
    folder: Path
    results: Results
    report: Report


def compare(
    name: str,
    *,
    jobs: int = 1,
    ray: bool = False,
    slurm: str | Path | None = None,
    resume: bool = False,
    on_change: Changed | None = None,
    **settings: object,
) -> Comparison:
    """Carry out an experiment: compare("ladder", data="train.csv", out="out/ladder", seeds=3, budget="2m").

    `name` may also be a TOML file whose `experiment` names one; settings beside it replace those of the file. `jobs`
    cells run at once, each in a process of its own; 0 runs them in this one; `ray` runs them on a Ray cluster, `slurm`,
    the batch script of a cluster, as a job array. With `resume` an experiment goes on where
    it stopped: what is done stays, what has failed is tried again; settings that add cells (more seeds, sizes, a model)
    may be new, those that change a cell that is there are refused.
    """
    experiment = experiment_of(name, settings)
    cells = experiment.cells()
    if all(cell.reason for cell in cells):
        raise ValueError(f"no contestant can take part: {cells[0].contestant}: {cells[0].reason}")
    folder = Path(experiment.out)
    executor = executor_of(jobs, ray=ray, slurm=slurm)
    with _claimed(folder, experiment, cells, resume=resume):
        started = time.time()
        experiment.prepare(cells)
        results = Results(folder, run_grid(cells, folder, executor, on_change=on_change))
        return conclude(experiment, results, jobs=jobs, seconds=time.time() - started)


def conclude(experiment: Experiment, results: Results, *, jobs: int, seconds: float) -> Comparison:
    """Write the report of results."""
    report = report_of(experiment, results, jobs=jobs, seconds=seconds)
    write_report(results.folder, report)
    return Comparison(experiment, results.folder, results, report)


def experiment_class(name: str) -> type[Experiment]:
    if name not in EXPERIMENTS:
        near = get_close_matches(name, EXPERIMENTS, n=1)
        hint = f"did you mean {near[0]!r}? All: " if near else "there are: "
        raise ValueError(f"there is no experiment {name!r}; {hint}{', '.join(EXPERIMENTS)}")
    module = import_module(f"glassformer.compare.experiments.{name.replace('-', '_')}")
    return getattr(module, name.title().replace("-", ""))  # type: ignore[no-any-return]


def sorted_settings(name: str, given: Mapping[str, object], more: Mapping[str, object]) -> dict[str, Any]:
    """Settings of an experiment; of `more`, those that it does not have itself are settings of every run's recipe."""
    named = read_toml(Path(name)).get("experiment") if name.endswith(".toml") else name
    own = {one.name for one in fields(experiment_class(str(named)))}
    runs = {key: value for key, value in more.items() if key not in own}
    known = {key: value for key, value in {**given, **more}.items() if value is not None and key not in runs}
    return {**known, "set": runs} if runs else known


def experiment_of(name: str, settings: Mapping[str, object]) -> Experiment:
    """By its name and settings, or from a TOML file with some of them changed."""
    known: dict[str, Any] = {
        key: str(value) if isinstance(value, Path) else value for key, value in settings.items() if value is not None
    }
    if name.endswith(".toml"):
        values = read_toml(Path(name))
        conform(values.get("experiment"), str, name, "experiment")
        name = values.pop("experiment")
        if isinstance(values.get("set"), dict) and "set" in known:
            known["set"] = {**values["set"], **known["set"]}
        known = {**values, **known}
    cls = experiment_class(name)
    fitting = {one.name for one in fields(cls)}
    for key in known:
        if key not in fitting:
            near = get_close_matches(key, fitting, n=3)
            raise ValueError(f"{name} has no setting {key!r}; it has: {', '.join(near or sorted(fitting))}")
    if missing := [one.name for one in fields(cls) if _is_required(one) and one.name not in known]:
        raise ValueError(f"{name} needs {' and '.join(f'--{one}' for one in missing)}")
    return cls(**known)


def executor_of(jobs: int, *, ray: bool = False, slurm: str | Path | None = None) -> Executor:
    if ray and slurm is not None:
        raise ValueError("--ray and --slurm: cells are carried out by one of the two")
    if slurm is not None:
        return SlurmExecutor(Path(slurm))
    if ray:
        return RayExecutor()
    return ProcessExecutor(jobs) if jobs else InlineExecutor()


@contextmanager
def _claimed(folder: Path, experiment: Experiment, cells: Sequence[Cell], *, resume: bool) -> Iterator[None]:
    """The folder of an experiment, and nobody else's until its end."""
    path, text = folder / EXPERIMENT, HEADER + write_toml(experiment.settings())
    if path.is_file() and not resume:
        raise ValueError(f"{folder} holds an experiment: go on with --resume, or choose another --out")
    if path.is_file() and (before := read_toml(path).get("experiment")) != experiment.name:
        raise ValueError(f"{folder} holds the experiment {before!r}, not {experiment.name!r}: choose another --out")
    if not path.is_file() and folder.is_dir() and any(folder.iterdir()):
        raise ValueError(f"{folder} holds other files: choose another --out")
    check_grid(cells, folder)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        write_text(path, text)
        yield


def _default(one: Field[Any]) -> object:
    return one.default_factory() if callable(one.default_factory) else one.default


def _is_required(one: Field[Any]) -> bool:
    return one.default is MISSING and one.default_factory is MISSING
