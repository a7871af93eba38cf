"""What a model returns: small named tuples with Hugging Face's field names.

B batch, T target length, S source length, D model width, V vocabulary, C classes.
"""

from typing import NamedTuple

from torch import Tensor


class Hidden(NamedTuple):
    """A model without a head."""

    last_hidden_state: Tensor  # (B, S, D); zero at padding


class PooledHidden(NamedTuple):
    """A BERT with its pooler, without a head."""

    last_hidden_state: Tensor  # (B, S, D); zero at padding
    pooler_output: Tensor  # (B, D)


class Logits(NamedTuple):
    """Language models, classifiers, taggers and detectors."""

    logits: Tensor  # (B, S, V), (B, C), (B, S, C) or (B, S)


class SpanLogits(NamedTuple):
    """Extractive question answering."""

    start_logits: Tensor  # (B, S)
    end_logits: Tensor  # (B, S)


class PretrainingLogits(NamedTuple):
    """BERT's two pretraining heads."""

    prediction_logits: Tensor  # (B, S, V)
    seq_relationship_logits: Tensor  # (B, 2)


class SentenceOrderLogits(NamedTuple):
    """ALBERT's two pretraining heads."""

    prediction_logits: Tensor  # (B, S, V)
    sop_logits: Tensor  # (B, 2)


HeadOutput = Logits | SpanLogits | PretrainingLogits | SentenceOrderLogits  # of an encoder


class Seq2SeqHidden(NamedTuple):
    """An encoder-decoder without its output layer."""

    last_hidden_state: Tensor  # (B, T, D)
    encoder_last_hidden_state: Tensor  # (B, S, D); zero at padding


class Seq2SeqLogits(NamedTuple):
    """An encoder-decoder."""

    logits: Tensor  # (B, T, V)
    encoder_last_hidden_state: Tensor  # (B, S, D); zero at padding
