"""The walk of multi-head attention, head by head as in the paper.

B batch, T target length, S source length, K head width.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from glassformer.blocks.attention import MultiHeadAttention

from ..formulas import CONCATENATION, Formula, masked_softmax
from ..numbers import linear
from ..walk import Walk, walks

BOTH = Formula("keep[j] and order[i, j]", r"m_j \wedge o_{ij}", lambda keep, order: keep[:, None] & order)
SOFTMAX = Formula("softmax(scores where mask, else −∞)", r"\mathrm{softmax}(s + \log m)", masked_softmax)
CONTEXT = Formula("pattern · v", r"A v", lambda pattern, value: pattern @ value)


class MaskOperands(NamedTuple):
    """The names of what an attention's mask is made from."""

    order: str  # (T, S): who may look at whom, padding aside
    keep: str  # (B, S): which keys are real tokens


@walks(MultiHeadAttention)
def walk_attention(walk: Walk, name: str, x: str, mask: MaskOperands, memory: str = "") -> str:
    """q, k, v, scores, softmax and context of every head; then their concatenation and the output.

    `memory` is what a cross-attention looks at.
    """
    part = walk.part(name, MultiHeadAttention)
    width = part.query.out_features // part.heads
    seen_by = walk.add(f"{name}.mask", BOTH, {"keep": mask.keep, "order": mask.order}, _mask(walk, name))
    heads = {}
    for number in range(part.heads):
        head, columns = f"{name}.head.{number}", slice(number * width, (number + 1) * width)
        own = {}
        for kind, source in (("query", x), ("key", memory or x), ("value", memory or x)):
            operands = {"x": source, **walk.weights(f"{name}.{kind}", W="weight", b="bias")}
            seen = walk.out(f"{name}.{kind}")[..., columns]
            own[kind] = walk.add(f"{head}.{kind}", one_head(number, width), operands, seen)
        operands = {"q": own["query"], "k": own["key"]}
        scored = walk.add(f"{head}.scores", scores(part.scale, width), operands, walk.out(f"{name}.scores")[:, number])
        operands = {"scores": scored, "mask": seen_by}
        pattern = walk.add(f"{head}.pattern", SOFTMAX, operands, walk.out(f"{name}.pattern")[:, number])
        operands = {"pattern": pattern, "v": own["value"]}
        context = walk.add(f"{head}.context", CONTEXT, operands, walk.out(f"{name}.context")[:, :, number])
        heads[f"head {number}"] = context
    joined = walk.add(f"{name}.joined", CONCATENATION, heads, walk.fed(f"{name}.output"))
    return walk.block(f"{name}.output", joined)


def walk_attention_alone(walk: Walk, name: str, keep: str, *, causal: bool, crosses: bool) -> str:
    """An attention whose steps begin with what entered it in the model."""
    x = walk.give(f"{name}.given", walk.fed(f"{name}.query"))
    memory = walk.give(f"{name}.memory", walk.fed(f"{name}.key")) if crosses else ""
    targets, sources = walk.out(f"{name}.pattern").shape[-2:]
    return walk.block(
        name, x, MaskOperands(order(walk, f"{name}.order", targets, sources, causal=causal), keep), memory
    )


def order(walk: Walk, name: str, targets: int, sources: int, *, causal: bool) -> str:
    """(T, S): who may look at whom, padding aside."""
    whole = torch.ones(targets, sources, dtype=torch.bool)
    return walk.give(name, whole.tril() if causal else whole)


def _mask(walk: Walk, name: str) -> Tensor:
    """The mask that the attention was given, as (B, T, S)."""
    mask: Tensor | None = walk.calls[name][-1].args[1].dense
    batch, _, targets, sources = walk.out(f"{name}.scores").shape
    if mask is None:
        return torch.ones(batch, targets, sources, dtype=torch.bool)
    return mask.expand(batch, 1, targets, sources)[:, 0]


def one_head(number: int, width: int) -> Formula:
    """A projection, of which a head has its own rows."""
    rows = slice(number * width, (number + 1) * width)
    return Formula(
        "x W_hᵀ + b_h",
        r"x W_h^\top + b_h",
        lambda x, weight, *bias: sum((b[rows] for b in bias), x @ weight[rows].mT),
        linear(rows.start),
    )


def scores(scale: float, width: int) -> Formula:
    """Queries against keys, (B, T, K) and (B, S, K) -> (B, T, S)."""
    usual = abs(scale - width**-0.5) < 1e-12
    return Formula(
        f"q kᵀ / √{width}" if usual else f"q kᵀ · {scale:.4g}",
        rf"\frac{{q k^\top}}{{\sqrt{{{width}}}}}" if usual else rf"{scale:.4g} \, q k^\top",
        lambda query, key: query @ key.mT * scale,
    )
