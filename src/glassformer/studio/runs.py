"""Run folders: a table of them, and the rows of one run's metrics as they are written."""

import json
import math
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Query

from glassformer.files import read_json
from glassformer.jobs.recipe import RECIPE, read_recipe
from glassformer.train.checkpoint import BETWEEN, found

from .desk import Missing, Studio

METRICS, RESULT = "metrics.jsonl", "run.json"
QUIET = 60.0  # seconds without a line, or as long as five lines usually take: then nobody is training any more
JUDGED_BY = {"text-classification": "accuracy", "token-classification": "f1", "question-answering": "f1"}
JUDGED_BY |= {"sentence-similarity": "spearman"}
DEEP = ("*", "*/*")  # where run folders are looked for, below the one that is named


def router(studio: Studio) -> APIRouter:
    routes = APIRouter()

    @routes.get("/runs")
    def table() -> dict[str, Any]:
        entries = [entry(name, folder) for name, folder in run_folders(studio).items()]
        return {"folder": str(studio.runs), "runs": sorted(entries, key=lambda one: -one["changed"])}

    @routes.get("/runs/{name:path}/metrics")
    def metrics(name: str, after: int = Query(0, ge=0)) -> dict[str, Any]:
        """The rows from `after` on; all of them where there are fewer, for then the run was begun again."""
        folders = run_folders(studio)
        if name not in folders:
            raise Missing(f"there is no run {name!r} in {studio.runs}; there are: {', '.join(folders) or 'none'}")
        rows = rows_of(folders[name])
        first = after if after <= len(rows) else 0
        return {"first": first, "rows": rows[first:], "state": state_of(folders[name])}

    return routes


def run_folders(studio: Studio) -> dict[str, Path]:
    """Runs by name: those in the studio's folder of runs, and models of the shelf that are runs themselves."""
    root = studio.runs.resolve()
    files = [path for deep in DEEP for name in (RECIPE, METRICS) for path in studio.runs.glob(f"{deep}/{name}")]
    folders = {str(path.parent.relative_to(studio.runs)): path.parent for path in sorted(files)}
    folders = {name: folder for name, folder in folders.items() if folder.resolve().is_relative_to(root)}
    known = {folder.resolve() for folder in folders.values()}
    for name, folder in studio.shelf.folders.items():
        if (folder / METRICS).is_file() and folder.resolve() not in known:
            folders.setdefault(name, folder)
    return folders


def entry(name: str, folder: Path) -> dict[str, Any]:
    """One run of the table: what it is, how far it is, and how good."""
    recipe, rows, over = _recipe(folder), rows_of(folder), read_json(folder / RESULT)
    last: dict[str, Any] = rows[-1] if rows else {}
    losses = [row["loss"] for row in rows if "loss" in row]
    return {
        "name": name,
        "task": recipe.get("task"),
        "model": recipe.get("model") or recipe.get("arch"),
        "step": last.get("step", 0),
        "steps": over.get("progress", {}).get("step") or recipe.get("steps"),
        "epoch": last.get("epoch"),
        "epochs": recipe.get("epochs"),
        "state": state_of(folder),
        "best": best_of(rows, metric_of(recipe, rows)),
        "loss": losses[-1] if losses else None,
        "changed": changed(folder),
        "folder": str(folder),
    }


def _recipe(folder: Path) -> dict[str, Any]:
    try:
        return read_recipe(folder / RECIPE)
    except ValueError:  # written by hand, or by some other program: the curves can be shown all the same
        return {}


def metric_of(recipe: dict[str, Any], rows: list[dict[str, Any]]) -> str | None:
    """The score that a run is judged by, "-" before it where less is better; None before the first one is known."""
    known = {name.removeprefix("dev_") for row in rows for name in row if name.startswith("dev_")}
    wanted = (recipe.get("metric"), JUDGED_BY.get(recipe.get("task", "")), "bleu", "exact_match", "-loss")
    return next((one for one in wanted if one and one.removeprefix("-") in known), None)


def best_of(rows: list[dict[str, Any]], metric: str | None) -> dict[str, Any] | None:
    """The best score of a run so far, and the step it was reached at."""
    if metric is None:
        return None
    name, less = f"dev_{metric.removeprefix('-')}", metric.startswith("-")
    scored = [row for row in rows if row.get(name) is not None]
    if not scored:
        return None
    row = min(scored, key=lambda one: one[name] if less else -one[name])
    return {"metric": name, "value": row[name], "step": row.get("step")}


def state_of(folder: Path) -> str:
    """ "done", "running" or "stopped": a run that was killed says nothing, so a long silence counts as a stop."""
    begun, wrote, result = (_when(folder / name) for name in (RECIPE, METRICS, RESULT))
    if result and result >= wrote:
        return "done"
    if any(_when(path) >= wrote for path in found(folder, BETWEEN)):
        return "stopped"
    usual = max(0.0, wrote - begun) / max(1, len(rows_of(folder)))
    return "running" if time.time() - changed(folder) < max(QUIET, 5 * usual) else "stopped"


def changed(folder: Path) -> float:
    """When a run was last heard of."""
    return max(_when(folder / name) for name in (RECIPE, METRICS, RESULT))


def _when(path: Path) -> float:
    return path.stat().st_mtime if path.is_file() else 0.0


def last_step(folder: Path) -> int:
    """How far a run is."""
    rows = rows_of(folder)
    return int(rows[-1].get("step", 0)) if rows else 0


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """The rows of a run's metrics; a line that is still being written is not one yet."""
    path = folder / METRICS
    if not path.is_file():
        return []
    about = path.stat()
    return _rows(path, about.st_mtime_ns, about.st_size)


@lru_cache(maxsize=256)
def _rows(path: Path, _mtime: int, _size: int) -> list[dict[str, Any]]:
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
    return [_row(line) for line in lines]


def _row(line: str) -> dict[str, Any]:
    """A line's numbers; of a broken one there are none, but it keeps its place."""
    try:
        values = json.loads(line)
    except ValueError:
        return {}
    if not isinstance(values, dict):
        return {}
    return {name: value for name, value in values.items() if isinstance(value, int | float) and math.isfinite(value)}
