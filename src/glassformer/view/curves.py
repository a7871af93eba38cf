"""Training curves as a picture: rows of numbers in, one self-contained SVG out, for light and dark pages alike."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from .axes import (
    DENSE,
    AxisScale,
    Values,
    around,
    axis_lines,
    band,
    colour,
    condensed,
    drawable,
    drawing,
    fitted,
    from_zero,
    label_width,
    path_data,
    short_number,
    xml_text,
)

Best = Literal["low", "high"]
WIDTH, MARGIN, GAP = 880.0, 28.0, 40.0  # pixels, like all that follow
TITLE, NAME, LINE, AIR, PLOT, TICKS, BELOW = 40.0, 22.0, 20.0, 10.0, 176.0, 22.0, 30.0  # heights, from the top down
LABELS, SWATCH, BETWEEN = 44.0, 18.0, 22.0  # widths: of the labels at the left, a line in the legend, the gap after it
DOT, RING = 2.5, 4.5  # radii
FEW = 40  # points: up to so many are marked one by one


@dataclass(frozen=True, kw_only=True)
class Series:
    """One line: a value at each step; what is not finite leaves a gap. `best` marks its lowest or highest point."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    best: Best | None = None


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Lines on one scale; `log` for what falls by orders of magnitude."""

    title: str
    series: Sequence[Series]
    log: bool = False


def panels_of(
    rows: Iterable[Mapping[str, float]],
    groups: Mapping[str, Sequence[str]],
    *,
    x: str = "step",
    log: Sequence[str] = (),
    best: Mapping[str, Best] | None = None,
) -> list[Panel]:
    """Panels from the rows of a metrics file: `groups` has the keys shown under each title.

    A key that no row has a finite value for is left out, and so is a panel without any; `log` names panels.
    """
    rows = [row for row in rows if x in row]
    panels = []
    for title, keys in groups.items():
        series = []
        for key in keys:
            points = [(row[x], row[key]) for row in rows if key in row and math.isfinite(row[key])]
            if points:
                steps, values = zip(*points, strict=True)
                name = key.replace("_", " ")
                series.append(Series(name=name, x=steps, y=values, best=(best or {}).get(key)))
        if series:
            panels.append(Panel(title=title, series=series, log=title in log))
    return panels


class CurveLine(NamedTuple):
    """The points of a series in the order of their steps, NaN where there is a gap."""

    x: Values
    y: Values

    @property
    def last(self) -> float:
        return float(self.y[np.isfinite(self.y)][-1])

    def best(self, which: Best) -> int:
        return int(np.nanargmin(self.y) if which == "low" else np.nanargmax(self.y))


class Box(NamedTuple):
    """Where a panel stands: its corner, its width, and the height of title and legend."""

    left: float
    top: float
    width: float
    header: float


def svg(panels: Sequence[Panel], *, title: str = "", x_axis: str = "step") -> str:
    """The panels one below another, two in a row; of an odd number the first is as wide as the page."""
    if not panels:
        raise ValueError("there is no panel to draw; give at least one")
    lines = [_lines(panel) for panel in panels]
    steps = np.concatenate([line.x for each in lines for line in each])
    alone = len(panels) % 2
    rows = [range(alone), *(range(place, place + 2) for place in range(alone, len(panels), 2))]
    top, body = MARGIN + (TITLE if title else 0.0), list[str]()
    for row in filter(None, rows):
        width = (WIDTH - 2 * MARGIN - GAP * (len(row) - 1)) / len(row)
        header = NAME + AIR + LINE * max(len(_legend(panels[place], lines[place], width)) for place in row)
        for column, place in enumerate(row):
            box = Box(MARGIN + column * (width + GAP), top, width, header)
            body += _panel(panels[place], lines[place], steps, box)
        top += header + PLOT + TICKS + BELOW
    height = top - BELOW + 14.0 + MARGIN
    corner = f'x="{WIDTH - MARGIN:g}" y="{height - MARGIN:g}" text-anchor="end"'
    heading = [f'<text class="title" x="{MARGIN:g}" y="{MARGIN + 14:g}">{xml_text(title, 90)}</text>'] if title else []
    axis = f'<text class="tick" {corner}>{xml_text(x_axis)} →</text>'
    label = title or ", ".join(panel.title for panel in panels)
    return drawing([*heading, *body, axis], WIDTH, height, label=label)


def _lines(panel: Panel) -> list[CurveLine]:
    lines = []
    for series in panel.series:
        if len(series.x) != len(series.y):
            raise ValueError(f"{series.name!r} has {len(series.x)} steps and {len(series.y)} values; give one for each")
        x, y = np.array(series.x, dtype=np.float64), drawable(series.y, panel.log)
        if not np.isfinite(y).any():
            kind = "finite value above 0" if panel.log else "finite value"
            raise ValueError(f"{series.name!r} of panel {panel.title!r} has no {kind} to draw; leave it out")
        order = np.argsort(x, kind="stable")
        lines.append(CurveLine(x[order], y[order]))
    if not lines:
        raise ValueError(f"panel {panel.title!r} has nothing to draw; give it a series or leave it out")
    return lines


def _panel(panel: Panel, lines: Sequence[CurveLine], steps: Values, box: Box) -> Iterator[str]:
    bottom = box.top + box.header + PLOT
    x = AxisScale(
        *from_zero(steps), box.left + LABELS, box.left + box.width, whole=bool((steps == steps.round()).all())
    )
    y = AxisScale(*around(np.concatenate([line.y for line in lines]), panel.log), bottom, bottom - PLOT, panel.log)
    yield f'<g>\n<text class="name" x="{box.left:g}" y="{box.top + 12:g}">{xml_text(panel.title, 48)}</text>'
    for row, entries in enumerate(_legend(panel, lines, box.width)):
        for entry in entries:
            yield entry.svg(box.left, box.top + NAME + LINE * row + 9)
    yield from axis_lines(x, y)
    for number, (series, line) in enumerate(zip(panel.series, lines, strict=True)):
        yield f'<g class="{colour(number)}">'
        yield from _curve(series, line, x, y)
        yield "</g>"
    yield "</g>"


def _curve(series: Series, line: CurveLine, x: AxisScale, y: AxisScale) -> Iterator[str]:
    drawn = line
    if len(line.x) > DENSE:
        across, mean, low, high = condensed(line.x, line.y, line.y, line.y)
        drawn = CurveLine(across, mean)
        yield band(x, y, across, low, high)
    yield f'<path class="line" d="{path_data(x(drawn.x), y(drawn.y))}"/>'
    marks = [(place, f'class="dot" r="{DOT}"', series.name) for place in range(len(line.x)) if len(line.x) <= FEW]
    if series.best is not None:
        marks.append((line.best(series.best), f'class="ring" r="{RING}"', f"best {series.name}"))
    for place, look, name in marks:
        step, value = line.x[place], line.y[place]
        if np.isfinite(value):
            tooltip = xml_text(f"{name} at {step:,g}: {short_number(value)}", 200)
            yield f'<circle {look} cx="{x(step):.1f}" cy="{y(value):.1f}"><title>{tooltip}</title></circle>'


class LegendEntry(NamedTuple):
    """A name in the legend, and what its line came to."""

    offset: float
    number: int
    name: str
    value: str

    @property
    def width(self) -> float:
        return SWATCH + label_width(f"{fitted(self.name)} {self.value}") + BETWEEN

    def svg(self, left: float, middle: float) -> str:
        x = left + self.offset
        name = f"{xml_text(self.name)} " if self.name else ""
        return (
            f'<g class="{colour(self.number)}"><path class="line" d="M{x:.1f} {middle:g}h12"/>'
            f'<text x="{x + SWATCH:.1f}" y="{middle:g}" dy=".35em">{name}'
            f'<tspan class="soft">{self.value}</tspan></text></g>'
        )


def _legend(panel: Panel, lines: Sequence[CurveLine], width: float) -> list[list[LegendEntry]]:
    """One entry a line of the plot, as many side by side as fit."""
    rows: list[list[LegendEntry]] = []
    end = math.inf
    for number, (series, line) in enumerate(zip(panel.series, lines, strict=True)):
        value = short_number(line.last)
        if series.best is not None:
            value += f" · best {short_number(line.y[line.best(series.best)])}"
        name = "" if len(lines) == 1 and series.name == panel.title else series.name
        entry = LegendEntry(0.0, number, name, value)
        if end + entry.width - BETWEEN > width:
            rows.append([])
            end = 0.0
        rows[-1].append(entry._replace(offset=end))
        end += entry.width
    return rows
