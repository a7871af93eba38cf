"""A board in a terminal: lines of pieces of text with their colours, or plain shades where there are none."""

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .board import Board, pooled
from .colours import hexadecimal, ramp
from .labels import short, text_width

SHADES = " ░▒▓█"
LABEL = 14  # characters of a row's name


class Piece(NamedTuple):
    """Some text, and the colour of its letters and of what is behind them."""

    text: str
    front: str | None = None
    back: str | None = None


Line = list[Piece]


def lines(board: Board, *, width: int = 80, colour: bool = True) -> Iterator[Line]:
    """The one matrix of a board with its tokens, or the mosaic of its matrices, at most so many columns wide."""
    yield from (_matrix if board.values.shape[:2] == (1, 1) else _mosaic)(board, width, colour)


def _matrix(board: Board, width: int, colour: bool) -> Iterator[Line]:
    matrix, scale = board.values[0, 0], board.scales[0]
    margin = LABEL + 5
    layer, head = (f"{what} {names[0]}" for what, names in zip(board.grid, (board.rows, board.columns), strict=True))
    yield [Piece(f"{board.name}, {layer}, {head}")]
    across = -(-matrix.shape[1] // max(1, (width - margin) // 2))
    down = across if board.attends else 1
    steps = scale.steps(pooled(matrix, down, across))
    if (down, across) != (1, 1):
        yield [Piece(f"a cell is the largest of {down} × {across} values")]
    yield [Piece(f"{board.axes[0]} ↓  {board.axes[1]} →".rjust(margin - 1) + " ")] + [
        Piece(f"{place * across % 100:2d}") for place in range(steps.shape[1])
    ]
    for row, line in enumerate(steps):
        name = short(board.down.texts[row * down], LABEL)
        yield [Piece(f"{' ' * (LABEL - text_width(name))}{name} {row * down:3d} "), *_cells(line, scale.kind, colour)]
    if board.across is not None and board.across is not board.down:
        named = "  ".join(f"{place} {short(text, LABEL)}" for place, text in enumerate(board.across.texts))
        yield [Piece(f"{board.axes[1]}: {named}")]


def _cells(line: NDArray[np.uint8], kind: str, colour: bool) -> Iterator[Piece]:
    colours = ramp(kind, "dark")
    for step, run in groupby(line.tolist()):
        text = ("  " if colour else _shade(step, kind) * 2) * len(list(run))
        yield Piece(text, None, hexadecimal(colours[step]) if colour else None)


def _mosaic(board: Board, width: int, colour: bool) -> Iterator[Line]:
    """Every matrix as a tile; a character shows two cells, one above the other."""
    columns, margin = len(board.columns), max(map(len, board.rows)) + 1
    side = max(2, min(16, (width - margin) // columns - 1) // 2 * 2)
    yield [Piece(f"{board.name}: {board.grid[0]} ↓  {board.grid[1]} →")]
    yield [Piece(" " * margin), *(Piece(short(name, side).ljust(side + 1)) for name in board.columns)]
    for row, name in enumerate(board.rows):
        tiles = []
        for column, scale in enumerate(board.scales):
            high, wide = (-(-size // side) for size in board.values.shape[-2:])
            steps = scale.steps(pooled(board.values[row, column], high, wide))
            tiles.append((np.pad(steps, ((0, steps.shape[0] % 2), (0, 0)), mode="edge"), scale.kind))
        for half in range(0, tiles[0][0].shape[0], 2):
            yield [
                Piece((name if half == 0 else "").rjust(margin - 1) + " "),
                *(piece for tile, kind in tiles for piece in _halves(tile[half : half + 2], kind, side, colour)),
            ]
        yield [Piece("")]


def _halves(pair: NDArray[np.uint8], kind: str, side: int, colour: bool) -> Iterator[Piece]:
    colours = ramp(kind, "dark")
    for above, below in pair.T.tolist():
        if colour:
            yield Piece("▀", hexadecimal(colours[above]), hexadecimal(colours[below]))
        else:
            yield Piece(_shade(max(above, below), kind))
    yield Piece(" " * (side - pair.shape[1] + 1))


def _shade(step: int, kind: str) -> str:
    """The further from nothing, the darker."""
    strength = abs(step - 127.5) / 127.5 if kind == "signed" else step / 255
    return SHADES[min(len(SHADES) - 1, int(strength * len(SHADES)))]
