"""What every plot is made of: scales, ticks, numbers and texts that fit, and one look for light and dark pages."""

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .colours import PAPER, SANS
from .labels import text_width

Values = NDArray[np.float64]
COLOURS = {
    "light": (PAPER["light"]["accent"], "#d1570a", "#5a57d6", "#b0327f", "#5e7d12", "#7a5c3e"),
    "dark": (PAPER["dark"]["accent"], "#ff9a52", "#a5a2ff", "#f27fc0", "#a9cf56", "#cfa888"),
}
SPARE = 0.06  # of the range, above and below what is drawn
DENSE = 240  # points: more are drawn as the mean and the range of half as many stretches
LONGEST_NAME = 28  # columns
LARGEST = 1e100  # beyond it, and below its inverse on a logarithmic axis, a scale would overflow
SAME = 1e-9  # of a number: numbers that are nearer have no round ones between them


def _paper(name: str) -> str:
    """The colours on light or dark paper. They are classes: a page that allows no style attribute shows them too."""
    lines = " ".join(f".plot .c{n} {{ --line: {colour}; }}" for n, colour in enumerate(COLOURS[name]))
    return f".plot {{ color: {PAPER[name]['ink']}; --card: {PAPER[name]['card']}; }} {lines}"


STYLE = f"""
.plot {{ font: 12px {SANS}; font-variant-numeric: tabular-nums; color-scheme: light dark; }}
{_paper("light")}
@media screen and (prefers-color-scheme: dark) {{ {_paper("dark")} }}
.plot text {{ fill: currentColor; }}
.plot .title {{ font-size: 17px; font-weight: 650; letter-spacing: -.01em; }}
.plot .name {{ font-size: 13px; font-weight: 600; }}
.plot .soft {{ fill-opacity: .62; }}
.plot .tick {{ font-size: 11px; fill-opacity: .62; }}
.plot .grid {{ stroke: currentColor; stroke-opacity: .1; }}
.plot .base {{ stroke: currentColor; stroke-opacity: .35; }}
.plot .line {{ fill: none; stroke: var(--line); stroke-width: 1.75; stroke-linejoin: round; stroke-linecap: round; }}
.plot .band {{ fill: var(--line); fill-opacity: .18; }}
.plot .dot {{ fill: var(--line); }}
.plot .ring {{ fill: var(--card); stroke: var(--line); stroke-width: 2; }}
"""


def drawing(body: Sequence[str], width: float, height: float, *, label: str, style: str = "") -> str:
    """The whole SVG, which says what it shows to who cannot see it; `style` is added to that of all plots."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="plot" viewBox="0 0 {width:g} {height:g}" '
            f'width="{width:g}" height="{height:g}" role="img" aria-label="{xml_text(label, 200)}">',
            "<!-- made by glassformer -->",
            f"<style>{STYLE}{style}</style>",
            '<rect width="100%" height="100%" rx="14" fill="var(--card)"/>',
            *body,
            "</svg>",
        ]
    )


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


def colour(series: int) -> str:
    """The class that gives a series its colour."""
    return f"c{series % len(COLOURS['light'])}"


def drawable(values: ArrayLike, log: bool = False) -> Values:
    """A copy with NaN for what has no place on a scale."""
    copied = np.array(values, dtype=np.float64)
    copied[~(np.abs(copied) < LARGEST) | (log & ~(copied > 1 / LARGEST))] = np.nan
    return copied


def axis_lines(x: AxisScale, y: AxisScale) -> Iterator[str]:
    """The grid at the ticks of y, the base line, and the labels of both axes."""
    values, steps = y.ticks(apart=29), x.ticks(apart=80)
    for label, at in zip(tick_labels(values), y(np.array(values)), strict=True):
        yield f'<line class="grid" x1="{x.start:g}" x2="{x.end:g}" y1="{at:.1f}" y2="{at:.1f}"/>'
        yield f'<text class="tick" x="{x.start - 8:g}" y="{at:.1f}" dy=".35em" text-anchor="end">{label}</text>'
    yield f'<line class="base" x1="{x.start:g}" x2="{x.end:g}" y1="{y.start:g}" y2="{y.start:g}"/>'
    for step, at in zip(steps, x(np.array(steps)), strict=True):
        yield f'<text class="tick" x="{at:.1f}" y="{y.start + 16:g}" text-anchor="middle">{count(step)}</text>'


def condensed(x: Values, y: Values, low: Values, high: Values) -> tuple[Values, Values, Values, Values]:
    """Many points as the means of stretches, with the least and the most of each; gaps are passed over."""
    real = np.isfinite(y)
    parts = np.array_split(np.stack([x, y, low, high])[:, real], DENSE // 2, axis=1)
    x, y, low, high = np.array([(p[0].mean(), p[1].mean(), p[2].min(), p[3].max()) for p in parts if p.size]).T
    return x, y, low, high


def band(x: AxisScale, y: AxisScale, across: Values, low: Values, high: Values) -> str:
    """The stretch between two lines."""
    outline = path_data(x(np.concatenate([across, across[::-1]])), y(np.concatenate([low, high[::-1]])))
    return f'<path class="band" d="{outline}Z"/>'


def path_data(across: Values, down: Values) -> str:
    """Straight lines through the points; a point that is not finite lifts the pen."""
    parts, pen = [], "M"
    for x, y in zip(across, down, strict=True):
        if np.isfinite(y):
            parts.append(f"{pen}{x:.1f} {y:.1f}" + ("h0" if pen == "M" else ""))  # else a lone point would not show
        pen = "L" if np.isfinite(y) else "M"
    return "".join(parts)


def from_zero(steps: Values) -> tuple[float, float]:
    """The least and the most, from 0 where that is near."""
    low, high = float(steps.min()), float(steps.max())
    if high - low <= SAME * max(abs(low), abs(high)):
        return (0.0, high) if high > 0 else (low, min(0.0, low) + max(1.0, -low))
    return (0.0 if 0 < low <= 0.2 * high else low), high


def around(values: Values, log: bool) -> tuple[float, float]:
    """The least and the most with some air, but never below 0 for that."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    same = high - low <= SAME * max(abs(low), abs(high))
    if log:
        air = 2.0 if same else (high / low) ** SPARE
        return low / air, high * air
    air = (0.1 * abs(high) or 1.0) if same else SPARE * (high - low)
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


def tick_labels(ticks: Sequence[float]) -> list[str]:
    """The ticks of one axis, written alike; each differs from the next."""
    if len(ticks) < 2 or (len(ticks) > 2 and not np.allclose(np.diff(ticks), ticks[1] - ticks[0], atol=0)):
        return [short_number(tick) for tick in ticks]  # of a logarithmic axis, one digit says all
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


def short_number(value: float) -> str:
    return _tidy(f"{value:.3e}" if 0 < abs(value) < 1e-3 else f"{value:.4g}")


def count(step: float) -> str:
    """2.5k for 2500."""
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if abs(step) >= size:
            return f"{step / size:g}{unit}"
    return f"{step:g}"


def fitted(text: str, longest: int = LONGEST_NAME) -> str:
    """As much of a text as so many columns have room for, without what cannot be seen."""
    shown = "".join(char if char.isprintable() else " " for char in text[: longest + 1])
    if text_width(shown) <= longest:
        return shown
    while text_width(shown) >= longest:
        shown = shown[:-1]
    return shown + "…"


def xml_text(text: str, longest: int = LONGEST_NAME) -> str:
    """A text as XML takes it, shortened."""
    return escape(fitted(text, longest))


def label_width(text: str) -> float:
    """The width of a text in the plots' font, about."""
    return 6.5 * text_width(text)
