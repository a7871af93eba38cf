"""Training curves as a picture: rows of numbers in, one self-contained SVG out, for light and dark pages alike."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .colours import PAPER, SANS
from .labels import text_width

Values = NDArray[np.float64]
Best = Literal["low", "high"]
WIDTH, MARGIN, GAP = 880.0, 28.0, 40.0  # pixels, like all that follow
TITLE, NAME, LINE, AIR, PLOT, TICKS, BELOW = 40.0, 22.0, 20.0, 10.0, 176.0, 22.0, 30.0  # heights, from the top down
LABELS, SWATCH, BETWEEN = 44.0, 18.0, 22.0  # widths: of the labels at the left, a line in the legend, the gap after it
DOT, RING = 2.5, 4.5  # radii
COLOURS = 6
SPARE = 0.06  # of the range, above and below the lines
FEW = 40  # points: up to so many are marked one by one
DENSE = 240  # points: more are drawn as the mean and the range of half as many stretches
LONGEST_NAME = 28  # characters

INK, CARD, ACCENT = ([PAPER[paper][name] for paper in ("light", "dark")] for name in ("ink", "card", "accent"))
STYLE = f"""
.curves {{ font: 12px {SANS}; font-variant-numeric: tabular-nums; color-scheme: light dark; color: {INK[0]};
  --card: {CARD[0]}; --c0: {ACCENT[0]}; --c1: #d1570a; --c2: #5a57d6; --c3: #b0327f; --c4: #5e7d12; --c5: #7a5c3e; }}
@media (prefers-color-scheme: dark) {{
  .curves {{ color: {INK[1]};
    --card: {CARD[1]}; --c0: {ACCENT[1]}; --c1: #ff9a52; --c2: #a5a2ff; --c3: #f27fc0; --c4: #a9cf56; --c5: #cfa888; }}
}}
.curves text {{ fill: currentColor; }}
.curves .title {{ font-size: 17px; font-weight: 650; letter-spacing: -.01em; }}
.curves .name {{ font-size: 13px; font-weight: 600; }}
.curves .soft {{ fill-opacity: .62; }}
.curves .tick {{ font-size: 11px; fill-opacity: .62; }}
.curves .grid {{ stroke: currentColor; stroke-opacity: .1; }}
.curves .base {{ stroke: currentColor; stroke-opacity: .35; }}
.curves .line {{ fill: none; stroke: var(--line); stroke-width: 1.75; stroke-linejoin: round; stroke-linecap: round; }}
.curves .band {{ fill: var(--line); fill-opacity: .18; }}
.curves .dot {{ fill: var(--line); }}
.curves .ring {{ fill: var(--card); stroke: var(--line); stroke-width: 2; }}
"""


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


class AxisScale(NamedTuple):
    """Values -> pixels, straight or logarithmic."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False
    whole: bool = False  # there is nothing between two whole numbers

    def __call__(self, value: Values) -> Values:
        ends = np.array([self.low, self.high])
        low, high = np.log10(ends) if self.log else ends
        share = ((np.log10(value) if self.log else value) - low) / (high - low)
        return np.asarray(self.start + share * (self.end - self.start), dtype=np.float64)

    def ticks(self, apart: float) -> list[float]:
        """Round values, about so many pixels apart or more."""
        most = max(2, int(abs(self.end - self.start) / apart))
        return _round_log(self.low, self.high, most) if self.log else _round(self.low, self.high, most, self.whole)


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
    what = _text(title or ", ".join(panel.title for panel in panels), 200)
    corner = f'x="{WIDTH - MARGIN:g}" y="{height - MARGIN:g}" text-anchor="end"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="curves" viewBox="0 0 {WIDTH:g} {height:g}" '
            f'width="{WIDTH:g}" height="{height:g}" role="img" aria-label="{what}">',
            f"<style>{STYLE}</style>",
            '<rect width="100%" height="100%" rx="14" fill="var(--card)"/>',
            *([f'<text class="title" x="{MARGIN:g}" y="{MARGIN + 14:g}">{_text(title, 90)}</text>'] if title else []),
            *body,
            f'<text class="tick" {corner}>{_text(x_axis)} →</text>',
            "</svg>",
        ]
    )


def _lines(panel: Panel) -> list[CurveLine]:
    lines = []
    for series in panel.series:
        if len(series.x) != len(series.y):
            raise ValueError(f"{series.name!r} has {len(series.x)} steps and {len(series.y)} values; give one for each")
        x, y = np.array(series.x, dtype=np.float64), np.array(series.y, dtype=np.float64)
        y[~np.isfinite(y) | (panel.log & (y <= 0))] = np.nan
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
        *_from_zero(steps), box.left + LABELS, box.left + box.width, whole=bool((steps == steps.round()).all())
    )
    y = AxisScale(*_around(np.concatenate([line.y for line in lines]), panel.log), bottom, bottom - PLOT, panel.log)
    yield f'<g>\n<text class="name" x="{box.left:g}" y="{box.top + 12:g}">{_text(panel.title, 48)}</text>'
    for row, entries in enumerate(_legend(panel, lines, box.width)):
        for entry in entries:
            yield entry.svg(box.left, box.top + NAME + LINE * row + 9)
    yield from _axes(x, y)
    for number, (series, line) in enumerate(zip(panel.series, lines, strict=True)):
        yield f'<g style="--line: var(--c{number % COLOURS})">'
        yield from _curve(series, line, x, y)
        yield "</g>"
    yield "</g>"


def _axes(x: AxisScale, y: AxisScale) -> Iterator[str]:
    values, steps = y.ticks(apart=29), x.ticks(apart=80)
    for label, at in zip(_labels(values), y(np.array(values)), strict=True):
        yield f'<line class="grid" x1="{x.start:g}" x2="{x.end:g}" y1="{at:.1f}" y2="{at:.1f}"/>'
        yield f'<text class="tick" x="{x.start - 8:g}" y="{at:.1f}" dy=".35em" text-anchor="end">{label}</text>'
    yield f'<line class="base" x1="{x.start:g}" x2="{x.end:g}" y1="{y.start:g}" y2="{y.start:g}"/>'
    for step, at in zip(steps, x(np.array(steps)), strict=True):
        yield f'<text class="tick" x="{at:.1f}" y="{y.start + 16:g}" text-anchor="middle">{_count(step)}</text>'


def _curve(series: Series, line: CurveLine, x: AxisScale, y: AxisScale) -> Iterator[str]:
    drawn = line
    if len(line.x) > DENSE:
        drawn, band = _condensed(line)
        yield f'<path class="band" d="{_path(x(band.x), y(band.y))}Z"/>'
    yield f'<path class="line" d="{_path(x(drawn.x), y(drawn.y))}"/>'
    marks = [(place, f'class="dot" r="{DOT}"', series.name) for place in range(len(line.x)) if len(line.x) <= FEW]
    if series.best is not None:
        marks.append((line.best(series.best), f'class="ring" r="{RING}"', f"best {series.name}"))
    for place, look, name in marks:
        step, value = line.x[place], line.y[place]
        if np.isfinite(value):
            tooltip = _text(f"{name} at {step:,g}: {_number(value)}", 200)
            yield f'<circle {look} cx="{x(step):.1f}" cy="{y(value):.1f}"><title>{tooltip}</title></circle>'


def _path(across: Values, down: Values) -> str:
    """Straight lines through the points; a point that is not finite lifts the pen."""
    parts, pen = [], "M"
    for x, y in zip(across, down, strict=True):
        if np.isfinite(y):
            parts.append(f"{pen}{x:.1f} {y:.1f}" + ("h0" if pen == "M" else ""))  # else a lone point would not show
        pen = "L" if np.isfinite(y) else "M"
    return "".join(parts)


def _condensed(line: CurveLine) -> tuple[CurveLine, CurveLine]:
    """The means of many stretches, and the band between the least and the most of each; gaps are passed over."""
    real = np.isfinite(line.y)
    parts = np.array_split(np.stack([line.x[real], line.y[real]]), DENSE // 2, axis=1)
    x, mean, low, high = np.array([(xs.mean(), ys.mean(), ys.min(), ys.max()) for xs, ys in parts if xs.size]).T
    return CurveLine(x, mean), CurveLine(np.concatenate([x, x[::-1]]), np.concatenate([low, high[::-1]]))


class LegendEntry(NamedTuple):
    """A name in the legend, and what its line came to."""

    offset: float
    number: int
    name: str
    value: str

    @property
    def width(self) -> float:
        return SWATCH + _width(f"{self.name[:LONGEST_NAME]} {self.value}") + BETWEEN

    def svg(self, left: float, middle: float) -> str:
        x = left + self.offset
        name = f"{_text(self.name)} " if self.name else ""
        return (
            f'<g style="--line: var(--c{self.number % COLOURS})"><path class="line" d="M{x:.1f} {middle:g}h12"/>'
            f'<text x="{x + SWATCH:.1f}" y="{middle:g}" dy=".35em">{name}'
            f'<tspan class="soft">{self.value}</tspan></text></g>'
        )


def _legend(panel: Panel, lines: Sequence[CurveLine], width: float) -> list[list[LegendEntry]]:
    """One entry a line of the plot, as many side by side as fit."""
    rows: list[list[LegendEntry]] = []
    end = math.inf
    for number, (series, line) in enumerate(zip(panel.series, lines, strict=True)):
        value = _number(line.last)
        if series.best is not None:
            value += f" · best {_number(line.y[line.best(series.best)])}"
        name = "" if len(lines) == 1 and series.name == panel.title else series.name
        entry = LegendEntry(0.0, number, name, value)
        if end + entry.width - BETWEEN > width:
            rows.append([])
            end = 0.0
        rows[-1].append(entry._replace(offset=end))
        end += entry.width
    return rows


def _from_zero(steps: Values) -> tuple[float, float]:
    """The least and the most, from 0 where that is near."""
    low, high = float(steps.min()), float(steps.max())
    if 0 < low <= 0.2 * high or low == high:
        low = min(0.0, low)
    return (low, high) if low < high else (low, low + 1.0)


def _around(values: Values, log: bool) -> tuple[float, float]:
    """The least and the most with some air, but never below 0 for that."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    if log:
        air = (high / low) ** SPARE if high > low else 2.0
        return low / air, high * air
    air = SPARE * (high - low) or 0.1 * abs(high) or 1.0
    return (max(0.0, low - air) if low >= 0 else low - air), high + air


def _round(low: float, high: float, most: int, whole: bool) -> list[float]:
    """At most so many multiples of 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(power * nice for nice in (1, 2, 5, 10, 20) if (high - low) / (power * nice) <= most)
    step = max(1.0, step) if whole else step
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def _round_log(low: float, high: float, most: int) -> list[float]:
    """Powers of ten, or some of them; with 2 and 5 times each where they are few, and plain steps within one."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for mantissas in ((1, 2, 5), (1,)):
        ticks = [nice * 10.0**power for power in powers for nice in mantissas if low <= nice * 10.0**power <= high]
        if len(ticks) <= most:
            return ticks if len(ticks) > 1 else _round(low, high, most, whole=False)
    return ticks[:: math.ceil(len(ticks) / most)]


def _labels(ticks: Sequence[float]) -> list[str]:
    """The ticks of one axis, written alike; each differs from the next."""
    if len(ticks) > 2 and not np.allclose(np.diff(ticks), ticks[1] - ticks[0], atol=0):
        return [_number(tick) for tick in ticks]  # of a logarithmic axis: one digit says all
    largest, unit = max(map(abs, ticks)), math.floor(math.log10(abs(ticks[-1] - ticks[0]) / (len(ticks) - 1) * 1.001))
    if 1e-3 <= largest < 1e5:
        return [f"{tick:.{max(0, -unit)}f}" for tick in ticks]
    digits = max(0, math.floor(math.log10(largest)) - unit)
    return ["0" if tick == 0 else _tidy(f"{tick:.{digits}e}") for tick in ticks]


def _tidy(text: str) -> str:
    """1e-5 for 1.00e-05."""
    mantissa, mark, power = text.partition("e")
    short = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{short}e{int(power)}" if mark else short


def _number(value: float) -> str:
    return _tidy(f"{value:.3e}" if 0 < abs(value) < 1e-3 else f"{value:.4g}")


def _count(step: float) -> str:
    """2.5k for 2500."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if abs(step) >= size:
            return f"{step / size:g}{unit}"
    return f"{step:g}"


def _text(text: str, longest: int = LONGEST_NAME) -> str:
    """A text as XML takes it: shortened, and without what cannot be seen."""
    shown = "".join(char if char.isprintable() else " " for char in text)
    return escape(shown if len(shown) <= longest else shown[: longest - 1] + "…")


def _width(text: str) -> float:
    """The width of a text in the legend's font, about."""
    return 6.1 * text_width(text)
