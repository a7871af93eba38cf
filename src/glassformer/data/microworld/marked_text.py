"""Texts with marked parts: names of people, places and organisations, and what may be asked for.

Marks are private characters in the text, so that marked texts are put together like any others.
"""

import re
from typing import NamedTuple

OPEN, THEN, CLOSE = "\ue000", "\ue001", "\ue002"  # which no text of ours has
MARKS = re.compile(f"{OPEN}[^{THEN}]*{THEN}|{CLOSE}")
FIRST_LETTER = re.compile(f"(?<![^{THEN}])[^{OPEN}]")  # of the text: labels are passed over


class LabelledSpan(NamedTuple):
    """A part of a text without marks, text[start:stop], and what it is."""

    label: str
    start: int
    stop: int


def mark(label: str, text: str) -> str:
    return f"{OPEN}{label}{THEN}{text}{CLOSE}"


def without_marks(marked: str) -> str:
    return MARKS.sub("", marked)


def spans(marked: str) -> list[LabelledSpan]:
    """The marked parts, inner ones before outer ones."""
    found, opened = list[LabelledSpan](), list[tuple[str, int]]()
    head, *parts = marked.split(OPEN)
    place = len(head)
    for part in parts:
        label, _, rest = part.partition(THEN)
        opened.append((label, place))
        inside, *after = rest.split(CLOSE)
        place += len(inside)
        for plain in after:
            found.append(LabelledSpan(*opened.pop(), place))
            place += len(plain)
    return found


def lengthen_labels(marked: str, suffix: str) -> str:
    return marked.replace(THEN, suffix + THEN)


def capitalise(marked: str) -> str:
    return FIRST_LETTER.sub(lambda match: match[0].upper(), marked, count=1)
