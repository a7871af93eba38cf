"""What the readable tokenizers share: a text cut at its special tokens, into words, and each word into pieces."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping


class ReadableTokenizer(ABC):
    """A tokenizer in plain Python over a vocabulary of token -> id."""

    def __init__(self, vocab: Mapping[str, int], special: Iterable[str]) -> None:
        self.vocab = vocab
        self.special = [token for token in special if token in vocab]
        self._special_pattern = re.compile("(" + "|".join(map(re.escape, self.special)) + ")")
        self._pieces: dict[str, list[str]] = {}

    @abstractmethod
    def words(self, text: str) -> Iterable[str]:
        """Cut a text into words."""

    @abstractmethod
    def pieces(self, word: str) -> list[str]:
        """Cut a word into tokens."""

    def tokenize(self, text: str) -> list[str]:
        """The tokens of a text; a special token written in it stays whole."""
        parts = self._special_pattern.split(text) if self.special else [text]
        tokens: list[str] = []
        for index, part in enumerate(parts):
            if index % 2:  # every second part is what the pattern caught
                tokens.append(part)
                continue
            for word in self.words(part):
                if word not in self._pieces:
                    self._pieces[word] = self.pieces(word)
                tokens += self._pieces[word]
        return tokens
