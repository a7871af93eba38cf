"""Labelled jobs that a pretrained model is judged by: files with their tasks, fine-tuned on, and their scores."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from glassformer.data.rows import EXTENSIONS
from glassformer.jobs.built_in import is_built_in
from glassformer.jobs.models import able
from glassformer.jobs.tasks import ALIASES, TASKS, task_class

from .cell import CellResult, file_name
from .experiment import checked_splits
from .results import Results

DOWNSTREAM = "downstream"  # in the folder of a cell: a folder for each job, with its run in it
JOBS = "jobs"  # the fact of a cell that holds what each job has come to
Jobs = dict[str, dict[str, Any]]
"""The settings of a recipe by the name of the job, but for the model."""


def jobs_of(
    files: Sequence[str], dev: Sequence[str], test: Sequence[str], *, out: str, columns: Mapping[str, str]
) -> Jobs:
    """The jobs that "FILE" or "TASK=FILE" name, with files of dev and test in the same order.

    Refused: a file that no task can be learnt from, and those of which only dev or test has a label.
    """
    for name, given in (("dev", dev), ("test", test)):
        if given and len(given) != len(files):
            raise ValueError(
                f"there are {len(given)} files of {name} and {len(files)} labelled jobs: give one for each"
            )
    if not files:
        raise ValueError("give at least one labelled job to fine-tune on: --downstream FILE")
    jobs = []
    for place, one in enumerate(files):
        task, path = _named(one)
        more = {name: given[place] for name, given in (("dev", dev), ("test", test)) if given}
        jobs.append(_checked({"data": path, **more, **({"columns": dict(columns)} if columns else {})}, task, out))
    return dict(zip(_names(jobs), jobs, strict=True))


def _names(jobs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of the files; with their folders where they are alike, as all of GLUE's are, or with their tasks."""
    paths = [Path(job["data"]) for job in jobs]
    ways = (
        [path.name for path in paths],
        ["/".join(path.parts[-2:]) for path in paths],
        [f"{path.name} ({job['task']})" for path, job in zip(paths, jobs, strict=True)],
    )
    for names in ways:
        if len(set(map(file_name, names))) == len(jobs):
            return names
    raise ValueError(f"two labelled jobs cannot be told apart by name: {', '.join(ways[-1])}")


def _named(job: str) -> tuple[str | None, str]:
    """The task, if one is named, and the file."""
    task, equals, path = job.partition("=")
    return (ALIASES.get(task, task), path) if equals and task in (*TASKS, *ALIASES) else (None, job)


def _checked(settings: dict[str, Any], task: str | None, out: str) -> dict[str, Any]:
    """The settings with their task: the one that is named, or else that which can read the file."""
    tasks = ["text-classification", "token-classification"]  # the second reads single words of the first's tables
    endings = {ending.lstrip(".") for ending in Path(settings["data"]).suffixes}
    if not endings & EXTENSIONS.keys() and not is_built_in([settings["data"]]):
        tasks.reverse()
    first: ValueError | None = None
    for one in tasks if task is None else [task]:
        known = {"task": one, **settings}
        try:
            checked_splits({**known, "arch": next(iter(able(task_class(one)))), "out": out})
        except ValueError as error:
            first = first or error
        else:
            return known
    raise first or AssertionError


def of_job(results: Results, job: str) -> Results:
    """The results of one job, its runs in the place of those that came before them."""
    return replace(results, cells=[_of_job(one, job) if one.state == "done" else one for one in results.cells])


def _of_job(result: CellResult, job: str) -> CellResult:
    return replace(result, folder=f"{result.folder}/{DOWNSTREAM}/{file_name(job)}", **result.facts[JOBS][job])
