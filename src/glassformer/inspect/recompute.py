"""A forward pass recomputed: every step from its textbook formula in float64, beside what the model computed."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

import torch
from torch import Tensor, nn

from glassformer.blocks.attention import MultiHeadAttention
from glassformer.engine.linear import Int8Linear

from .calls import capture_calls
from .laws import error
from .record import current, modules_of
from .steps import RecomputeStep, Values, evaluate, unused
from .walk import Walk
from .walks.loss import LABELS
from .walks.models import walk_model, walk_one_attention

TOLERANCE = 1e-4


@dataclass(frozen=True)
class RecomputedRow:
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

    def rows(self, tolerance: float = TOLERANCE) -> list[RecomputedRow]:
        return [self._row(step, tolerance) for step in self.walk.steps]

    def step(self, name: str) -> RecomputeStep:
        """A step by name; the name of a block stands for its last step."""
        name = current(name)
        for step in reversed(self.walk.steps):
            if step.name == name or step.name.startswith(f"{name}."):
                return step
        raise ValueError(f"there is no step {name!r}; near it: {', '.join(near(name, self.names))}")

    @property
    def names(self) -> list[str]:
        return [step.name for step in self.walk.steps]

    def _row(self, step: RecomputeStep, tolerance: float) -> RecomputedRow:
        value = self.scratch[step.name]
        if step.seen is None:
            return RecomputedRow(step.name, tuple(value.shape), step.formula.text, None, None, "-")
        whole, own = (error(step.seen, values[step.name]) for values in (self.scratch, self.alone))
        if own > tolerance:
            verdict = "BREACH"
        else:
            verdict = "holds" if whole <= tolerance else "carried on"  # from a breach before it
        return RecomputedRow(step.name, tuple(value.shape), step.formula.text, whole, own, verdict)


def recompute(
    model: nn.Module, inputs: Mapping[str, Tensor], *, on_progress: Callable[[], None] | None = None
) -> Recomputed:
    """Run a model, with hooks and without, and recompute what it did; `labels` among the inputs give a loss.

    `on_progress` is called before every step, and may raise to end the work.
    """
    _require_textbook(model)
    model_inputs = {name: value for name, value in inputs.items() if name not in LABELS}
    with torch.no_grad():
        outputs = model(**model_inputs)._asdict()
    walk = walk_model(model, inputs, capture_calls(model, model_inputs), outputs)
    return Recomputed(walk, *evaluate(walk.steps, walk.given, on_progress), list(unused(walk.steps, model)))


def recompute_attention(
    model: nn.Module, inputs: Mapping[str, Tensor], name: str, *, on_progress: Callable[[], None] | None = None
) -> Recomputed:
    """One attention alone, e.g. "layers.3.attention", with all its heads, from what entered it in the model.

    For texts that are too long to be recomputed whole: at 512 tokens a BERT-base takes half a minute and 5 GB.
    """
    _require_textbook(model)
    parts = modules_of(model)
    if not isinstance(parts.get(name), MultiHeadAttention):
        known = [each for each, part in parts.items() if isinstance(part, MultiHeadAttention)]
        raise ValueError(f"there is no attention {name!r}; near it: {', '.join(near(name, known)) or 'none'}")
    walk = walk_one_attention(model, inputs, capture_calls(model, inputs, name), name)
    return Recomputed(walk, *evaluate(walk.steps, walk.given, on_progress), unused=[])


def _require_textbook(model: nn.Module) -> None:
    if model.training:
        raise ValueError("the model is training, and dropout cannot be recomputed; call model.eval() first")
    if any(isinstance(part, Int8Linear) for part in model.modules()):
        raise ValueError("the model has 8-bit weights, which are no textbook's; load it without quant")


def near(name: str, names: Sequence[str]) -> list[str]:
    return get_close_matches(name, names, n=5, cutoff=0.3) or list(names[:5])


def folded(rows: Sequence[RecomputedRow], *, keep_heads: bool = False) -> list[RecomputedRow]:
    """One row for all heads and all time steps of a kind, with the largest error and the worst verdict."""
    groups: dict[str, list[RecomputedRow]] = {}
    for row in rows:
        groups.setdefault(kind(row.name, keep_heads=keep_heads), []).append(row)
    return [_worst(name, group) for name, group in groups.items()]


def kind(name: str, *, keep_heads: bool = False) -> str:
    """The name that all heads and all time steps share: layers.0.attention.head.*.scores."""
    return re.sub(rf"\.({'step' if keep_heads else 'head|step'})\.\d+", r".\1.*", name)


def _worst(name: str, group: Sequence[RecomputedRow]) -> RecomputedRow:
    ranks = ("-", "holds", "carried on", "BREACH")
    worst = max(group, key=lambda row: (ranks.index(row.verdict), row.error or 0.0))
    return replace(worst, name=name)
