"""From the ids of each text to rows of a batch: truncation, windows, special tokens, padding.

R rows of the batch, P parts of a template ([CLS] text [SEP] pair [SEP] has five), W width of a padded row.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Span = tuple[int, int]
Truncation = Literal["longest_first", "only_first", "only_second", "do_not_truncate"]
Side = Literal["left", "right"]


class Part(NamedTuple):
    """A stretch of a row: special tokens (`text` is None), or the first (0) or second (1) text."""

    text: int | None
    type: int
    ids: Ids


Template = tuple[Part, ...]


def template_of(ids: Sequence[int], types: Sequence[int], texts: Sequence[int | None]) -> Template:
    """Read a template off one encoded example, given which text each of its tokens came from."""
    parts: list[Part] = []
    for index, kind, text in zip(ids, types, texts, strict=True):
        own = np.array([index] if text is None else [], dtype=np.int64)
        if parts and (parts[-1].text, parts[-1].type) == (text, kind):
            own = np.concatenate([parts[-1].ids, own])
            parts.pop()
        parts.append(Part(text, kind, own))
    return tuple(parts)


def special_count(template: Template) -> int:
    """How many special tokens a template adds."""
    return sum(len(part.ids) for part in template)


@dataclass(frozen=True, kw_only=True)
class TruncationPlan:
    """How rows are made to fit: at most `capacity` tokens of text, `stride` shared by neighbouring windows."""

    capacity: int | None = None
    strategy: Truncation = "longest_first"
    stride: int = 0
    side: Side = "right"
    windows: bool = False  # keep what is cut off as further rows

    def lengths(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """How many tokens each text of a row may keep."""
        if self.capacity is None or self.strategy == "do_not_truncate" or sum(sizes) <= self.capacity:
            return sizes
        if self.strategy == "longest_first":
            return longest_first(sizes, self.capacity)
        target = 0 if self.strategy == "only_first" else 1
        if target >= len(sizes):
            raise ValueError('truncation="only_second" needs pairs; for single texts use truncation=True')
        kept = self.capacity - sum(sizes) + sizes[target]
        if kept <= 0:
            raise ValueError(
                f"truncation={self.strategy!r} cannot make {sum(sizes)} tokens fit in {self.capacity}: that text "
                f"has only {sizes[target]}; use truncation='longest_first' or a larger max_length"
            )
        return tuple(kept if index == target else size for index, size in enumerate(sizes))

    def spans(self, size: int, kept: int) -> list[Span]:
        """The windows of one text, the one that is kept first."""
        if kept >= size or kept == 0:
            return [(0, kept)]
        first = (0, kept) if self.side == "right" else (size - kept, size)
        if not self.windows:
            return [first]
        if self.stride >= kept:
            raise ValueError(
                f"stride={self.stride} leaves no new tokens in a window of {kept}: use a stride under that, "
                "or a larger max_length"
            )
        starts = range(0, size - kept + (kept - self.stride), kept - self.stride)
        windows = [(start, min(start + kept, size)) for start in starts]
        if self.side == "left":  # the same windows, counted from the end
            windows = [(size - stop, size - start) for start, stop in windows]
        return windows

    def rows(self, sizes: tuple[int, ...]) -> list[tuple[Span, ...]]:
        """The rows that texts of these sizes give: what is kept, then every other combination of windows."""
        spans = [self.spans(size, kept) for size, kept in zip(sizes, self.lengths(sizes), strict=True)]
        if len(spans) == 1:
            return [(span,) for span in spans[0]]
        firsts, seconds = spans
        kept, *others = [(first, second) for first in firsts for second in seconds]
        late = [row for row in others if row[0] == kept[0]]  # the kept first text comes last among the others
        return [kept, *(row for row in others if row[0] != kept[0]), *late]


def longest_first(sizes: tuple[int, ...], capacity: int) -> tuple[int, ...]:
    """Shorten the longer of two texts first, then both alike; the second keeps the odd token."""
    if len(sizes) == 1:
        return (capacity,)
    short, long = min(sizes), max(capacity - min(sizes), 0)
    if short > long:  # both must give way
        short, long = capacity // 2, capacity - capacity // 2
    return (long, short) if sizes[0] > sizes[1] else (short, long)


@dataclass
class RowLayout:
    """Rows laid out by a template: where each token comes from, and how rows become tables."""

    template: Template
    samples: list[int]  # which text each row came from
    spans: list[tuple[Span, ...]]  # which tokens of its text (and pair) each row holds
    width: int | None = None  # None: rows of their own lengths
    side: Side = "right"

    def __post_init__(self) -> None:
        texts = len(self.spans[0]) if self.spans else 2
        spans = np.array(self.spans, dtype=np.int64).reshape(len(self.spans), texts, 2)
        self.sizes = np.empty((len(spans), len(self.template)), np.int64)  # R, P
        for column, part in enumerate(self.template):
            special = part.text is None
            self.sizes[:, column] = len(part.ids) if special else spans[:, part.text, 1] - spans[:, part.text, 0]
        self.lengths = self.sizes.sum(axis=1)  # R
        self.stops = self.lengths.cumsum()  # R: where each row ends when they are laid one after the other

    def pad(self, width: int | None, multiple: int | None, side: Side) -> None:
        """Give every row one width: this one or more, at least the longest, rounded up to a multiple."""
        width = max(width or 0, int(self.lengths.max(initial=0)))
        self.width = -(-width // multiple) * multiple if multiple else width
        self.side = side

    def ids(self, texts: Sequence[Sequence[Ids]]) -> Ids:
        """All rows' ids, one after the other."""
        pieces = []
        for sample, spans in zip(self.samples, self.spans, strict=True):
            for part in self.template:
                if part.text is None:
                    pieces.append(part.ids)
                else:
                    start, stop = spans[part.text]
                    pieces.append(texts[part.text][sample][start:stop])
        return np.concatenate(pieces) if pieces else np.zeros(0, np.int64)

    def spread(self, values: Sequence[int]) -> Ids:
        """One value a part, repeated for each of its tokens, over all rows."""
        return np.repeat(np.tile(np.array(values, np.int64), len(self.samples)), self.sizes.ravel())

    def types(self) -> Ids:
        """The segment of every token."""
        return self.spread([part.type for part in self.template])

    def special(self) -> Ids:
        """1 for a token that the template added, 0 for a token of a text."""
        return self.spread([int(part.text is None) for part in self.template])

    def table(self, flat: Ids, fill: int) -> NDArray[np.int64] | list[list[int]]:
        """Values of all rows as a padded R × W array, or as lists of their own lengths."""
        if self.width is None:
            values = flat.tolist()
            ends = zip(self.stops.tolist(), self.lengths.tolist(), strict=True)
            return [values[stop - size : stop] for stop, size in ends]
        out = np.full((len(self.samples), self.width), fill, np.int64)
        out[self.mask()] = flat
        return out

    def mask(self) -> NDArray[np.bool_]:
        """R × W: True where a token is, False where padding is."""
        assert self.width is not None
        places = np.arange(self.width)
        if self.side == "left":
            return np.asarray(places >= self.width - self.lengths[:, None])
        return np.asarray(places < self.lengths[:, None])

    def row(self, index: int, texts: Sequence[Sequence[Sequence[Any]]], special: Any, padding: Any) -> list[Any]:
        """One row of per-token values (offsets, word numbers, anything) that are known for each text."""
        values: list[Any] = []
        for part in self.template:
            if part.text is None:
                values += [special] * len(part.ids)
            else:
                start, stop = self.spans[index][part.text]
                values += texts[part.text][self.samples[index]][start:stop]
        missing = [padding] * ((self.width or len(values)) - len(values))
        return missing + values if self.side == "left" else values + missing

    def sequence_ids(self, index: int) -> list[int | None]:
        """Which text (0 or 1) each token of a row is from; None for special tokens and padding."""
        parts = zip(self.template, self.sizes[index], strict=True)
        values = [part.text for part, size in parts for _ in range(size)]
        missing: list[int | None] = [None] * ((self.width or len(values)) - len(values))
        return missing + values if self.side == "left" else values + missing
