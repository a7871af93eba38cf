"""A board as an SVG for papers: one matrix with its tokens, or the mosaic of all, in vectors and on white."""

from collections.abc import Iterator, Sequence
from html import escape
from math import ceil
from unicodedata import east_asian_width

import numpy as np
from numpy.typing import NDArray

from .board import Board, pooled, short
from .colours import BELOW_ZERO, LIGHT, Scale, hexadecimal, ramp

INK, SOFT = "#182022", "#586467"
CELL, SMALLEST_CELL, WIDEST = 28.0, 4.0, 640.0  # pixels: a cell shrinks until the matrix fits
TILE, TILE_CELLS, BETWEEN = 54.0, 24, 6.0  # a matrix of a mosaic: its side, its cells at most, the gap after it
MARGIN, GAP, AXIS = 12.0, 8.0, 20.0  # around all; between a label and the matrix; of an axis name
LEGEND, BAR, BAR_HEIGHT = 52.0, 180.0, 8.0  # the room a legend takes; its bar
SMALLEST_FONT = 7.0
SANS = "system-ui, 'Helvetica Neue', Arial, 'Noto Sans', sans-serif"
MONO = "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


def svg(board: Board) -> str:
    """The one matrix of a board, or the mosaic of its matrices."""
    return _matrix(board) if board.values.shape[:2] == (1, 1) else _mosaic(board)


def _matrix(board: Board) -> str:
    matrix, scale = board.values[0, 0], board.scales[0]
    cell, tall = cell_size(board, CELL, SMALLEST_CELL, WIDEST)
    font = max(SMALLEST_FONT, min(13.0, 0.75 * tall))
    down, across = ([short(label) for label in labels] for labels in (board.down.texts, board.columns_of_cells()))
    longest = max(map(_width, across)) * font
    upright = longest <= cell  # else the column labels are turned
    left = MARGIN + AXIS + max(map(_width, down)) * font + GAP
    top = MARGIN + AXIS + (font if upright else longest) + GAP
    wide, high = cell * len(across), tall * len(down)
    every = [max(1, ceil(font / size)) for size in (cell, tall)]  # labels that would lie on one another are left out
    body = [
        f'<g font-family="{SANS}" font-size="11" fill="{SOFT}" text-anchor="middle">',
        f'<text x="{left + wide / 2:g}" y="{MARGIN + 9:g}">{escape(board.axes[1])} →</text>',
        f'<text transform="translate({MARGIN + 9:g} {top + high / 2:g}) rotate(-90)">← {escape(board.axes[0])}</text>',
        f'</g>\n<g font-family="{MONO}" font-size="{font:g}">',
        *(_above(across[n], left + cell * (n + 0.5), top - GAP, upright) for n in range(0, len(across), every[0])),
        *(_beside(down[n], left - GAP, top + tall * (n + 0.5)) for n in range(0, len(down), every[1])),
        "</g>",
        *_cells(scale.steps(matrix), scale, left, top, cell, tall),
        *_legend(scale, board.attends, left, top + high + GAP),
    ]
    return _drawing(body, max(left + wide, left + BAR) + MARGIN, top + high + LEGEND + MARGIN, board.name)


def cell_size(board: Board, largest: float, smallest: float, room: float) -> tuple[float, float]:
    """Width and height of a cell: square where both sides are tokens, tall enough for a label where one is units."""
    high, wide = board.values.shape[-2:]
    if board.attends:
        side = max(smallest, min(largest, room / max(high, wide)))
        return side, side
    return max(smallest / 2, min(largest, room / wide)), max(smallest, min(0.6 * largest, room / high))


def _mosaic(board: Board) -> str:
    rows, columns, high, wide = board.values.shape
    left = MARGIN + AXIS + max(map(_width, board.rows)) * 11 + GAP
    top = MARGIN + AXIS + 11 + GAP
    apart = max(TILE, max(map(_width, board.columns)) * 11) + BETWEEN
    small = pooled(board.values, -(-high // TILE_CELLS), -(-wide // TILE_CELLS))
    cells = TILE / small.shape[-1], TILE / small.shape[-2]
    body = [
        f'<g font-family="{SANS}" font-size="11" fill="{SOFT}" text-anchor="middle">',
        f'<text x="{left + (columns * apart - BETWEEN) / 2:g}" y="{MARGIN + 9:g}">{escape(board.grid[1])} →</text>',
        f'<text transform="translate({MARGIN + 9:g} {top + rows * (TILE + BETWEEN) / 2:g}) rotate(-90)">'
        f"← {escape(board.grid[0])}</text>\n</g>",
        f'<g font-family="{SANS}" font-size="11">',
        *(_above(name, left + n * apart + TILE / 2, top - GAP, True) for n, name in enumerate(board.columns)),
        *(_beside(name, left - GAP, top + n * (TILE + BETWEEN) + TILE / 2) for n, name in enumerate(board.rows)),
        "</g>",
    ]
    for (row, column), scale in np.ndenumerate(np.array([board.scales] * rows, dtype=object)):
        x, y = left + column * apart, top + row * (TILE + BETWEEN)
        body += _cells(scale.steps(small[row, column]), scale, x, y, *cells)
    below = top + rows * (TILE + BETWEEN)
    body += _legend(board.scales[0], board.attends, left, below + GAP) if len(set(board.scales)) == 1 else []
    across = max(left + columns * apart, left + BAR + BETWEEN) - BETWEEN
    return _drawing(body, across + MARGIN, below + LEGEND + MARGIN, f"{board.name}: {rows} × {columns} matrices")


def _drawing(body: Sequence[str], width: float, height: float, what: str) -> str:
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
            f'height="{height:g}" fill="{INK}" role="img" aria-label="{escape(what)}">',
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            *body,
            "</svg>",
        ]
    )


def _cells(steps: NDArray[np.uint8], scale: Scale, left: float, top: float, wide: float, high: float) -> Iterator[str]:
    """One path for every colour, and in it a rectangle for every run of cells that have it."""
    runs: dict[int, list[str]] = {}
    for row, line in enumerate(steps):
        starts = np.flatnonzero(np.diff(line.astype(int), prepend=-1))
        for start, end in zip(starts, [*starts[1:], len(line)], strict=True):
            runs.setdefault(int(line[start]), []).append(f"M{start} {row}h{end - start}v1h-{end - start}z")
    place = f"translate({left:g} {top:g}) scale({wide:g} {high:g})"
    yield f'<g class="cells" transform="{place}" shape-rendering="crispEdges">'
    colours = ramp(scale.kind, "light")
    for step, paths in sorted(runs.items()):
        yield f'<path fill="{hexadecimal(colours[step])}" d="{"".join(paths)}"/>'
    yield "</g>"


def _legend(scale: Scale, attends: bool, left: float, top: float) -> Iterator[str]:
    stops = (*BELOW_ZERO["light"], *LIGHT) if scale.kind == "signed" else LIGHT
    yield f'<linearGradient id="ramp">{"".join(_stop(n / (len(stops) - 1), colour) for n, colour in enumerate(stops))}'
    yield "</linearGradient>"
    yield f'<rect x="{left:g}" y="{top:g}" width="{BAR:g}" height="{BAR_HEIGHT:g}" fill="url(#ramp)"/>'
    yield f'<g font-family="{SANS}" font-size="9" fill="{SOFT}" text-anchor="middle">'
    for tick in ticks(scale):
        x = left + BAR * int(scale.steps(np.array(tick))) / 255
        yield f'<text x="{x:g}" y="{top + BAR_HEIGHT + 11:g}">{tick:g}</text>'
    what = "attention weight" if attends else "value"
    yield f'<text x="{left + BAR / 2:g}" y="{top + BAR_HEIGHT + 24:g}">{what}</text>\n</g>'


def ticks(scale: Scale) -> list[float]:
    """Where a legend has numbers."""
    if scale.root:
        return [0, 0.05, 0.25, 0.5, 1]
    return [float(f"{value:.3g}") for value in (scale.low, (scale.low + scale.high) / 2, scale.high)]


def _stop(offset: float, colour: str) -> str:
    return f'<stop offset="{offset:g}" stop-color="{colour}"/>'


def _above(text: str, x: float, y: float, upright: bool) -> str:
    if upright:
        return f'<text x="{x:g}" y="{y:g}" text-anchor="middle">{escape(text)}</text>'
    return f'<text transform="translate({x:g} {y:g}) rotate(-90)" dy=".35em">{escape(text)}</text>'


def _beside(text: str, x: float, y: float) -> str:
    return f'<text x="{x:g}" y="{y:g}" dy=".35em" text-anchor="end">{escape(text)}</text>'


def _width(text: str) -> float:
    """The width of a label in a monospaced font, in ems."""
    return sum(1.0 if east_asian_width(char) in "WF" else 0.61 for char in text)
