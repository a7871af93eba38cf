"""The colours and fonts of all pictures, and the colours of values: scales and ramps."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.floating]
Ramp = NDArray[np.uint8]  # (256, 3): red, green, blue of every step
SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif"
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
PAPER = {
    "light": {"paper": "#f6f7f7", "card": "#ffffff", "ink": "#182022", "soft": "#586467", "line": "#dfe5e5"}
    | {"wash": "#eaf4f4", "accent": "#09736f", "on-accent": "#ffffff", "bad": "#b3261e"},
    "dark": {"paper": "#101415", "card": "#181d1f", "ink": "#e8eded", "soft": "#9ba7aa", "line": "#2c3437"}
    | {"wash": "#16302f", "accent": "#3cc8c2", "on-accent": "#06201f", "bad": "#ff8f86"},
}
LIGHT = ("#f1f5f5", "#4fb0ac", "#06403f")
DARK = ("#20282b", "#1c8c88", "#b8fffb")
BELOW_ZERO = {"light": ("#7a3300", "#e39a5e"), "dark": ("#ffdcbf", "#b9652a")}


@dataclass(frozen=True)
class ColourScale:
    """From a value to one of 256 steps; `root` spreads the small values, which are most shares of attention."""

    low: float = 0.0
    high: float = 1.0
    root: bool = False

    def steps(self, values: Values) -> NDArray[np.uint8]:
        """What is no number has the first step."""
        share = np.nan_to_num(np.clip((np.asarray(values, np.float64) - self.low) / (self.high - self.low), 0, 1))
        return np.floor(255 * (np.sqrt(share) if self.root else share) + 0.5).astype(np.uint8)

    @property
    def kind(self) -> str:
        """The name of its ramp."""
        return "signed" if self.low < 0 else "plain"

    def colours(self, values: Values, paper: str = "light") -> NDArray[np.uint8]:
        """(…, 3) for values (…)."""
        return ramp(self.kind, paper)[self.steps(values)]


SHARE = ColourScale(root=True)
GATE = ColourScale()


def signed(values: Values) -> ColourScale:
    """Zero in the middle; as far as the values go, and at least to -1 and 1."""
    reach = max(1.0, float(np.abs(values[np.isfinite(values)]).max(initial=0.0)))
    return ColourScale(-reach, reach)


def ramp(kind: str, paper: str) -> Ramp:
    """`plain` from nothing to much, `signed` from below zero to above, on light or dark paper."""
    stops: tuple[str, ...] = LIGHT if paper == "light" else DARK
    if kind == "signed":
        stops = (*BELOW_ZERO[paper], *stops)
    points = np.array([[int(stop[place : place + 2], 16) for place in (1, 3, 5)] for stop in stops])
    where = np.linspace(0, len(stops) - 1, 256)
    mixed = [np.interp(where, range(len(stops)), points[:, channel]) for channel in range(3)]
    return np.floor(np.stack(mixed, axis=1) + 0.5).astype(np.uint8)


def variables() -> str:
    """The colours and fonts as a page's CSS knows them: as the reader's screen is, or as `data-theme` says."""
    light, dark = ("; ".join(f"--{name}: {colour}" for name, colour in PAPER[paper].items()) for paper in PAPER)
    return (
        f":root {{ color-scheme: light dark; --sans: {SANS}; --mono: {MONO}; {light}; }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root:not([data-theme=light]) {{ {dark}; }} }}\n"
        f":root[data-theme=light] {{ color-scheme: light; }}\n"
        f":root[data-theme=dark] {{ color-scheme: dark; {dark}; }}\n"
    )


def hexadecimal(colour: NDArray[np.uint8]) -> str:
    return "#" + bytes(colour).hex()
