"""`glassformer predict`: what a model says about texts, from the line, a file or stdin."""

import csv
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, is_dataclass
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.data.row_files import guarded
from glassformer.view.labels import escaped, text_width

from .choice import OptionalName, chosen
from .output import Columns, Device, Dtype, Quant, TaskName, as_json, echo_line, print_json
from .predict_files import FilesToPredict, predict_batch

if TYPE_CHECKING:
    from glassformer.jobs.predict import Pipeline

ANSWERS = ("label", "tags", "answers", "target")  # what is to be predicted is no input
CHUNK = 1000  # inputs at a time: any file fits, and results come as they are made
BESIDE = (
    *("text-classification", "token-classification", "question-answering", "sentence-similarity"),
    "zero-shot-classification",
)
SHOWN = 60  # columns of a text beside its result, for the tasks whose results do not hold it
MANY = 10  # texts, of which one label for all is worth a remark


class OutputFormat(StrEnum):
    """How results are written."""

    text = "text"
    csv = "csv"
    jsonl = "jsonl"
    tsv = "tsv"
    parquet = "parquet"


def predict(
    name: OptionalName = None,
    texts: Annotated[list[str] | None, typer.Argument(help="Texts; without any, each line of --file or stdin.")] = None,
    question: Annotated[str | None, typer.Option(help="A question, for question-answering.")] = None,
    context: Annotated[str | None, typer.Option(help="The text that the answer is looked for in.")] = None,
    file: Annotated[
        list[str] | None, typer.Option(help="Tables (csv, tsv, jsonl, …), or texts with an input on each line.")
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Many tables: files, globs, s3://…; predicted into --out, a file for each."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for what --data is predicted to; a run that was broken off goes on.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=0, help="Of --data: processes, or actors of Ray; 0 is this process.")
    ] = None,
    ray: Annotated[bool, typer.Option("--ray", help="Of --data: on a Ray cluster, or on one begun here.")] = False,
    columns: Columns = None,
    task: TaskName = None,
    form: Annotated[
        OutputFormat | None,
        typer.Option("--format", help="How to write results: by default text, of --data as its files are."),
    ] = None,
    guard: Annotated[bool, typer.Option(help="csv: put ' before a text that a spreadsheet would run, as =1+1.")] = True,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="An option of the pipeline, top_k=3, or of reading, header=false."
        ),
    ] = None,
    device: Device = None,
    dtype: Dtype = None,
    quant: Quant = None,
    json: Annotated[bool, typer.Option("--json", help="The same as --format jsonl; of --data, counts.")] = False,
) -> None:
    """Say what a model makes of texts: a class, entities, an answer, a filled mask, a translation.

    Example: echo "What a film!" | glassformer predict runs/reviews --format jsonl
    With the built-in model of a task: glassformer predict --task sentiment-analysis "What a film!"

    A question: glassformer predict runs/qa --question "Who reads?" --context "The king reads." (or --file FILE,
    SQuAD's json or a table with the columns question and context)

    Many files: glassformer predict runs/reviews --data 'reviews/*.parquet' --out predicted --jobs 4 (or --ray)
    """
    from glassformer.jobs.predict import inputs_of, pipeline, reader_options, task_of
    from glassformer.jobs.predictor import PredictorSpec, as_people_read, as_written
    from glassformer.jobs.recipe import parsed, parsed_columns
    from glassformer.jobs.tasks import task_class
    from glassformer.models.contract import as_model, label_names

    wanted = task_class(task or ("text-classification" if question is context is None else "question-answering"))
    name, texts = chosen(name, texts or [], wanted.name)
    options: dict[str, Any] = dict(parsed(one) for one in settings or [])
    if _is_batch(data, out, jobs, ray=ray, others={"texts": texts, "--file": file, "--question": question}):
        assert data is not None
        assert out is not None
        spec = PredictorSpec(name, task or task_of(name), device, dtype, quant, options)
        asked = FilesToPredict(
            data=data,
            out=out,
            columns=parsed_columns(columns),
            form=form and form.value,
            guard=guard,
            jobs=jobs,
            ray=ray,
            json=json,
        )
        predict_batch(asked, spec)
        return
    if form in (OutputFormat.tsv, OutputFormat.parquet):
        raise ValueError(f"--format {form} is for files: give --data and --out, or write csv or jsonl")
    pipe = pipeline(task or task_of(name), name, device=device, dtype=dtype, quant=quant)
    options = as_people_read(pipe.task.name, options)
    typed = (question or options.pop("question", None), context or options.pop("context", None))
    write = _Writer(
        OutputFormat.jsonl if json else form or OutputFormat.text, beside=pipe.task.name in BESIDE, guard=guard
    )
    inputs = _typed(pipe, name, texts, *typed)
    reading = reader_options(pipe, options)
    if inputs is None:
        named = parsed_columns(columns)
        inputs = inputs_of(pipe, file or ["-"], named, lambda text: echo_line(text, err=True), **reading)
    while some := list(islice(inputs, CHUNK)):
        for given, found in zip(some, pipe(some, **options), strict=True):
            write(given, as_written(given, found))
    if (only := write.only_label()) is not None and len(label_names(as_model(pipe.model).config)) > 1:
        echo_line(f"mind: all {write.count} texts were given the label {only!r}", err=True)


def _is_batch(
    data: list[str] | None, out: Path | None, jobs: int | None, *, ray: bool, others: Mapping[str, object]
) -> bool:
    """Whether files are to be predicted into a folder; half of what that needs is refused."""
    if not data:
        given = {"--out": out is not None, "--jobs": jobs is not None, "--ray": ray}
        if wrong := [name for name, is_given in given.items() if is_given]:
            raise ValueError(f"{wrong[0]} is for files that are predicted into a folder: give --data as well")
        return False
    if out is None or not str(out).strip():
        raise ValueError("--data is predicted into a folder: give --out as well, or --file to see results here")
    if wrong := [name for name, value in others.items() if value]:
        raise ValueError(f"give {wrong[0]} or --data, not both")
    return True


def _typed(
    pipe: "Pipeline", name: str, texts: list[str], question: str | None, context: str | None
) -> Iterator[Any] | None:
    """What was typed on the line; None where inputs come from a file."""
    from glassformer.jobs.predict import as_input

    answers = pipe.task.name == "question-answering"
    if question is None and context is None:
        if answers and (plain := [text for text in texts if isinstance(as_input(text), str)]):
            raise ValueError(f"{name} answers questions: give --question and --context, not the text {plain[0]!r}")
        return map(as_input, texts) if texts else None
    if not answers:
        raise ValueError(f"--question and --context are for question-answering; {name} does {pipe.task.name}")
    if texts:
        raise ValueError(f"give --question and --context or texts, not both: there is {texts[0]!r} as well")
    if question is None or context is None:
        missing = "context" if context is None else "question"
        raise ValueError(f"a question is asked about a context: give --{missing} as well")
    return iter([{"question": question, "context": context}])


class _Writer:
    """One result after the other, in one format; a result that does not hold its text has it beside it for people."""

    def __init__(self, form: OutputFormat, *, beside: bool, guard: bool) -> None:
        self.form, self.beside, self.guard = form, beside, guard
        self.table: csv.DictWriter[str] | None = None
        self.count = 0
        self.labels: Counter[str] = Counter()

    def __call__(self, given: object, found: object) -> None:
        given = _plain(given)
        self.count += 1
        if isinstance(found, dict) and "label" in found:
            self.labels[found["label"]] += 1
        if self.form is OutputFormat.jsonl:
            print_json({"input": given, "output": found})
        elif self.form is OutputFormat.csv:
            self._row(given, found)
        else:
            echo_line(f"{_shown(found)}  | {_short(given)}" if self.beside else _shown(found))

    def _row(self, given: object, found: object) -> None:
        """A flat result is a row; anything deeper is one cell of json."""
        flat = found if isinstance(found, dict) else {"output": as_json(found)}
        if self.table is None:
            self.table = csv.DictWriter(sys.stdout, ["input", *flat], lineterminator="\n")
            self.table.writeheader()
        text = given if isinstance(given, str) else as_json(given)
        self.table.writerow({name: self._cell(cell) for name, cell in {"input": text, **flat}.items()})

    def _cell(self, cell: object) -> object:
        """A cell as it is safe where it goes: a spreadsheet must not run it, nor a terminal."""
        if isinstance(cell, dict | list):
            cell = as_json(cell)
        if not isinstance(cell, str):
            return cell
        cell = guarded(cell) if self.guard else cell
        return escaped(cell) if sys.stdout.isatty() else cell

    def only_label(self) -> str | None:
        """The label of all of many texts; None where there are several, or where texts are few."""
        (only, times), *_ = self.labels.most_common(1) or [("", 0)]
        return only if self.count == times >= MANY else None


def _shown(found: object) -> str:
    """A result as a person reads it."""
    if found == []:  # of a tagger: no other task gives an empty list
        return "no entities"
    if isinstance(found, list) and isinstance(found[0], dict):
        return "; ".join(map(_shown, found))
    if isinstance(found, dict) and "labels" in found:  # of zero-shot-classification
        return "  ".join(f"{label} {score:.4f}" for label, score in zip(found["labels"], found["scores"], strict=True))
    if isinstance(found, dict):
        return "  ".join(f"{value:.4f}" if isinstance(value, float) else str(value) for value in found.values())
    return str(found)


def _short(given: Any) -> str:
    """The text of an input on one line, as much of it as there is room for; of a question its context is left out."""
    if isinstance(given, dict):
        given = given.get("question") or " / ".join(str(value) for value in given.values())
    words = given if isinstance(given, str) else " ".join(map(str, given))
    text = " ".join(words[: 4 * SHOWN].split())
    if text_width(text) <= SHOWN and len(words) <= 4 * SHOWN:
        return text
    while text_width(text) >= SHOWN:
        text = text[:-1]
    return text + "…"


def _plain(given: object) -> object:
    """What was read of an example: the text if that is all, without what it does not have, and without its label."""
    if not is_dataclass(given) or isinstance(given, type):
        return given
    kept = {name: value for name, value in asdict(given).items() if value and name not in ANSWERS}
    return next(iter(kept.values()), "") if len(kept) < 2 else kept
