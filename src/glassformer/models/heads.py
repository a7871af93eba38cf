"""Heads: what is placed beside an encoder to make it answer a question.

B batch, S length, D model width, V vocabulary, C classes.
Each takes the hidden states (B, S, D) and the summary (B, D) of each text, and uses what it needs.
"""

import torch
from torch import Tensor, nn

from glassformer.blocks.activations import Activation

from .outputs import Logits, PretrainingLogits, SentenceOrderLogits, SpanLogits


class MaskedLMHead(nn.Module):
    """Transform, norm, and a score for every word of the vocabulary."""

    def __init__(
        self,
        embedding: nn.Embedding,
        activation: Activation,
        eps: float,
        *,
        tied: bool,
        own_bias: bool = True,
        hidden_width: int | None = None,
    ) -> None:
        """`own_bias`: BERT and RoBERTa give the output's bias a second name, idle when untied.

        `hidden_width`: of the hidden states, where it is not that of the embedding.
        """
        super().__init__()
        vocabulary, width = embedding.weight.shape
        self.dense = nn.Linear(hidden_width or width, width)
        self.activation = activation
        self.norm = nn.LayerNorm(width, eps=eps)
        self.decoder = nn.Linear(width, vocabulary)
        if own_bias:
            self.bias = self.decoder.bias if tied else nn.Parameter(torch.zeros(vocabulary))
        if tied:
            self.decoder.weight = embedding.weight

    def forward(self, hidden: Tensor, _summary: Tensor | None = None) -> Logits:
        return Logits(self.decoder(self.norm(self.activation(self.dense(hidden)))))


class PredictionTransform(nn.Module):
    """norm(activation(dense(x))): what ModernBERT puts before each of its output layers."""

    def __init__(self, width: int, activation: Activation, *, eps: float, bias: bool, norm_bias: bool) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width, bias=bias)
        self.activation = activation
        self.norm = nn.LayerNorm(width, eps=eps, bias=norm_bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.activation(self.dense(x)))


class NextSentenceHead(nn.Module):
    """Does the second text follow the first? Class 0 says yes."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.output = nn.Linear(width, 2)

    def forward(self, _hidden: Tensor, summary: Tensor) -> Logits:
        return Logits(self.output(summary))


class PretrainingHead(nn.Module):
    """A head for words and one for pairs of sentences, as BERT and ALBERT are pretrained with."""

    def __init__(
        self,
        words: MaskedLMHead,
        sentences: nn.Module,
        outputs: type[PretrainingLogits | SentenceOrderLogits] = PretrainingLogits,
    ) -> None:
        super().__init__()
        self.words = words
        self.sentences = sentences
        self.outputs = outputs

    def forward(self, hidden: Tensor, summary: Tensor) -> PretrainingLogits | SentenceOrderLogits:
        return self.outputs(self.words(hidden).logits, self.sentences(hidden, summary).logits)


class ClassifierHead(nn.Module):
    """A label for each text, from its summary; RoBERTa and DistilBERT put a dense layer in between."""

    def __init__(
        self,
        width: int,
        classes: int,
        dropout: float,
        *,
        dense: Activation | None = None,
        transform: nn.Module | None = None,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.transform = nn.Identity() if transform is None else transform
        self.dense = nn.Linear(width, width) if dense else None
        self.activation = dense
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(width, classes, bias=bias)

    def forward(self, _hidden: Tensor, summary: Tensor) -> Logits:
        summary = self.transform(summary)
        if self.dense is not None and self.activation is not None:
            summary = self.activation(self.dense(summary))
        return Logits(self.output(self.dropout(summary)))


class TokenClassifierHead(nn.Module):
    """A label for each token; a word of the vocabulary, too, can be its label."""

    def __init__(
        self, width: int, classes: int, dropout: float, *, transform: nn.Module | None = None, bias: bool = True
    ) -> None:
        super().__init__()
        self.transform = nn.Identity() if transform is None else transform
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(width, classes, bias=bias)

    def forward(self, hidden: Tensor, _summary: Tensor | None = None) -> Logits:
        return Logits(self.output(self.dropout(self.transform(hidden))))


class ReplacedTokenHead(nn.Module):
    """One score a token: how likely it is that another one stood there."""

    def __init__(self, width: int, activation: Activation) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)
        self.activation = activation
        self.output = nn.Linear(width, 1)

    def forward(self, hidden: Tensor, _summary: Tensor | None = None) -> Logits:
        return Logits(self.output(self.activation(self.dense(hidden))).squeeze(-1))


class SpanHead(nn.Module):
    """Where an answer starts and ends."""

    def __init__(self, width: int, dropout: float = 0.0, *, transform: nn.Module | None = None) -> None:
        super().__init__()
        self.transform = nn.Identity() if transform is None else transform
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(width, 2)

    def forward(self, hidden: Tensor, _summary: Tensor | None = None) -> SpanLogits:
        start, end = self.output(self.dropout(self.transform(hidden))).unbind(-1)
        return SpanLogits(start, end)


class Pooler(nn.Module):
    """tanh(dense(first token))"""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)

    def forward(self, first: Tensor) -> Tensor:
        return torch.tanh(self.dense(first))
