"""One number of a step: the rows of operands and weights that it is made from, and what lies between.

A `Number` is given a place (row, column) and the operands of its formula; what it returns is in the order of
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


def if_real(place: Place, x: Tensor, keep: Tensor) -> dict[str, Tensor]:
    """A number of x, and whether its token is real."""
    row, column = place
    return {f"x[{column}]": row_of(x, row)[column], f"keep[{row}]": keep[0, row]}


def linear(first: int = 0) -> Number:
    """One row of the weights, and one number of the bias; `first` is where a head's own rows begin."""

    def number(place: Place, x: Tensor, weight: Tensor, *bias: Tensor) -> dict[str, Tensor]:
        given, unit = row_of(x, place[0]), first + place[1]
        found = {"x": given, f"W[{unit}]": weight[unit], "x · W": given @ weight[unit]}
        return found | {f"b[{unit}]": one[unit] for one in bias}

    return number
