"""`glassformer predict --data … --out …`: many files predicted into a folder, on this machine or on a Ray cluster."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

import typer

from .output import echo_line, print_json

if TYPE_CHECKING:
    from glassformer.data.row_files import RowFormat
    from glassformer.jobs.pools import Pool
    from glassformer.jobs.predict_files import PredictOutcome
    from glassformer.jobs.predictor import PredictorSpec

READING = ("file_format", "header")


@dataclass(frozen=True, kw_only=True)
class FilesToPredict:
    """What was asked for on the command line."""

    data: list[str]
    out: Path
    columns: Mapping[str, str] | None
    form: str | None  # of the outputs; None: as the files are
    guard: bool
    jobs: int | None
    ray: bool
    json: bool


def predict_batch(batch: FilesToPredict, spec: "PredictorSpec") -> None:
    """Predict files into a folder; exit code 1 where some of them, or all rows, could not be."""
    from glassformer.data.input_rows import RowReport
    from glassformer.data.row_files import RowFormat
    from glassformer.jobs.predict_files import Reading, predict_files
    from glassformer.jobs.progress import clock, shown
    from glassformer.jobs.shard_folder import ShardFolder, input_files
    from glassformer.jobs.tasks import task_class

    if batch.form is not None and batch.form not in get_args(RowFormat):
        raise ValueError(f"--format {batch.form} is no file of rows: with --out use {', '.join(get_args(RowFormat))}")
    reading_options = {name: value for name, value in spec.options.items() if name in READING}
    options = {name: value for name, value in spec.options.items() if name not in READING}
    spec = _with(spec, options)
    reading = Reading(
        wanted=task_class(spec.task).input_columns,
        columns=batch.columns,
        options=reading_options,
        guard=batch.guard,
    )
    files = input_files(batch.data, cast("RowFormat | None", batch.form))
    folder, report, began = ShardFolder(batch.out, _settings(batch, spec, reading_options)), RowReport(), time.time()
    with folder.claimed(), shown("predicting") as on_progress:
        outcome = predict_files(
            files, folder, reading, lambda: _pool(batch, spec), report=report, on_progress=on_progress
        )
    for line in report.lines()[1:]:
        echo_line(line, err=True)
    for name, reason in outcome.failed.items():
        echo_line(f"error: {reason if name in reason else f'{name}: {reason}'}", err=True)
    seconds = time.time() - began
    if batch.json:
        print_json({**_counts(outcome), "seconds": round(seconds, 2), "out": str(batch.out)})
    else:
        echo_line(f"{_summary(outcome)} in {clock(seconds)}, into {batch.out}")
    if outcome.failed or (outcome.rows and outcome.errors == outcome.rows):
        raise typer.Exit(1)


def _with(spec: "PredictorSpec", options: Mapping[str, object]) -> "PredictorSpec":
    from dataclasses import replace

    from glassformer.jobs.predictor import as_people_read

    return replace(spec, options=as_people_read(spec.task, options))


def _pool(batch: FilesToPredict, spec: "PredictorSpec") -> "Pool":
    from dataclasses import replace

    from glassformer.jobs.pools import LocalPool, ProcessPool
    from glassformer.jobs.ray_pool import RayPool

    if batch.ray:
        return RayPool(spec, jobs=batch.jobs)
    if not batch.jobs:
        return LocalPool(spec)
    return ProcessPool(replace(spec, threads=max(1, (os.cpu_count() or 1) // batch.jobs)), jobs=batch.jobs)


def _settings(batch: FilesToPredict, spec: "PredictorSpec", reading: Mapping[str, object]) -> dict[str, Any]:
    """What decides the outputs: where it differs, a folder is another run's."""
    from glassformer.jobs.shard_folder import model_identity

    return {
        "model": spec.model,
        "model_files": model_identity(spec.model),
        "task": spec.task,
        "columns": dict(batch.columns or {}),
        "options": {**spec.options, **reading},
        "dtype": spec.dtype,
        "quant": spec.quant,
        "format": batch.form,
    }


def _counts(outcome: "PredictOutcome") -> dict[str, Any]:
    return {
        "files": outcome.files,
        "files_kept": outcome.kept,
        "files_failed": len(outcome.failed),
        "rows": outcome.rows,
        "rows_with_error": outcome.errors,
        "first_error": outcome.first_error,
    }


def _summary(outcome: "PredictOutcome") -> str:
    kept = f", {outcome.kept} of them finished before" if outcome.kept else ""
    wrong = f", {outcome.errors:,} with an error" if outcome.errors else ""
    first = f" (the first: {outcome.first_error})" if outcome.first_error else ""
    done = outcome.files - len(outcome.failed)
    return f"{done} of {outcome.files} files{kept}; {outcome.rows:,} rows{wrong}{first}"
