"""The walks of positions inside attention: those that turn queries and keys, and those that add to scores.

B batch, T target length, S source length, K head width.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from glassformer.blocks.masks import distances
from glassformer.blocks.relative import RelativeBias
from glassformer.blocks.rotary import DynamicScaling, Rotary

from ..formulas import Formula
from ..walk import Walk, walks


class RotationOperands(NamedTuple):
    """The names of the cosines and sines (B or 1, T, K/2) that tokens are turned by."""

    cos: str
    sin: str


TURNED = Formula(
    "(x₁ cos − x₂ sin, x₂ cos + x₁ sin)",
    r"(x_1 \cos - x_2 \sin,\; x_2 \cos + x_1 \sin)",
    lambda x, cos, sin: _turned(x, cos, sin),
)


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


@walks(Rotary)
def walk_rotary(walk: Walk, name: str) -> RotationOperands:
    """Cosines and sines of place · frequency. Places are counted by the model, and taken as it counted them."""
    part, (positions, lengths) = walk.part(name, Rotary), walk.calls[name][-1].args
    operands = {"p": walk.give(f"{name}.positions", positions), "f": f"{name}.frequencies"}
    if isinstance(part.scaling, DynamicScaling):
        given = part.scaling.frequencies_at(lengths, part.theta, part.width)
        operands["f"] = walk.give(f"{name}.frequencies_of_texts", given)
    cos, sin = walk.calls[name][-1].output
    factor = part.scaling.attention_factor
    steps = (("cos", torch.cos, cos), ("sin", torch.sin, sin))
    return RotationOperands(
        *(
            walk.add(f"{name}.{word}", _wave(word, wave, factor), operands, seen[..., 0, :])
            for word, wave, seen in steps
        )
    )


def _wave(name: str, wave: Callable[[Tensor], Tensor], factor: float) -> Formula:
    """In 32 bits up to the angle, as models with rotary positions were trained."""
    times = "" if factor == 1.0 else f" · {factor:.4g}"
    return Formula(
        f"{name}(p · f){times}",
        rf"\{name}(p f)" + ("" if factor == 1.0 else rf" \cdot {factor:.4g}"),
        lambda p, f: wave((p[..., None].float() * f.float()).double()) * factor,
    )


@walks(RelativeBias)
def walk_relative_bias(walk: Walk, name: str, step: str, number: int, _query: str, _key: str) -> str:
    """A head's number for the bucket of each distance."""
    part, (targets, sources) = walk.part(name, RelativeBias), walk.out(f"{name.rpartition('.')[0]}.scores").shape[-2:]
    away = walk.give(f"{step}.distances", distances(targets, sources, torch.device("cpu")))
    formula = Formula(
        "E[bucket(j − i), h]", r"E_{\mathrm{bucket}(j - i), h}", lambda d, table: table[part.bucket(d)][..., number]
    )
    return walk.add(step, formula, {"d": away, "E": f"{name}.table.weight"})
