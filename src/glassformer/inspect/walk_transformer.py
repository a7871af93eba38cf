"""The steps of embeddings, attention, feed-forwards and Transformer layers.

B batch, T target length, S source length, D model width, H heads, K head width.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.blocks.attention import MultiHeadAttention
from glassformer.blocks.embeddings import Embeddings, OffsetPositions, Sinusoidal
from glassformer.blocks.transformer import FeedForward, Layer

from . import formulas
from .steps import Walk


def embeddings(walk: Walk, name: str) -> str:
    """Token + segment + position, normed; positions are counted by the model, and taken as it counted them."""
    part: Any = walk.parts[name]
    given = walk.calls[name][-1].args
    ids = walk.give(f"{name}.ids", given[0])
    token = walk.add(
        f"{name}.token", formulas.LOOKUP, {"i": ids, "E": f"{name}.token.weight"}, walk.out(f"{name}.token")
    )
    if not isinstance(part, Embeddings):  # of an RNN: words alone
        return token
    operands = {"token": token}
    if part.segment is not None:
        told = len(given) > 2 and given[2] is not None
        segments = walk.give(f"{name}.segments", given[2] if told else torch.zeros_like(given[0]))
        seen = walk.out(f"{name}.segment") if told else None
        weight = {"i": segments, "E": f"{name}.segment.weight"}
        operands["segment"] = walk.add(f"{name}.segment", formulas.LOOKUP, weight, seen)
    operands["position"] = _positions(walk, name, part.position, given[1])
    normed = part.norm is not None
    seen = walk.fed(f"{name}.norm") if normed else walk.out(name)
    total = walk.add(f"{name}.sum", formulas.total(operands, part.scale), operands, seen)
    return walk.norm(f"{name}.norm", total) if normed else total


def _positions(walk: Walk, name: str, part: nn.Module, places: Tensor) -> str:
    operands = {"i": walk.give(f"{name}.positions", places)}
    formula = formulas.LOOKUP
    if isinstance(part, Sinusoidal):
        formula = formulas.sinusoid(part.width)
    else:
        operands["E"] = f"{name}.position.weight"
        if isinstance(part, OffsetPositions):
            formula = formulas.shifted(part.offset)
    return walk.add(f"{name}.position", formula, operands, walk.out(f"{name}.position"))


def order(walk: Walk, name: str, targets: int, sources: int, *, causal: bool) -> str:
    """(T, S): who may look at whom, padding aside."""
    whole = torch.ones(targets, sources, dtype=torch.bool)
    return walk.give(name, whole.tril() if causal else whole)


def layers(
    walk: Walk, name: str, x: str, look: str, keep: str, *, memory: str = "", across: tuple[str, str] = ("", "")
) -> str:
    """A stack, one layer after another. `look` and `keep`: order and padding; `across`: the same towards the memory."""
    for number in range(len(walk.parts[name])):  # type: ignore[arg-type]
        x = layer(walk, f"{name}.{number}", x, (look, keep), memory=memory, across=across)
    return x


def layer(walk: Walk, name: str, x: str, within: tuple[str, str], *, memory: str, across: tuple[str, str]) -> str:
    part = walk.parts[name]
    assert isinstance(part, Layer), f"{name} is a {type(part).__name__}, and only a Layer is known here"
    blocks: dict[str, Callable[[str], str]] = {"attention": lambda y: attention(walk, f"{name}.attention", y, within)}
    if memory:
        blocks["cross_attention"] = lambda y: attention(walk, f"{name}.cross_attention", y, across, memory)
    blocks["feed_forward"] = lambda y: feed_forward(walk, f"{name}.feed_forward", y)
    names = list(blocks)
    for place, (block, run) in enumerate(blocks.items()):
        norm, total = f"{name}.{block}_norm", f"{name}.{block}_residual"
        if part.pre_norm:
            y = run(walk.norm(norm, x))
            after = walk.out(name) if block == "feed_forward" else walk.fed(f"{name}.{names[place + 1]}_norm")
            x = walk.add(total, formulas.RESIDUAL, {"x": x, "y": y}, after)
        else:
            y = run(x)
            x = walk.norm(norm, walk.add(total, formulas.RESIDUAL, {"x": x, "y": y}, walk.fed(norm)))
    return x


def attention(walk: Walk, name: str, x: str, looks: tuple[str, str], memory: str = "") -> str:
    """Head by head, as in the paper: q, k, v, scores, softmax, mix; then their concatenation and the output."""
    part = walk.parts[name]
    assert isinstance(part, MultiHeadAttention)
    width = part.query.out_features // part.heads
    mask = walk.add(f"{name}.mask", formulas.BOTH, {"keep": looks[1], "order": looks[0]}, _mask(walk, name))
    heads = {}
    for number in range(part.heads):
        head, columns = f"{name}.head.{number}", slice(number * width, (number + 1) * width)
        own = {}
        for kind, source in (("query", x), ("key", memory or x), ("value", memory or x)):
            weights = walk.weights(f"{name}.{kind}", W="weight", b="bias")
            seen = walk.out(f"{name}.{kind}")[..., columns]
            own[kind] = walk.add(f"{head}.{kind}", formulas.one_head(number, width), {"x": source, **weights}, seen)
        compared = {"q": own["query"], "k": own["key"]}
        scores = walk.add(
            f"{head}.scores", formulas.scores(part.scale, width), compared, walk.out(f"{name}.scores")[:, number]
        )
        weighed = {"scores": scores, "mask": mask}
        pattern = walk.add(f"{head}.pattern", formulas.SOFTMAX, weighed, walk.out(f"{name}.pattern")[:, number])
        gathered = {"pattern": pattern, "v": own["value"]}
        mixed = walk.add(f"{head}.mixed", formulas.MIX, gathered, walk.out(f"{name}.context")[:, :, number])
        heads[f"head {number}"] = mixed
    joined = walk.add(f"{name}.joined", formulas.CONCATENATION, heads, walk.fed(f"{name}.output"))
    return walk.linear(f"{name}.output", joined)


def attention_alone(walk: Walk, name: str, keep: str, *, crosses: bool, causal: bool) -> str:
    """An attention whose steps begin with what entered it in the model."""
    x = walk.give(f"{name}.given", walk.fed(f"{name}.query"))
    memory = walk.give(f"{name}.memory", walk.fed(f"{name}.key")) if crosses else ""
    look = order(walk, f"{name}.order", *walk.out(f"{name}.pattern").shape[-2:], causal=causal)
    return attention(walk, name, x, (look, keep), memory)


def _mask(walk: Walk, name: str) -> Tensor:
    """The mask that the attention was given, as (B, T, S)."""
    scope = walk.calls[name][-1].args[1]
    batch, _, targets, sources = walk.out(f"{name}.scores").shape
    if scope.dense is None:
        return torch.ones(batch, targets, sources, dtype=torch.bool)
    return scope.dense.expand(batch, 1, targets, sources)[:, 0]  # type: ignore[no-any-return]


def feed_forward(walk: Walk, name: str, x: str) -> str:
    part = walk.parts[name]
    assert isinstance(part, FeedForward)
    up = walk.linear(f"{name}.up", x)
    inner = walk.add(f"{name}.neurons", formulas.activation(part.activation), {"x": up}, walk.out(f"{name}.neurons"))
    return walk.linear(f"{name}.down", inner)
