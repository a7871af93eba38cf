"""WordPiece as BERT does it, in plain Python: clean, lowercase, split, then the longest known piece.

It is the readable twin of the Rust path and gives the same ids. Where the two read different Unicode tables
(a character assigned after the older of them was made) they may differ on that character.
"""

import unicodedata
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from .readable import ReadableTokenizer

SPECIAL = ("[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]")
LONGEST_WORD = 100  # characters; a longer word is unknown as a whole

# The blocks of Chinese ideographs that BERT sets apart; kana and hangul are letters like any other.
# The sixth block starts 256 characters late in the Rust library, and so here.
IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class CharTable(dict[int, str]):
    """A table for `str.translate` that asks `rule` about each character once."""

    def __init__(self, rule: Callable[[str], str]) -> None:
        super().__init__()
        self.rule = rule

    def __missing__(self, code: int) -> str:
        self[code] = self.rule(chr(code))
        return self[code]


def is_ideograph(char: str) -> bool:
    """Whether BERT treats a character as a Chinese word of its own."""
    return any(low <= ord(char) <= high for low, high in IDEOGRAPHS)


def is_punctuation(char: str) -> bool:
    """Whether a character stands alone: Unicode punctuation, and every ASCII symbol ($, +, ^, `…)."""
    ascii_symbol = "!" <= char <= "~" and not char.isalnum()
    return ascii_symbol or unicodedata.category(char).startswith("P")


def cleaned(char: str) -> str:
    """A character as BERT sees it: control and format characters vanish, any whitespace is a space."""
    if char in "\t\n\r":
        return " "
    if char in "\0\ufffd" or unicodedata.category(char) in ("Cc", "Cf", "Co"):
        return ""
    return " " if char.isspace() else char


def cleaned_and_spaced(char: str) -> str:
    """As `cleaned`, with a space on both sides of a Chinese ideograph."""
    return f" {char} " if is_ideograph(char) else cleaned(char)


def isolated(char: str) -> str:
    """Punctuation between two spaces; everything else as it is."""
    return f" {char} " if is_punctuation(char) else char


def without_accents(text: str) -> str:
    """Decompose each letter (é = e + ´) and drop the marks."""
    return "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")


class WordPiece(ReadableTokenizer):
    """BERT's tokenizer over a vocabulary of token -> id."""

    def __init__(
        self,
        vocab: Mapping[str, int],
        *,
        lowercase: bool = True,
        strip_accents: bool | None = None,
        chinese: bool = True,
        special: Iterable[str] = SPECIAL,
    ) -> None:
        super().__init__(vocab, special)
        self.lowercase = lowercase
        self.strip_accents = lowercase if strip_accents is None else strip_accents
        self._clean = CharTable(cleaned_and_spaced if chinese else cleaned)
        self._isolate = CharTable(isolated)

    @classmethod
    def from_file(cls, path: str | Path, *, lowercase: bool = True) -> "WordPiece":
        """Read a vocab.txt: one token a line, the line number is the id."""
        lines = Path(path).read_text(encoding="utf-8").split("\n")
        return cls({token: index for index, token in enumerate(lines) if token}, lowercase=lowercase)

    def normalize(self, text: str) -> str:
        """Clean the text, then strip accents and lowercase as asked."""
        text = text.translate(self._clean)
        if self.strip_accents and not text.isascii():
            text = without_accents(text)
        return "".join(map(str.lower, text)) if self.lowercase else text  # letter by letter: no final sigma

    def words(self, text: str) -> list[str]:
        """Split a text into words and single punctuation marks."""
        return self.normalize(text).translate(self._isolate).split()

    def pieces(self, word: str) -> list[str]:
        """Cut a word into the longest known piece, then the longest of the rest, with ## inside a word."""
        found: list[str] = []
        start = 0
        while start < len(word) <= LONGEST_WORD:
            prefix = "##" if start else ""
            stop = len(word)
            while stop > start and prefix + word[start:stop] not in self.vocab:
                stop -= 1
            if stop == start:  # not even one character is known
                return ["[UNK]"]
            found.append(prefix + word[start:stop])
            start = stop
        return found or ["[UNK]"]

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """The ids of a text, between [CLS] and [SEP] unless told otherwise."""
        tokens = self.tokenize(text)
        if add_special_tokens:
            tokens = ["[CLS]", *tokens, "[SEP]"]
        return [self.vocab[token] for token in tokens]
