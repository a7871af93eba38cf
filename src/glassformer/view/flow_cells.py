"""A recurrent layer unrolled: one cell at the row of every token, and its states on their way from cell to cell.

Positions are pixels from the upper left corner of the rows of tokens in the layer's box.
"""

from dataclasses import dataclass

ROOM, LOW, HIGH = 560.0, 30.0, 48.0  # pixels that all rows may take together; of one row at least and at most
MOST = 64  # tokens up to which every one has a cell of its own
WIDTH = 168.0  # of a box that holds cells
BETWEEN, SHARE = 16.0, 0.4  # between two cells, for an arrow and the name of the state: pixels, or this share of a row
FIRST, APART = 26.0, 76.0  # where the arrow of the first state stands, and how far right of it the next


@dataclass(frozen=True)
class Steps:
    """What a layer does at every token: how many cells there are, and which states go from each to the next."""

    count: int
    states: tuple[tuple[str, str], ...]  # the name of each in the formulas, and its shape: ("h", "16")
    backward: bool  # from the last token to the first


@dataclass(frozen=True)
class CellCard:
    """A cell: where it begins, and how high it is."""

    y: float
    height: float


@dataclass(frozen=True)
class StateArrow:
    """A state on its way from y to y: into the first cell, from cell to cell, or out of the last."""

    x: float
    start: float
    end: float
    text: str  # what stands beside it


def rows_height(count: int) -> float:
    """The height of all rows where each must have room for a cell."""
    return count * min(HIGH, max(LOW, ROOM / count))


def cells(steps: Steps, height: float) -> list[CellCard]:
    """One a token, from above, in rows that are `height` high together."""
    high = height / steps.count
    between = _between(high)
    return [CellCard(row * high + between / 2, high - between) for row in range(steps.count)]


def state_arrows(steps: Steps, height: float) -> list[StateArrow]:
    """One more than there are cells of each state, in the order in which they are computed."""
    high = height / steps.count
    found = []
    for number, (name, shape) in enumerate(steps.states):
        x = FIRST + APART * number
        for place in range(steps.count + 1):
            start = max(0.0, place * high - _between(high) / 2)
            end = min(height, place * high + _between(high) / 2)
            if steps.backward:
                start, end = height - start, height - end
            inner = 0 < place < steps.count
            found.append(StateArrow(x, start, end, f"{name} {shape}" if place == 1 else name if inner else ""))
    return found


def _between(high: float) -> float:
    return min(BETWEEN, SHARE * high)
