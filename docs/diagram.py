"""Diagrams of boxes and arrows: places and words in, one SVG out, for light and dark pages and for paper.

What a box is shows in its outline as well as in its colour, so that a print in black and white says the same.
"""

from collections.abc import Sequence
from html import escape
from typing import Literal, NamedTuple

from glassformer.view.axes import COLOURS, drawing, label_width

Kind = Literal["plain", "state", "gate", "data", "quiet"]
Place = tuple[float, float]
MARGIN, TITLE, LINE, HEIGHT = 24.0, 44.0, 16.0, 34.0  # pixels: the edge; a title; a line of text; a box of one line
HEAD, STEM = 9.0, 1.6  # an arrow's head; its line


def _colours(paper: str) -> str:
    teal, orange, violet = COLOURS[paper][:3]
    return f".plot .state {{ --line: {teal}; }} .plot .gate {{ --line: {orange}; }} .plot .data {{ --line: {violet}; }}"


STYLE = f"""
{_colours("light")}
@media screen and (prefers-color-scheme: dark) {{ {_colours("dark")} }}
.plot .box {{ fill: var(--card); stroke: currentColor; stroke-width: 1.4; }}
.plot .state .box {{ stroke: var(--line); stroke-width: 3; }}
.plot .gate .box {{ stroke: var(--line); stroke-width: 2; stroke-dasharray: 6 3; }}
.plot .data .box {{ stroke: var(--line); stroke-width: 1.4; }}
.plot .quiet .box {{ stroke-opacity: .35; fill-opacity: 0; }}
.plot .tint {{ fill: var(--line); fill-opacity: .1; stroke: none; }}
.plot .arrow {{ fill: none; stroke: currentColor; stroke-width: {STEM}; stroke-opacity: .75; stroke-linejoin: round; }}
.plot .dashed {{ stroke-dasharray: 5 4; }}
.plot .head {{ fill: currentColor; fill-opacity: .75; }}
.plot .word {{ font-size: 13px; }}
.plot .small {{ font-size: 11px; fill-opacity: .72; }}
"""


class Box(NamedTuple):
    """Where a box stands: its middle and its size. Arrows begin and end in the middles of its sides."""

    x: float
    y: float
    width: float
    height: float

    @property
    def left(self) -> Place:
        return self.x - self.width / 2, self.y

    @property
    def right(self) -> Place:
        return self.x + self.width / 2, self.y

    @property
    def top(self) -> Place:
        return self.x, self.y - self.height / 2

    @property
    def bottom(self) -> Place:
        return self.x, self.y + self.height / 2


class Diagram:
    """Boxes, circles, words and arrows at places in pixels, drawn in the order in which they are added.

    `label` says all of it in words, to who cannot see it. The paper is as large as what stands on it.
    """

    def __init__(self, title: str, label: str) -> None:
        self.title, self.label = title, label
        self._shapes: list[str] = []
        self._boxes: list[Box] = []

    def box(
        self, x: float, y: float, text: str, *, kind: Kind = "plain", width: float = 0.0, height: float = 0.0
    ) -> Box:
        """A box around a text of one or more lines; as large as the text, or as is said."""
        lines = text.split("\n")
        width = width or max(44.0, 1.1 * max(map(label_width, lines)) + 22)
        height = height or HEIGHT + LINE * (len(lines) - 1)
        round_ = height / 2 if kind == "data" else 6.0
        place = f'x="{x - width / 2:g}" y="{y - height / 2:g}" width="{width:g}" height="{height:g}" rx="{round_:g}"'
        tint = "" if kind in ("plain", "quiet") else f'<rect class="tint" {place}/>'
        self._shapes.append(f'<g class="{kind}"><rect class="box" {place}/>{tint}</g>')
        return self._words(Box(x, y, width, height), lines)

    def operation(self, x: float, y: float, sign: str) -> Box:
        """A small circle with a sign: + or × or σ."""
        self._shapes.append(f'<circle class="box" cx="{x:g}" cy="{y:g}" r="14"/>')
        return self._words(Box(x, y, 28.0, 28.0), [sign])

    def frame(self, left: float, top: float, right: float, bottom: float, text: str = "") -> Box:
        """A faint box around others, with its name in the upper left corner: add it before them."""
        box = self.box(
            (left + right) / 2, (top + bottom) / 2, "", kind="quiet", width=right - left, height=bottom - top
        )
        self.word(left + 8, top + 14, text, small=True, anchor="start")
        return box

    def word(self, x: float, y: float, text: str, *, small: bool = False, anchor: str = "middle") -> None:
        """A text without a box; y is its middle."""
        width = 1.1 * label_width(text)
        middle = x + {"start": width / 2, "middle": 0.0, "end": -width / 2}[anchor]
        self._boxes.append(Box(middle, y, width, LINE))
        look = "small" if small else "word"
        self._shapes.append(
            f'<text class="{look}" x="{x:g}" y="{y:g}" dy=".35em" text-anchor="{anchor}">{escape(text)}</text>'
        )

    def arrow(self, *places: Place, text: str = "", dashed: bool = False) -> None:
        """A line through these places with a head at the last; its text stands beside its middle."""
        points = list(places)
        (x, y), (to_x, to_y) = points[-2:]
        length = max(1e-9, ((to_x - x) ** 2 + (to_y - y) ** 2) ** 0.5)
        along = (to_x - x) / length, (to_y - y) / length
        base = to_x - HEAD * along[0], to_y - HEAD * along[1]
        sides = [(base[0] + s * 0.45 * HEAD * along[1], base[1] - s * 0.45 * HEAD * along[0]) for s in (1, -1)]
        look = "arrow dashed" if dashed else "arrow"
        self._shapes.append(f'<polyline class="{look}" points="{_points([*points[:-1], base])}"/>')
        self._shapes.append(f'<polygon class="head" points="{_points([(to_x, to_y), *sides])}"/>')
        self._boxes += [Box(*place, 0.0, 0.0) for place in places]
        if text:
            (x, y), (to_x, to_y) = points[0], points[1]
            level = abs(to_y - y) < abs(to_x - x)
            middle = (x + to_x) / 2, (y + to_y) / 2
            if level:
                self.word(middle[0], middle[1] - 9, text, small=True)
            else:
                self.word(middle[0] + 7, middle[1], text, small=True, anchor="start")

    def svg(self) -> str:
        left = min(box.left[0] for box in self._boxes) - MARGIN
        top = min(box.top[1] for box in self._boxes) - MARGIN - (TITLE if self.title else 0.0)
        right = max(box.right[0] for box in self._boxes) + MARGIN
        bottom = max(box.bottom[1] for box in self._boxes) + MARGIN
        width = max(right - left, 2 * MARGIN + 1.5 * label_width(self.title))
        body = [
            f'<text class="title" x="{MARGIN:g}" y="{MARGIN + 12:g}">{escape(self.title)}</text>' if self.title else "",
            f'<g transform="translate({-left:g} {-top:g})">',
            *self._shapes,
            "</g>",
        ]
        return drawing([line for line in body if line], width, bottom - top, label=self.label, style=STYLE)

    def _words(self, box: Box, lines: Sequence[str]) -> Box:
        self._boxes.append(box)
        first = box.y - LINE * (len(lines) - 1) / 2
        for number, line in enumerate(lines):
            if line:
                place = f'x="{box.x:g}" y="{first + LINE * number:g}"'
                self._shapes.append(f'<text class="word" {place} dy=".35em" text-anchor="middle">{escape(line)}</text>')
        return box


def _points(places: Sequence[Place]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
