"""Scores of a model of text: its loss a token, perplexity, bits a byte, and how often its first guess is right.

N examples (texts, or windows of one).
"""

from math import exp, inf, log

import numpy as np

from glassformer.tasks.metrics.metric import Array, Metric, Values, as_array

LARGEST_EXPONENT = 709  # of e, in float64


class Likelihood(Metric):
    """Loss and perplexity a token; with what is right and how many bytes there are, also accuracy and bits a byte.

    Perplexities compare only over the same tokens. Bits a byte compare over any, as the bytes are the text's own.
    """

    def __init__(self, *, keep_examples: bool = False) -> None:
        super().__init__(np.zeros(5), keep_examples=keep_examples)  # loss, tokens, right, judged, bytes

    def update(
        self, loss: Values, tokens: Values, *, correct: Values | None = None, text_bytes: Values | None = None
    ) -> None:
        """Sums of examples, each (N,) or one number: nats of loss, predicted tokens, those right, UTF-8 bytes."""
        losses, counts = as_array(loss), as_array(tokens)
        self._expect_numbers(losses, "loss")
        nothing = np.zeros(len(losses))
        judged = nothing if correct is None else counts
        right, size = (nothing if values is None else as_array(values) for values in (correct, text_bytes))
        self._add(np.stack([losses, counts, right, judged, size], -1))

    def _scores(self, total: Array) -> dict[str, float]:
        nats, tokens, right, judged, size = total.tolist()
        if tokens == 0:
            raise ValueError("there is no loss of no tokens; update the metric with texts of two tokens or more")
        loss = nats / tokens
        scores = {"loss": loss, "perplexity": exp(loss) if loss < LARGEST_EXPONENT else inf}
        if size:
            scores["bits_per_byte"] = nats / log(2) / size
        if judged:
            scores["accuracy"] = right / judged
        return scores
