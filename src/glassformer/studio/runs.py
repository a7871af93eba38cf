"""Run folders: a table of them, and the rows of one run's metrics as they are written."""

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Query

from glassformer.files import read_json
from glassformer.jobs.recipe import RECIPE, read_recipe
from glassformer.train.checkpoint import BETWEEN, found
from glassformer.web.safe import SafeJSONResponse

from .app_state import Missing, Studio
from .metrics import MetricsReader, followed

METRICS, RESULT = "metrics.jsonl", "run.json"
QUIET = 60.0  # seconds without a line, or as long as five lines usually take: then nobody is training any more
JUDGED_BY = {"text-classification": "accuracy", "token-classification": "f1", "question-answering": "f1"}
JUDGED_BY |= {"sentence-similarity": "spearman"}
DEEP = ("*", "*/*")  # where run folders are looked for, below the one that is named


def router(studio: Studio) -> APIRouter:
    routes = APIRouter()

    @routes.get("/runs")
    def table() -> SafeJSONResponse:
        entries = [entry(name, folder) for name, folder in run_folders(studio).items()]
        return SafeJSONResponse({"folder": str(studio.runs), "runs": sorted(entries, key=lambda one: -one["changed"])})

    @routes.get("/runs/{name:path}/metrics")
    def metrics(name: str, after: int = Query(0, ge=0)) -> SafeJSONResponse:
        """The rows from `after` on; all of them where there are fewer, for then the run was begun again."""
        folders = run_folders(studio)
        if name not in folders:
            raise Missing(f"there is no run {name!r} in {studio.runs}; there are: {', '.join(folders) or 'none'}")
        found = metrics_of(folders[name])
        first = after if after <= len(found) else 0
        return SafeJSONResponse({"first": first, "rows": found.rows(first), "state": state_of(folders[name])})

    return routes


def run_folders(studio: Studio) -> dict[str, Path]:
    """Runs by name: those in the studio's folder of runs, and models that are runs themselves."""
    root = studio.runs.resolve()
    files = [path for deep in DEEP for name in (RECIPE, METRICS) for path in studio.runs.glob(f"{deep}/{name}")]
    folders = {str(path.parent.relative_to(studio.runs)): path.parent for path in sorted(files)}
    folders = {name: folder for name, folder in folders.items() if folder.resolve().is_relative_to(root)}
    known = {folder.resolve() for folder in folders.values()}
    for name, folder in studio.models.folders.items():
        if (folder / METRICS).is_file() and folder.resolve() not in known:
            folders.setdefault(name, folder)
    return folders


def entry(name: str, folder: Path) -> dict[str, Any]:
    """One run of the table: what it is, how far it is, and how good."""
    recipe, metrics = _recipe(folder), metrics_of(folder)
    return {
        "name": name,
        "task": recipe.get("task"),
        "model": recipe.get("model") or recipe.get("arch"),
        "step": metrics.last.get("step", 0),
        "steps": _steps_done(folder) or recipe.get("steps"),
        "epoch": metrics.last.get("epoch"),
        "epochs": recipe.get("epochs"),
        "state": state_of(folder),
        "best": best_of(metrics, metric_of(recipe, metrics)),
        "loss": metrics.loss,
        "changed": changed(folder),
        "folder": str(folder),
    }


def _recipe(folder: Path) -> dict[str, Any]:
    try:
        values = read_recipe(folder / RECIPE)
    except ValueError:  # written by hand, or by some other program: the curves can be shown all the same
        return {}
    return {name: value for name, value in values.items() if isinstance(value, str | int | float)}


def _steps_done(folder: Path) -> Any:
    """How many steps a run has taken that is over; None of a file that somebody else wrote."""
    with suppress(ValueError):
        progress = read_json(folder / RESULT).get("progress")
        return progress.get("step") if isinstance(progress, dict) else None
    return None


def metric_of(recipe: dict[str, Any], metrics: MetricsReader) -> str | None:
    """The score that a run is judged by, "-" before it where less is better; None before the first one is known."""
    wanted = (recipe.get("metric"), JUDGED_BY.get(str(recipe.get("task"))), "bleu", "exact_match", "-loss")
    return next((one for one in wanted if isinstance(one, str) and dev_name(one) in metrics.least), None)


def best_of(metrics: MetricsReader, metric: str | None) -> dict[str, Any] | None:
    """The best score of a run so far, and the step it was reached at."""
    if metric is None:
        return None
    name = dev_name(metric)
    value, step = (metrics.least if metric.startswith("-") else metrics.greatest)[name]
    return {"metric": name, "value": value, "step": step}


def dev_name(metric: str) -> str:
    return f"dev_{metric.removeprefix('-')}"


def state_of(folder: Path) -> str:
    """ "done", "running" or "stopped": a run that was killed says nothing, so a long silence counts as a stop."""
    begun, wrote, result = (_when(folder / name) for name in (RECIPE, METRICS, RESULT))
    if result and result >= wrote:
        return "done"
    if any(_when(path) >= wrote for path in found(folder, BETWEEN)):
        return "stopped"
    usual = max(0.0, wrote - begun) / max(1, len(metrics_of(folder)))
    return "running" if time.time() - changed(folder) < max(QUIET, 5 * usual) else "stopped"


def changed(folder: Path) -> float:
    """When a run was last heard of."""
    return max(_when(folder / name) for name in (RECIPE, METRICS, RESULT))


def _when(path: Path) -> float:
    return path.stat().st_mtime if path.is_file() else 0.0


def metrics_of(folder: Path) -> MetricsReader:
    """What a run has written until now."""
    return followed(folder / METRICS).read_on()
