"""The walk of a convolution over time: real tokens side by side, windows of them, filters, and back to their places.

B batch, T length, D input width, F filters.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.blocks.activations import ACTIVATIONS
from glassformer.blocks.convolution import Convolution, WindowFilters
from glassformer.blocks.masks import kept_first

from ..formulas import Formula, activation
from ..walk import Walk, walks


@walks(WindowFilters)
def walk_filters(walk: Walk, name: str, x: str) -> str:
    width = walk.part(name, WindowFilters).width
    seen = walk.fed(f"{name}.linear")
    scores = walk.block(f"{name}.linear", walk.add(f"{name}.windows", windows(width), {"x": x}, seen))
    return walk.add(name, activation(ACTIVATIONS["relu"]), {"x": scores}, walk.out(name))


@walks(Convolution)
def walk_convolution(walk: Walk, name: str, x: str, keep: str) -> str:
    """The features of every token, zero at padding."""
    real = walk.add(f"{name}.real", REAL_FIRST, {"x": x, "keep": keep}, walk.fed(f"{name}.filters.0"))
    found = [
        walk.block(f"{name}.filters.{number}", real) for number in range(len(walk.part(name, Convolution).filters))
    ]
    operands = {"keep": keep, **{f"x{number}": one for number, one in enumerate(found)}}
    return walk.add(name, SIDE_BY_SIDE, operands, walk.out(name))


def windows(width: int) -> Formula:
    """(B, T, D) -> (B, T, width·D)"""

    def compute(x: Tensor) -> Tensor:
        padded = F.pad(x, (0, 0, (width - 1) // 2, width // 2))
        return padded.unfold(1, width, 1).mT.flatten(2)

    before, after = (width - 1) // 2, width // 2
    return Formula(f"[x(t−{before}); …; x(t+{after})]", rf"[x_{{t-{before}}}; \dots; x_{{t+{after}}}]", compute)


def real_first(x: Tensor, keep: Tensor) -> Tensor:
    """Each row's real tokens one after the other, and zeros after them."""
    return torch.stack([F.pad(row[kept], (0, 0, 0, int((~kept).sum()))) for row, kept in zip(x, keep, strict=True)])


def side_by_side(keep: Tensor, *features: Tensor) -> Tensor:
    """All widths' features in one vector, at the places of their tokens; zeros at padding."""
    places = kept_first(keep).argsort(1)[..., None]
    return torch.cat(features, dim=-1).take_along_dim(places, dim=1) * keep[..., None]


REAL_FIRST = Formula("real tokens of x, then 0", r"(x_t)_{t : m_t = 1}", real_first)
SIDE_BY_SIDE = Formula("[a; b; …], 0 at padding", r"[a; b; \dots] \odot m", side_by_side)
