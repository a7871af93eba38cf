"""`glassformer train`: from data to a run folder, by options or by a recipe file."""

from pathlib import Path
from typing import Annotated, Any

import typer

from .output import Columns, Json, echo_line, print_json

PRECISIONS = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}  # as gf.load and torch spell them
Files = Annotated[list[str] | None, typer.Option(metavar="FILE", help="Files, globs, - for stdin, or microworld.")]


def train(
    what: Annotated[str, typer.Argument(metavar="TASK|RECIPE", help="A task, or a recipe file that ends in .toml.")],
    model: Annotated[str | None, typer.Option(help="Start from this folder or hub name.")] = None,
    arch: Annotated[
        str | None, typer.Option(help="Start afresh: rnn, gru, lstm, seq2seq, transformer, bert, gpt2, …")
    ] = None,
    data: Files = None,
    dev: Files = None,
    test: Files = None,
    out: Annotated[str | None, typer.Option(metavar="DIR", help="The run folder; it will load as a model.")] = None,
    columns: Columns = None,
    labels: Annotated[
        str | None,
        typer.Option(help="Names for the classes 0, 1, …: negative,positive; for others 1=bad,2=good; or a file."),
    ] = None,
    epochs: Annotated[float | None, typer.Option(help="How often to go through the data.")] = None,
    steps: Annotated[int | None, typer.Option(help="Or how many updates.")] = None,
    lr: Annotated[float | None, typer.Option(help="The highest learning rate.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Examples an update sees.")] = None,
    batch_tokens: Annotated[int | None, typer.Option(help="Or tokens an update sees.")] = None,
    accumulate: Annotated[int | None, typer.Option(help="Cut each batch into so many, to save memory.")] = None,
    max_length: Annotated[int | None, typer.Option(help="Longer texts are cut to so many tokens.")] = None,
    freeze: Annotated[str | None, typer.Option(help="Parts not to train: 'embeddings,layers.0-5'.")] = None,
    lora: Annotated[int | None, typer.Option(help="Train adapters of this rank instead.")] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same run.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, mps; by default a GPU if there is one.")] = None,
    dtype: Annotated[str | None, typer.Option(help="Precision: fp32, bf16 or fp16.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Any other setting of the recipe.")
    ] = None,
    tensorboard: Annotated[bool, typer.Option(help="Also write curves for TensorBoard.")] = False,
    resume: Annotated[bool, typer.Option(help="Go on from the last checkpoint in --out.")] = False,
    check: Annotated[bool, typer.Option(help="Only look: preflight, and one batch learnt by heart.")] = False,
    json: Json = False,
) -> None:
    """Train a model from scratch, or fine-tune one, on your own data.

    Example: glassformer train text-classification --model ./minilm --data reviews.csv --out runs/reviews
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
    given |= {"columns": parsed_columns(columns)}
    given |= {"labels": None if labels is None else listed_names(labels)}
    changes = {name: value for name, value in given.items() if value is not None}
    changes |= dict(parsed(one) for one in settings or [])
    file = what if what.endswith(".toml") else None
    values, origin = read_recipe(Path(file)) if file else {"task": what}, Origin(file, frozenset(changes))
    if check:
        values = {"out": "runs/not-written", **values}
    recipe = Recipe.of(changed(values, changes, origin), origin)

    def log(text: str) -> None:
        echo_line(text, err=json)

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
