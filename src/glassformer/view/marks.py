"""What plots of experiments share: their layout, and the dashes and markers by which a series is known."""

from collections.abc import Iterator

from .axes import AxisScale, xml_text

WIDTH, MARGIN, TITLE, TICKS = 760.0, 24.0, 56.0, 36.0  # pixels: the page; its edge; above and below a plot
PLOT, LABELS, ROW, LINE = 280.0, 52.0, 30.0, 17.0  # a plot's least height; numbers at its left; a row; a line of text
SWATCH = 30.0  # of a series beside its name
LONGEST_TITLE = 90  # columns

DASHES = ("", "8 4", "2 4", "9 4 2 4", "16 5", "5 3", "12 4 2 4 2 4", "2 7", "10 3 5 3", "20 4 2 4")
DISC = "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z"
SQUARE, DIAMOND = "m-3.5 -3.5h7v7h-7z", "m0 -5l5 5l-5 5l-5 -5z"
UP, DOWN = "m0 -4.5l4.7 8h-9.4z", "m0 4.5l-4.7 -8h9.4z"
CROSS, PLUS = "m-3.7 -3.7l7.4 7.4m0 -7.4l-7.4 7.4", "m-4.7 0h9.4m-4.7 -4.7v9.4"
MARKERS = (
    *((shape, "mark") for shape in (DISC, SQUARE, UP, DIAMOND, DOWN, CROSS, PLUS)),
    *((shape, "mark open") for shape in (DISC, SQUARE, DIAMOND)),
)
STYLE = """
.plot .mark { fill: var(--line); stroke: var(--line); stroke-width: 1.6; stroke-linejoin: round; }
.plot .mark.open, .plot .seed { fill: var(--card); }
.plot .seed { stroke: var(--line); stroke-opacity: .75; }
.plot .error { fill: none; stroke: var(--line); stroke-width: 1.4; stroke-opacity: .8; }
.plot .leader { fill: none; stroke: currentColor; stroke-opacity: .3; }
"""


def titles(title: str, x_axis: str, y_axis: str, x: AxisScale, bottom: float) -> Iterator[str]:
    """The title of a plot and the names of its axes."""
    yield f'<text class="title" x="{MARGIN:g}" y="{MARGIN + 12:g}">{xml_text(title, LONGEST_TITLE)}</text>'
    if y_axis:
        yield f'<text class="tick" x="{MARGIN:g}" y="{TITLE + 4:g}">↑ {xml_text(y_axis, LONGEST_TITLE)}</text>'
    corner = f'x="{x.end:g}" y="{bottom + TICKS - 2:g}" text-anchor="end"'
    yield f'<text class="tick" {corner}>{xml_text(x_axis, 60)} →</text>'


def marker(series: int, x: float, y: float, tooltip: str = "") -> str:
    """The marker of a series at this place."""
    # past the last marker they begin again, shifted, so that with the dashes no two series look alike
    shape, look = MARKERS[(series + series // len(MARKERS)) % len(MARKERS)]
    title = f"<title>{xml_text(tooltip, 200)}</title>" if tooltip else ""
    return f'<path class="{look}" d="M{x:.1f} {y:.1f}{shape}">{title}</path>'


def dash(series: int) -> str:
    """The attribute that gives a line the dashes of its series."""
    pattern = DASHES[series % len(DASHES)]
    return f' stroke-dasharray="{pattern}"' if pattern else ""


def exact(value: float) -> str:
    return f"{value:.10g}"
