"""Byte-level BPE as GPT-2 does it, in plain Python: split into words, then merge the best pair each time.

It is the readable twin of the Rust path and gives the same ids. Where the two read different Unicode tables
(a letter assigned after the older of them was made) they may cut words at different places.
"""

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise, repeat
from pathlib import Path

from .readable import ReadableTokenizer

SPECIAL = ("<|endoftext|>",)
NEVER = 1 << 60  # the rank of a pair that is not merged

CONTRACTION = re.compile("'s|'t|'re|'ve|'m|'ll|'d")
# Over the kinds of a text's characters: L letter, N number, O other, "_" whitespace but for the plain space.
# A word takes one space before it; a run of whitespace leaves its last one to the word that follows.
WORD = re.compile(" ?L+| ?N+| ?O+|[ _]+(?![LNO])|[ _]+")


class Kinds(dict[int, str]):
    """A table for `str.translate` that turns each character into its kind."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        category = unicodedata.category(char)[0]
        if char == " ":
            kind = " "
        elif char.isspace() and char not in "\x1c\x1d\x1e\x1f":  # which Unicode does not call White_Space
            kind = "_"
        else:
            kind = category if category in "LN" else "O"
        self[code] = kind
        return kind


def byte_letters() -> dict[int, str]:
    """A printable character for each of the 256 bytes: itself where it prints, else one from U+0100 on."""
    printable = [
        *range(ord("!"), ord("~") + 1),
        *range(ord("¡"), ord("¬") + 1),
        *range(ord("®"), ord("ÿ") + 1),
    ]
    hidden = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(hidden)}


class BytePairEncoding(ReadableTokenizer):
    """GPT-2's tokenizer over a vocabulary of token -> id and a list of merges, best first."""

    def __init__(
        self,
        vocab: Mapping[str, int],
        merges: Iterable[tuple[str, str]],
        *,
        special: Iterable[str] = SPECIAL,
    ) -> None:
        super().__init__(vocab, special)
        self.rank = {pair: rank for rank, pair in enumerate(merges)}
        self.letters = byte_letters()
        self._kinds = Kinds()

    @classmethod
    def from_files(cls, vocab: str | Path, merges: str | Path) -> "BytePairEncoding":
        """Read a vocab.json and a merges.txt."""
        lines = Path(merges).read_text(encoding="utf-8").split("\n")
        pairs = [line.split(" ") for line in lines if line and not line.startswith("#version")]
        return cls(json.loads(Path(vocab).read_text(encoding="utf-8")), [(left, right) for left, right in pairs])

    def words(self, text: str) -> Iterator[str]:
        """Cut a text into words that keep the space before them; joined, they are the text again."""
        kinds = text.translate(self._kinds)
        start = 0
        while start < len(text):
            match = CONTRACTION.match(text, start) or WORD.match(kinds, start)
            assert match is not None, "every kind of character is in the pattern"
            yield text[start : match.end()]
            start = match.end()

    def pieces(self, word: str) -> list[str]:
        """Start from single bytes and merge the pair that was learnt first, until no pair is known."""
        parts = [self.letters[byte] for byte in word.encode("utf-8")]
        while len(parts) > 1:
            ranks = list(map(self.rank.get, pairwise(parts), repeat(NEVER)))
            best = min(ranks)
            if best == NEVER:
                break
            at = ranks.index(best)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return parts

    def encode(self, text: str) -> list[int]:
        """The ids of a text."""
        return [self.vocab[token] for token in self.tokenize(text)]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids: tokens to bytes, bytes to text, with U+FFFD for bytes that are no character."""
        token = {index: token for token, index in self.vocab.items()}
        byte = {letter: byte for byte, letter in self.letters.items()}
        joined = "".join(token[index] for index in ids)
        return bytes(b for char in joined for b in _bytes_of(char, byte)).decode("utf-8", errors="replace")


def _bytes_of(char: str, byte: Mapping[str, int]) -> bytes:
    """The byte a letter stands for; a special token's own characters stand for themselves."""
    return bytes([byte[char]]) if char in byte else char.encode("utf-8")
