"""`glassformer predict`: what a model says about texts, from the line, a file or stdin."""

import csv
import json as jsonlib
import sys
from dataclasses import asdict, is_dataclass
from enum import StrEnum
from itertools import islice
from typing import Annotated, Any

import typer

from .output import Columns, Device, Dtype, Name, Quant

ANSWERS = ("label", "tags", "answers", "target")  # what is to be predicted is no input
CHUNK = 1000  # inputs at a time: any file fits, and results come as they are made


class Format(StrEnum):
    """How results are written."""

    text = "text"
    csv = "csv"
    jsonl = "jsonl"


def predict(
    name: Name,
    texts: Annotated[list[str] | None, typer.Argument(help="Texts; without any, each line of --file or stdin.")] = None,
    file: Annotated[
        list[str] | None, typer.Option(help="Tables (csv, tsv, jsonl, …), or texts with an input on each line.")
    ] = None,
    columns: Columns = None,
    task: Annotated[str | None, typer.Option(help="The task; by default what the model's head is for.")] = None,
    form: Annotated[Format, typer.Option("--format", help="How to write results.")] = Format.text,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="An option of the pipeline: top_k=3.")
    ] = None,
    device: Device = None,
    dtype: Dtype = None,
    quant: Quant = None,
    json: Annotated[bool, typer.Option("--json", help="The same as --format jsonl.")] = False,
) -> None:
    """Say what a model makes of texts: a class, entities, an answer, a filled mask, a translation.

    Example: echo "What a film!" | glassformer predict runs/reviews --format jsonl
    """
    from glassformer.jobs.predict import inputs_of, pipeline, task_of
    from glassformer.jobs.recipe import parsed

    pipe = pipeline(task or task_of(name), name, device=device, dtype=dtype, quant=quant)
    options: dict[str, Any] = dict(parsed(one) for one in settings or [])
    write = _Writer(Format.jsonl if json else form)
    named = dict(parsed(one) for one in columns) if columns else None
    inputs = iter(texts) if texts else inputs_of(pipe, file or ["-"], named, lambda text: typer.echo(text, err=True))
    while some := list(islice(inputs, CHUNK)):
        for given, found in zip(some, pipe(some, **options), strict=True):
            write(given, found)


class _Writer:
    """One result after the other, in one format."""

    def __init__(self, form: Format) -> None:
        self.form = form
        self.table: Any = None

    def __call__(self, given: Any, found: Any) -> None:
        given = _plain(given)
        if self.form is Format.jsonl:
            typer.echo(jsonlib.dumps({"input": given, "output": found}, ensure_ascii=False, default=float))
        elif self.form is Format.csv:
            self._row(given, found)
        else:
            typer.echo(_shown(found))

    def _row(self, given: Any, found: Any) -> None:
        """A flat result is a row; anything deeper is one cell of json."""
        flat = found if isinstance(found, dict) else {"output": jsonlib.dumps(found, ensure_ascii=False, default=float)}
        if self.table is None:
            self.table = csv.DictWriter(sys.stdout, ["input", *flat], lineterminator="\n")
            self.table.writeheader()
        text = given if isinstance(given, str) else jsonlib.dumps(given, ensure_ascii=False)
        self.table.writerow({"input": text, **flat})


def _shown(found: Any) -> str:
    """A result as a person reads it."""
    if isinstance(found, list) and found and isinstance(found[0], dict):
        return "; ".join(map(_shown, found))
    if isinstance(found, dict):
        return "  ".join(f"{value:.4f}" if isinstance(value, float) else str(value) for value in found.values())
    return str(found)


def _plain(given: Any) -> Any:
    """What was read of an example: the text if that is all, without what it does not have, and without its label."""
    if not is_dataclass(given) or isinstance(given, type):
        return given
    kept = {name: value for name, value in asdict(given).items() if value and name not in ANSWERS}
    return next(iter(kept.values()), "") if len(kept) < 2 else kept
