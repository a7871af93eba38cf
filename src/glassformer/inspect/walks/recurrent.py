"""The walk of a recurrent network, layer by layer, direction by direction, token by token.

B batch, T length, W width.
"""

from collections.abc import Sequence

import torch
from torch import nn

from glassformer.blocks.recurrent import Recurrent, RecurrentPooling

from ..formulas import AT_PADDING, CONCATENATION, STACK, Formula
from ..walk import Walk, walks
from .gates import CellStep, PastOperands

MEAN = Formula(
    "the mean of x over real tokens",
    r"\frac{\sum_t m_t x_t}{\sum_t m_t}",
    lambda x, keep: (x * keep[..., None]).sum(1) / keep.sum(1, keepdim=True).clamp(min=1),
)
MAXIMUM = Formula(
    "the largest of x over real tokens",
    r"\max_{t : m_t = 1} x_t",
    lambda x, keep: torch.where(keep[..., None], x, -torch.inf).amax(1),
)
POOLED = {"mean": MEAN, "max": MAXIMUM}


@walks(Recurrent)
def walk_recurrent(
    walk: Walk,
    name: str,
    inputs: Sequence[str],
    keep: str,
    state: list[PastOperands] | None = None,
    *,
    first: int = 0,
) -> tuple[list[str], list[PastOperands]]:
    """The top layer's output at every token, and the state after the last.

    `inputs` are the tokens' vectors (B, ·), of which the first is number `first` of the text; a state of None is zero.
    """
    part = walk.part(name, Recurrent)
    state = _zeros(walk, name, len(walk.given[keep])) if state is None else list(state)
    for number, layer in enumerate(part.layers):
        assert isinstance(layer, nn.ModuleDict)
        outputs: list[list[str]] = [[] for _ in inputs]
        for direction, way in enumerate(layer):
            row, place = number * part.directions + direction, f"{name}.layers.{number}.{way}"
            weights = _weights(name, number, way)
            times = range(len(inputs))
            for loop, time in enumerate(reversed(times) if way == "right_to_left" else times):
                at = CellStep(weights, part.width, inputs[time], state[row], first + time, first + loop)
                state[row] = _kept(walk, place, walk.walk_of(place)(walk, place, at), at, keep)
                outputs[time].append(state[row]["hidden"])
        inputs = [
            _joined(walk, f"{name}.layers.{number}.step.{first + time}", found) for time, found in enumerate(outputs)
        ]
    return list(inputs), state


def walk_together(walk: Walk, name: str, outputs: Sequence[str], keep: str) -> str:
    """All tokens as one value (B, T, ·), zero at padding: what the network gives."""
    steps = {f"x{number}": output for number, output in enumerate(outputs)}
    whole = walk.add(f"{name}.steps", STACK, steps)
    return walk.add(f"{name}.outputs", AT_PADDING, {"x": whole, "keep": keep}, walk.calls[name][-1].output[0])


@walks(RecurrentPooling)
def walk_pooling(walk: Walk, name: str, hidden: str, state: list[PastOperands], keep: str) -> str:
    """One vector a text."""
    part = walk.part(name, RecurrentPooling)
    if part.kind in POOLED:
        return walk.add("summary", POOLED[part.kind], {"x": hidden, "keep": keep}, walk.out(name))
    if part.kind == "attention":
        return walk.block(f"{name}.attention", hidden, state, keep)
    last = {f"h{way}": past["hidden"] for way, past in enumerate(state[-part.directions :])}
    return walk.add("summary", CONCATENATION, last, walk.out(name))


def _zeros(walk: Walk, name: str, batch: int) -> list[PastOperands]:
    """A state of zeros for every direction of every layer."""
    part = walk.part(name, Recurrent)
    zeros = walk.give(f"{name}.zeros", torch.zeros(batch, part.width, dtype=torch.float64))
    kinds = ("hidden", "cell") if part.kind == "lstm" else ("hidden",)
    return [dict.fromkeys(kinds, zeros) for _ in range(len(part.layers) * part.directions)]


def _weights(name: str, number: int, way: str) -> dict[str, str]:
    ending = f"l{number}" + ("_reverse" if way == "right_to_left" else "")
    kinds = {"W": "weight_ih", "b": "bias_ih", "U": "weight_hh", "c": "bias_hh"}
    return {symbol: f"{name}.kernel.{kind}_{ending}" for symbol, kind in kinds.items()}


def _kept(walk: Walk, name: str, new: PastOperands, at: CellStep, keep: str) -> PastOperands:
    """At padding the state stays as it was."""
    if bool(walk.given[keep].all()):
        return new
    return {
        kind: walk.add(
            f"{name}.kept_{kind}.step.{at.time}",
            kept(at.time),
            {"new": new[kind], "old": at.past[kind], "keep": keep},
        )
        for kind in new
    }


def kept(time: int) -> Formula:
    return Formula(
        "new where real, else old",
        r"m_t h' + (1 - m_t) h",
        lambda new, old, keep: torch.where(keep[:, time, None], new, old),
    )


def _joined(walk: Walk, name: str, found: list[str]) -> str:
    """Both directions side by side."""
    if len(found) == 1:
        return found[0]
    return walk.add(name, CONCATENATION, {"left to right": found[0], "right to left": found[1]})
