"""The walks of embeddings: token + segment + position, normed and projected; and of the kinds of positions.

Positions are counted by the model, and taken as it counted them.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from glassformer.blocks.embeddings import (
    Embeddings,
    FairseqSinusoidal,
    OffsetPositions,
    ProjectedNorm,
    Sinusoidal,
    TokenEmbeddings,
)

from ..formulas import Formula
from ..walk import Walk, walks
from .basic import walk_lookup


@walks(TokenEmbeddings)
def walk_token_embeddings(walk: Walk, name: str) -> str:
    return walk.block(f"{name}.token", walk.give(f"{name}.ids", walk.fed(name)))


@walks(Embeddings)
def walk_embeddings(walk: Walk, name: str) -> str:
    part = walk.part(name, Embeddings)
    ids, places, *rest = walk.calls[name][-1].args
    operands = {"token": walk.block(f"{name}.token", walk.give(f"{name}.ids", ids))}
    if part.segment is not None:
        segments = rest[0] if rest and rest[0] is not None else torch.zeros_like(ids)
        operands["segment"] = walk.block(f"{name}.segment", walk.give(f"{name}.segments", segments))
    if part.position is not None:
        operands["position"] = walk.block(f"{name}.position", walk.give(f"{name}.positions", places))
    after = [f"{name}.{one}" for one in ("norm", "projection") if f"{name}.{one}" in walk.parts]
    seen = walk.fed(after[0]) if after else walk.out(name)
    x = walk.add(f"{name}.sum", weighted_sum(operands, part.scale), operands, seen)
    for block in after:
        x = walk.block(block, x)
    return x


@walks(ProjectedNorm)
def walk_projected_norm(walk: Walk, name: str, x: str) -> str:
    return walk.block(f"{name}.norm", walk.block(f"{name}.projection", x))


@walks(OffsetPositions)
def walk_offset_positions(walk: Walk, name: str, ids: str) -> str:
    return walk_lookup(walk, name, ids, shifted(walk.part(name, OffsetPositions).offset))


@walks(Sinusoidal)
def walk_sinusoidal(walk: Walk, name: str, ids: str) -> str:
    return walk.add(name, sinusoid(walk.part(name, Sinusoidal).width), {"i": ids}, walk.out(name))


@walks(FairseqSinusoidal)
def walk_fairseq_sinusoidal(walk: Walk, name: str, ids: str) -> str:
    part = walk.part(name, FairseqSinusoidal)
    return walk.add(name, fairseq_sinusoid(part.width, part.offset), {"i": ids}, walk.out(name))


def weighted_sum(kinds: Iterable[str], factor: float) -> Formula:
    """The vectors of a token, its segment and its position; a Transformer makes the token's larger first."""
    text = " + ".join(kinds)
    if factor == 1.0:
        return Formula(text, rf"\mathrm{{{text}}}", lambda x, *more: sum(more, x))
    return Formula(
        f"{factor:.4g} · {text}", rf"{factor:.4g} \cdot \mathrm{{{text}}}", lambda x, *more: sum(more, x * factor)
    )


def shifted(offset: int) -> Formula:
    """Positions whose first rows are never used."""
    return Formula(f"E[i + {offset}]", rf"E_{{i+{offset}}}", lambda i, table: table[i + offset])


def sinusoid(width: int) -> Formula:
    """Vaswani's positions: sines in the first half, cosines in the second."""

    def compute(places: Tensor) -> Tensor:
        rates = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
        angles = places[..., None] * rates
        return torch.cat([angles.sin(), angles[..., : width // 2].cos()], dim=-1)

    return Formula("sin, cos(i / 10000^(2k/D))", rf"\sin, \cos\left(i / 10000^{{2k/{width}}}\right)", compute)


def fairseq_sinusoid(width: int, offset: int) -> Formula:
    """M2M-100's positions, counted from an offset: sines, then cosines, then 0 where a column is over."""
    half = width // 2

    def compute(places: Tensor) -> Tensor:
        angles = [(places + offset) / 10000.0 ** (k / (half - 1)) for k in range(half)]
        waves = [torch.sin(angle) for angle in angles] + [torch.cos(angle) for angle in angles]
        return torch.stack(waves + [torch.zeros_like(angles[0])] * (width % 2), dim=-1)

    return Formula(
        f"sin, cos((i + {offset}) / 10000^(k/{half - 1}))",
        rf"\sin, \cos\left((i + {offset}) / 10000^{{k/{half - 1}}}\right)",
        compute,
    )
