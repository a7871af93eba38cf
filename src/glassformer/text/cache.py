"""A cache of words in front of the Rust tokenizer: most words of a text have been seen before.

A text is cut at its spaces, each chunk's ids are looked up, and only new chunks go to Rust, all at once. This
is sound only where a chunk's ids do not depend on its neighbours:

- BERT's WordPiece: U+0020 is whitespace to the normaliser and the splitter, and nothing reaches across it. A
  Chinese ideograph is a word of its own, so texts are cut around those too.
- byte-level BPE with GPT-2's pattern: a word takes one space before it, so `" word"` is a chunk as long as
  what follows the space is not whitespace itself. (Whitespace before the space does not matter: a run of
  whitespace always leaves its last space to the word.)
- an added token that holds or eats whitespace reaches across: a text with one in it goes to Rust whole.

A chunk that is new, "film,", is often made of words that are not: one of printable ASCII that holds no added token is
cut once more, as the splitter cuts it, and only new parts go to Rust.
"""

import re
from array import array
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import tokenizers

from glassformer.text.assemble import Ids
from glassformer.text.wordpiece import CharTable, is_ideograph

LONGEST_CHUNK = 40  # characters; a longer chunk is hardly ever seen twice
DEPENDENT = re.compile(r" (?:\s|\Z)")  # byte-level BPE: a space that the chunk after it does not take, being none
CACHE_SIZE = 1 << 18  # chunks, some 40 MB; a full cache starts afresh

PARTS = {  # of printable ASCII, by the glue: BERT's splitter, and GPT-2's pattern
    "": re.compile(r"[A-Za-z0-9]+|[^A-Za-z0-9]"),
    " ": re.compile(r"'(?:s|t|re|ve|m|ll|d)| ?[A-Za-z]+| ?[0-9]+| ?[^ A-Za-z0-9]+"),
}

Text = str | Sequence[str]


def encoded(rust: tokenizers.Tokenizer, texts: Sequence[Text], split: bool = False) -> list[Ids]:
    """The ids of each text, straight from Rust."""
    batch = rust.encode_batch_fast(texts, is_pretokenized=split, add_special_tokens=False)
    return [np.array(one.ids, dtype=np.int64) for one in batch]


def glue_of(rust: tokenizers.Tokenizer, normalizer: dict[str, Any], splitter: dict[str, Any]) -> str | None:
    """What a chunk keeps of the space before it: "" (WordPiece), " " (BPE); None where chunks are unsafe."""
    model = type(rust.model).__name__
    bert = normalizer.get("type") == "BertNormalizer" and splitter.get("type") == "BertPreTokenizer"
    if model == "WordPiece" and bert:
        return ""
    gpt2 = not normalizer and splitter.get("type") == "ByteLevel" and splitter.get("use_regex", True)
    return " " if model == "BPE" and gpt2 and not rust.model.dropout else None


def _remember(fresh: dict[str, bytes], cache: dict[str, bytes]) -> None:
    """What is short enough; a cache that would be too large starts afresh."""
    if len(cache) + len(fresh) > CACHE_SIZE:
        cache.clear()
    cache.update((text, ids) for text, ids in fresh.items() if len(text) <= LONGEST_CHUNK)


def any_of(words: Sequence[str], flags: int = 0) -> re.Pattern[str] | None:
    return re.compile("|".join(map(re.escape, words)), flags) if words else None


def spaced(char: str) -> str:
    """An ideograph between two spaces; everything else as it is."""
    return f" {char} " if is_ideograph(char) else char


class WordCache:
    """The ids of chunks seen so far, as bytes, so that a text's ids are one join."""

    def __init__(self, rust: tokenizers.Tokenizer, glue: str, chinese: bool, *, cuts: bool) -> None:
        """`cuts`: whether chunks may be cut once more, as no space is put before what has none."""
        self.rust = rust
        self.glue, self.cuts = glue, cuts
        self._tails: dict[str, bytes] = {}  # chunks after a space
        self._heads = {} if glue else self._tails  # the first chunk of a text, which has no space before it
        self._parts: dict[str, bytes] = {}  # of chunks that are cut once more
        self._spaced = CharTable(spaced) if chinese else None
        added = rust.get_added_tokens_decoder().values()
        self._unsafe = any_of([token.content for token in added if self._reaches(token)])
        self._added = any_of([token.content for token in added], re.IGNORECASE)  # a normaliser may fold capitals

    @staticmethod
    def is_sound(rust: tokenizers.Tokenizer) -> bool:
        """Whether added tokens that reach across chunks show in the raw text, which can then be set aside."""
        if rust.normalizer is None:
            return True
        return not any(
            token.lstrip or token.rstrip or any(map(str.isspace, rust.normalizer.normalize_str(token.content)))
            for token in rust.get_added_tokens_decoder().values()
            if token.normalized  # it is looked for after normalisation
        )

    def _reaches(self, token: tokenizers.AddedToken) -> bool:
        """Whether an added token may take in more than one chunk."""
        inner = any(char.isspace() or is_ideograph(char) for char in token.content)
        return bool(token.lstrip or token.rstrip or inner)

    def rows(self, texts: Sequence[str]) -> list[Ids]:
        """The ids of each text."""
        if self._unsafe is None:
            return self._chunked(texts)
        whole = [text for text in texts if self._unsafe.search(text)]
        if not whole:
            return self._chunked(texts)
        known = dict(zip(whole, encoded(self.rust, whole), strict=True))
        rest = iter(self._chunked([text for text in texts if text not in known]))
        return [known[text] if text in known else next(rest) for text in texts]

    def _chunked(self, texts: Sequence[str]) -> list[Ids]:
        """The ids of each text from its chunks; what the cache does not know is learnt first."""
        heads, tails = self._heads, self._tails
        rows: list[Ids] = []
        late: dict[int, list[str]] = {}  # the chunks of texts of which some are new
        for index, text in enumerate(texts):
            chunks = self._cut(text)
            try:
                ids = heads[chunks[0]] + b"".join(map(tails.__getitem__, chunks[1:]))
            except KeyError:
                late[index] = chunks
                ids = b""
            rows.append(np.frombuffer(ids, np.int64))
        if late:
            learnt = self._learn([texts[index] for index in late], list(late.values()))
            for index, row in zip(late, learnt, strict=True):
                rows[index] = row
        return rows

    def _cut(self, text: str) -> list[str]:
        """The chunks of a text: at spaces, and around ideographs where the normaliser sets them apart."""
        if self._spaced is not None and not text.isascii():
            text = text.translate(self._spaced)
        return text.split(" ")

    def _learn(self, texts: Sequence[str], cut: Sequence[list[str]]) -> list[Ids]:
        """The ids of texts with new chunks; texts whose chunks are not independent go to Rust whole."""
        sound = [not self.glue or DEPENDENT.search(text) is None for text in texts]
        good = [chunks for chunks, ok in zip(cut, sound, strict=True) if ok]
        heads = self._ids_of({chunks[0] for chunks in good}, self._heads, "")
        tails = self._ids_of(set(chain.from_iterable(chunks[1:] for chunks in good)), self._tails, self.glue)
        whole = iter(encoded(self.rust, [text for text, ok in zip(texts, sound, strict=True) if not ok]))
        return [
            np.frombuffer(heads[chunks[0]] + b"".join(map(tails.__getitem__, chunks[1:])), np.int64)
            if ok
            else next(whole)
            for chunks, ok in zip(cut, sound, strict=True)
        ]

    def _ids_of(self, chunks: set[str], cache: dict[str, bytes], glue: str) -> dict[str, bytes]:
        """The ids of chunks, from the cache or from Rust; what is short enough is remembered."""
        known = {chunk: ids for chunk in chunks if (ids := cache.get(chunk)) is not None}
        cut = {chunk: self._cut_once_more(chunk, glue) for chunk in chunks - known.keys()}
        parts = {part: self._parts.get(part) for some in cut.values() for part in some}
        new = sorted(part for part, ids in parts.items() if ids is None)
        batch = self.rust.encode_batch_fast(new, add_special_tokens=False)
        learnt = {part: array("q", one.ids).tobytes() for part, one in zip(new, batch, strict=True)}
        parts |= learnt
        fresh = {chunk: b"".join(map(parts.__getitem__, some)) for chunk, some in cut.items()}  # type: ignore[arg-type]
        _remember(learnt, self._parts)
        _remember(fresh, cache)
        return known | fresh

    def _cut_once_more(self, chunk: str, glue: str) -> list[str]:
        """The parts of a chunk and its glue whose ids are independent of each other; often it is one."""
        whole = glue + chunk
        plain = self.cuts and glue == self.glue and chunk.isascii() and chunk.isprintable()
        if not plain or (self._added is not None and self._added.search(whole)):
            return [whole]
        return PARTS[glue].findall(whole) or [whole]
