"""What `glassformer verify` does with a text: the forward pass step by step, recomputed from scratch."""

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import typer

from glassformer.view.labels import visible

from .output import echo, echo_line, print_json, print_table
from .typed import labels_of, tokenizer_of, typed

if TYPE_CHECKING:
    from torch import Tensor, nn

    from glassformer.inspect.explain import Explanation
    from glassformer.inspect.recompute import Recomputed, RecomputedRow

NUMBERS = 8  # shown of a long operand
Tokens = dict[str, list[str]]  # of what is read and, in an encoder-decoder, of what is fed to the decoder


@dataclass(frozen=True)
class TypedText:
    """What was typed: a text and, where they are wanted, its pair, what is to be written, and a label."""

    text: str
    pair: str | None
    target: str | None
    label: str | None


@dataclass(frozen=True)
class Shown:
    """Which rows are shown: of a layer, of a head, every one; or a single step, and a cell of it."""

    layer: int | None
    head: int | None
    full: bool | None
    step: str | None
    cell: str | None


def verify_text(
    name: str, model: "nn.Module", given: TypedText, chosen: Shown, *, tolerance: float, json: bool
) -> None:
    """Rows or one step on stdout; exit code 1 on a breach."""
    from glassformer.inspect.recompute import folded, recompute
    from glassformer.jobs.progress import shown
    from glassformer.jobs.reading import reading
    from glassformer.models.contract import as_model

    tokenizer = tokenizer_of(name)
    text, target = typed(name, tokenizer, given.text), typed(name, tokenizer, given.target)
    read = reading(model, tokenizer, text, given.pair, target=target)
    inputs = {**read.inputs, **labels_of(as_model(model), tokenizer, read, given.label)}
    with shown("recomputing"):
        found = recompute(model, inputs)
    tokens = {side: [visible(token) for token in listed.texts] for side, listed in read.tokens.items()}
    if chosen.step is not None:
        _show_step(name, found, tokens, chosen.step, chosen.cell, json)
        return
    rows = found.rows(tolerance)
    broken = [row.name for row in rows if row.verdict == "BREACH"]
    rows = _of(_of(rows, "layer", "layers", chosen.layer), "head", "head", chosen.head)
    if json:
        facts = {"model": name, "tokens": list(read.tokens["read"].texts)}
        if "fed" in read.tokens:
            facts["target"] = list(read.tokens["fed"].texts)
        steps = [{**asdict(row), "shape": list(row.shape)} for row in rows]
        print_json({**facts, "tolerance": tolerance, "steps": steps, "unused": found.unused, "holds": not broken})
    else:
        _print_rows(name, tokens, rows if chosen.full else folded(rows, keep_heads=chosen.head is not None), found)
    if broken:
        echo(f"broken: {', '.join(broken[:5])}{' …' if len(broken) > 5 else ''}", err=True)
        raise typer.Exit(1)


def _of(rows: "list[RecomputedRow]", what: str, part: str, number: int | None) -> "list[RecomputedRow]":
    """The rows of one layer or head, or all of them."""
    if number is None:
        return rows
    there = sorted({int(found) for row in rows for found in re.findall(rf"\b{part}\.(\d+)\.", row.name)})
    if number not in there:
        known = f"there are {there[0]} to {there[-1]}" if there else "this model has none"
        raise ValueError(f"there is no {what} {number}; {known}")
    return [row for row in rows if re.search(rf"\b{part}\.{number}\.", row.name)]


def _print_rows(name: str, tokens: Tokens, rows: "list[RecomputedRow]", found: "Recomputed") -> None:
    echo(f"{name}: {len(tokens['read'])} tokens, {len(found.names)} steps recomputed in float64")
    for side, arrow in (("read", ""), ("fed", "-> ")):
        if side in tokens:
            echo_line(arrow + " ".join(f"{place}:{token}" for place, token in enumerate(tokens[side])))
    echo()
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
        echo(f"\nidle weights, used by no step: {', '.join(found.unused)}")


def _show_step(name: str, found: "Recomputed", tokens: Tokens, step: str, cell: str | None, json: bool) -> None:
    from glassformer.inspect.explain import explained

    explanation = explained(found, step, _position(cell))
    if json:
        print_json({"model": name, **_as_dict(explanation)})
        return
    echo(f"{explanation.step}{_spoken(explanation.step, tokens)}\n")
    rows = [("formula", explanation.formula), ("LaTeX", explanation.latex)]
    for symbol, value in explanation.operands.items():
        called = explanation.names.get(symbol)
        rows.append((symbol, f"{_numbers(value)}{f'   {called}' if called else ''}"))
    rows += [("value", _numbers(explanation.value, 9))]
    if explanation.seen is not None and explanation.error is not None:
        rows += [("the model's", _numbers(explanation.seen, 9)), ("error", f"{explanation.error:.1e}")]
    width = max(len(symbol) for symbol, _ in rows)
    for symbol, words in rows:
        echo(f"{symbol.ljust(width)}  {words}")


def _position(cell: str | None) -> tuple[int, int] | None:
    if cell is None:
        return None
    found = re.fullmatch(r"\s*(\d+)\s*,\s*(\d+)\s*", cell)
    if found is None:
        raise ValueError(f"--cell {cell!r} must be a row and a column, e.g. 4,2")
    return int(found[1]), int(found[2])


def _spoken(step: str, tokens: Tokens) -> str:
    """Which token looks at which."""
    found = re.search(r"\.head\.\d+\[(\d+),(\d+)\]$", step)
    if found is None:
        return ""
    decodes, crosses = step.startswith("decoder."), "cross_attention" in step
    queries = tokens["fed" if decodes else "read"]
    keys = tokens["fed" if decodes and not crosses else "read"]
    return f"   {queries[int(found[1])]!r} looks at {keys[int(found[2])]!r}"


def _numbers(value: "Tensor", digits: int = 4) -> str:
    """A number, a short vector, or the beginning of something long, with its shape."""
    if value.numel() == 1:
        return str(value.item()) if not value.is_floating_point() else f"{value.item():.{digits}g}"
    first = value.flatten()[:NUMBERS].tolist()
    numbers = " ".join(f"{number:.4g}" for number in first)
    return f"({'×'.join(map(str, value.shape))})  {numbers}{' …' if value.numel() > NUMBERS else ''}"


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
