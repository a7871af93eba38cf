"""A forward pass recomputed: every step from its textbook formula in float64, beside what the model computed."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.blocks.linear import Int8Linear

from .laws import error
from .steps import Step, Values, Walk, at, evaluate, listen, unused
from .walk_loss import LABELS
from .walk_model import walk_model

TOLERANCE = 1e-4


@dataclass(frozen=True)
class Row:
    """One step, judged. `error` is that of the chain from the ids on; `own_error` is this step's alone."""

    name: str
    shape: tuple[int, ...]
    formula: str
    error: float | None  # None: the model keeps no such value, and what follows from it is judged
    own_error: float | None
    verdict: str


@dataclass(frozen=True)
class Recomputed:
    """All steps with their values: from scratch, each alone from what the model had before it, and the model's."""

    walk: Walk
    scratch: Values
    alone: Values
    unused: list[str]  # weights that no step was made from

    def rows(self, tolerance: float = TOLERANCE) -> list[Row]:
        return [self._row(step, tolerance) for step in self.walk.steps]

    def step(self, name: str) -> Step:
        """A step by name; the name of a block stands for its last step."""
        for step in reversed(self.walk.steps):
            if step.name == name or step.name.startswith(f"{name}."):
                return step
        raise ValueError(f"there is no step {name!r}; near it: {', '.join(near(name, self.names))}")

    @property
    def names(self) -> list[str]:
        return [step.name for step in self.walk.steps]

    def _row(self, step: Step, tolerance: float) -> Row:
        value = self.scratch[step.name]
        if step.seen is None:
            return Row(step.name, tuple(value.shape), step.formula.text, None, None, "-")
        whole, own = (error(step.seen, values[step.name]) for values in (self.scratch, self.alone))
        if own > tolerance:
            verdict = "BREACH"
        else:
            verdict = "holds" if whole <= tolerance else "carried on"  # from a breach before it
        return Row(step.name, tuple(value.shape), step.formula.text, whole, own, verdict)


def recompute(model: nn.Module, inputs: Mapping[str, Any]) -> Recomputed:
    """Run a model, listened to and not, and recompute what it did; `labels` among the inputs give a loss."""
    if model.training:
        raise ValueError("the model is training, and dropout cannot be recomputed; call model.eval() first")
    if any(isinstance(part, Int8Linear) for part in model.modules()):
        raise ValueError("the model has 8-bit weights, which are no textbook's; load it without quant")
    asked = {name: value for name, value in inputs.items() if name not in LABELS}
    with torch.no_grad():
        outputs = model(**asked)._asdict()
    calls, _ = listen(model, asked)
    walk = walk_model(model, inputs, calls, outputs)
    return Recomputed(walk, *evaluate(walk), list(unused(walk, model)))


def near(name: str, names: Sequence[str]) -> list[str]:
    return get_close_matches(name, names, n=5, cutoff=0.3) or list(names[:5])


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


def explain(
    model: nn.Module, inputs: Mapping[str, Any], step: str, *, cell: tuple[int, int] | None = None
) -> Explanation:
    """The operands, formula, value and error of one step, e.g. "layers.3.feed_forward.up".

    The name of a head, "layers.3.attention.head.5", explains one cell of its pattern: `cell` names its query and key
    positions; otherwise it is the last token's strongest look.
    """
    return explained(recompute(model, inputs), step, cell)


def explained(found: Recomputed, name: str, cell: tuple[int, int] | None = None) -> Explanation:
    """As `explain`, of a pass that is already recomputed."""
    if name.rpartition(".")[0].endswith(".head") and f"{name}.pattern" in found.names:
        return _cell(found, name, cell)
    if cell is not None:
        raise ValueError(f"a cell is of a head's pattern, e.g. layers.0.attention.head.0, not of {name!r}")
    step = found.step(name)
    operands = {symbol: at(found.scratch, operand) for symbol, operand in step.operands.items()}
    value = found.scratch[step.name]
    wrong = None if step.seen is None else error(step.seen, value)
    formula = step.formula
    return Explanation(step.name, formula.text, formula.latex, operands, dict(step.operands), value, step.seen, wrong)


def _cell(found: Recomputed, head: str, cell: tuple[int, int] | None) -> Explanation:
    """One weight of the first text, number by number."""
    query, key, scores, pattern = (found.scratch[f"{head}.{part}"][0] for part in ("query", "key", "scores", "pattern"))
    mask = found.scratch[f"{head.rpartition('.head.')[0]}.mask"][0]
    row, column = cell or (len(pattern) - 1, int(pattern[-1].argmax()))
    if not (0 <= row < pattern.shape[0] and 0 <= column < pattern.shape[1]):
        raise ValueError(
            f"the cell {row},{column} is outside this head's {pattern.shape[0]} queries and {pattern.shape[1]} keys"
        )
    dot = query[row] @ key[column]
    total = scores[row][mask[row]].exp().sum()
    seen = found.step(f"{head}.pattern").seen
    assert seen is not None
    weight, own = pattern[row, column], seen[0, row, column]
    formula = found.step(f"{head}.scores").formula
    return Explanation(
        f"{head}[{row},{column}]",
        f"exp({formula.text}) / Σ exp, over what the mask keeps",
        rf"a_{{{row},{column}}} = \frac{{m_{{{row},{column}}} \exp(s_{{{row},{column}}})}}"
        rf"{{\sum_j m_{{{row},j}} \exp(s_{{{row},j}})}}, \quad s = {formula.latex}",
        {
            "q": query[row],
            "k": key[column],
            "q · k": dot,
            "score": scores[row, column],
            "mask": mask[row, column],
            "exp(score)": scores[row, column].exp(),
            "Σ exp": total,
        },
        {"q": f"{head}.query[{row}]", "k": f"{head}.key[{column}]"},
        weight,
        own,
        error(own[None], weight[None]),
    )


def folded(rows: Sequence[Row], *, keep_heads: bool = False) -> list[Row]:
    """One row for all heads and all time steps of a kind, with the largest error and the worst verdict."""
    kinds = "step" if keep_heads else "head|step"
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(re.sub(rf"\.({kinds})\.\d+", r".\1.*", row.name), []).append(row)
    return [_worst(name, group) for name, group in groups.items()]


def _worst(name: str, group: Sequence[Row]) -> Row:
    ranks = ("-", "holds", "carried on", "BREACH")
    worst = max(group, key=lambda row: (ranks.index(row.verdict), row.error or 0.0))
    return replace(worst, name=name)
