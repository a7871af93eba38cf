"""`glassformer compare EXPERIMENT`: a grid of runs that answers a question, with a report."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from glassformer.compare import EXPERIMENTS

from .output import Columns, Json, echo, echo_line, print_json, print_table

if TYPE_CHECKING:
    from glassformer.compare.experiment import Comparison
    from glassformer.view.report import Entry, Report, Table

Files = Annotated[list[str] | None, typer.Option(metavar="FILE", help="Files, globs, or microworld.")]
EXAMPLES = {"scratch-vs-finetune": "--model ./minilm ", "ladder": "--model ./minilm ", "pooling": "--model ./minilm "}
DATA = {
    "recurrence": "",
    "scaling": "",
    "positions": "--data train.txt ",
    "tokenizers": "--data train.txt ",
    "pretraining": "--data text.txt --downstream train.csv ",
}  # of other examples: --data train.csv


class ExperimentGroup(TyperGroup):
    """A file that ends in .toml stands in the place of a command's name."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # click's types, which typer may hold a copy of
        if args and args[0].endswith(".toml"):
            return super().resolve_command(ctx, ["file", *args])
        return super().resolve_command(ctx, args)


def add_experiments(app: typer.Typer) -> None:
    """A command for each experiment, all with the same options, and one for files."""
    for name, what in EXPERIMENTS.items():
        example = (
            f"glassformer compare {name} {EXAMPLES.get(name, '')}{DATA.get(name, '--data train.csv ')}--out out/{name}"
        )
        app.command(name, help=f"{what}\n\nExample: {example}")(_command(name))
    app.command("file", hidden=True)(file)


def file(
    path: Annotated[str, typer.Argument(metavar="EXPERIMENT.toml")],
    out: Annotated[str | None, typer.Option(metavar="DIR")] = None,
    jobs: Annotated[int, typer.Option(min=0)] = 1,
    ray: bool = False,
    slurm: Annotated[str | None, typer.Option(metavar="SCRIPT")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE")] = None,
    resume: bool = False,
    json: Json = False,
) -> None:
    """Carry out an experiment as a file says it.

    Example: glassformer compare out/ladder/experiment.toml --resume
    """
    where = {"jobs": jobs, "ray": ray, "slurm": slurm}
    run_experiment(path, {"out": out}, settings, where=where, resume=resume, json=json)


def _command(name: str) -> Callable[..., None]:
    def command(
        data: Files = None,
        dev: Files = None,
        test: Files = None,
        downstream: Annotated[
            list[str] | None,
            typer.Option(metavar="[TASK=]FILE", help="Labelled data that pretraining is judged by; dev and test too."),
        ] = None,
        columns: Columns = None,
        task: Annotated[str | None, typer.Option(help="What is learnt, where an experiment can do several.")] = None,
        model: Annotated[str | None, typer.Option(help="A pretrained model: a folder or hub name.")] = None,
        out: Annotated[str | None, typer.Option(metavar="DIR", help="The folder of runs, results and report.")] = None,
        seeds: Annotated[int | None, typer.Option(help="Runs of each cell, from different seeds; 3.")] = None,
        budget: Annotated[
            str | None, typer.Option(help="Training of each cell: 10m, 90s, 500steps, 2Mtokens, 3epochs.")
        ] = None,
        jobs: Annotated[int, typer.Option(min=0, help="Cells at once, a process each; 0: in this process.")] = 1,
        ray: Annotated[bool, typer.Option(help="Carry cells out on a Ray cluster.")] = False,
        slurm: Annotated[
            str | None, typer.Option(metavar="SCRIPT", help="Carry cells out as a Slurm array, by this batch script.")
        ] = None,
        device: Annotated[str | None, typer.Option(help="cpu, cuda, mps; by default a GPU if there is one.")] = None,
        settings: Annotated[
            list[str] | None,
            typer.Option("--set", metavar="NAME=VALUE", help="Another setting: of the experiment, or of every run."),
        ] = None,
        resume: Annotated[bool, typer.Option(help="Go on where it stopped; what failed is tried again.")] = False,
        json: Json = False,
    ) -> None:
        from glassformer.jobs.recipe import parsed_columns

        given: dict[str, Any] = {"data": data, "dev": dev, "test": test, "downstream": downstream, "task": task}
        given |= {"columns": parsed_columns(columns), "model": model, "out": out, "seeds": seeds, "budget": budget}
        given["device"] = device
        where = {"jobs": jobs, "ray": ray, "slurm": slurm}
        run_experiment(name, given, settings, where=where, resume=resume, json=json)

    return command


def run_experiment(
    name: str,
    given: dict[str, Any],
    settings: list[str] | None,
    *,
    where: dict[str, Any],
    resume: bool,
    json: bool,
) -> None:
    """Carry it out, show how it goes, and print the answer; `where` cells run is said as gf.compare takes it."""
    from glassformer.compare.experiment import compare, sorted_settings
    from glassformer.compare.progress import GridProgress
    from glassformer.jobs.recipe import parsed

    known = sorted_settings(name, given, dict(parsed(one) for one in settings or []))
    with GridProgress(lambda text: echo_line(text, err=True)) as on_change:
        found = compare(name, **where, resume=resume, on_change=on_change, **known)
    lost = [one for one in found.results.cells if one.state == "failed"]
    if json:
        print_json(as_dict(found))
    else:
        print_report(found.report)
        echo_line(f"the report is in {found.folder / 'report.html'}")
    if lost:
        echo_line(f"{len(lost)} of {len(found.results.cells)} cells failed; try them again with --resume", err=True)
        raise typer.Exit(1)


def as_dict(found: "Comparison") -> dict[str, Any]:
    return {
        "experiment": found.experiment.name,
        "folder": str(found.folder),
        "findings": [one.en for one in found.report.findings],
        "results": [vars(one) for one in found.results.cells],
    }


def print_report(report: "Report") -> None:
    """Tables and findings."""
    for section in report.sections:
        if section.tables:
            echo(section.title.en)
        for table in section.tables:
            show_table(table)
            echo()
    for one in report.findings:
        echo_line(one.en)


def show_table(table: "Table") -> None:
    rows = [[_text(entry) for entry in row.entries] for row in table.rows]
    print_table([column.title.en for column in table.columns], rows)


def _text(entry: "Entry") -> str:
    return entry.text if isinstance(entry.text, str) else entry.text.en
