"""Scores of a detector, which says of every token whether it is what it looks for.

N examples (texts, or windows of one).
"""

import numpy as np

from glassformer.tasks.metrics.metric import Array, Metric, Values, as_array, f1_table


class Detection(Metric):
    """The loss and the accuracy a token; precision, recall and F1 of what is found."""

    def __init__(self, *, keep_examples: bool = False) -> None:
        super().__init__(np.zeros(6), keep_examples=keep_examples)  # loss, tokens, right, hits, found, there

    def update(
        self, loss: Values, tokens: Values, *, correct: Values, hits: Values, found: Values, gold: Values
    ) -> None:
        """Sums of examples, each (N,): nats of loss; tokens, those right, rightly found, found, and to be found."""
        losses = as_array(loss)
        self._expect_numbers(losses, "loss")
        self._add(np.stack([losses, *map(as_array, (tokens, correct, hits, found, gold))], -1))

    def _scores(self, total: Array) -> dict[str, float]:
        loss, tokens, right, *counts = total
        precision, recall, f1 = f1_table(*map(np.asarray, counts)).tolist()
        count = max(1.0, float(tokens))
        scores = {"loss": float(loss) / count, "accuracy": float(right) / count}
        return scores | {"precision": precision, "recall": recall, "f1": f1}
