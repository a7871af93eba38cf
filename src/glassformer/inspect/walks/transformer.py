"""The walks of Transformer layers, of their feed-forwards and of their stacks."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.blocks.convolved import ConvolvedLayer, TextConvolution
from glassformer.blocks.transformer import FeedForward, GatedFeedForward, Layer, Stack

from ..formulas import AT_PADDING, PRODUCT, RESIDUAL, Formula, activation
from ..walk import Walk, walks
from .attention import MaskOperands
from .basic import walk_list


@walks(FeedForward)
def walk_feed_forward(walk: Walk, name: str, x: str) -> str:
    part = walk.part(name, FeedForward)
    operands = {"x": walk.block(f"{name}.up", x)}
    inner = walk.add(f"{name}.neurons", activation(part.activation), operands, walk.out(f"{name}.neurons"))
    return walk.block(f"{name}.down", inner)


@walks(GatedFeedForward)
def walk_gated_feed_forward(walk: Walk, name: str, x: str) -> str:
    part, gated = walk.part(name, GatedFeedForward), {"x": walk.block(f"{name}.gate", x)}
    gate = walk.add(f"{name}.gate_open", activation(part.activation), gated)
    operands = {"x": gate, "y": walk.block(f"{name}.up", x)}
    inner = walk.add(f"{name}.neurons", PRODUCT, operands, walk.out(f"{name}.neurons"))
    return walk.block(f"{name}.down", inner)


@walks(Layer)
def walk_layer(
    walk: Walk, name: str, x: str, mask: MaskOperands, memory: str = "", memory_mask: MaskOperands | None = None
) -> str:
    """Each block with its residual and norm, the norm first or last; `memory` is what a decoder's layer looks at."""
    part = walk.part(name, Layer)
    blocks: dict[str, Callable[[str], str]] = {"attention": lambda y: walk.block(f"{name}.attention", y, mask)}
    if memory:
        blocks["cross_attention"] = lambda y: walk.block(f"{name}.cross_attention", y, memory_mask, memory)
    blocks["feed_forward"] = lambda y: walk.block(f"{name}.feed_forward", y)
    names = list(blocks)
    for place, (block, run) in enumerate(blocks.items()):
        norm, total = f"{name}.{block}_norm", f"{name}.{block}_residual"
        if part.pre_norm:
            y = run(walk.block(norm, x))
            after = walk.out(name) if block == names[-1] else walk.fed(f"{name}.{names[place + 1]}_norm")
            x = walk.add(total, RESIDUAL, {"x": x, "y": y}, after)
        else:
            y = run(x)
            x = walk.block(norm, walk.add(total, RESIDUAL, {"x": x, "y": y}, walk.fed(norm)))
    return x


@walks(Stack)
def walk_stack(walk: Walk, name: str, x: str, mask: MaskOperands, *source: object) -> str:
    """Layers one after another; where there is padding, zero there. `source`: a decoder's memory and its mask."""
    x = walk_list(walk, name, x, mask, *source)
    if bool(walk.given[mask.keep].all()):
        return x
    return walk.add(name, AT_PADDING, {"x": x, "keep": mask.keep}, walk.out(name))


@walks(TextConvolution)
def walk_text_convolution(walk: Walk, name: str, x: str, keep: str) -> str:
    part = walk.part(name, TextConvolution)
    operands = {"x": x, "keep": keep, **walk.weights(f"{name}.conv", W="weight", b="bias")}
    seen = walk.out(f"{name}.conv").mT
    found = walk.add(f"{name}.conv", convolution(part.reach, part.conv.groups), operands, seen)
    return walk.add(name, activation(part.activation), {"x": found}, walk.out(name))


@walks(ConvolvedLayer)
def walk_convolved_layer(walk: Walk, name: str, x: str, mask: MaskOperands) -> str:
    y = walk_layer(walk, name, x, mask)
    beside = walk.block(f"{name}.convolution", x, mask.keep)
    norm = f"{name}.convolution_norm"
    return walk.block(norm, walk.add(f"{name}.convolution_residual", RESIDUAL, {"x": y, "y": beside}, walk.fed(norm)))


def convolution(reach: int, groups: int) -> Formula:
    """(B, T, D) -> (B, T, D): each group of outputs from the same group of inputs, of every token in reach."""

    def compute(x: Tensor, keep: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        near = F.pad(x * keep[..., None], (0, 0, reach, reach)).unfold(1, 2 * reach + 1, 1)  # (B, T, D, 2r + 1)
        near, weight = near.unflatten(2, (groups, -1)), weight.unflatten(0, (groups, -1))
        return torch.einsum("btgdr,godr->btgo", near, weight).flatten(2) + bias

    return Formula(
        f"W [x(t−{reach}); …; x(t+{reach})] + b", rf"W [x_{{t-{reach}}}; \dots; x_{{t+{reach}}}] + b", compute
    )
