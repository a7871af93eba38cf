"""Alignment: which words of a source each word of its translation was written from, by the model's own attention.

T target tokens, S source tokens, M target words, N source words.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from glassformer.data.batches import Budget, in_order
from glassformer.data.examples import Parallel
from glassformer.inspect.crossing import crossing
from glassformer.tasks.batch import device_of
from glassformer.tasks.encoded import quiet
from glassformer.tasks.translation import Translation
from glassformer.text.backend import RustBackend
from glassformer.text.marian import MarianBackend
from glassformer.text.tokenizer import Tokenizer

from .predict import Pipeline

BEGIN = "▁"  # SentencePiece's mark of a word's first token


class Link(NamedTuple):
    """A target word and the source word that it looks at most, by their numbers."""

    target: int
    source: int
    weight: float


@dataclass(frozen=True)
class Aligned:
    """The words of both sides, and how much each target word looks at each source word."""

    source: list[str]
    target: list[str]
    weights: NDArray[np.float64]  # (M, N); what a row lacks of 1 went to special tokens

    def links(self) -> list[Link]:
        """The strongest link of every target word."""
        if not self.source:
            return []
        best = self.weights.argmax(1).tolist()
        return [Link(place, found, float(self.weights[place, found])) for place, found in enumerate(best)]


class TokenWords(NamedTuple):
    """The words of a text, and which of them each of its tokens belongs to, -1 for none."""

    words: list[str]
    owners: NDArray[np.int64]  # special tokens are not counted


def align(pipe: Pipeline, pairs: Sequence[tuple[str, str]], *, batch_size: int = 32) -> list[Aligned]:
    """Read sources with their translations once more, and see where the model looks while it writes each word."""
    task = pipe.task
    assert isinstance(task, Translation)
    items = task.encode([Parallel(source, target) for source, target in pairs])
    assert items.targets is not None
    found: list[Aligned | None] = [None] * len(pairs)
    for indices in in_order(items.lengths, Budget(rows=batch_size)):
        batch = task.batch(items, indices).to(device_of(pipe.model))
        looks = crossing(pipe.model, batch.inputs).double().cpu().numpy()  # (B, T, S)
        for row, place in enumerate(indices.tolist()):
            source, target = pairs[place]
            found[place] = _aligned(task, source, target, looks[row, : items.targets.lengths[place]])
    return [one for one in found if one is not None]


def _aligned(task: Translation, source: str, target: str, looks: NDArray[np.float64]) -> Aligned:
    """From tokens (T, S) to words: a word looks as its tokens do on average, and is looked at through all of them."""
    with quiet():
        row = task.tokenizer(source, truncation=True, max_length=task.max_length)
    places = [place for place, text in enumerate(row.sequence_ids()) if text == 0]  # the others are special
    read, written = words_of(task.tokenizer, source, target=False), words_of(task.tokenizer, target, target=True)
    first = len(task.before)
    looks = looks[first : first + len(written.owners), places]
    looked_at = _spread(read)[: len(places)]  # (S, N)
    lookers = _spread(written)[: len(looks)]  # (T, M)
    lookers = lookers / np.maximum(1, lookers.sum(0))
    return Aligned(read.words, written.words, lookers.T @ looks @ looked_at)


def _spread(words: TokenWords) -> NDArray[np.float64]:
    """(tokens, words): 1 where a token belongs to a word."""
    return np.equal(words.owners[:, None], np.arange(len(words.words))).astype(np.float64)


def words_of(tokenizer: Tokenizer, text: str, *, target: bool) -> TokenWords:
    """The words that a tokenizer parts a text into before it cuts them up, or what stands between spaces."""
    if isinstance(tokenizer.backend, MarianBackend):
        parts, begins = _marian_parts(tokenizer.backend, text, target)
    else:
        parts, begins = _parts(tokenizer.backend, text)
    groups, joined = np.cumsum(begins).tolist(), dict[int, str]()
    for group, part in zip(groups, parts, strict=True):
        joined[group] = joined.get(group, "") + part
    words = {group: word.strip() for group, word in joined.items() if word.strip()}
    numbers = {group: number for number, group in enumerate(words)}
    return TokenWords(list(words.values()), np.array([numbers.get(group, -1) for group in groups], np.int64))


def _marian_parts(backend: MarianBackend, text: str, target: bool) -> tuple[list[str], list[bool]]:
    """What each token stands for, and whether it begins a word; SentencePiece marks that itself."""
    tokens = backend.tokens(text, target=target)
    return [token.replace(BEGIN, " ") for token in tokens], [token.startswith(BEGIN) for token in tokens]


def _parts(backend: RustBackend, text: str) -> tuple[list[str], list[bool]]:
    """The same by the characters and the word that the tokenizer says each token has."""
    (pieces,) = backend.pieces([text], split=False, target=False)
    parts, begins, last = list[str](), list[bool](), 0
    for (start, stop), word, before in zip(pieces.offsets, pieces.words, [None, *pieces.words], strict=False):
        spaced = any(map(str.isspace, text[last : start + 1]))  # up to its first character
        begins.append(word != before or spaced)
        parts.append(text[max(start, last) : stop])  # a character of several tokens counts once
        last = max(last, stop)
    return parts, begins
