"""A board as an SVG for papers: one matrix with its tokens, or the mosaic of all, in vectors and on white."""

from collections.abc import Iterator, Sequence
from html import escape
from math import ceil

import numpy as np
from numpy.typing import NDArray

from .board import Board, Matrices, pooled
from .colours import BELOW_ZERO, LIGHT, MONO, PAPER, SANS, ColourScale, hexadecimal, ramp
from .labels import EM, short, text_width

INK, SOFT = PAPER["light"]["ink"], PAPER["light"]["soft"]
CELL, SMALLEST_CELL, WIDEST = 28.0, 4.0, 640.0  # pixels: a cell shrinks until the matrix fits
TILE, TILE_CELLS, TILES, BETWEEN = 48.0, 24, 12, 6.0  # a mosaic of so many a row: their side, cells along it, the gap
MARGIN, GAP, AXIS = 12.0, 8.0, 20.0  # around all; between a label and the matrix; of an axis name
LEGEND, LEGEND_WIDTH, BAR, BAR_HEIGHT = 52.0, 210.0, 180.0, 8.0  # the room a legend takes; its bar
SMALLEST_FONT = 7.0


def svg(board: Board) -> str:
    """The one matrix of a board, or the mosaic of its matrices."""
    return _matrix(board) if board.values.shape[:2] == (1, 1) else _mosaic(board)


def _matrix(board: Board) -> str:
    matrix, scale = board.values[0, 0], board.scales[0]
    cell, tall = cell_size(board, CELL, SMALLEST_CELL, WIDEST)
    font = max(SMALLEST_FONT, min(13.0, 0.75 * tall))
    down, across = ([short(label) for label in labels] for labels in (board.down.texts, board.columns_of_cells()))
    longest = max(map(text_width, across)) * EM * font
    upright = longest <= cell  # else the column labels are turned
    left = MARGIN + AXIS + max(map(text_width, down)) * EM * font + GAP
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
        *_legends(board, left, top + high + GAP),
    ]
    return _drawing(body, max(left + wide, left + BAR) + MARGIN, top + high + LEGEND + MARGIN, board.name)


def cell_size(board: Board, largest: float, smallest: float, space: float) -> tuple[float, float]:
    """Width and height of a cell: square where both sides are tokens, tall enough for a label where one is units."""
    high, wide = board.values.shape[-2:]
    if board.attends:
        side = max(smallest, min(largest, space / max(high, wide)))
        return side, side
    return max(smallest / 2, min(largest, space / wide)), max(smallest, min(0.6 * largest, space / high))


def _mosaic(board: Board) -> str:
    rows, columns = board.values.shape[:2]
    left, top = MARGIN + AXIS + max(map(text_width, board.rows)) * EM * 11 + GAP, MARGIN + AXIS + 11 + GAP
    small = in_tiles(board)
    wide = max(TILE, min(4 * TILE, WIDEST / columns - BETWEEN))
    high = wide * min(1.0, max(0.4, small.shape[-2] / small.shape[-1]))
    across, below = left + columns * (wide + BETWEEN) - BETWEEN, top + rows * (high + BETWEEN)
    body = [
        f'<g font-family="{SANS}" font-size="11" fill="{SOFT}" text-anchor="middle">',
        f'<text x="{(left + across) / 2:g}" y="{MARGIN + 9:g}">{escape(board.grid[1])} →</text>',
        f'<text transform="translate({MARGIN + 9:g} {(top + below) / 2:g}) rotate(-90)">'
        f"← {escape(board.grid[0])}</text>\n</g>",
        f'<g font-family="{SANS}" font-size="11">',
        *(
            _above(name, left + n * (wide + BETWEEN) + wide / 2, top - GAP, True)
            for n, name in enumerate(board.columns)
        ),
        *(_beside(name, left - GAP, top + n * (high + BETWEEN) + high / 2) for n, name in enumerate(board.rows)),
        "</g>",
    ]
    for row in range(rows):
        for column, scale in enumerate(board.scales):
            x, y = left + column * (wide + BETWEEN), top + row * (high + BETWEEN)
            cells = wide / small.shape[-1], high / small.shape[-2]
            body += _cells(scale.steps(small[row, column]), scale, x, y, *cells)
    body += _legends(board, left, below + GAP)
    across = max(across, left + len(legends(board)) * LEGEND_WIDTH)
    return _drawing(body, across + MARGIN, below + LEGEND + MARGIN, f"{board.name}: {rows} × {columns} matrices")


def in_tiles(board: Board) -> Matrices:
    """The matrices of a mosaic, pooled until their cells can be seen; the fewer they are, the more cells."""
    most = TILE_CELLS * max(1, min(4, TILES // len(board.columns)))
    high, wide = board.values.shape[-2:]
    return pooled(board.values, ceil(high / most), ceil(wide / most))


def _drawing(body: Sequence[str], width: float, height: float, what: str) -> str:
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
            f'height="{height:g}" fill="{INK}" role="img" aria-label="{escape(what)}">',
            "<!-- made by glassformer -->",
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            *body,
            "</svg>",
        ]
    )


def _cells(
    steps: NDArray[np.uint8], scale: ColourScale, left: float, top: float, wide: float, high: float
) -> Iterator[str]:
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


def legends(board: Board) -> list[tuple[ColourScale, str]]:
    """Every scale of a board, and what has it."""
    named: dict[ColourScale, list[str]] = {}
    for scale, name in zip(board.scales, board.columns, strict=True):
        named.setdefault(scale, []).append(name)
    return [(scale, "attention weight" if board.attends else ", ".join(names)) for scale, names in named.items()]


def _legends(board: Board, left: float, top: float) -> Iterator[str]:
    for place, (scale, what) in enumerate(legends(board)):
        x, stops = left + place * LEGEND_WIDTH, (*BELOW_ZERO["light"], *LIGHT) if scale.kind == "signed" else LIGHT
        yield f'<linearGradient id="ramp{place}">'
        yield from (_stop(n / (len(stops) - 1), colour) for n, colour in enumerate(stops))
        yield "</linearGradient>"
        yield f'<rect x="{x:g}" y="{top:g}" width="{BAR:g}" height="{BAR_HEIGHT:g}" fill="url(#ramp{place})"/>'
        yield f'<g font-family="{SANS}" font-size="9" fill="{SOFT}" text-anchor="middle">'
        for tick in ticks(scale):
            at = x + BAR * int(scale.steps(np.array(tick))) / 255
            yield f'<text x="{at:g}" y="{top + BAR_HEIGHT + 11:g}">{tick:g}</text>'
        yield f'<text x="{x + BAR / 2:g}" y="{top + BAR_HEIGHT + 24:g}">{escape(what)}</text>\n</g>'


def ticks(scale: ColourScale) -> list[float]:
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
