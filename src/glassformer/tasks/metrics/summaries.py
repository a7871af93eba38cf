"""Scores of summaries: ROUGE-1, ROUGE-2 and ROUGE-L, as the rouge-score package counts them without a stemmer."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, Self, get_args

import numpy as np

from glassformer.tasks.metrics.metric import Array, Metric
from glassformer.text.wordpiece import is_ideograph

RougeTokenizer = Literal["ascii", "unicode"]
ASCII, UNICODE = re.compile(r"[a-z0-9]+"), re.compile(r"\w+")
NAMES = ("rouge1", "rouge2", "rougeL")


def rouge_tokenizer(references: Iterable[str]) -> RougeTokenizer:
    """What a word is in a language: rouge-score knows only a-z and 0-9; where most letters are others, any letters."""
    letters = [char for char in "".join(references) if char.isalpha()]
    return "unicode" if 2 * sum(not char.isascii() for char in letters) > len(letters) else "ascii"


def words_of(text: str, tokenize: RougeTokenizer) -> list[str]:
    """The words of a text in lower case; of "unicode", every ideograph is one."""
    if tokenize == "ascii":
        return ASCII.findall(text.lower())
    return UNICODE.findall("".join(f" {char} " if is_ideograph(char) else char for char in text.lower()))


class Rouge(Metric):
    """The means of three F1: of shared words, of shared pairs of words, and of the longest common subsequence."""

    def __init__(self, *, tokenize: RougeTokenizer | None = "ascii", keep_examples: bool = False) -> None:
        """`tokenize` None: to be set when the references are known."""
        if tokenize not in (None, *get_args(RougeTokenizer)):
            raise ValueError(f"tokenize must be one of {', '.join(get_args(RougeTokenizer))}, not {tokenize!r}")
        self.tokenize = tokenize
        super().__init__(np.zeros(1 + len(NAMES)), keep_examples=keep_examples)  # examples, then the sums of scores

    def update(self, hypotheses: Sequence[str], references: Sequence[str]) -> None:
        """Summaries and what they should be, as plain text."""
        if len(hypotheses) != len(references):
            raise ValueError(f"{len(hypotheses)} summaries need as many references, not {len(references)}")
        way = self.tokenize or "ascii"
        rows = [
            _row(words_of(one, way), words_of(other, way)) for one, other in zip(hypotheses, references, strict=True)
        ]
        self._add(np.array(rows))

    def merge(self, other: Self) -> None:
        """Count what another metric has counted, too."""
        self.tokenize = self.tokenize or other.tokenize
        super().merge(other)

    def signatures(self) -> dict[str, str]:
        """How the scores were made: what counts as a word."""
        return dict.fromkeys(NAMES, f"f1|case:lc|stem:no|tok:{self.tokenize or 'ascii'}")

    def _scores(self, total: Array) -> dict[str, float]:
        return dict(zip(NAMES, (total[1:] / total[0]).tolist(), strict=True))


def _row(guess: Sequence[str], truth: Sequence[str]) -> list[float]:
    words = _f1(_shared(guess, truth, 1), len(guess), len(truth))
    pairs = _f1(_shared(guess, truth, 2), len(guess) - 1, len(truth) - 1)
    return [1.0, words, pairs, _f1(longest_common(guess, truth), len(guess), len(truth))]


def _shared(guess: Sequence[str], truth: Sequence[str], size: int) -> int:
    """How many runs of so many words both have, each as often as it comes in both."""
    one, other = (Counter(zip(*(words[start:] for start in range(size)), strict=False)) for words in (guess, truth))
    return (one & other).total()


def _f1(hits: int, predicted: int, gold: int) -> float:
    return 2 * hits / (predicted + gold) if hits else 0.0


def longest_common(one: Sequence[str], other: Sequence[str]) -> int:
    """The length of the longest sequence of words that both have in this order, with others between them or not.

    All lengths are kept in the bits of one number: bit i is 0 where the best over the first i + 1 words is longer than
    over the first i, so that each word of the other text takes one addition (Hyyrö, 2004).
    """
    places: dict[str, int] = {}
    for place, word in enumerate(one):
        places[word] = places.get(word, 0) | 1 << place
    every = (1 << len(one)) - 1
    row = every
    for word in other:
        found = row & places.get(word, 0)
        row = ((row + found) | (row - found)) & every
    return len(one) - row.bit_count()
