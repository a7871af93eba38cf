"""A board as a PNG, drawn by matplotlib, which is an extra: the fonts that labels need are its own."""

import logging
import warnings
from io import BytesIO
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .board import Board
from .colours import ColourScale, ramp
from .labels import EM, short, text_width
from .svg import cell_size, in_tiles, legends, ticks

LOG = logging.getLogger("glassformer")
DOTS, POINTS = 300, 72  # an inch
CELL, LARGEST = 0.28, 7.0  # inches: a cell, and the longest side of all cells
GAP = 2  # cells between the matrices of a mosaic


def png(board: Board) -> bytes:
    """The one matrix of a board, or the mosaic of its matrices."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ValueError("a .png needs matplotlib: pip install 'glassformer[plots]', or write a .svg") from None
    single = board.values.shape[:2] == (1, 1)
    cells = board.scales[0].colours(board.values[0, 0]) if single else _mosaic(board)
    cell, tall = cell_size(board, CELL, 0.0, LARGEST) if single else (LARGEST / max(cells.shape[:2]),) * 2
    figure = Figure(figsize=(cells.shape[1] * cell, cells.shape[0] * tall), dpi=DOTS)
    axes: Any = figure.add_axes((0, 0, 1, 1))
    axes.imshow(cells, aspect="auto", interpolation="nearest")
    axes.spines[:].set_visible(False)
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.tick_params(length=0)
    _label_tokens(axes, board, cell, tall) if single else _label_grid(axes, board)
    for place, (scale, what) in enumerate(legends(board)):
        _legend(figure, scale, what, place)
    file = BytesIO()
    with warnings.catch_warnings(record=True) as lacking:
        warnings.filterwarnings("always", "Glyph .* missing")
        about = {"Software": "made by glassformer"}
        figure.savefig(file, format="png", bbox_inches="tight", pad_inches=0.12, facecolor="white", metadata=about)
    if lacking:
        LOG.warning("the font of the .png has no signs for some tokens: a .svg shows them all")
    return file.getvalue()


def _mosaic(board: Board) -> NDArray[np.uint8]:
    """All matrices side by side, (height, width, 3), on white."""
    small, (rows, columns) = in_tiles(board), board.values.shape[:2]
    high, wide = (size + GAP for size in small.shape[-2:])
    cells = np.full((rows * high - GAP, columns * wide - GAP, 3), 255, dtype=np.uint8)
    for row in range(rows):
        for column, scale in enumerate(board.scales):
            tile = scale.colours(small[row, column])
            cells[row * high : (row + 1) * high - GAP, column * wide : (column + 1) * wide - GAP] = tile
    return cells


def _label_tokens(axes: Any, board: Board, cell: float, tall: float) -> None:
    size = min(9.0, max(4.0, 0.75 * tall * POINTS))
    down, across = ([short(text) for text in texts] for texts in (board.down.texts, board.columns_of_cells()))
    turned = max(map(text_width, across)) * EM * size > cell * POINTS
    style: dict[str, Any] = {"fontsize": size, "family": "monospace", "parse_math": False}
    every = [ceil(size / (side * POINTS)) for side in (cell, tall)]
    axes.set_xticks(range(0, len(across), every[0]), across[:: every[0]], rotation=90 if turned else 0, **style)
    axes.set_yticks(range(0, len(down), every[1]), down[:: every[1]], **style)
    axes.set_xlabel(f"{board.axes[1]} →", fontsize=8)
    axes.set_ylabel(f"← {board.axes[0]}", fontsize=8)


def _label_grid(axes: Any, board: Board) -> None:
    """A name in the middle of each row and column of tiles."""
    high, wide = axes.images[0].get_array().shape[:2]
    middles = []
    for names, length in ((board.columns, wide), (board.rows, high)):
        tile = (length + GAP) / len(names)
        middles.append([tile * (place + 0.5) - (GAP + 1) / 2 for place in range(len(names))])
    axes.set_xticks(middles[0], board.columns, fontsize=7)
    axes.set_yticks(middles[1], board.rows, fontsize=7)
    axes.set_xlabel(f"{board.grid[1]} →", fontsize=8)
    axes.set_ylabel(f"← {board.grid[0]}", fontsize=8)


def _legend(figure: Any, scale: ColourScale, what: str, place: int) -> None:
    wide, high = figure.get_size_inches()
    axes = figure.add_axes((place * 2.1 / wide, -0.22 / high, 1.8 / wide, 0.08 / high))
    axes.imshow(ramp(scale.kind, "light")[None], aspect="auto")
    axes.set_yticks([])
    axes.set_xticks([int(scale.steps(np.array(tick))) for tick in ticks(scale)], [f"{tick:g}" for tick in ticks(scale)])
    axes.tick_params(labelsize=6, length=2, width=0.4)
    axes.set_xlabel(what, fontsize=6)
    axes.spines[:].set_visible(False)
