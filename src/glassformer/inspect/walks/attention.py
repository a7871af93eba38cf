"""The walk of multi-head attention, head by head as in the paper.

B batch, T target length, S source length, K head width.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from glassformer.blocks.attention import MultiHeadAttention
from glassformer.blocks.masks import Window, both, distances, within

from ..formulas import CONCATENATION, RESIDUAL, Formula, masked_softmax
from ..numbers import linear
from ..walk import Walk, walks
from .basic import norm_formula
from .positions import TURNED, RotationOperands

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
    seen_by = walk.add(
        f"{name}.mask", BOTH, {"keep": mask.keep, "order": _windowed(walk, name, mask)}, _mask(walk, name)
    )
    rotation = None if part.rotary is None else walk.walk_of(f"{name}.rotary")(walk, f"{name}.rotary")
    heads = {}
    for number in range(part.heads):
        head = f"{name}.head.{number}"
        own = {
            kind: _head(walk, name, kind, number, source, rotation)
            for kind, source in (("query", x), ("key", memory or x), ("value", memory or x))
        }
        scored = _scores(walk, name, number, own["query"], own["key"])
        operands = {"scores": scored, "mask": seen_by}
        pattern = walk.add(f"{head}.pattern", SOFTMAX, operands, walk.out(f"{name}.pattern")[:, number])
        operands = {"pattern": pattern, "v": own["value"]}
        context = walk.add(f"{head}.context", CONTEXT, operands, walk.out(f"{name}.context")[:, :, number])
        heads[f"head {number}"] = context
    joined = walk.add(f"{name}.joined", CONCATENATION, heads, walk.fed(f"{name}.output"))
    return walk.block(f"{name}.output", joined)


def _head(walk: Walk, name: str, kind: str, number: int, source: str, rotation: RotationOperands | None) -> str:
    """The query, key or value of one head: projected and, where the model does so, normed and turned.

    Heads that share keys and values each have them here as their own.
    """
    part, width = walk.part(name, MultiHeadAttention), walk.part(name, MultiHeadAttention).head_width
    head = f"{name}.head.{number}.{kind}"
    row = number if kind == "query" else number * part.key_heads // part.heads
    operands = {"x": source, **walk.weights(f"{name}.{kind}", W="weight", b="bias")}
    seen = walk.out(f"{name}.{kind}")[..., row * width : (row + 1) * width]
    value = walk.add(head, one_head(row, width), operands, seen)
    norm = f"{name}.{kind}_norm"
    if norm in walk.parts:
        operands = {"x": value, **walk.weights(norm, γ="weight", β="bias")}
        value = walk.add(f"{head}_norm", norm_formula(walk.parts[norm]), operands, walk.out(norm)[..., row, :])
    if rotation is not None and kind != "value":
        value = walk.add(f"{head}_turned", TURNED, {"x": value, **rotation._asdict()})
    return value


def _scores(walk: Walk, name: str, number: int, query: str, key: str) -> str:
    """The scores of one head, what its positions add included."""
    part, head = walk.part(name, MultiHeadAttention), f"{name}.head.{number}"
    formula, seen = scores(part.scale, part.head_width), walk.out(f"{name}.scores")[:, number]
    operands = {"q": query, "k": key}
    if part.position_scores is None:
        return walk.add(f"{head}.scores", formula, operands, seen)
    content = walk.add(f"{head}.content_scores", formula, operands)
    positions = f"{name}.position_scores"
    added = walk.block(positions, f"{head}.position_scores", number, query, key)
    return walk.add(f"{head}.scores", RESIDUAL, {"x": content, "y": added}, seen)


def _windowed(walk: Walk, name: str, mask: MaskOperands) -> str:
    """Who may look at whom, padding aside, in a layer that has a window."""
    window = walk.part(name, MultiHeadAttention).window
    if window is None:
        return mask.order
    return walk.add(f"{name}.order", in_window(window), {"order": mask.order})


def in_window(window: Window) -> Formula:
    ahead = "" if window.after is None else f" and j − i ≤ {window.after}"
    return Formula(
        f"order[i, j] and i − j ≤ {window.before}{ahead}",
        rf"o_{{ij}} \wedge -{window.before} \le j - i" + ("" if window.after is None else rf" \le {window.after}"),
        lambda order: order & within(distances(order.shape[0], order.shape[1], order.device), window),
    )


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
    given = walk.calls[name][-1].args[1]
    batch, _, targets, sources = walk.out(f"{name}.scores").shape
    window = walk.part(name, MultiHeadAttention).window
    mask: Tensor | None = both(given.dense, given.order(targets, sources, walk.out(f"{name}.scores").device, window))
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
