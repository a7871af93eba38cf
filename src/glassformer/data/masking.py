"""What encoders learn from text: tokens to guess (masked language modelling), and the order of two texts.

B rows, T length, N tokens that may be chosen, V vocabulary.

Chance is a function here and not a state: a cipher (Philox) makes numbers of seed, epoch, example and token. So an
example is masked the same way in any batch, beside any padding and on any machine, and anew in every epoch.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glassformer.text.tokenizer import Tokenizer

Ids = NDArray[np.int64]
Flags = NDArray[np.bool_]

BITS = 0xFFFFFFFF
MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
HALF = np.uint64(32)
LOW = np.uint64(BITS)

SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])\s*|\n+")


def philox(counter: Sequence[NDArray[np.uint64]], key: int) -> tuple[NDArray[np.uint64], ...]:
    """Philox-4x32-10: four random numbers of 32 bits for each counter of four such numbers; the key has 64 bits."""
    a, b, c, d = counter
    low, high = key & BITS, key >> 32 & BITS
    for _ in range(10):
        first, second = a * MULTIPLIERS[0], c * MULTIPLIERS[1]
        a, b = (second >> HALF) ^ b ^ np.uint64(low), second & LOW
        c, d = (first >> HALF) ^ d ^ np.uint64(high), first & LOW
        low, high = low + KEY_STEPS[0] & BITS, high + KEY_STEPS[1] & BITS
    return a, b, c, d


@dataclass(frozen=True, kw_only=True, eq=False)
class Masking:
    """How many tokens are chosen, and what becomes of those: the mask, any token, or nothing."""

    mask_id: int
    replacements: Ids  # what "any token" is: all that are not special
    rate: float = 0.15
    masked: float = 0.8
    replaced: float = 0.1
    at_least_one: bool = True  # in every row that has a token to choose

    def __post_init__(self) -> None:
        if not 0 < self.rate < 1:
            raise ValueError(f"rate={self.rate}: the share of tokens to guess must be between 0 and 1")
        if not (self.masked >= 0 and self.replaced >= 0 and self.masked + self.replaced <= 1):
            raise ValueError(f"masked={self.masked} and replaced={self.replaced}: give shares that make at most 1")

    @classmethod
    def of(cls, tokenizer: Tokenizer, **options: Any) -> "Masking":
        """With the mask and the ordinary tokens of a vocabulary."""
        if tokenizer.mask_token_id is None:
            raise ValueError(
                f"{tokenizer} has no mask token: take a BERT vocabulary, or add '[MASK]' and set mask_token"
            )
        ids = np.array(list(tokenizer.get_vocab().values()), np.int64)
        return cls(
            mask_id=tokenizer.mask_token_id, replacements=np.setdiff1d(ids, tokenizer.all_special_ids), **options
        )


class Masked(NamedTuple):
    """What the model reads, and which of the tokens it has to guess: both (B, T)."""

    ids: Ids
    chosen: Flags


def mask_tokens(
    ids: Ids, maskable: Flags, indices: Ids, *, masking: Masking, seed: int, epoch: int = 0, words: Ids | None = None
) -> Masked:
    """Choose tokens of the rows (B, T) and spoil them; `indices` (B,) says which example of the data each row is.

    Only what is `maskable` (B, T) is touched: leave out padding, [CLS] and [SEP]. With `words` (B, T), the number of
    the word that each token belongs to (see `word_numbers`), a word is chosen as a whole.
    """
    rows, places = maskable.nonzero()  # (N,) each
    if not len(rows):
        return Masked(ids.copy(), np.zeros_like(maskable))
    ordinals = (maskable.cumsum(1) - 1)[rows, places]  # a token's number in its row does not see padding
    counter = (ordinals, indices[rows], np.full_like(rows, epoch), np.zeros_like(rows))
    draws = philox([part.astype(np.uint64) & LOW for part in counter], seed)
    chances = draws[0]
    if words is not None:
        chances = chances[first_of_word(rows, places, words[rows, places])]
    picked = chances < np.uint64(round(masking.rate * 2**32))
    if masking.at_least_one:
        picked |= lowest_of_empty_rows(rows, chances, picked)

    share = draws[1] / 2**32
    any_token = masking.replacements[(draws[2] * np.uint64(len(masking.replacements))) >> HALF]
    spoilt = np.where(share < masking.masked + masking.replaced, any_token, ids[rows, places])
    spoilt = np.where(share < masking.masked, masking.mask_id, spoilt)
    chosen = np.zeros_like(maskable)
    chosen[rows[picked], places[picked]] = True
    corrupted = ids.copy()
    corrupted[chosen] = spoilt[picked]
    return Masked(corrupted, chosen)


def first_of_word(rows: Ids, places: Ids, words: Ids) -> Ids:
    """For each token (N,), where the first token of its word stands among them."""
    goes_on = (rows[1:] == rows[:-1]) & (places[1:] == places[:-1] + 1) & (words[1:] == words[:-1])
    starts = np.concatenate([[True], ~goes_on])
    return np.maximum.accumulate(np.where(starts, np.arange(len(rows)), 0))


def lowest_of_empty_rows(rows: Ids, chances: NDArray[np.uint64], picked: Flags) -> Flags:
    """Of the tokens (N,), those that came nearest to being picked, in rows where none was; a word's are all alike."""
    begins = np.flatnonzero(np.diff(rows, prepend=-1))
    row = np.repeat(np.arange(len(begins)), np.diff(begins, append=len(rows)))  # rows without tokens do not count
    lowest, filled = np.minimum.reduceat(chances, begins), np.logical_or.reduceat(picked, begins)
    nearest: Flags = chances == lowest[row]
    return nearest & ~filled[row]


def word_starts(tokenizer: Tokenizer) -> Flags:
    """Which tokens of a vocabulary begin a word (V,): by "##" in WordPiece, by "Ġ" or "▁" in BPE and unigram."""
    vocab = tokenizer.get_vocab()
    pieces = any(token.startswith("##") for token in vocab)
    spaces = any(token[:1] in ("Ġ", "▁") for token in vocab)
    starts = np.ones(max(vocab.values(), default=-1) + 1, bool)
    for token, index in vocab.items():
        if pieces:
            starts[index] = not token.startswith("##")
        elif spaces:
            starts[index] = token[:1] in ("Ġ", "▁") or not token[:1].isalnum()
    return starts


def word_numbers(ids: Ids, starts: Flags) -> Ids:
    """The number of the word that each token belongs to, in rows (B, T); `starts` is what `word_starts` gives."""
    return starts[ids].cumsum(-1)


def ngram_numbers(words: Ids, indices: Ids, *, longest: int, seed: int) -> Ids:
    """Numbers (B, T) of n-grams: one to `longest` words in a row have the same one, n of them with a chance ~ 1/n.

    `words` (B, T) are the numbers of the words, ascending in a row; `indices` (B,) says which example each row is.
    """
    chances = np.cumsum(1 / np.arange(1, longest + 1))
    found = np.empty_like(words)
    for row, (own, index) in enumerate(zip(words, indices.tolist(), strict=True)):
        every = np.arange(int(own.max(initial=0)) + 1)  # of its words, which are never more than its tokens
        draws = philox(
            [every.astype(np.uint64), *(np.full_like(every, part, np.uint64) for part in (index, 0, 1))], seed
        )
        sizes = 1 + np.searchsorted(chances, draws[0] / 2**32 * chances[-1], side="right")
        starts, place = [], 0
        while place < len(every):  # a size that falls into an n-gram is that of nothing
            starts.append(place)
            place += int(sizes[place])
        found[row] = np.searchsorted(starts, own, side="right")
    return found


class Pair(NamedTuple):
    """Two stretches of text, and whether the second follows the first in its document."""

    first: Ids
    second: Ids
    follows: bool


def sentences_of(text: str) -> list[str]:
    """A text's sentences, roughly: at line ends, and after full stops and their like."""
    return [sentence for part in SENTENCE_END.split(text) if (sentence := part.strip())]


def next_sentence_pairs(
    documents: Sequence[Sequence[Ids]], *, limit: int, seed: int = 0, epoch: int = 0, short: float = 0.1
) -> Iterator[Pair]:
    """Pairs from all documents, which are sentences of ids, as BERT's were made; another epoch makes others.

    A pair has `limit` tokens at most, special ones not counted; a share `short` of the documents is cut to pairs of any
    smaller length, so that those are known, too. In half of the pairs the second text is from another document, and
    so it is where a document has no sentence left; what stood there instead is then used for the next pair.
    """
    filled = _filled(documents, limit)
    if len(filled) < 2:
        raise ValueError(
            f"{len(filled)} document with text: to take a text from another one, give 2 or more, "
            f"or --set unit=block where blank lines stand between texts"
        )
    for number in range(len(filled)):
        yield from pairs_of(filled, number, limit, short, Random(f"{seed}/{epoch}/{number}"))


def sentence_order_pairs(
    documents: Sequence[Sequence[Ids]], *, limit: int, seed: int = 0, epoch: int = 0, short: float = 0.1
) -> Iterator[Pair]:
    """As `next_sentence_pairs`, but both texts are from one document and in half of the pairs they change places.

    Every token is in one pair. A sentence that would be alone is cut in two; one of a single token is left out.
    """
    for number, document in enumerate(_filled(documents, limit)):
        chance = Random(f"{seed}/{epoch}/{number}")
        wanted, stop = _length(chance, limit, short), 0
        while stop < len(document):
            start, stop = stop, _sentences(document, stop, wanted)
            if stop - start > 1:
                middle = start + 1 + below(chance, stop - start - 1)
                first, second = np.concatenate(document[start:middle]), np.concatenate(document[middle:stop])
            else:
                first, second = np.array_split(document[start], 2)
            if len(second):
                first, second = truncate_pair(first, second, limit, chance)
                follows = chance.random() < 0.5
                yield Pair(first, second, True) if follows else Pair(second, first, False)


def _filled(documents: Sequence[Sequence[Ids]], limit: int) -> list[list[Ids]]:
    """The documents that have text, without empty sentences."""
    if limit < 2:
        raise ValueError(f"limit={limit}: a pair needs at least 2 tokens")
    return [document for document in ([one for one in sentences if len(one)] for sentences in documents) if document]


def _length(chance: Random, limit: int, short: float) -> int:
    """How many tokens a document's pairs shall have."""
    return 2 + below(chance, limit - 1) if chance.random() < short else limit


def _sentences(document: Sequence[Ids], start: int, wanted: int) -> int:
    """Where so many tokens, or a sentence more, end that begin with the sentence `start`."""
    stop, length = start, 0
    while stop < len(document) and length < wanted:
        length += len(document[stop])
        stop += 1
    return stop


def pairs_of(
    documents: Sequence[Sequence[Ids]], number: int, limit: int, short: float, chance: Random
) -> Iterator[Pair]:
    """The pairs of one document."""
    document = documents[number]
    wanted = _length(chance, limit, short)
    start = stop = 0
    while stop < len(document):
        start, stop = stop, _sentences(document, stop, wanted)
        middle = start + 1 + below(chance, stop - start - 1) if stop - start > 1 else stop
        first = np.concatenate(document[start:middle])
        follows = middle < stop and chance.random() < 0.5
        if follows:
            second = np.concatenate(document[middle:stop])
        else:
            second = from_another(documents, number, wanted - len(first), chance)
            stop = middle
        yield Pair(*truncate_pair(first, second, limit, chance), follows)


def from_another(documents: Sequence[Sequence[Ids]], number: int, wanted: int, chance: Random) -> Ids:
    """So many tokens or a sentence more, from any place of any other document."""
    other = documents[(number + 1 + below(chance, len(documents) - 1)) % len(documents)]
    stop = start = below(chance, len(other))
    length = 0
    while stop < len(other) and (length < wanted or stop == start):
        length += len(other[stop])
        stop += 1
    return np.concatenate(other[start:stop])


def truncate_pair(first: Ids, second: Ids, limit: int, chance: Random) -> tuple[Ids, Ids]:
    """Both texts, shortened to `limit` tokens: always the longer one, by a token from its front or its back."""
    spans = [[0, len(first)], [0, len(second)]]
    for _ in range(len(first) + len(second) - limit):
        longer = max(reversed(spans), key=lambda span: span[1] - span[0])
        if chance.random() < 0.5:
            longer[0] += 1
        else:
            longer[1] -= 1
    return first[slice(*spans[0])], second[slice(*spans[1])]


def below(chance: Random, limit: int) -> int:
    """A whole number from 0 to limit - 1."""
    return int(chance.random() * limit)
