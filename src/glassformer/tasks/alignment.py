"""Words and the tokens they are read as: which token stands for which word, in which window.

N rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from glassformer.data.batches import Indices
from glassformer.data.ragged import Ragged
from glassformer.text.backend import Pieces

from .encoded import EncodedTexts
from .metrics import Entities
from .windows import Frame, Numbers, Span, ragged, shares, windows

OVERLAP = 4  # neighbouring windows share one part in so many


class SentenceTokens(NamedTuple):
    """A sentence in tokens: those that stand for a word (every token, in a text that is not split) are to be tagged."""

    ids: Numbers
    words: Numbers  # the word each token belongs to, -1 for none

    @property
    def firsts(self) -> Numbers:
        """The first token of every word."""
        words, places = np.unique(self.words, return_index=True)
        return places[words >= 0]


@dataclass
class TaggedTexts(EncodedTexts):
    """Windows over sentences; each word is a target in one of them."""

    owners: Numbers  # (N,) the sentence of each row
    sizes: Numbers  # words of each sentence
    places: Ragged  # where in its row each target stands
    words: Ragged  # and which word of the sentence it is
    labels: Ragged | None = None  # and its class


def aligned(pieces: Pieces, words: Sequence[str], nothing: int) -> SentenceTokens:
    """The tokens of words joined by spaces; a token belongs to the word that holds its last character.

    Each word has a token: `nothing` stands for one that the tokenizer makes nothing of.
    """
    lengths = np.array([len(word) for word in words], np.int64)
    stops = (lengths + 1).cumsum() - 1
    last = np.array([end - 1 for _, end in pieces.offsets], np.int64)
    found = np.searchsorted(stops, last, side="right")
    starts = np.append(stops - lengths, 0)  # a character after the last word is of none
    found = np.where((found < len(words)) & (starts[found] <= last), found, -1)
    ids = np.array(pieces.ids, np.int64)
    missing = np.flatnonzero(np.bincount(found + 1, minlength=len(words) + 1)[1:] == 0)
    if len(missing):
        places = np.searchsorted(np.maximum.accumulate(found), missing)
        ids, found = np.insert(ids, places, nothing), np.insert(found, places, missing)
    return SentenceTokens(ids, found)


def whole(pieces: Pieces) -> SentenceTokens:
    """A text of which every token is a target."""
    return SentenceTokens(np.array(pieces.ids, np.int64), np.arange(len(pieces.ids)))


def target_windows(
    sentence: SentenceTokens, capacity: int, overlap: int | None
) -> Iterator[tuple[Span, Numbers, Numbers]]:
    """Windows over a sentence, the words that are targets in each and their first tokens.

    A window in which nothing is a target (it lies inside a very long word) is not read.
    """
    spans = windows(len(sentence.ids), capacity, capacity // OVERLAP if overlap is None else overlap)
    firsts = sentence.firsts
    for span, share in zip(spans, shares(spans), strict=True):
        first, after = np.searchsorted(firsts, share)
        if first < after:
            yield span, np.arange(first, after), firsts[first:after]


def tagged_texts(
    sentences: Sequence[SentenceTokens], frame: Frame, *, capacity: int, context: int, overlap: int | None = None
) -> TaggedTexts:
    """The rows of sentences, with so many sentences of context around each; windows share a quarter, or `overlap`."""
    rows: list[Numbers] = []
    places: list[Numbers] = []
    words: list[Numbers] = []
    owners: list[int] = []
    num_truncated = 0
    for number, one in enumerate(sentences):
        left, right = around(sentences, number, context, capacity=capacity - len(one.ids))
        unread = np.ones(len(one.ids), bool)
        for (start, stop), mine, firsts in target_windows(one, capacity, overlap):
            rows.append(frame.row(np.concatenate([left, one.ids[start:stop], right])))
            places.append(firsts - start + len(left) + frame.before(0))
            words.append(mine)
            owners.append(number)
            unread[start:stop] = False
        num_truncated += int(unread.sum())
    types = [frame.types(len(row) - frame.special) for row in rows] if frame.segments else None
    return TaggedTexts(
        rows=ragged(rows),
        segments=None if types is None else ragged(types),
        num_truncated=num_truncated,
        owners=np.array(owners, np.int64),
        sizes=np.array([int(one.words.max(initial=-1)) + 1 for one in sentences], np.int64),
        places=ragged(places),
        words=ragged(words),
    )


def around(sentences: Sequence[SentenceTokens], number: int, context: int, *, capacity: int) -> tuple[Numbers, Numbers]:
    """The tokens of so many sentences before and after one, the nearest first, as many as there is room for."""
    none = np.zeros(0, np.int64)
    if not context or capacity <= 0:
        return none, none
    before = np.concatenate([none, *(one.ids for one in sentences[max(0, number - context) : number])])
    after = np.concatenate([none, *(one.ids for one in sentences[number + 1 : number + 1 + context])])
    right = min(len(after), max(capacity // 2, capacity - len(before)))
    left = min(len(before), capacity - right)
    return before[len(before) - left :], after[:right]


class WindowedEntities(Entities):
    """Entities of sentences whose windows come one by one: a sentence counts when its last window has come, and only
    those that are not yet whole are kept."""

    def __init__(self, labels: Sequence[str], *, keep_examples: bool) -> None:
        super().__init__(keep_examples=keep_examples)
        self.labels = tuple(labels)
        self.order: list[int] = []  # the sentences that are kept, as they became whole
        self.parts: dict[int, Numbers] = {}  # sentence -> (2, words): guessed and true, -1 for not yet

    def update_windows(self, tags: Numbers, items: TaggedTexts, rows: Indices) -> None:
        """Guessed and true classes (2, P) of the targets of some rows."""
        parts = np.split(tags, items.places.lengths[rows].cumsum()[:-1], axis=1)
        for row, part in zip(rows.tolist(), parts, strict=True):
            owner = int(items.owners[row])
            sentence = np.full((2, items.sizes[owner]), -1)
            sentence[:, items.words[row]] = part
            self._add_part(owner, sentence)

    def merge(self, other: Entities) -> None:
        assert isinstance(other, WindowedEntities)
        super().merge(other)
        self.order += other.order
        for owner, sentence in other.parts.items():
            self._add_part(owner, sentence)

    def _add_part(self, owner: int, sentence: Numbers) -> None:
        """Count a sentence that is whole, keep one that is not."""
        sentence = np.maximum(sentence, self.parts.pop(owner, sentence))
        if (sentence < 0).any():
            self.parts[owner] = sentence
        else:
            guessed, true = ([self.labels[number] for number in row] for row in sentence.tolist())
            self.update([guessed], [true])
            if self.rows is not None:
                self.order.append(owner)
