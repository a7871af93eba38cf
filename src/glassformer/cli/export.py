"""`glassformer export`: a model for another runtime, with the proof that it says the same there."""

from typing import Annotated, Any

import typer

from .output import Columns, Force, Json, Name, TaskName, echo, echo_line, print_json, print_table, size

FORMATS = "onnx, ctranslate2, gguf or torch-export"


def export(
    name: Name,
    folder: Annotated[str, typer.Argument(metavar="DIR", help="A new folder to write to.")],
    to: Annotated[str, typer.Option(metavar="FORMAT", help=f"{FORMATS}.")],
    quant: Annotated[
        str | None,
        typer.Option(help="How weights are kept: int8 (onnx, ctranslate2), float16, bfloat16; gguf: f16, q8_0, f32."),
    ] = None,
    pooling: Annotated[
        str | None, typer.Option(help="For an encoder without a head: mean, cls or max, as a vector of each text.")
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Compare on its texts, and score int8 on it; else built-in texts."),
    ] = None,
    columns: Columns = None,
    task: TaskName = None,
    tolerance: Annotated[
        float | None, typer.Option(help="The largest error that passes; by default what the numbers allow.")
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write a model for another runtime, and prove that it says the same there.

    The model and what was written run on 32 inputs, padded and not, and write texts where they can; the largest error
    is printed and kept in export.json beside the files. One that is too large deletes the files, with exit code 1.

    Example: glassformer export zoo:bert-mini-en-sentiment sentiment-onnx --to onnx
    """
    from glassformer.export.api import export
    from glassformer.jobs.recipe import parsed_columns

    options: dict[str, Any] = {"pooling": pooling, "data": data, "columns": parsed_columns(columns), "task": task}
    report = export(name, folder, to=to, quant=quant, tolerance=tolerance, force=force, **options)
    if json:
        print_json({"folder": folder, **report})
        return
    files = ", ".join(f"{path} ({size(one['bytes'])})" for path, one in report["files"].items() if _holds_weights(path))
    echo_line(f"{folder}: {files}, {report['quant']}")
    for line in compared_lines(report["compared"]):
        echo_line(line)
    if scores := report.get("scores"):
        kinds = [kind for kind in scores if kind != "examples"]
        echo(f"\non {scores['examples']} examples:")
        metrics = scores[kinds[0]]
        print_table(("metric", *kinds), [(one, *(f"{scores[kind][one]:.4f}" for kind in kinds)) for one in metrics])


def compared_lines(compared: dict[str, Any]) -> list[str]:
    """How an export compares with its model, as a person reads it."""
    errors = ", ".join(f"{error:.1e} ({name})" for name, error in compared["errors"].items())
    if reason := compared.get("not_compared"):
        return [f"only the numbers in the file were compared with the model's: largest error {errors}", reason]
    lines = [f"{compared['inputs']} inputs, {compared['padded']} of them padded: largest error {errors}"]
    if prompts := compared.get("prompts"):
        same, new = compared["same_texts"], compared["new_tokens"]
        lines.append(f"{prompts} prompts, up to {new} new tokens each: {same} of {prompts} texts are the same")
    return lines


def _holds_weights(path: str) -> bool:
    return path.endswith((".onnx", ".data", ".gguf", ".pt2", ".bin"))
