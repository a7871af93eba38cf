"""Small heatmaps side by side, all of the same rows and columns: colours without numbers, which stand in tooltips."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from numpy.typing import ArrayLike

from .axes import Values, drawable, drawing, fitted, label_width, xml_text
from .colours import SHARE
from .heatmap import level_class, level_style
from .marks import MARGIN, WIDTH

TITLE, NAME, GAP, CELL = 52.0, 18.0, 6.0, 17.0  # pixels: the title; a panel's name; around labels; a cell
APART = 18.0  # between panels
BOLD = 1.2  # a panel's name is so much wider than a label
STYLE = ".plot .frame { fill: none; stroke: currentColor; stroke-width: 1.5; }\n"


@dataclass(frozen=True, kw_only=True)
class HeatmapPanel:
    """A name and shares between 0 and 1: (rows, columns)."""

    name: str
    values: ArrayLike


def heatmap_panels(
    panels: Sequence[HeatmapPanel],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    marks: Collection[tuple[int, int]] = (),
) -> str:
    """Each panel as a grid of colours, as many beside one another as there is room for. `marks`: the cells (row,
    column) that have a frame in all of them. What is not finite is an empty cell. Refused: another shape, no panel."""
    tables = [drawable(one.values) for one in panels]
    for one, table in zip(panels, tables, strict=True):
        if table.shape != (len(rows), len(columns)):
            raise ValueError(
                f"{one.name!r}: values of shape {table.shape} for {len(rows)} rows, {len(columns)} columns"
            )
    if not panels:
        raise ValueError(f"{fitted(title)!r} has no panel to draw; leave it out")
    left = MARGIN + max((label_width(fitted(name)) for name in rows), default=0.0) + GAP
    names = max((label_width(fitted(name)) for name in columns), default=0.0)
    each = max(CELL * len(columns), *(BOLD * label_width(fitted(one.name)) for one in panels)) + APART
    beside = max(1, min(len(panels), int((WIDTH - left - MARGIN + APART) // each)))
    tall = NAME + names + GAP + CELL * len(rows) + APART
    body = [f'<text class="title" x="{MARGIN:g}" y="{MARGIN + 12:g}">{xml_text(title, 90)}</text>']
    for number, (one, table) in enumerate(zip(panels, tables, strict=True)):
        x, y = left + each * (number % beside), TITLE + tall * (number // beside)
        body.append(f'<text class="name" x="{x:g}" y="{y + 12:g}">{xml_text(one.name)}</text>')
        top = y + NAME + names + GAP
        for column, name in enumerate(columns):
            place = f"translate({x + CELL * (column + 0.5):g} {top - GAP / 2:g}) rotate(-90)"
            body.append(f'<text class="tick" transform="{place}" dy=".35em">{xml_text(name)}</text>')
        if number % beside == 0:
            body += _row_names(rows, left - GAP, top)
        body += _cells(table, (x, top), rows, columns, marks)
    width = max(left + each * beside - APART + MARGIN, 2 * MARGIN + 1.6 * label_width(fitted(title, 90)))
    height = TITLE + tall * -(-len(panels) // beside)
    return drawing(body, width, height, label=title, style=level_style("plain") + STYLE)


def _row_names(rows: Sequence[str], right: float, top: float) -> Iterator[str]:
    for row, name in enumerate(rows):
        place = f'x="{right:g}" y="{top + CELL * (row + 0.5):g}"'
        yield f'<text class="tick" {place} dy=".35em" text-anchor="end">{xml_text(name)}</text>'


def _cells(
    table: Values,
    corner: tuple[float, float],
    rows: Sequence[str],
    columns: Sequence[str],
    marks: Collection[tuple[int, int]],
) -> Iterator[str]:
    for row, name in enumerate(rows):
        for column, other in enumerate(columns):
            value = table[row, column]
            place = f'x="{corner[0] + CELL * column + 0.5:g}" y="{corner[1] + CELL * row + 0.5:g}"'
            size = f'width="{CELL - 1:g}" height="{CELL - 1:g}"'
            tooltip = f"<title>{xml_text(f'{name}, {other}: {value:.3g}', 200)}</title>"
            yield f'<rect class="{level_class(value, SHARE)}" {place} {size}>{tooltip}</rect>'
            if (row, column) in marks:
                yield f'<rect class="frame" {place} {size}/>'
