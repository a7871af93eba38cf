"""Scores of answers to questions, as SQuAD counts them: exact match and shared words, best over the gold answers."""

import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from glassformer.tasks.metrics.metric import Array, Metric

ARTICLES = re.compile(r"\b(a|an|the)\b")
WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised(answer: str) -> str:
    """An answer in lower case, without punctuation (of ASCII), articles and spare spaces."""
    return " ".join(ARTICLES.sub(" ", answer.lower().translate(WITHOUT_PUNCTUATION)).split())


class Answers(Metric):
    """Exact match and F1 of words; where some questions have an answer and some have none, also of each kind alone."""

    shares = ("exact_match",)

    def __init__(self, *, keep_examples: bool = False) -> None:
        super().__init__(np.zeros(6), keep_examples=keep_examples)  # count, exact, F1: with an answer, then without

    def update(self, predicted: Iterable[str], gold: Iterable[Sequence[str]]) -> None:
        """The predicted answer of every question ("" for none) and its gold answers (empty for none)."""
        rows = [_row(guess, answers) for guess, answers in zip(predicted, gold, strict=True)]
        self._add(np.array(rows))

    def _scores(self, total: Array) -> dict[str, float]:
        with_answer, without = total[:3], total[3:]
        scores = _pair("", total[:3] + total[3:])
        if with_answer[0] and without[0]:
            scores |= _pair("has_answer_", with_answer) | _pair("no_answer_", without)
        return scores


def _pair(prefix: str, counts: Array) -> dict[str, float]:
    count, exact, f1 = counts.tolist()
    return {f"{prefix}exact_match": exact / count, f"{prefix}f1": f1 / count}


def _row(predicted: str, gold: Sequence[str]) -> list[float]:
    guess = normalised(predicted)
    answers = [answer for answer in map(normalised, gold) if answer] or [""]  # one of articles alone says nothing
    best = [1.0, float(guess in answers), max(_overlap(guess, answer) for answer in answers)]
    nothing = [0.0, 0.0, 0.0]
    return [*best, *nothing] if gold else [*nothing, *best]


def _overlap(predicted: str, gold: str) -> float:
    """F1 of the words of two normalised answers; no words match only no words."""
    guess, truth = predicted.split(), gold.split()
    if not guess or not truth:
        return float(guess == truth)
    common = sum((Counter(guess) & Counter(truth)).values())
    return 2 * common / (len(guess) + len(truth))
