"""Plots of experiments: lines, dots with intervals, scattered points; readable in black and white.

Numbers in, one self-contained SVG out, for light and dark pages alike. Every series has a dash pattern and a marker of
its own beside its colour, and its name stands next to it. What is not finite leaves a gap.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

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
    tick_labels,
    xml_text,
)
from .heatmap import heatmap
from .marks import LABELS, LINE, MARGIN, PLOT, ROW, STYLE, SWATCH, TICKS, TITLE, WIDTH, dash, exact, marker, titles
from .scatter import ScatterPoint, scatter_plot

__all__ = ["Dot", "PlotLine", "ScatterPoint", "dot_plot", "heatmap", "line_plot", "scatter_plot"]

MARKED = 12  # points: of longer lines so many have a marker, and an interval becomes a band


@dataclass(frozen=True, kw_only=True)
class PlotLine:
    """A value y at each x; `low` and `high` are the ends of its interval, drawn as bars, or as a band of many."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A value with its interval, and the single `points` that it is made of, such as those of the seeds."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    points: Sequence[float] = ()


class LineData(NamedTuple):
    """The points of a line in the order of x; NaN where there is none."""

    x: Values
    y: Values
    low: Values
    high: Values


def line_plot(
    lines: Sequence[PlotLine], *, title: str, x_axis: str, y_axis: str, log_x: bool = False, log_y: bool = False
) -> str:
    """Lines on one scale, the name of each at its end; a line without a value keeps its name. Refused: no value."""
    data = [_line_data(line, log_x, log_y) for line in lines]
    drawn = [one for one in data if np.isfinite(one.y).any()]
    if not drawn:
        raise ValueError(f"the plot {fitted(title)!r} has no finite value to draw; leave it out")
    names = [f"{fitted(line.name)} {_last(one)}" for line, one in zip(lines, data, strict=True)]
    right = WIDTH - MARGIN - SWATCH - max(map(label_width, names)) - 10
    bottom = TITLE + LINE + max(PLOT, LINE * len(lines))
    steps = np.concatenate([one.x[np.isfinite(one.y)] for one in drawn])
    ends = around(steps, log=True) if log_x else from_zero(steps)
    x = AxisScale(*ends, MARGIN + LABELS, right - 14, log_x, whole=bool((steps == steps.round()).all()))
    values = np.concatenate([each for one in drawn for each in (one.y, one.low, one.high)])
    y = AxisScale(*around(drawable(values, log_y), log_y), bottom, TITLE + LINE, log_y)
    body = [*titles(title, x_axis, y_axis, x, bottom), *axis_lines(x, y)]
    for number, (line, one) in enumerate(zip(lines, data, strict=True)):
        body += [f'<g class="{colour(number)}">', *_line(line.name, number, one, x, y), "</g>"]
    return drawing([*body, *_line_names(names, data, x, y)], WIDTH, bottom + TICKS + 14, label=title, style=STYLE)


def _line_data(line: PlotLine, log_x: bool, log_y: bool) -> LineData:
    given = [line.y if each is None else each for each in (line.x, line.y, line.low, line.high)]
    if len({len(each) for each in given}) > 1:
        sizes = ", ".join(str(len(each)) for each in given)
        raise ValueError(f"{line.name!r} has x, y, low and high of {sizes} values; give as many of each")
    x, y, low, high = drawable(given[0], log_x), drawable(given[1], log_y), *map(drawable, given[2:])
    none = np.isnan(y) | np.isnan(low) | np.isnan(high) | (line.low is None) | (line.high is None)
    low[none] = high[none] = np.nan
    there = np.flatnonzero(np.isfinite(x))
    order = there[np.argsort(x[there], kind="stable")]
    return LineData(x[order], y[order], low[order], high[order])


def _last(data: LineData) -> str:
    values = data.y[np.isfinite(data.y)]
    return short_number(values[-1]) if values.size else "–"


def _line(name: str, number: int, data: LineData, x: AxisScale, y: AxisScale) -> Iterator[str]:
    if len(data.x) > DENSE:
        ends = (np.where(np.isnan(end), data.y, end) for end in (data.low, data.high))
        data = LineData(*condensed(data.x, data.y, *ends))
    low, high = (np.clip(end, y.low, y.high) for end in (data.low, data.high))
    if len(data.x) > MARKED:
        edges = np.flatnonzero(np.diff(np.isfinite(low), prepend=False, append=False))
        for start, end in edges.reshape(-1, 2):  # a gap in the line is one in its band
            yield band(x, y, data.x[start:end], low[start:end], high[start:end])
    else:
        for at, one, other in zip(x(data.x), y(low), y(high), strict=True):
            if np.isfinite(one):
                yield f'<path class="error" d="M{at - 3:.1f} {one:.1f}h6m-3 0V{other:.1f}m-3 0h6"/>'
    yield f'<path class="line"{dash(number)} d="{path_data(x(data.x), y(data.y))}"/>'
    every = max(1, -(-len(data.x) // MARKED))
    for step, value, least, most in list(zip(*data, strict=True))[::every]:
        if np.isfinite(value):
            interval = "" if np.isnan(least) else f" ({exact(least)} to {exact(most)})"
            yield marker(number, float(x(step)), float(y(value)), f"{name} at {exact(step)}: {exact(value)}{interval}")


def _line_names(names: Sequence[str], data: Sequence[LineData], x: AxisScale, y: AxisScale) -> Iterator[str]:
    """Each name at the height where its line ends, or as near as the others let it; a thin line leads there."""
    last = [int(np.flatnonzero(np.isfinite(one.y))[-1]) if np.isfinite(one.y).any() else None for one in data]
    ends = [
        (x.end, y.start) if place is None else (float(x(one.x[place])), float(y(one.y[place])))
        for one, place in zip(data, last, strict=True)
    ]
    for number, down in enumerate(_apart([end for _, end in ends], LINE, y.end, y.start)):
        name, _, value = names[number].rpartition(" ")
        left, (at, height) = x.end + 14, ends[number]
        if last[number] is not None:
            yield f'<path class="leader" d="M{at + 6:.1f} {height:.1f}L{left - 4:.1f} {down:.1f}"/>'
        yield (
            f'<g class="{colour(number)}"><path class="line"{dash(number)} d="M{left:.1f} {down:.1f}h{SWATCH - 4:g}"/>'
            f"{marker(number, left + SWATCH / 2 - 2, down)}"
            f'<text class="label" x="{left + SWATCH + 2:.1f}" y="{down:.1f}" dy=".35em">{xml_text(name)} '
            f'<tspan class="soft">{value}</tspan></text></g>'
        )


def _apart(wanted: Sequence[float], least: float, top: float, bottom: float) -> list[float]:
    """Places as near as may be to those that are wanted, at least so far from one another, in the same order."""
    order = sorted(range(len(wanted)), key=lambda place: wanted[place])
    found = [wanted[place] for place in order]
    for place in range(len(found)):
        found[place] = max(found[place], found[place - 1] + least if place else top)
    for place in reversed(range(len(found))):
        found[place] = min(found[place], found[place + 1] - least if place + 1 < len(found) else bottom)
    return [found[order.index(place)] for place in range(len(wanted))]


def dot_plot(dots: Sequence[Dot], *, title: str, axis: str) -> str:
    """One row for each: its name, its value with the interval, and its points. Refused: no finite value."""
    values = drawable([value for dot in dots for value in (dot.value, *_interval(dot), *dot.points)])
    if not np.isfinite(drawable([dot.value for dot in dots])).any():
        raise ValueError(f"the plot {fitted(title)!r} has no finite value to draw; leave it out")
    texts = [_dot_text(dot) for dot in dots]
    left = MARGIN + max(label_width(fitted(dot.name)) for dot in dots) + 16
    right = WIDTH - MARGIN - max(map(label_width, texts)) - 16
    bottom = TITLE + ROW * len(dots)
    x = AxisScale(*around(values, log=False), left, right)
    body = [*titles(title, axis, "", x, bottom)]
    ticks = x.ticks(apart=70)
    for label, at in zip(tick_labels(ticks), x(np.array(ticks)), strict=True):
        body.append(f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{TITLE:g}" y2="{bottom:g}"/>')
        body.append(f'<text class="tick" x="{at:.1f}" y="{bottom + 16:g}" text-anchor="middle">{label}</text>')
    body.append(f'<line class="base" x1="{left:g}" x2="{right:g}" y1="{bottom:g}" y2="{bottom:g}"/>')
    for number, (dot, text) in enumerate(zip(dots, texts, strict=True)):
        middle = TITLE + ROW * (number + 0.5)
        body.append(f'<text class="label" x="{left - 12:g}" y="{middle:g}" dy=".35em" text-anchor="end">')
        body[-1] += f"{xml_text(dot.name)}</text>"
        body += [f'<g class="{colour(0)}">', *_dot(dot, x, middle), "</g>"]
        body.append(f'<text class="soft" x="{right + 14:g}" y="{middle:g}" dy=".35em">{text}</text>')
    return drawing(body, WIDTH, bottom + TICKS + 14, label=title, style=STYLE)


def _interval(dot: Dot) -> tuple[float, float]:
    """Both ends, or NaN for both."""
    if dot.low is None or dot.high is None or not np.isfinite([dot.low, dot.high]).all():
        return np.nan, np.nan
    return dot.low, dot.high


def _dot_text(dot: Dot) -> str:
    low, high = _interval(dot)
    value = short_number(dot.value) if np.isfinite(dot.value) else "–"
    return value if np.isnan(low) else f"{value}  [{short_number(low)}, {short_number(high)}]"


def _dot(dot: Dot, x: AxisScale, middle: float) -> Iterator[str]:
    low, high = x(drawable(_interval(dot)))
    above, below = middle - 2, middle + 8  # the value and its interval; the points
    if np.isfinite(low) and np.isfinite(high):
        yield f'<path class="error" d="M{low:.1f} {above - 5:g}v10m0 -5H{high:.1f}m0 -5v10"/>'
    for value, at in zip(dot.points, x(drawable(dot.points)), strict=True):
        if np.isfinite(at):
            tooltip = xml_text(f"{dot.name}: {exact(value)}", 200)
            yield f'<circle class="seed" r="2.5" cx="{at:.1f}" cy="{below:g}"><title>{tooltip}</title></circle>'
    if np.isfinite(at := float(x(drawable(dot.value)[()]))):
        yield marker(3, at, above, f"{dot.name}: {exact(dot.value)}")
