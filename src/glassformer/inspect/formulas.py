"""Formulas as text, as LaTeX, and as plain algebra on float64 tensors; here those that several blocks share.

B batch, T length, S source length, D model width.
Nothing here calls a module: a formula is given its operands, weights included, and returns a value.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.blocks.activations import ACTIVATIONS, Activation

from .numbers import Number, alike, if_real


@dataclass(frozen=True)
class Formula:
    """How a value follows from its operands, for people and for the machine."""

    text: str
    latex: str
    compute: Callable[..., Tensor]
    number: Number | None = None  # what one number of it is made from


RESIDUAL = Formula("x + y", r"x + y", lambda x, y: x + y, alike("x", "y"))
PRODUCT = Formula("x · y", r"x \odot y", lambda x, y: x * y, alike("x", "y"))
IDENTITY = Formula("x", "x", lambda x: x, alike("x"))
TANH = Formula("tanh(x)", r"\tanh(x)", lambda x: x.tanh(), alike("x"))
CONCATENATION = Formula("[a; b; …]", r"[a; b; \dots]", lambda *parts: torch.cat(parts, dim=-1))
STACK = Formula("x₁, x₂, …", r"(x_1, \dots, x_T)", lambda *steps: torch.stack(steps, dim=1))
AT_PADDING = Formula("x, 0 at padding", r"x \odot m", lambda x, keep: x * keep[..., None], if_real)


def activation(function: Activation) -> Formula:
    """One of the activations that configs name."""
    name = next((name for name, known in ACTIVATIONS.items() if known is function), "activation")
    return Formula(f"{name}(x)", rf"\mathrm{{{name.replace('_', '-')}}}(x)", function, alike("x"))


def adapted(scale: float) -> Formula:
    """The weight of a linear layer and its low-rank adapter in one."""
    return Formula(
        f"W + {scale:.4g} · U D", rf"W + {scale:.4g} \, U D", lambda weight, up, down: weight + scale * (up @ down)
    )


def masked_softmax(values: Tensor, mask: Tensor) -> Tensor:
    """exp(x) over its sum, over what may be looked at; zero where nothing may be."""
    kept = values.masked_fill(~mask, -torch.inf)
    highest = kept.amax(-1, keepdim=True)
    risen = (kept - highest.masked_fill(highest == -torch.inf, 0.0)).exp()
    total = risen.sum(-1, keepdim=True)
    return risen / total.masked_fill(total == 0, 1.0)


def as_float64(value: Tensor) -> Tensor:
    """Floats widened; ids and masks as they are."""
    return value.double() if value.is_floating_point() else value
