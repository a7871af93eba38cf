"""What `glassformer verify` does with a text: the forward pass step by step, recomputed from scratch."""

import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from .output import print_json, print_table
from .typed import Asked, Typed, typed

if TYPE_CHECKING:
    from glassformer.inspect.recompute import Explanation, Recomputed, Row

NUMBERS = 8  # shown of a long operand


def verify_text(
    name: str,
    model: Any,
    texts: Asked,
    *,
    chosen: tuple[int | None, int | None, bool],
    step: tuple[str | None, str | None],
    tolerance: float,
    json: bool,
) -> None:
    """`chosen`: layer, head, and whether all rows are shown; `step`: its name and cell."""
    from glassformer.inspect.recompute import folded, recompute

    asked = typed(name, model, texts)
    found = recompute(model, asked.inputs)
    if step[0] is not None:
        _show_step(name, found, asked, step[0], step[1], json)
        return
    rows = found.rows(tolerance)
    broken = [row.name for row in rows if row.verdict == "BREACH"]
    layer, head, full = chosen
    rows = _of(_of(rows, "layer", "layers", layer), "head", "head", head)
    if json:
        facts = {"model": name, "tokens": asked.tokens, **({"target": asked.target} if asked.target else {})}
        steps = [{**asdict(row), "shape": list(row.shape)} for row in rows]
        print_json({**facts, "tolerance": tolerance, "steps": steps, "unused": found.unused, "holds": not broken})
    else:
        _print_rows(name, asked, rows if full else folded(rows, keep_heads=head is not None), found)
    if broken:
        typer.echo(f"broken: {', '.join(broken[:5])}{' …' if len(broken) > 5 else ''}", err=True)
        raise typer.Exit(1)


def _of(rows: "list[Row]", what: str, part: str, number: int | None) -> "list[Row]":
    """The rows of one layer or head, or all of them."""
    if number is None:
        return rows
    there = sorted({int(found) for row in rows for found in re.findall(rf"\b{part}\.(\d+)\.", row.name)})
    if number not in there:
        known = f"there are {there[0]} to {there[-1]}" if there else "this model has none"
        raise ValueError(f"there is no {what} {number}; {known}")
    return [row for row in rows if re.search(rf"\b{part}\.{number}\.", row.name)]


def _print_rows(name: str, asked: Typed, rows: "list[Row]", found: "Recomputed") -> None:
    typer.echo(f"{name}: {len(asked.tokens)} tokens, {len(found.names)} steps recomputed in float64")
    typer.echo(" ".join(f"{place}:{token}" for place, token in enumerate(asked.tokens)))
    if asked.target:
        typer.echo("-> " + " ".join(f"{place}:{token}" for place, token in enumerate(asked.target)))
    typer.echo()
    print_table(
        ("step", "shape", "formula", "largest error", "verdict"),
        [
            (
                row.name,
                "×".join(map(str, row.shape)) or "1",
                row.formula,
                "-" if row.error is None else f"{row.error:.1e}",
                row.verdict,
            )
            for row in rows
        ],
    )
    if found.unused:
        typer.echo(f"\nidle weights, used by no step: {', '.join(found.unused)}")


def _show_step(name: str, found: "Recomputed", asked: Typed, step: str, cell: str | None, json: bool) -> None:
    from glassformer.inspect.recompute import explained

    explanation = explained(found, step, _position(cell))
    if json:
        print_json({"model": name, **_as_dict(explanation)})
        return
    typer.echo(f"{explanation.step}{_spoken(explanation.step, asked)}\n")
    rows = [("formula", explanation.formula), ("LaTeX", explanation.latex)]
    for symbol, value in explanation.operands.items():
        called = explanation.names.get(symbol)
        rows.append((symbol, f"{_numbers(value)}{f'   {called}' if called else ''}"))
    rows += [("value", _numbers(explanation.value, 9))]
    if explanation.seen is not None and explanation.error is not None:
        rows += [("the model's", _numbers(explanation.seen, 9)), ("error", f"{explanation.error:.1e}")]
    width = max(len(symbol) for symbol, _ in rows)
    for symbol, told in rows:
        typer.echo(f"{symbol.ljust(width)}  {told}")


def _position(cell: str | None) -> tuple[int, int] | None:
    if cell is None:
        return None
    found = re.fullmatch(r"\s*(\d+)\s*,\s*(\d+)\s*", cell)
    if found is None:
        raise ValueError(f"--cell {cell!r} must be a query and a key position, e.g. 4,2")
    return int(found[1]), int(found[2])


def _spoken(step: str, asked: Typed) -> str:
    """Which token looks at which."""
    found = re.search(r"\[(\d+),(\d+)\]$", step)
    if found is None:
        return ""
    decodes, crosses = step.startswith("decoder."), "cross_attention" in step
    queries = asked.target if decodes else asked.tokens
    keys = asked.target if decodes and not crosses else asked.tokens
    return f"   {queries[int(found[1])]!r} looks at {keys[int(found[2])]!r}"


def _numbers(value: Any, digits: int = 4) -> str:
    """A number, a short vector, or the beginning of something long, with its shape."""
    if value.numel() == 1:
        return str(value.item()) if not value.is_floating_point() else f"{value.item():.{digits}g}"
    first = value.flatten()[:NUMBERS].tolist()
    told = " ".join(f"{number:.4g}" for number in first)
    return f"({'×'.join(map(str, value.shape))})  {told}{' …' if value.numel() > NUMBERS else ''}"


def _as_dict(explanation: "Explanation") -> dict[str, Any]:
    values = {symbol: value.tolist() for symbol, value in explanation.operands.items()}
    seen = None if explanation.seen is None else explanation.seen.tolist()
    return {
        "step": explanation.step,
        "formula": explanation.formula,
        "latex": explanation.latex,
        "operands": values,
        "names": explanation.names,
        "value": explanation.value.tolist(),
        "seen": seen,
        "error": explanation.error,
    }
