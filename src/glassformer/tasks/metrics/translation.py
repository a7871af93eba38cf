"""Scores of translations: sacreBLEU's corpus BLEU and chrF, from counts of every sentence, with their signatures."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Self

import numpy as np

from glassformer.tasks.metrics.metric import Array, Metric
from glassformer.text.wordpiece import is_ideograph

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

TOKENIZERS = ("13a", "intl", "zh", "char", "none")  # those of sacreBLEU that fetch nothing
BLEU_COUNTS, CHRF_COUNTS = 10, 18  # numbers that sacreBLEU counts in a sentence


def bleu_tokenizer(references: Iterable[str]) -> str:
    """The tokenizer BLEU needs for a language: zh where most letters are Chinese ideographs, else 13a."""
    ideographs = letters = 0
    for char in filter(str.isalpha, "".join(references)):
        letters += 1
        ideographs += is_ideograph(char)
    return "zh" if 2 * ideographs > letters else "13a"


class BleuChrf(Metric):
    """BLEU and chrF from 0 to 100, over one reference a sentence."""

    def __init__(self, *, tokenize: str | None = "13a", lowercase: bool = False, keep_examples: bool = False) -> None:
        """`tokenize` None: to be set when the references are known."""
        if tokenize not in (None, *TOKENIZERS):
            raise ValueError(f"tokenize must be one of {', '.join(TOKENIZERS)}, not {tokenize!r}")
        self.tokenize, self.lowercase = tokenize, lowercase
        super().__init__(np.zeros(BLEU_COUNTS + CHRF_COUNTS), keep_examples=keep_examples)

    def update(self, hypotheses: Sequence[str], references: Sequence[str]) -> None:
        """Translations and what they should be, as plain text (as tokens between spaces where tokenize is none)."""
        if len(hypotheses) != len(references):
            raise ValueError(f"{len(hypotheses)} translations need as many references, not {len(references)}")
        if hypotheses:
            counts = [scorer._extract_corpus_statistics(hypotheses, [references]) for scorer in self._scorers()]
            self._add(np.concatenate(counts, -1))

    def merge(self, other: Self) -> None:
        """Count what another metric has counted, too."""
        self.tokenize = self.tokenize or other.tokenize
        super().merge(other)

    def signatures(self) -> dict[str, str]:
        """How each score was made, in sacreBLEU's words, for others to make it in the same way."""
        return {
            name: str(scorer.get_signature()) for name, scorer in zip(("bleu", "chrf"), self._scorers(), strict=True)
        }

    def _scores(self, total: Array) -> dict[str, float]:
        bleu, chrf = self._scorers()
        counts = total.astype(int).tolist()
        return {
            "bleu": bleu._compute_score_from_stats(counts[:BLEU_COUNTS]).score,
            "chrf": chrf._compute_score_from_stats(counts[BLEU_COUNTS:]).score,
        }

    def _scorers(self) -> tuple["BLEU", "CHRF"]:
        return _scorers(self.tokenize or "13a", self.lowercase)  # not held: they cannot be pickled


@lru_cache
def _scorers(tokenize: str, lowercase: bool) -> tuple["BLEU", "CHRF"]:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    # force: no warning about text that looks tokenized, which sacreBLEU gives by the hundred lines of one call.
    bleu, chrf = BLEU(tokenize=tokenize, lowercase=lowercase, force=True), CHRF(lowercase=lowercase)
    bleu.num_refs = chrf.num_refs = 1  # a signature says it, also before the first sentence
    return bleu, chrf
