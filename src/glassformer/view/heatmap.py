"""A table of numbers in colours, the numbers written in the cells."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

from .axes import Values, drawable, drawing, fitted, label_width, short_number, xml_text
from .colours import ColourScale, hexadecimal, ramp

MARGIN, TITLE, AXIS, GAP = 24.0, 56.0, 20.0, 8.0  # pixels: the edge; title; name of an axis; between labels and cells
CELL, LEAST = 36.0, 52.0  # height, least width
BAR, SWATCH, NUMBER = 12.0, 15.0, 56.0  # height and width of a colour in the legend; room for a number beside it
LEVELS = 12


def heatmap(
    values: ArrayLike,
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    axes: tuple[str, str],
    form: str = ".3g",
) -> str:
    """values: (rows, columns). axes: the names of the rows and of the columns. What is not finite is an empty cell.

    Values on both sides of zero have two colours. Refused: another shape, no finite value.
    """
    table = drawable(values)
    if table.shape != (len(rows), len(columns)):
        raise ValueError(f"values of shape {table.shape} for {len(rows)} rows and {len(columns)} columns")
    if not np.isfinite(table).any():
        raise ValueError(f"the heatmap {fitted(title)!r} has no finite value to draw; leave it out")
    texts = [[format(value, form) if np.isfinite(value) else "" for value in row] for row in table.tolist()]
    names = [fitted(name) for name in columns]
    wide = max(LEAST, *(label_width(text) + 16 for row in texts for text in row))
    turned = max(map(label_width, names)) > wide - 6  # else the names of the columns stand upright
    left = MARGIN + AXIS + max(label_width(fitted(name)) for name in rows) + GAP
    top = TITLE + AXIS + (max(map(label_width, names)) if turned else 12.0) + GAP
    inner = max(wide * len(columns), 2 * NUMBER + SWATCH * LEVELS)
    width = max(left + inner + MARGIN, 2 * MARGIN + 1.6 * label_width(fitted(title, 90)))  # titles are larger
    bottom = top + CELL * len(rows)
    scale = _scale(table)
    body = [
        f'<text class="title" x="{MARGIN:g}" y="{MARGIN + 12:g}">{xml_text(title, 90)}</text>',
        f'<text class="tick" x="{left:g}" y="{TITLE + 8:g}">{xml_text(axes[1], 60)} →</text>',
        f'<text class="tick" text-anchor="end" transform="translate({MARGIN + 9:g} {top:g}) rotate(-90)">'
        f"← {xml_text(axes[0], 60)}</text>",
    ]
    for number, name in enumerate(names):
        place = f"{left + wide * (number + 0.5):g} {top - GAP:g}"
        look = 'rotate(-90)" dy=".35em"' if turned else '" text-anchor="middle"'
        body.append(f'<text class="label" transform="translate({place}) {look}>{xml_text(name)}</text>')
    for number, name in enumerate(rows):
        place = f'x="{left - GAP:g}" y="{top + CELL * (number + 0.5):g}"'
        body.append(f'<text class="label" {place} dy=".35em" text-anchor="end">{xml_text(name)}</text>')
        for column, text in enumerate(texts[number]):
            corner = left + wide * column, top + CELL * number
            tooltip = f"{name}, {columns[column]}: {table[number, column]:.10g}"
            body += _cell(level_class(table[number, column], scale), text, tooltip, corner, wide)
    body += _legend(scale, left, bottom + 18)
    return drawing(body, width, bottom + 18 + BAR + 24, label=title, style=level_style(_kind(scale)))


def _scale(table: Values) -> ColourScale:
    low, high = float(np.nanmin(table)), float(np.nanmax(table))
    if low < 0 < high:
        reach = max(-low, high)
        return ColourScale(-reach, reach)
    return ColourScale(low, high if high > low else low + (abs(low) or 1.0))


def level_class(value: float, scale: ColourScale) -> str:
    """The class of a cell's colour."""
    if not np.isfinite(value):
        return "empty"
    return f"{_kind(scale)}-{round(int(scale.steps(np.array(value))) / 255 * (LEVELS - 1))}"


def _kind(scale: ColourScale) -> str:
    return "signed" if scale.low < 0 < scale.high else "plain"


def level_style(kind: str) -> str:
    def paper(name: str) -> str:
        colours = ramp(kind, name)[np.linspace(0, 255, LEVELS).round().astype(int)]
        light = colours @ np.array([0.299, 0.587, 0.114]) > 140  # as bright as the eye sees it
        ink = ["#0b1213" if each else "#ffffff" for each in light]
        return " ".join(
            f".plot .{kind}-{n} {{ fill: {hexadecimal(colours[n])}; }} .plot .on-{kind}-{n} {{ fill: {ink[n]}; }}"
            for n in range(LEVELS)
        )

    return (
        ".plot .empty { fill: none; stroke: currentColor; stroke-opacity: .25; stroke-dasharray: 3 3; }\n"
        f"{paper('light')}\n@media screen and (prefers-color-scheme: dark) {{ {paper('dark')} }}\n"
    )


def _cell(level: str, text: str, tooltip: str, corner: tuple[float, float], wide: float) -> Iterator[str]:
    x, y = corner
    yield (
        f'<g><title>{xml_text(tooltip, 200)}</title><rect class="{level}" x="{x + 1:g}" y="{y + 1:g}" '
        f'width="{wide - 2:g}" height="{CELL - 2:g}" rx="3"/>'
    )
    place = f'x="{x + wide / 2:g}" y="{y + CELL / 2:g}"'
    yield f'<text class="on-{level}" {place} dy=".35em" text-anchor="middle">{xml_text(text)}</text></g>'


def _legend(scale: ColourScale, left: float, top: float) -> Iterator[str]:
    start, end = left + NUMBER, left + NUMBER + SWATCH * LEVELS
    yield f'<text class="tick" x="{start - 6:g}" y="{top + 10:g}" text-anchor="end">{short_number(scale.low)}</text>'
    for n in range(LEVELS):
        place = f'x="{start + SWATCH * n:g}" y="{top:g}" width="{SWATCH:g}" height="{BAR:g}"'
        yield f'<rect class="{_kind(scale)}-{n}" {place}/>'
    yield f'<text class="tick" x="{end + 6:g}" y="{top + 10:g}">{short_number(scale.high)}</text>'
