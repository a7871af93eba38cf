"""`glassformer train`: from data to a run folder, by options or by a recipe file."""

from typing import Annotated, Any

import typer

from .output import Json, echo, echo_line, print_json
from .settings import TITLES, known, run_option
from .task_help import recipe_file

PRECISIONS = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}  # as gf.load and torch spell them
RUN = TITLES["run"]
WHAT = f"A recipe file that ends in .toml, a run folder (with --resume), or a task: {', '.join(known()['tasks'])}."
Files = list[str] | None


def train(
    what: Annotated[str, typer.Argument(metavar="TASK|RECIPE|RUN", help=WHAT)],
    data: Annotated[Files, run_option("data", metavar="FILE")] = None,
    dev: Annotated[Files, run_option("dev", metavar="FILE")] = None,
    test: Annotated[Files, run_option("test", metavar="FILE")] = None,
    columns: Annotated[list[str] | None, run_option("columns", metavar="ROLE=NAME")] = None,
    labels: Annotated[str | None, run_option("labels")] = None,
    model: Annotated[str | None, run_option("model")] = None,
    arch: Annotated[str | None, run_option("arch")] = None,
    freeze: Annotated[str | None, run_option("freeze")] = None,
    lora: Annotated[int | None, run_option("lora")] = None,
    epochs: Annotated[float | None, run_option("epochs")] = None,
    steps: Annotated[int | None, run_option("steps")] = None,
    lr: Annotated[float | None, run_option("lr")] = None,
    batch_size: Annotated[int | None, run_option("batch_size")] = None,
    batch_tokens: Annotated[int | None, run_option("batch_tokens")] = None,
    accumulate: Annotated[int | None, run_option("accumulate")] = None,
    max_length: Annotated[int | None, run_option("max_length")] = None,
    dtype: Annotated[str | None, run_option("precision")] = None,
    parallel: Annotated[str | None, run_option("parallel")] = None,
    tensor_parallel: Annotated[int | None, run_option("tensor_parallel")] = None,
    context_parallel: Annotated[int | None, run_option("context_parallel")] = None,
    seed: Annotated[int | None, run_option("seed")] = None,
    out: Annotated[str | None, run_option("out", metavar="DIR")] = None,
    device: Annotated[str | None, run_option("device")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any other setting of the task or the loop; may be given again.",
            rich_help_panel=RUN,
        ),
    ] = None,
    tensorboard: Annotated[bool, run_option("tensorboard")] = False,
    resume: Annotated[bool, typer.Option(help="Go on from the last checkpoint in --out.", rich_help_panel=RUN)] = False,
    check: Annotated[
        bool, typer.Option(help="Only look: preflight, and one batch learnt by heart.", rich_help_panel=RUN)
    ] = False,
    dry_run_mesh: Annotated[
        str | None,
        typer.Option(
            metavar="NODESxGPUS",
            help="Only count what a step would exchange and hold on so many machines and GPUs on each, as 16x8.",
            rich_help_panel=RUN,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Train a model from scratch, or fine-tune one, on your own data.

    Example: glassformer train text-classification --model ./minilm --data reviews.csv --out runs/reviews

    All settings of a task, with their defaults: glassformer train text-classification --help
    """
    from glassformer.data.labels import listed_names
    from glassformer.jobs.recipe import Origin, Recipe, changed, parsed, parsed_columns, read_recipe
    from glassformer.jobs.train import look, run

    given: dict[str, Any] = {"model": model, "arch": arch, "data": data, "dev": dev, "test": test}
    given |= {"out": out, "epochs": epochs, "steps": steps, "lr": lr}
    given |= {"batch_size": batch_size, "batch_tokens": batch_tokens, "accumulate": accumulate}
    given |= {"max_length": max_length, "freeze": freeze, "lora": lora, "seed": seed, "device": device}
    if epochs is not None and steps is not None:
        raise ValueError("--epochs and --steps say the same thing: give one of the two")
    given |= {"precision": PRECISIONS.get(dtype or "", dtype), "tensorboard": tensorboard or None}
    given |= {"parallel": parallel, "tensor_parallel": tensor_parallel, "context_parallel": context_parallel}
    given |= {"columns": parsed_columns(columns)}
    given |= {"labels": None if labels is None else listed_names(labels)}
    changes = {name: value for name, value in given.items() if value is not None}
    changes |= dict(parsed(one) for one in settings or [])
    file = recipe_file(what)
    if resume and file is None and "/" in what:
        raise ValueError(f"{what} is no folder of a run: there is no recipe.toml in it; is the path mistyped?")
    values = read_recipe(file) if file else {"task": what}
    origin = Origin(str(file) if file else None, frozenset(changes))
    if check or dry_run_mesh is not None:
        values = {"out": "runs/not-written", **values}
    recipe = Recipe.of(changed(values, changes, origin), origin)

    def log(text: str) -> None:
        echo_line(text, err=json)

    if dry_run_mesh is not None:
        from glassformer.jobs.mesh import mesh_report
        from glassformer.train.mesh import Mesh

        report = mesh_report(recipe, Mesh.parse(dry_run_mesh))
        if json:
            print_json(report.as_dict())
        else:
            echo("\n".join(report.lines()))
        return
    if check:
        found = look(recipe, log=log)
        if json:
            print_json(found)
        return
    ended = run(recipe, resume=resume, log=log)
    if json and ended.speaks:
        print_json({"folder": str(ended.folder), "scores": ended.scores, "steps": ended.outcome.progress.step})
    if ended.outcome.stopped:
        raise typer.Exit(128 + ended.outcome.stopped)  # as shells tell the signal
