"""Attention as a picture: matrices in, an SVG or a whole page out, with no script and no network.

T rows (who looks), S columns (what is looked at); every value is a share between 0 and 1.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from unicodedata import east_asian_width

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.floating]
ACCENT = "#0e8f8b"
LONGEST_LABEL = 16  # characters; the rest is in the tooltip
CELL, SMALLEST_CELL, WIDEST = 28.0, 6.0, 640.0  # pixels: a cell shrinks until the matrix fits
WIDE = 16  # columns: beyond these a heatmap takes the whole width of the page
GAP = 10.0  # between a label and the matrix
AXIS = 22.0  # the room an axis name takes
SANS = "system-ui, sans-serif"
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
:root {{ --paper: #f6f7f7; --card: #ffffff; --ink: #182022; --soft: #5c686b; --line: #e1e6e6; --accent: {accent}; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --paper: #101415; --card: #181d1f; --ink: #e8eded; --soft: #99a5a8; --line: #2a3235; --accent: #35c4be; }}
}}
* {{ box-sizing: border-box; }}
body {{ margin: 0; background: var(--paper); color: var(--ink); line-height: 1.5; -webkit-text-size-adjust: 100%;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }}
main {{ max-width: 68rem; margin: 0 auto; padding: clamp(1.5rem, 5vw, 4rem) clamp(1rem, 4vw, 2.5rem); }}
header {{ display: flex; flex-wrap: wrap; gap: 1.25rem 3rem; justify-content: space-between; align-items: end; }}
h1 {{ margin: 0 0 .4rem; font-size: clamp(1.5rem, 4vw, 2.1rem); line-height: 1.15; letter-spacing: -.02em;
  text-wrap: balance; overflow-wrap: anywhere; }}
header p {{ margin: 0; max-width: 38rem; color: var(--soft); overflow-wrap: anywhere; }}
.legend {{ display: grid; grid-template-columns: auto 9rem auto; gap: .25rem .6rem; align-items: center;
  color: var(--soft); font-size: .8rem; font-variant-numeric: tabular-nums; }}
.legend b {{ grid-column: 2; font-weight: 400; }}
.legend i {{ height: .6rem; border-radius: 1rem; box-shadow: inset 0 0 0 1px var(--line);
  background: linear-gradient(to right, transparent, var(--accent)); print-color-adjust: exact; }}
.figures {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); gap: 1.25rem;
  margin-top: 2.25rem; }}
figure {{ margin: 0; padding: 1.4rem 1.5rem 1.6rem; background: var(--card); border: 1px solid var(--line);
  border-radius: 14px; min-width: 0; break-inside: avoid; }}
figure.wide {{ grid-column: 1 / -1; }}
figcaption {{ margin-bottom: 1.1rem; font-weight: 600; overflow-wrap: anywhere; }}
figcaption small {{ display: block; font-size: .85rem; font-weight: 400; color: var(--soft); }}
svg {{ display: block; max-width: 100%; height: auto; margin: 0 auto; }}
svg .cells {{ fill: var(--accent); print-color-adjust: exact; }}
svg .cells rect:hover {{ stroke: var(--ink); stroke-opacity: 1; }}
</style>
</head>
<body>
<main>
<header>
<div><h1>{title}</h1><p>{caption}</p></div>
<div class="legend"><b>share of attention</b><span style="grid-column: 1">0</span><i></i><span>1</span></div>
</header>
<div class="figures">
{figures}
</div>
</main>
</body>
</html>
"""


@dataclass(frozen=True, kw_only=True)
class Heatmap:
    """One matrix (T, S) with a label for every row and column, and what rows and columns are."""

    matrix: Matrix
    rows: Sequence[str]
    columns: Sequence[str]
    title: str
    caption: str = ""
    row_axis: str = "target"
    column_axis: str = "source"

    def svg(self) -> str:
        return svg(self.matrix, self.rows, self.columns, row_axis=self.row_axis, column_axis=self.column_axis)


def page(heatmaps: Sequence[Heatmap], *, title: str, caption: str) -> str:
    """A whole HTML page: a title, one sentence, the colour scale and a card for every heatmap."""
    figures = "\n".join(map(_figure, heatmaps))
    return PAGE.format(title=escape(title), caption=escape(caption), accent=ACCENT, figures=figures)


def _figure(heatmap: Heatmap) -> str:
    shape = ' class="wide"' if len(heatmap.columns) > WIDE else ""
    small = f"<small>{escape(heatmap.caption)}</small>" if heatmap.caption else ""
    caption = f"<figcaption>{escape(heatmap.title)}{small}</figcaption>"
    return f"<figure{shape}>\n{caption}\n{heatmap.svg()}\n</figure>"


def svg(
    matrix: Matrix,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    row_axis: str = "target",
    column_axis: str = "source",
) -> str:
    """The matrix (T, S) as an SVG; the opacity of a cell is its value, and its tooltip says it."""
    _check(matrix, rows, columns)
    cell = max(SMALLEST_CELL, min(CELL, WIDEST / max(matrix.shape)))
    font = min(13.0, 0.75 * cell)
    across, down = [_short(label) for label in columns], [_short(label) for label in rows]
    longest = max(map(_width, across)) * font
    what = f"{row_axis} by {column_axis}"
    border = 0.12 if cell > 12 else 0
    upright = longest <= cell  # else the column labels are turned
    left = AXIS + max(map(_width, down)) * font + GAP
    top = AXIS + (font if upright else longest) + GAP
    width, height = left + cell * len(columns), top + cell * len(rows)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
            f'height="{height:g}" fill="currentColor" role="img" aria-label="{escape(what)}">',
            f'<g font-family="{SANS}" font-size="11" fill-opacity=".65" text-anchor="middle">',
            f'<text x="{(left + width) / 2:g}" y="11">{escape(column_axis)} →</text>',
            f'<text transform="translate(11 {(top + height) / 2:g}) rotate(-90)">← {escape(row_axis)}</text>',
            f'</g>\n<g font-family="{MONO}" font-size="{font:g}">',
            *(_column_label(text, left + cell * (n + 0.5), top - GAP, upright) for n, text in enumerate(across)),
            *(_row_label(text, left - GAP, top + cell * (n + 0.5)) for n, text in enumerate(down)),
            f'</g>\n<g class="cells" fill="{ACCENT}" stroke="currentColor" stroke-opacity="{border}">',
            *_cells(matrix, rows, columns, left, top, cell),
            "</g>\n</svg>",
        ]
    )


def _cells(
    matrix: Matrix, rows: Sequence[str], columns: Sequence[str], left: float, top: float, cell: float
) -> Iterator[str]:
    inset = 1.0 if cell > 12 else 0.25
    side = f'width="{cell - 2 * inset:g}" height="{cell - 2 * inset:g}" rx="{cell / 9:.1f}"'
    for (row, column), value in np.ndenumerate(np.clip(matrix, 0, 1)):
        x, y = left + cell * column + inset, top + cell * row + inset
        tooltip = escape(f"{_visible(rows[row])} → {_visible(columns[column])}: {value:.3f}")
        yield f'<rect x="{x:g}" y="{y:g}" {side} fill-opacity="{value:.3f}"><title>{tooltip}</title></rect>'


def _check(matrix: Matrix, rows: Sequence[str], columns: Sequence[str]) -> None:
    if matrix.shape != (len(rows), len(columns)):
        raise ValueError(
            f"a matrix of shape {matrix.shape} needs as many labels, not {len(rows)} rows and {len(columns)} columns"
        )
    if matrix.size == 0:
        raise ValueError(f"a matrix of shape {matrix.shape} has nothing to show")
    if not np.isfinite(matrix).all():
        row, column = np.argwhere(~np.isfinite(matrix))[0]
        raise ValueError(f"the matrix holds {matrix[row, column]} at row {row}, column {column}")
    if matrix.min() < -1e-3 or matrix.max() > 1 + 1e-3:  # rounding is forgiven
        raise ValueError(
            f"the matrix spans {matrix.min():.3g} to {matrix.max():.3g}; a share lies between 0 and 1, so rescale it"
        )


def _column_label(text: str, x: float, y: float, upright: bool) -> str:
    if upright:
        return f'<text x="{x:g}" y="{y:g}" text-anchor="middle">{escape(text)}</text>'
    return f'<text transform="translate({x:g} {y:g}) rotate(-90)" dy=".35em">{escape(text)}</text>'


def _row_label(text: str, x: float, y: float) -> str:
    return f'<text x="{x:g}" y="{y:g}" dy=".35em" text-anchor="end">{escape(text)}</text>'


def _visible(token: str) -> str:
    """A token in which blanks and control characters can be seen."""
    shown = "".join(char if char.isprintable() else repr(char)[1:-1] for char in token)
    return shown.replace(" ", "␣") or "∅"


def _short(token: str) -> str:
    shown = _visible(token)
    return shown if len(shown) <= LONGEST_LABEL else shown[: LONGEST_LABEL - 1] + "…"


def _width(text: str) -> float:
    """The width of a label in a monospaced font, in ems."""
    return sum(1.0 if east_asian_width(char) in "WF" else 0.61 for char in text)
