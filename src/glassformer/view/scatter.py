"""Scattered points, each with its name beside it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .axes import LONGEST_NAME, AxisScale, around, axis_lines, colour, drawable, drawing, fitted, label_width, xml_text
from .marks import LABELS, LINE, MARGIN, PLOT, STYLE, TICKS, TITLE, WIDTH, exact, marker, titles


@dataclass(frozen=True, kw_only=True)
class ScatterPoint:
    """A name at a place."""

    name: str
    x: float
    y: float


def scatter_plot(
    points: Sequence[ScatterPoint], *, title: str, x_axis: str, y_axis: str, log_x: bool = False, log_y: bool = False
) -> str:
    """Points with their names beside them; what is not finite is left out. Refused: no point with both numbers."""
    across, down = drawable([one.x for one in points], log_x), drawable([one.y for one in points], log_y)
    there = np.flatnonzero(np.isfinite(across) & np.isfinite(down)).tolist()
    if not there:
        raise ValueError(f"the plot {fitted(title)!r} has no finite point to draw; leave it out")
    bottom = TITLE + LINE + max(PLOT, 1.5 * LINE * len(there))
    x = AxisScale(*around(across[there], log_x), MARGIN + LABELS, WIDTH - MARGIN, log_x)
    y = AxisScale(*around(down[there], log_y), bottom, TITLE + LINE, log_y)
    places = list(zip(x(across[there]).tolist(), y(down[there]).tolist(), strict=True))
    names = [fitted(points[place].name, LONGEST_NAME - 4) for place in there]
    body = [*titles(title, x_axis, y_axis, x, bottom), *axis_lines(x, y)]
    boxes = _label_boxes(places, [label_width(name) for name in names], x, y)
    for number, (at, height), name, box in zip(there, places, names, boxes, strict=True):
        one = points[number]
        if not box.touches(LabelBox(at - 10, height - 10, 20, 20)):
            near = min(max(at, box.left), box.left + box.width)
            body.append(f'<path class="leader" d="M{at:.1f} {height:.1f}L{near:.1f} {box.top + LINE / 2:.1f}"/>')
        body.append(f'<g class="{colour(number)}">')
        body.append(marker(number, at, height, f"{one.name}: {exact(one.x)}, {exact(one.y)}") + "</g>")
        # a font may be wider than reckoned: then the text grows away from its point
        edge, anchor = (box.left + box.width, "end") if box.left + box.width <= at else (box.left, "start")
        place = f'x="{edge:.1f}" y="{box.top + LINE / 2:.1f}" dy=".35em" text-anchor="{anchor}"'
        body.append(f'<text class="label" {place}>{xml_text(name)}</text>')
    return drawing(body, WIDTH, bottom + TICKS + 14, label=title, style=STYLE)


class LabelBox(NamedTuple):
    """Where a label stands."""

    left: float
    top: float
    width: float
    height: float = LINE

    def touches(self, other: "LabelBox") -> bool:
        apart_x = self.left >= other.left + other.width or other.left >= self.left + self.width
        return not (apart_x or self.top >= other.top + other.height or other.top >= self.top + self.height)


def _label_boxes(
    places: Sequence[tuple[float, float]], widths: Sequence[float], x: AxisScale, y: AxisScale
) -> list[LabelBox]:
    """A box for each label, near its point, on no other label and, if that can be, on no point.

    Beside the point first, then anywhere on a raster: it has more slots than the other labels can touch.
    """
    points = [LabelBox(at - 5, height - 5, 10, 10) for at, height in places]
    column = max(widths) + 1
    raster = [
        (x.start + column * n, y.end + LINE * row)
        for n in range(int((x.end - x.start) // column))
        for row in range(int((y.start - y.end) // LINE))
    ]
    found: list[LabelBox] = []
    for (at, height), width in zip(places, widths, strict=True):
        middle = height - LINE / 2
        beside = [(at + 8, middle), (at - 8 - width, middle), (at - width / 2, height - LINE - 6)]
        beside += [(at - width / 2, height + 6), (at + 6, height - LINE - 3), (at + 6, height + 3)]
        beside += [(at - 6 - width, height - LINE - 3), (at - 6 - width, height + 3)]
        beside = [one for one in beside if x.start <= one[0] <= x.end - width and y.end <= one[1] <= y.start - LINE]
        far = sorted(raster, key=lambda one: (one[0] + width / 2 - at) ** 2 + 9 * (one[1] - middle) ** 2)
        boxes = [LabelBox(*one, width) for one in [*beside, *far]]
        free = (box for box in boxes if not any(map(box.touches, [*found, *points])))
        on_points = (box for box in boxes if not any(map(box.touches, found)))
        found.append(next(free, None) or next(on_points))
    return found
