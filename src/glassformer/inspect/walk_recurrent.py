"""The steps of recurrent networks, token by token and gate by gate, and of the attentions of their time.

B batch, T length, S source length, W width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from glassformer.blocks.alignment import AdditiveScore, Alignment, ConcatScore, DotScore
from glassformer.blocks.recurrent import GruGates, LstmGates, Recurrent, RnnGates

from . import formulas
from .steps import Walk

Past = dict[str, str]  # "hidden", and "cell" in an LSTM: the names of what one direction of one layer remembers


@dataclass(frozen=True)
class Cells:
    """One direction of one layer: where its Points and its weights are."""

    walk: Walk
    name: str  # recurrent.layers.0.left_to_right
    weights: dict[str, str]  # W, b, U, c -> names
    width: int

    def step(self, x: str, past: Past, time: int, call: int) -> Past:
        """The gates at one token, whose place in the text is `time` and in the loop `call`."""
        gates: Any = self.walk.parts[self.name]
        given = {"x": x, "h": past["hidden"], **self.weights}

        def add(gate: str, formula: formulas.Formula, operands: dict[str, str]) -> str:
            seen = self.walk.out(f"{self.name}.{gate}", call)
            return self.walk.add(f"{self.name}.{gate}.step.{time}", formula, operands, seen)

        def sigmoid(gate: str, symbol: str, row: int) -> str:
            return add(gate, formulas.gate(symbol, row, self.width, torch.sigmoid, "σ"), given)

        if isinstance(gates, RnnGates):
            called = gates.squash.__name__
            return {"hidden": add("hidden", formulas.gate("", 0, self.width, gates.squash, called), given)}
        if isinstance(gates, GruGates):
            r, z = sigmoid("reset", "r", 0), sigmoid("update", "z", 1)
            asked = {"x": x, "h": past["hidden"], "r": r, **self.weights}
            n = add("candidate", formulas.gru_candidate(self.width), asked)
            return {"hidden": add("hidden", formulas.GRU_HIDDEN, {"z": z, "n": n, "h": past["hidden"]})}
        assert isinstance(gates, LstmGates)
        i, f = sigmoid("input", "i", 0), sigmoid("forget", "f", 1)
        g = add("candidate", formulas.gate("g", 2, self.width, torch.tanh, "tanh"), given)
        o = sigmoid("output", "o", 3)
        cell = add("cell", formulas.LSTM_CELL, {"f": f, "c": past["cell"], "i": i, "g": g})
        return {"hidden": add("hidden", formulas.LSTM_HIDDEN, {"o": o, "c": cell}), "cell": cell}


def start(walk: Walk, name: str, batch: int) -> list[Past]:
    """A state of zeros for every direction of every layer."""
    part: Any = walk.parts[name]
    zeros = walk.give(f"{name}.zeros", torch.zeros(batch, part.width, dtype=torch.float64))
    parts = ("hidden", "cell") if part.kind == "lstm" else ("hidden",)
    return [dict.fromkeys(parts, zeros) for _ in range(len(part.layers) * part.directions)]


def recurrent(
    walk: Walk, name: str, inputs: Sequence[str], keep: str, state: list[Past], *, first: int = 0
) -> tuple[list[str], list[Past]]:
    """The top layer's output at every token, and the state after the last; `first` is the number of the first token."""
    part = walk.parts[name]
    assert isinstance(part, Recurrent)
    padded = not bool(walk.given[keep].all())
    state = list(state)
    for number, ways in enumerate(part.layers):
        outputs: list[list[str]] = [[] for _ in inputs]
        for way, gates in ways.items():  # type: ignore[operator]
            row = number * part.directions + len(outputs[0])
            cells = _cells(walk, name, number, way)
            times = range(len(inputs))
            for loop, time in enumerate(reversed(times) if gates.hidden.reverse else times):
                old, place = state[row], first + time
                new = cells.step(inputs[time], old, place, first + loop)
                if padded:
                    new = _kept(walk, cells.name, new, old, keep, place)
                state[row] = new
                outputs[time].append(new["hidden"])
        inputs = [
            _joined(walk, f"{name}.layers.{number}.step.{first + time}", found) for time, found in enumerate(outputs)
        ]
    return list(inputs), state


def _cells(walk: Walk, name: str, number: int, way: str) -> Cells:
    part: Any = walk.parts[name]
    ending = f"l{number}" + ("_reverse" if way == "right_to_left" else "")
    kinds = {"W": "weight_ih", "b": "bias_ih", "U": "weight_hh", "c": "bias_hh"}
    weights = {symbol: f"{name}.kernel.{kind}_{ending}" for symbol, kind in kinds.items()}
    return Cells(walk, f"{name}.layers.{number}.{way}", weights, part.width)


def _kept(walk: Walk, name: str, new: Past, old: Past, keep: str, time: int) -> Past:
    return {
        kind: walk.add(
            f"{name}.kept_{kind}.step.{time}",
            formulas.kept(time),
            {"new": new[kind], "old": old[kind], "keep": keep},
        )
        for kind in new
    }


def _joined(walk: Walk, name: str, found: list[str]) -> str:
    """Both directions side by side."""
    if len(found) == 1:
        return found[0]
    return walk.add(name, formulas.CONCATENATION, {"left to right": found[0], "right to left": found[1]})


def together(walk: Walk, name: str, outputs: Sequence[str], keep: str) -> str:
    """All tokens as one value (B, T, ·), zero at padding: what the network gives."""
    steps = {f"x{number}": output for number, output in enumerate(outputs)}
    whole = walk.add(f"{name}.steps", formulas.STACK, steps)
    return walk.add(f"{name}.outputs", formulas.AT_PADDING, {"x": whole, "keep": keep}, walk.calls[name][-1].output[0])


def keys(walk: Walk, name: str, memory: str) -> str:
    """What the queries are compared with."""
    part = walk.parts[name]
    assert isinstance(part, Alignment)
    if isinstance(part.scorer, DotScore):
        return memory
    if isinstance(part.scorer, ConcatScore):
        weight = f"{name}.scorer.both.weight"
        return walk.add(f"{name}.keys", formulas.concat_keys(part.scorer.query_width), {"m": memory, "W": weight})
    return walk.linear(f"{name}.scorer.memory", memory)


def align(walk: Walk, name: str, query: str, memory: str, keep: str, compared: str, *, time: int | None = None) -> str:
    """Scores, softmax and context of one query (`time`), or of all at once."""
    part: Any = walk.parts[name]
    ending, call = ("", -1) if time is None else (f".step.{time}", time)
    formula, operands = _scores(walk, name, query, compared)
    scores = walk.add(f"{name}.scores{ending}", formula, operands, walk.out(f"{name}.scores", call))
    weighed = {"scores": scores, "keep": keep}
    pattern = walk.add(f"{name}.pattern{ending}", formulas.ALIGN, weighed, walk.out(f"{name}.pattern", call))
    context = walk.out(name, call)
    seen = context[:, 0] if part.stepwise else context
    return walk.add(f"{name}.context{ending}", formulas.CONTEXT, {"pattern": pattern, "memory": memory}, seen)


def _scores(walk: Walk, name: str, query: str, compared: str) -> tuple[formulas.Formula, dict[str, str]]:
    scorer: Any = walk.parts[f"{name}.scorer"]
    if isinstance(scorer, AdditiveScore):
        weights = {"W": f"{name}.scorer.query.weight", "v": f"{name}.scorer.weigh.weight"}
        return formulas.ADDED, {"q": query, "k": compared, **weights}
    if isinstance(scorer, ConcatScore):
        weights = {"W": f"{name}.scorer.both.weight", "v": f"{name}.scorer.weigh.weight"}
        return formulas.concat(scorer.query_width), {"q": query, "k": compared, **weights}
    return formulas.dot(getattr(scorer, "scale", 1.0)), {"q": query, "m": compared}
