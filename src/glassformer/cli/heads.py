"""`glassformer heads`: what every attention head is worth on a data file, how many can go, and what each looks at."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from .output import Columns, Data, Device, Json, Name, Settings, TaskName, echo, echo_line, print_json, print_table

if TYPE_CHECKING:
    from glassformer.inspect.heads import HeadImportance, PruningPoint
    from glassformer.inspect.statistics import Statistics

LOOKS = ("entropy", "distance", "previous", "next", "first", "sink", "induction")


def heads(
    name: Name,
    data: Data,
    task: TaskName = None,
    columns: Columns = None,
    settings: Settings = None,
    limit: Annotated[
        int, typer.Option(help="Examples, or blocks of a long text, to read; each head costs one reading.", min=1)
    ] = 200,
    device: Device = None,
    json: Json = False,
) -> None:
    """Ablate every attention head by itself, and then more and more of them, and show how the loss rises.

    Example: glassformer heads runs/reviews --data test.csv
    """
    from glassformer.jobs.heads import measure
    from glassformer.jobs.predict import pipeline, task_of
    from glassformer.jobs.recipe import parsed, parsed_columns

    options: dict[str, Any] = dict(parsed(one) for one in settings or [])
    pipe = pipeline(task or task_of(name), name, device=device, **options)
    read = pipe.read(data, columns=parsed_columns(columns), **options)
    for line in read.report.lines():
        echo_line(line, err=True)
    found = measure(pipe, read.examples, limit=limit, log=lambda text: echo_line(text, err=True))
    looks = {(one.attention, one.number): one for one in found.looks}
    if json:
        rows = [{**vars(head), **_looks(looks[head.attention, head.number])} for head in found.heads]
        curve = [vars(point) for point in found.cuts]
        print_json({"model": name, "examples": found.examples, "loss": found.loss, "heads": rows, "pruning": curve})
        return
    echo(f"{name}: loss {found.loss:.4f} on {found.examples} examples\n")
    _print_heads(found.heads, looks)
    _print_pruning(found.cuts, found.loss, found.heads)


def _print_heads(ranked: "list[HeadImportance]", looks: "dict[tuple[str, int], Statistics]") -> None:
    """The most important first, with what each looks at."""
    known = [look for look in LOOKS if any(look in _looks(one) for one in looks.values())]
    rows = []
    for head in reversed(ranked):
        own = _looks(looks[head.attention, head.number])
        numbers = [f"{own[look]:.3f}" if look in own else "" for look in known]
        rows.append((f"{head.attention}.head.{head.number}", f"{head.delta:+.5f}", *numbers))
    print_table(("head", "Δ loss", *known), rows)


def _looks(one: "Statistics") -> dict[str, float]:
    """What could be measured: a look across has no distance, and only a reader from left to right induces."""
    found = vars(one)
    return {look: found[look] for look in LOOKS if found[look] is not None}


def _print_pruning(curve: "list[PruningPoint]", base: float, ranked: "list[HeadImportance]") -> None:
    """The pruning report: how far one can go."""
    echo("\nwithout the least important heads, all at once:")
    print_table(
        ("heads out", "of", "parameters", "loss", "Δ loss"),
        [
            (point.heads, len(ranked), f"{point.parameters:,}", f"{point.loss:.4f}", f"{point.loss - base:+.4f}")
            for point in curve
        ],
    )
    for share in (0.01, 0.05):
        best = max(
            (point for point in curve if point.loss <= base * (1 + share)),
            key=lambda point: point.heads,
            default=curve[0],
        )
        echo(f"{best.heads} of {len(ranked)} heads can go for at most {share:.0%} more loss, as measured")
