"""Boxes in a row, with an arrow from each to the next; and boxes in columns under their headings."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from docs.diagram import Box, Diagram, Kind

from glassformer.view.axes import label_width

GAP, COLUMN, ROW = 46.0, 24.0, 42.0  # pixels between boxes of a row, between columns, from row to row


def chain(picture: Diagram, y: float, steps: Sequence[tuple[str, Kind]], *, left: float = 0.0) -> list[Box]:
    """A row of boxes as wide as their words, the first of which begins at `left`."""
    boxes: list[Box] = []
    for text, kind in steps:
        width = box_width(text.split("\n"))
        boxes.append(picture.box(left + width / 2, y, text, kind=kind, width=width))
        left += width + GAP
    for one, other in pairwise(boxes):
        picture.arrow(one.right, other.left)
    return boxes


def columns(picture: Diagram, groups: Mapping[str, Sequence[str]], kinds: Sequence[Kind]) -> None:
    """Each group in a column of boxes under its name."""
    left = 0.0
    for (name, inside), kind in zip(groups.items(), kinds, strict=True):
        width = max(box_width(inside), label_width(name) * 1.1)
        picture.word(left + width / 2, 0, name)
        for place, text in enumerate(inside):
            picture.box(left + width / 2, 34 + ROW * place, text, kind=kind, width=width)
        left += width + COLUMN


def box_width(lines: Sequence[str]) -> float:
    """What a box needs for these words."""
    return max(56.0, 1.1 * max(map(label_width, lines)) + 24)
