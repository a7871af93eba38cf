"""Measures of generated texts that need no reference: how varied they are, and how much they repeat."""

from collections.abc import Sequence

SELF_BLEU_TEXTS = 100  # every text is compared with every other: more would take long and say no more
Ids = Sequence[int]


def ngrams(ids: Ids, size: int) -> list[tuple[int, ...]]:
    return [tuple(ids[start : start + size]) for start in range(len(ids) - size + 1)]


def distinct(texts: Sequence[Ids], size: int) -> float | None:
    """Different n-grams for each n-gram, over all texts together (Li et al. 2016); None where there is none."""
    found = [gram for ids in texts for gram in ngrams(ids, size)]
    return len(set(found)) / len(found) if found else None


def repetition(texts: Sequence[Ids], size: int = 4) -> float | None:
    """The share of n-grams that stood in the same text before, as a mean over texts (Welleck et al. 2020)."""
    shares = [1 - len(set(found)) / len(found) for ids in texts if (found := ngrams(ids, size))]
    return sum(shares) / len(shares) if shares else None


def self_bleu(texts: Sequence[str]) -> float | None:
    """BLEU of each text against all others, as a mean (Zhu et al. 2018): 100 where all say the same.

    Texts without a word are left out; of many, the first hundred count; None where there are fewer than two.
    """
    from sacrebleu.metrics.bleu import BLEU

    from glassformer.tasks.metrics import bleu_tokenizer

    some = [text for text in texts if text.strip()][:SELF_BLEU_TEXTS]
    if len(some) < 2:
        return None
    bleu = BLEU(effective_order=True, tokenize=bleu_tokenizer(some))
    scores = [bleu.sentence_score(text, [*some[:place], *some[place + 1 :]]).score for place, text in enumerate(some)]
    return float(sum(scores) / len(scores))
