"""Heads: what is placed beside an encoder to make it answer a question.

B batch, S length, D model width, V vocabulary, C classes.
Each takes the hidden states (B, S, D) and the summary (B, D) of each text, and uses what it needs.
"""

import torch
from torch import Tensor, nn

from glassformer.blocks.activations import Activation

from .outputs import Logits, PretrainingLogits, SpanLogits


class MaskedLMHead(nn.Module):
    """Transform, norm, and a score for every word of the vocabulary."""

    def __init__(
        self, embedding: nn.Embedding, activation: Activation, eps: float, *, tied: bool, own_bias: bool = True
    ) -> None:
        """`own_bias`: BERT and RoBERTa give the output's bias a second name, idle when untied."""
        super().__init__()
        vocabulary, width = embedding.weight.shape
        self.dense = nn.Linear(width, width)
        self.activation = activation
        self.norm = nn.LayerNorm(width, eps=eps)
        self.decoder = nn.Linear(width, vocabulary)
        if own_bias:
            self.bias = self.decoder.bias if tied else nn.Parameter(torch.zeros(vocabulary))
        if tied:
            self.decoder.weight = embedding.weight

    def forward(self, hidden: Tensor, _summary: Tensor | None = None) -> Logits:
        return Logits(self.decoder(self.norm(self.activation(self.dense(hidden)))))


class NextSentenceHead(nn.Module):
    """Does the second text follow the first? Class 0 says yes."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.output = nn.Linear(width, 2)

    def forward(self, _hidden: Tensor, summary: Tensor) -> Logits:
        return Logits(self.output(summary))


class PretrainingHead(nn.Module):
    """Both of BERT's pretraining heads."""

    def __init__(self, words: MaskedLMHead, sentences: NextSentenceHead) -> None:
        super().__init__()
        self.words = words
        self.sentences = sentences

    def forward(self, hidden: Tensor, summary: Tensor) -> PretrainingLogits:
        return PretrainingLogits(self.words(hidden).logits, self.sentences(hidden, summary).logits)


class ClassifierHead(nn.Module):
    """A label for each text, from its summary; RoBERTa and DistilBERT put a dense layer in between."""

    def __init__(
        self, width: int, classes: int, dropout: float, *, dense: Activation | None = None, bias: bool = True
    ) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width) if dense else None
        self.activation = dense
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(width, classes, bias=bias)

    def forward(self, _hidden: Tensor, summary: Tensor) -> Logits:
        if self.dense is not None and self.activation is not None:
            summary = self.activation(self.dense(summary))
        return Logits(self.output(self.dropout(summary)))


class TokenClassifierHead(nn.Module):
    """A label for each token."""

    def __init__(self, width: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(width, classes)

    def forward(self, hidden: Tensor, _summary: Tensor | None = None) -> Logits:
        return Logits(self.output(self.dropout(hidden)))


class SpanHead(nn.Module):
    """Where an answer starts and ends."""

    def __init__(self, width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(width, 2)

    def forward(self, hidden: Tensor, _summary: Tensor | None = None) -> SpanLogits:
        start, end = self.output(self.dropout(hidden)).unbind(-1)
        return SpanLogits(start, end)


class Pooler(nn.Module):
    """tanh(dense(first token))"""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)

    def forward(self, first: Tensor) -> Tensor:
        return torch.tanh(self.dense(first))
