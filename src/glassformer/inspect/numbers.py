"""One number of a step: the rows of operands and weights that it is made from, and what lies between.

A function here is given a place (row, column) and the operands of its formula; what it returns is in the order of
computation, by symbol. A symbol that begins as an operand's does, `W[7]`, is that part of the operand.
Of a batch the first text is meant. Values are (B, T, D), or (B, D) where there is one row.
"""

from collections.abc import Callable

from torch import Tensor

Place = tuple[int, int]
Number = Callable[..., dict[str, Tensor]]


def row_of(value: Tensor, row: int) -> Tensor:
    """(D,)"""
    return value[0] if value.dim() == 2 else value[0, row]


def alike(*symbols: str) -> Number:
    """Of operands that are all as large as the value: their own number at the same place."""

    def number(place: Place, *operands: Tensor) -> dict[str, Tensor]:
        row, column = place
        named = zip(symbols, operands, strict=True)
        return {
            f"{symbol}[{column}]": (row_of(value, row) if value.dim() > 1 else value)[column] for symbol, value in named
        }

    return number


def linear(first: int = 0) -> Number:
    """One row of the weights, and one number of the bias; `first` is where a head's own rows begin."""

    def number(place: Place, x: Tensor, weight: Tensor, *bias: Tensor) -> dict[str, Tensor]:
        given, unit = row_of(x, place[0]), first + place[1]
        found = {"x": given, f"W[{unit}]": weight[unit], "x · W": given @ weight[unit]}
        return found | {f"b[{unit}]": one[unit] for one in bias}

    return number


def norm(place: Place, x: Tensor, gain: Tensor, shift: Tensor) -> dict[str, Tensor]:
    given, unit = row_of(x, place[0]), place[1]
    mean = given.mean()
    return {
        "x": given,
        f"x[{unit}]": given[unit],
        "mean": mean,
        "variance": ((given - mean) ** 2).mean(),
        f"γ[{unit}]": gain[unit],
        f"β[{unit}]": shift[unit],
    }


def gate(first: int) -> Number:
    """One unit of a gate: its rows of both weights, applied to the input and to the state before."""

    def number(place: Place, x: Tensor, h: Tensor, w: Tensor, b: Tensor, u: Tensor, c: Tensor) -> dict[str, Tensor]:
        found = _products(first + place[1], x[0], h[0], w, b, u, c)
        _, _, given, bias, _, _, recalled, other = found.values()
        return found | {"sum": given + bias + recalled + other}

    return number


def gru_candidate(first: int) -> Number:
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


def lstm_hidden(place: Place, o: Tensor, c: Tensor) -> dict[str, Tensor]:
    unit = place[1]
    return {f"o[{unit}]": o[0, unit], f"c[{unit}]": c[0, unit], "tanh(c)": c[0, unit].tanh()}


def dot(place: Place, q: Tensor, m: Tensor) -> dict[str, Tensor]:
    query, key = row_of(q, place[0]), m[0, place[1]]
    return {"q": query, f"m[{place[1]}]": key, "q · m": query @ key}


def added(query_width: int | None = None) -> Number:
    """A query and a key of additive attention; of a concatenation, W's first columns are the query's."""

    def number(place: Place, q: Tensor, k: Tensor, w: Tensor, v: Tensor) -> dict[str, Tensor]:
        query, key = row_of(q, place[0]), k[0, place[1]]
        asked = w[:, :query_width] @ query
        met = (asked + key).tanh()
        return {"q": query, "q Wᵀ": asked, f"k[{place[1]}]": key, "tanh(q Wᵀ + k)": met, "v": v[0]}

    return number
