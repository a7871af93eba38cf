"""Saturation: which gates and states of a recurrent network are stuck at their ends.

B batch, T time, W units.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from glassformer.blocks.recurrent import Gates, RnnGates

from .norms import EDGE
from .record import modules_of

Rule = Literal["gate", "tanh", "cell", "relu"]
GATES = ("input", "forget", "output", "reset", "update")


@dataclass(frozen=True)
class Saturation:
    """One Point of a recurrent network: the share of (time, unit) values near each end, of all and of every unit."""

    name: str
    rule: Rule
    low: Tensor  # (W,)
    high: Tensor  # (W,)

    @property
    def share(self) -> float:
        return float((self.low + self.high).double().mean())


def saturation(model: nn.Module, seen: Mapping[str, Tensor]) -> list[Saturation]:
    """Of every gate and state that was recorded.

    A gate is saturated below 0.05 and above 0.95, a tanh beyond ±0.95, a cell where its tanh is; a relu at zero.
    """
    rules = rules_of(model)
    return [Saturation(name, rules[name], *_ends(rules[name], seen[name])) for name in seen if name in rules]


def rules_of(model: nn.Module) -> dict[str, Rule]:
    """Every gate and state of a model, and where its ends are."""
    found: dict[str, Rule] = {}
    for place, part in modules_of(model).items():
        if isinstance(part, get_args(Gates)):
            found |= {f"{place}.{name}": _rule(part, name) for name, _ in part.named_children()}
    return found


def _rule(gates: nn.Module, name: str) -> Rule:
    if name in GATES:
        return "gate"
    if name == "cell":
        return "cell"
    return "relu" if isinstance(gates, RnnGates) and gates.squash is torch.relu else "tanh"


def _ends(rule: Rule, value: Tensor) -> tuple[Tensor, Tensor]:
    """(W,) each, over the batch and time of (B, T, W)."""
    if rule == "cell":
        value = value.tanh()
    floor = EDGE if rule == "gate" else EDGE - 1
    low = value <= 0 if rule == "relu" else value < floor
    high = value > (float("inf") if rule == "relu" else 1 - EDGE)
    return low.float().mean((0, 1)), high.float().mean((0, 1))
