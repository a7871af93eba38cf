"""A cache of words in front of the Rust tokenizer: most words of a text have been seen before.

A text is cut at its spaces, each chunk's ids are looked up, and only new chunks go to Rust, all at once. This
is sound only where a chunk's ids do not depend on its neighbours:

- BERT's WordPiece: U+0020 is whitespace to the normaliser and the splitter, and nothing reaches across it. A
  Chinese ideograph is a word of its own, so texts are cut around those too.
- byte-level BPE with GPT-2's pattern: a word takes one space before it, so `" word"` is a chunk as long as
  what follows the space is not whitespace itself. (Whitespace before the space does not matter: a run of
  whitespace always leaves its last space to the word.)
- an added token that holds or eats whitespace reaches across: a text with one in it goes to Rust whole.
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
CACHE_SIZE = 1 << 17  # chunks, some 20 MB; a full cache starts afresh

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


def spaced(char: str) -> str:
    """An ideograph between two spaces; everything else as it is."""
    return f" {char} " if is_ideograph(char) else char


class WordCache:
    """The ids of chunks seen so far, as bytes, so that a text's ids are one join."""

    def __init__(self, rust: tokenizers.Tokenizer, glue: str, chinese: bool) -> None:
        self.rust = rust
        self.glue = glue
        self._tails: dict[str, bytes] = {}  # chunks after a space
        self._heads = {} if glue else self._tails  # the first chunk of a text, which has no space before it
        self._spaced = CharTable(spaced) if chinese else None
        reaching = [token.content for token in rust.get_added_tokens_decoder().values() if self._reaches(token)]
        self._unsafe = re.compile("|".join(map(re.escape, reaching))) if reaching else None

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
        late: list[int] = []
        for index, text in enumerate(texts):
            head, *rest = self._cut(text)
            try:
                ids = heads[head] + b"".join(map(tails.__getitem__, rest))
            except KeyError:
                late.append(index)
                ids = b""
            rows.append(np.frombuffer(ids, np.int64))
        if late:
            learnt = self._learn([texts[index] for index in late])
            for index, row in zip(late, learnt, strict=True):
                rows[index] = row
        return rows

    def _cut(self, text: str) -> list[str]:
        """The chunks of a text: at spaces, and around ideographs where the normaliser sets them apart."""
        if self._spaced is not None and not text.isascii():
            text = text.translate(self._spaced)
        return text.split(" ")

    def _learn(self, texts: Sequence[str]) -> list[Ids]:
        """The ids of texts with new chunks; texts whose chunks are not independent go to Rust whole."""
        cut = [self._cut(text) for text in texts]
        sound = [all(map(self._is_chunk, chunks[1:])) for chunks in cut]
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

    def _is_chunk(self, chunk: str) -> bool:
        """Whether a chunk after a space may stand alone."""
        return not self.glue or (chunk != "" and not chunk[0].isspace())

    def _ids_of(self, chunks: set[str], cache: dict[str, bytes], glue: str) -> dict[str, bytes]:
        """The ids of chunks, from the cache or from Rust; what is short enough is remembered."""
        known = {chunk: ids for chunk in chunks if (ids := cache.get(chunk)) is not None}
        new = sorted(chunks - known.keys())
        batch = self.rust.encode_batch_fast([glue + chunk for chunk in new], add_special_tokens=False)
        fresh = {chunk: array("q", one.ids).tobytes() for chunk, one in zip(new, batch, strict=True)}
        if len(cache) + len(fresh) > CACHE_SIZE:
            cache.clear()
        cache.update((chunk, ids) for chunk, ids in fresh.items() if len(chunk) <= LONGEST_CHUNK)
        return known | fresh
