"""Where a value comes from: a step of a recomputed pass, or one number of it, operand by operand.

B batch, T target length, S source length, K head width.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .laws import error
from .recompute import Recomputed, recompute
from .steps import RecomputeStep, at

Cell = tuple[int, int]


@dataclass(frozen=True)
class Explanation:
    """Where a value comes from: its operands by symbol, its formula, the value from scratch and the model's."""

    step: str
    formula: str
    latex: str
    operands: dict[str, Tensor]
    names: dict[str, str]  # what each symbol is called in the model
    value: Tensor  # float64, recomputed from the ids on
    seen: Tensor | None  # what the model computed
    error: float | None


def explain(model: nn.Module, inputs: Mapping[str, Tensor], step: str, *, cell: Cell | None = None) -> Explanation:
    """The operands, formula, value and error of one step, e.g. "layers.3.feed_forward.up".

    `cell` asks for one number of it. The name of a head, "layers.3.attention.head.5", explains one cell of its
    pattern, query and key; otherwise the last token's strongest look. The name of a gate,
    "recurrent.layers.0.left_to_right.forget", explains it at a time and a unit.
    """
    return explained(recompute(model, inputs), step, cell)


def explained(found: Recomputed, name: str, cell: Cell | None = None) -> Explanation:
    """As `explain`, of a pass that is already recomputed."""
    if name.rpartition(".")[0].endswith(".head") and f"{name}.pattern" in found.names:
        return _of_head(found, name, cell)
    if cell is not None:
        if any(place in found.names for place in (f"{name}.context", f"{name}.context.step.0")):
            return _of_alignment(found, name, cell)
        return _number(found, name, cell)
    step = found.step(name)
    operands = {symbol: at(found.scratch, operand) for symbol, operand in step.operands.items()}
    value = found.scratch[step.name]
    wrong = None if step.seen is None else error(step.seen, value)
    formula = step.formula
    return Explanation(step.name, formula.text, formula.latex, operands, dict(step.operands), value, step.seen, wrong)


def _of_head(found: Recomputed, head: str, cell: Cell | None) -> Explanation:
    """One weight of the first text, number by number."""
    query, key, scores, pattern = (found.scratch[f"{head}.{part}"][0] for part in ("query", "key", "scores", "pattern"))
    mask = found.scratch[f"{head.rpartition('.head.')[0]}.mask"][0]
    row, column = cell or (len(pattern) - 1, int(pattern[-1].argmax()))
    _within(pattern, (row, column), "this head's", ("queries", "keys"))
    operands = {
        "q": query[row],
        "k": key[column],
        "q · k": query[row] @ key[column],
        **_shares(scores[row], mask[row], column),
    }
    names = {"q": f"{head}.query[{row}]", "k": f"{head}.key[{column}]"}
    seen = found.step(f"{head}.pattern").seen
    assert seen is not None
    scored = found.step(f"{head}.scores")
    return _weight(f"{head}[{row},{column}]", scored, operands, names, pattern[row, column], seen[0, row, column])


def _of_alignment(found: Recomputed, name: str, cell: Cell) -> Explanation:
    """One weight of an attention of the RNN era; in a loop over targets, of one of its steps."""
    row, column = cell
    stepwise = f"{name}.pattern.step.0" in found.names
    if stepwise:
        times = sum(step.startswith(f"{name}.pattern.step.") for step in found.names)
        shape = torch.empty(times, found.scratch[f"{name}.pattern.step.0"].shape[1])
    else:
        shape = found.scratch[f"{name}.pattern"][0]
    _within(shape, cell, "this alignment's", ("tokens written", "tokens read"))
    ending = f".step.{row}" if stepwise else ""
    scored, weighed = found.step(f"{name}.scores{ending}"), found.step(f"{name}.pattern{ending}")
    scores, pattern, seen = (
        (value[0] if stepwise else value[0, row])
        for value in (found.scratch[scored.name], found.scratch[weighed.name], _kept(weighed))
    )
    keep = at(found.scratch, weighed.operands["keep"])[0]
    operands, names = _made_from(found, scored, cell)
    operands |= _shares(scores, keep, column)
    return _weight(f"{name}[{row},{column}]", scored, operands, names, pattern[column], seen[column])


def _kept(step: RecomputeStep) -> Tensor:
    assert step.seen is not None
    return step.seen


def _shares(scores: Tensor, mask: Tensor, column: int) -> dict[str, Tensor]:
    """From a row of scores to one weight."""
    return {
        "score": scores[column],
        "mask": mask[column],
        "exp(score)": scores[column].exp(),
        "Σ exp": scores[mask].exp().sum(),
    }


def _weight(
    name: str, scored: RecomputeStep, operands: dict[str, Tensor], names: dict[str, str], value: Tensor, seen: Tensor
) -> Explanation:
    place = name[name.rindex("[") + 1 : -1]
    row = place.split(",")[0]
    return Explanation(
        name,
        f"exp({scored.formula.text}) / Σ exp, over what the mask keeps",
        rf"a_{{{place}}} = \frac{{m_{{{place}}} \exp(s_{{{place}}})}}"
        rf"{{\sum_j m_{{{row},j}} \exp(s_{{{row},j}})}}, \quad s = {scored.formula.latex}",
        operands,
        names,
        value,
        seen,
        error(seen[None], value[None]),
    )


def _number(found: Recomputed, name: str, cell: Cell) -> Explanation:
    """One number of a step; of a gate, at a time and a unit."""
    row, column = cell
    times = [step for step in found.names if step.startswith(f"{name}.step.")]
    if times and f"{name}.step.{row}" not in times:
        raise ValueError(f"the time {row} of {name!r} is not one of its {len(times)} steps, 0 to {len(times) - 1}")
    step = found.step(f"{name}.step.{row}" if times else name)
    if step.formula.number is None:
        raise ValueError(f"{step.name!r} is not explained number by number; leave the cell out")
    whole = found.scratch[step.name][0]
    place = (0, column) if whole.dim() == 1 else cell
    lines = whole[None] if whole.dim() == 1 else whole
    _within(lines, place, f"the step {step.name!r}:", ("rows", "units"))
    operands, names = _made_from(found, step, place)
    value, seen = lines[place], None
    if step.seen is not None:
        seen = step.seen[0, column] if whole.dim() == 1 else step.seen[(0, *place)]
    wrong = None if seen is None else error(seen[None], value[None])
    title = f"{name}[{row},{column}]" if times else f"{step.name}[{row},{column}]"
    return Explanation(title, step.formula.text, step.formula.latex, operands, names, value, seen, wrong)


def _made_from(found: Recomputed, step: RecomputeStep, place: Cell) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The operands of one number, and what those are called that are a part of the step's own."""
    assert step.formula.number is not None
    given = [at(found.scratch, name) for name in step.operands.values()]
    operands = step.formula.number(place, *given)
    names = {}
    for symbol, value in operands.items():
        base = re.sub(r"\[\d+\]$", "", symbol)
        index = symbol.removeprefix(base)
        if base in step.operands:
            whole = at(found.scratch, step.operands[base])
            rows = whole.dim() == 3 and value.dim() < 2 and not (index and value.dim() == 1)
            names[symbol] = step.operands[base] + (f"[{place[0]}]" if rows else "") + index
    return operands, names


def _within(lines: Tensor, cell: Cell, whose: str, sides: tuple[str, str]) -> None:
    high, wide = lines.shape
    row, column = cell
    if not (0 <= row < high and 0 <= column < wide):
        raise ValueError(f"the cell {row},{column} is outside {whose} {high} {sides[0]} and {wide} {sides[1]}")
