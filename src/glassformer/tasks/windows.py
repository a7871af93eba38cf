"""Texts longer than a model reads: windows that overlap, and the rows that special tokens make of them.

A window is a span (first token, token after the last) of a text.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from glassformer.data.ragged import Ragged
from glassformer.text.assemble import special_count
from glassformer.text.backend import Pieces
from glassformer.text.tokenizer import Tokenizer

Span = tuple[int, int]
Numbers = NDArray[np.int64]
CHUNK = 10_000  # texts tokenised at a time
NO_LIMIT = 1 << 40  # tokens; no text has as many


def windows(size: int, capacity: int, overlap: int) -> list[Span]:
    """Spans of at most `capacity` tokens that leave none of `size` out; neighbours share `overlap` tokens or more.

    All but a text's only window are full: the last one reaches back as far as it takes.
    """
    assert 0 <= overlap < capacity
    if size <= capacity:
        return [(0, size)]
    step = capacity - overlap
    count = 1 + -(-(size - capacity) // step)
    starts = [min(number * step, size - capacity) for number in range(count)]
    return [(start, start + capacity) for start in starts]


def shares(spans: Sequence[Span]) -> list[Span]:
    """The tokens each window answers for: all tokens once, each where it has most text on both of its sides."""
    borders = [(right[0] + left[1] + 1) // 2 for left, right in pairwise(spans)]
    edges = [spans[0][0], *borders, spans[-1][1]]
    return list(pairwise(edges))


class Frame:
    """What a tokenizer puts around a text, or around and between a pair."""

    def __init__(self, tokenizer: Tokenizer, *, pair: bool) -> None:
        self.template = tokenizer.template(pair=pair)
        self.segments = tokenizer.settings.segments
        self.longest = min(tokenizer.model_max_length, NO_LIMIT)

    @property
    def special(self) -> int:
        """How many tokens it adds."""
        return special_count(self.template)

    def capacity(self, max_length: int | None) -> int:
        """The tokens of text that a row can have: as many as asked for, and no more than the tokenizer allows."""
        longest = self.longest if max_length is None else min(max_length, self.longest)
        if longest <= self.special:
            raise ValueError(f"max_length={longest} leaves no room for text: give {self.special + 1} or more")
        return longest - self.special

    def before(self, text: int, *sizes: int) -> int:
        """The place in a row of the first token of a text (0 or 1), given the sizes of the texts."""
        place = 0
        for part in self.template:
            if part.text == text:
                break
            place += len(part.ids) if part.text is None else sizes[part.text]
        return place

    def row(self, *texts: Sequence[int] | Numbers) -> Numbers:
        """The ids of a row."""
        return np.concatenate([part.ids if part.text is None else texts[part.text] for part in self.template])

    def types(self, *sizes: int) -> Numbers:
        """The segment of every token of a row."""
        counts = [len(part.ids) if part.text is None else sizes[part.text] for part in self.template]
        return np.repeat([part.type for part in self.template], counts)


def tokenised(tokenizer: Tokenizer, texts: Sequence[str]) -> Iterator[Pieces]:
    """The tokens of whole texts, however long, with their characters and words; without special tokens."""
    for start in range(0, len(texts), CHUNK):
        some = list(texts[start : start + CHUNK])
        # without a max_length it would warn of texts longer than the model reads
        found = tokenizer(
            some, truncation=True, max_length=NO_LIMIT, add_special_tokens=False, return_offsets_mapping=True
        )
        for row, (ids, offsets) in enumerate(zip(found["input_ids"], found["offset_mapping"], strict=True)):
            yield Pieces(ids, offsets, found.word_ids(row))


def ragged(rows: Sequence[Numbers]) -> Ragged:
    """Arrays of unequal length in one."""
    flat = np.concatenate(rows) if rows else np.zeros(0)
    return Ragged(flat.astype(np.int32), np.array([len(row) for row in rows], np.int64))
