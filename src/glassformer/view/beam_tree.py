"""A beam search as a picture: every step's candidates in a column, each joined to the beam that it goes on from."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

from .labels import short, visible

COLUMN, ROW, WIDTH, HEIGHT = 148.0, 32.0, 112.0, 24.0  # pixels, of a step, a rank and a node
LEFT, TOP = 74.0, 30.0  # room for the prompt, and for the steps' numbers
LONGEST = 7  # columns of a token; the rest is in the tooltip

STYLE = """
.tree { font: 12px var(--mono); color: var(--ink); }
.tree text { fill: currentColor; }
.tree .number, .tree .begin { fill: var(--soft); font-size: 11px; text-anchor: middle; }
.tree .edge { fill: none; stroke: var(--soft); stroke-opacity: .55; }
.tree .edge.dropped { stroke-opacity: .2; }
.tree .edge.best { stroke: var(--accent); stroke-opacity: 1; stroke-width: 2.5; }
.tree .node rect { fill: var(--card); stroke: var(--soft); stroke-opacity: .7; }
.tree .node .score { text-anchor: end; font-size: 10.5px; fill: var(--soft); }
.tree .dropped rect { stroke-dasharray: 3 3; stroke-opacity: .45; }
.tree .dropped text { fill: var(--soft); }
.tree .ended rect { stroke: var(--ink); stroke-width: 1.75; stroke-opacity: 1; }
.tree .best rect { fill: var(--accent); stroke: var(--accent); }
.tree .best text, .tree .best .score { fill: var(--on-accent); }
.tree .best.ended rect { stroke: var(--ink); }
"""


@dataclass(frozen=True)
class Branch:
    """One candidate: its token, the score of its text so far, the candidate of the step before, what became of it."""

    token: str
    score: float
    parent: int | None  # None after the prompt
    fate: Literal["kept", "ended", "dropped"]
    best: bool = False  # whether it is on the way to the text found


def svg(steps: Sequence[Sequence[Branch]]) -> str:
    """The tree, best candidates on top; colours and font are the page's variables."""
    width = LEFT + COLUMN * len(steps)
    height = TOP + ROW * max(map(len, steps), default=1)
    middle = TOP + ROW * (max(map(len, steps[:1]), default=1) - 1) / 2 + HEIGHT / 2
    return "\n".join(
        [
            f'<svg class="tree" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
            f'width="{width:g}" height="{height:g}" role="img" aria-label="beam search, step by step">',
            f'<text class="begin" x="26" y="{middle + 4:g}">prompt</text>',
            *(f'<text class="number" x="{_x(n) + WIDTH / 2:g}" y="12">{n + 1}</text>' for n in range(len(steps))),
            *(edge for number, step in enumerate(steps) for edge in _edges(number, step, middle)),
            *(node for number, step in enumerate(steps) for node in _nodes(number, step)),
            "</svg>",
        ]
    )


def _x(step: int) -> float:
    return LEFT + COLUMN * step


def _edges(step: int, branches: Sequence[Branch], middle: float) -> Iterator[str]:
    for rank in sorted(range(len(branches)), key=lambda rank: branches[rank].best):  # the best path on top
        one = branches[rank]
        start = _x(step) - COLUMN + WIDTH if step else 50.0
        start_y = middle if one.parent is None else TOP + ROW * one.parent + HEIGHT / 2
        end, end_y = _x(step), TOP + ROW * rank + HEIGHT / 2
        bend = (start + end) / 2
        line = f"M{start:g} {start_y:g}C{bend:g} {start_y:g} {bend:g} {end_y:g} {end:g} {end_y:g}"
        yield f'<path class="edge {_look(one)}" d="{line}"/>'


def _nodes(step: int, branches: Sequence[Branch]) -> Iterator[str]:
    for rank, one in enumerate(branches):
        x, y = _x(step), TOP + ROW * rank
        title = escape(f"{visible(one.token)}: {one.score:.4f}, {one.fate}")
        yield (
            f'<g class="node {_look(one)}"><title>{title}</title>'
            f'<rect x="{x:g}" y="{y:g}" width="{WIDTH:g}" height="{HEIGHT:g}" rx="6"/>'
            f'<text x="{x + 8:g}" y="{y + 16:g}">{escape(short(one.token, LONGEST))}</text>'
            f'<text class="score" x="{x + WIDTH - 7:g}" y="{y + 16:g}">{one.score:.2f}</text></g>'
        )


def _look(branch: Branch) -> str:
    return f"{branch.fate} best" if branch.best else branch.fate
