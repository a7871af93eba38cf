"""Pooling: one vector a text from one vector a token, where all that counts is the sum, the largest or a weighted mean.

B batch, T length, D width. Vectors (B, T, D) are zero at padding.
"""

import torch
from torch import Tensor, nn

from .attention import masked_softmax
from .point import Point


class SumPooling(nn.Module):
    """The sum over all tokens."""

    def forward(self, features: Tensor) -> Tensor:
        return features.sum(1)  # (B, D)


class MaxPooling(nn.Module):
    """The largest over time of features that are never below zero, so that the zeros at padding never win."""

    def forward(self, features: Tensor) -> Tensor:
        return largest(features)  # (B, D)


class MeanPooling(nn.Module):
    """The mean over real tokens, whatever stands at padding."""

    def forward(self, features: Tensor, keep: Tensor | None = None) -> Tensor:
        if keep is None:
            return features.sum(1) / max(1, features.shape[1])  # (B, D)
        return features.masked_fill(~keep[..., None], 0.0).sum(1) / keep.sum(1, keepdim=True).clamp(min=1)


class AttentionPooling(nn.Module):
    """The mean of all tokens weighted by softmax(v · tanh(W x + b)) (Yang et al., 2016), which passes a Point."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)
        self.weigh = nn.Linear(width, 1, bias=False)
        self.pattern = Point()  # (B, T), zero at padding

    def forward(self, states: Tensor, keep: Tensor | None = None) -> Tensor:
        scores = self.weigh(torch.tanh(self.dense(states))).squeeze(-1)  # (B, T)
        pattern = self.pattern(masked_softmax(scores, keep))
        return (pattern[:, None] @ states).squeeze(1)  # (B, D)


def largest(features: Tensor, keep: Tensor | None = None) -> Tensor:
    """(B, D): the largest over the real tokens of (B, T, D); zero for a text that has none."""
    if not features.shape[1]:
        return features.sum(1)
    if keep is None:
        return features.amax(1)
    found = features.masked_fill(~keep[..., None], -torch.inf).amax(1)
    return found.masked_fill(~keep.any(1, keepdim=True), 0.0)
