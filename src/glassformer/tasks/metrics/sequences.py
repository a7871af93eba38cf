"""The score of sequences that are right as a whole or not at all."""

from collections.abc import Iterable, Sequence

import numpy as np

from glassformer.tasks.metrics.metric import Array, Metric


class ExactMatch(Metric):
    """The share of sequences (ids, words, or a text) that are right from end to end."""

    shares = ("exact_match",)

    def __init__(self, *, keep_examples: bool = False) -> None:
        super().__init__(np.zeros(2), keep_examples=keep_examples)  # right, all

    def update(self, predicted: Iterable[Sequence[object]], gold: Iterable[Sequence[object]]) -> None:
        """Sequences without padding."""
        same = [(_plain(guess) == _plain(truth), True) for guess, truth in zip(predicted, gold, strict=True)]
        self._add(np.array(same))

    def _scores(self, total: Array) -> dict[str, float]:
        return {"exact_match": float(total[0] / total[1])}


def _plain(sequence: Sequence[object]) -> str | list[object]:
    return sequence if isinstance(sequence, str) else list(sequence)
