"""Output layers: of a language model that keeps a bias beside its weights, and of a sum of scores.

D model width, V vocabulary.
"""

import torch
from torch import Tensor, nn


class LMHead(nn.Module):
    """A score for every token of the vocabulary, (…, D) -> (…, V); tied to an embedding where asked."""

    bias: Tensor

    def __init__(self, embedding: nn.Embedding, *, tied: bool) -> None:
        super().__init__()
        vocabulary, width = embedding.weight.shape
        self.output = nn.Linear(width, vocabulary, bias=False)
        if tied:
            self.output.weight = embedding.weight
        self.register_buffer("bias", torch.zeros(1, vocabulary))  # Marian and BART call it final_logits_bias

    def forward(self, hidden: Tensor) -> Tensor:
        return self.output(hidden) + self.bias


class ScaledHead(nn.Module):
    """A score for every token of the vocabulary, (…, D) -> (…, V), of states that are scaled first."""

    def __init__(self, output: nn.Linear, scale: float) -> None:
        super().__init__()
        self.output, self.scale = output, scale

    def forward(self, hidden: Tensor) -> Tensor:
        return self.output(hidden * self.scale)


class Bias(nn.Module):
    """x + b: the output layer of a model whose embeddings are scores already."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.bias
