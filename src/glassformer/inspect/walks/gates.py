"""The walks of recurrent cells, gate by gate, at one token.

B batch, W width. x is the input (B, ·), h the state before it; W, b belong to the input and U, c to the state.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.blocks.recurrent import GruGates, LstmGates, RnnGates

from ..formulas import Formula
from ..numbers import Number, Place, alike
from ..walk import Walk, walks

PastOperands = dict[str, str]  # "hidden", and "cell" in an LSTM: the names of what a direction of a layer remembers


@dataclass(frozen=True)
class CellStep:
    """One direction of one layer at one token."""

    weights: dict[str, str]  # W, b, U, c -> names
    width: int
    x: str
    past: PastOperands
    time: int  # the token's place in the text
    call: int  # and in the loop

    @property
    def operands(self) -> dict[str, str]:
        return {"x": self.x, "h": self.past["hidden"], **self.weights}

    def add(self, walk: Walk, point: str, formula: Formula, operands: dict[str, str]) -> str:
        """What passes a Point of the gates at this token."""
        return walk.add(f"{point}.step.{self.time}", formula, operands, walk.out(point, self.call))

    def sigmoid(self, walk: Walk, point: str, symbol: str, row: int) -> str:
        return self.add(walk, point, gate(symbol, row, self.width, torch.sigmoid, "σ"), self.operands)


@walks(RnnGates)
def walk_rnn(walk: Walk, name: str, at: CellStep) -> PastOperands:
    squash = walk.part(name, RnnGates).squash
    formula = gate("", 0, at.width, squash, squash.__name__)
    return {"hidden": at.add(walk, f"{name}.hidden", formula, at.operands)}


@walks(GruGates)
def walk_gru(walk: Walk, name: str, at: CellStep) -> PastOperands:
    hidden = at.past["hidden"]
    r, z = at.sigmoid(walk, f"{name}.reset", "r", 0), at.sigmoid(walk, f"{name}.update", "z", 1)
    operands = {"x": at.x, "h": hidden, "r": r, **at.weights}
    n = at.add(walk, f"{name}.candidate", gru_candidate(at.width), operands)
    return {"hidden": at.add(walk, f"{name}.hidden", GRU_HIDDEN, {"z": z, "n": n, "h": hidden})}


@walks(LstmGates)
def walk_lstm(walk: Walk, name: str, at: CellStep) -> PastOperands:
    i, f = at.sigmoid(walk, f"{name}.input", "i", 0), at.sigmoid(walk, f"{name}.forget", "f", 1)
    g = at.add(walk, f"{name}.candidate", gate("g", 2, at.width, torch.tanh, "tanh"), at.operands)
    o = at.sigmoid(walk, f"{name}.output", "o", 3)
    cell = at.add(walk, f"{name}.cell", LSTM_CELL, {"f": f, "c": at.past["cell"], "i": i, "g": g})
    return {"hidden": at.add(walk, f"{name}.hidden", LSTM_HIDDEN, {"o": o, "c": cell}), "cell": cell}


def gate(symbol: str, row: int, width: int, squash: Callable[[Tensor], Tensor], called: str) -> Formula:
    """One gate: its rows of the weights, and what bounds it."""
    part = slice(row * width, (row + 1) * width)

    def compute(x: Tensor, h: Tensor, w: Tensor, b: Tensor, u: Tensor, c: Tensor) -> Tensor:
        return squash(x @ w[part].mT + b[part] + h @ u[part].mT + c[part])

    at, latex_at = (f"_{symbol}", rf"_{{{symbol}}}") if symbol else ("", "")
    latex = {"σ": r"\sigma"}.get(called, rf"\mathrm{{{called}}}")
    return Formula(
        f"{called}(x W{at}ᵀ + b{at} + h U{at}ᵀ + c{at})",
        rf"{latex}\left(x W{latex_at}^\top + b{latex_at} + h U{latex_at}^\top + c{latex_at}\right)",
        compute,
        _number_of_gate(part.start),
    )


def gru_candidate(width: int) -> Formula:
    part = slice(2 * width, 3 * width)

    def compute(x: Tensor, h: Tensor, r: Tensor, *weights: Tensor) -> Tensor:
        w, b, u, c = (weight[part] for weight in weights)
        return (x @ w.mT + b + r * (h @ u.mT + c)).tanh()

    return Formula(
        "tanh(x W_nᵀ + b_n + r · (h U_nᵀ + c_n))",
        r"\tanh\left(x W_n^\top + b_n + r \odot (h U_n^\top + c_n)\right)",
        compute,
        _number_of_candidate(part.start),
    )


def _number_of_gate(first: int) -> Number:
    """One unit of a gate: its rows of both weights, applied to the input and to the state before."""

    def number(place: Place, x: Tensor, h: Tensor, *weights: Tensor) -> dict[str, Tensor]:
        found = _products(first + place[1], x[0], h[0], *weights)
        _, _, given, bias, _, _, recalled, other = found.values()
        return found | {"sum": given + bias + recalled + other}

    return number


def _number_of_candidate(first: int) -> Number:
    def number(place: Place, x: Tensor, h: Tensor, r: Tensor, *weights: Tensor) -> dict[str, Tensor]:
        found = _products(first + place[1], x[0], h[0], *weights)
        _, _, given, bias, _, _, recalled, other = found.values()
        reset = r[0, place[1]]
        return found | {f"r[{place[1]}]": reset, "sum": given + bias + reset * (recalled + other)}

    return number


def _products(row: int, x: Tensor, h: Tensor, w: Tensor, b: Tensor, u: Tensor, c: Tensor) -> dict[str, Tensor]:
    return {
        "x": x,
        f"W[{row}]": w[row],
        "x · W": x @ w[row],
        f"b[{row}]": b[row],
        "h": h,
        f"U[{row}]": u[row],
        "h · U": h @ u[row],
        f"c[{row}]": c[row],
    }


def _number_of_hidden(place: Place, o: Tensor, c: Tensor) -> dict[str, Tensor]:
    unit = place[1]
    return {f"o[{unit}]": o[0, unit], f"c[{unit}]": c[0, unit], "tanh(c)": c[0, unit].tanh()}


GRU_HIDDEN = Formula(
    "(1 − z) · n + z · h",
    r"(1 - z) \odot n + z \odot h",
    lambda z, n, h: (1 - z) * n + z * h,
    alike("z", "n", "h"),
)
LSTM_CELL = Formula(
    "f · c + i · g",
    r"f \odot c + i \odot g",
    lambda f, c, i, g: f * c + i * g,
    alike("f", "c", "i", "g"),
)
LSTM_HIDDEN = Formula("o · tanh(c)", r"o \odot \tanh(c)", lambda o, c: o * c.tanh(), _number_of_hidden)
