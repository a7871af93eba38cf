"""Limits: filters by how long a text is, and tokens that are forced or never allowed.

B rows, L tokens so far, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .rules import Checked
from .token_masks import ban, these


@dataclass(frozen=True)
class MinLength(Checked):
    """No end of text before a row has min_length tokens from the column `start` on."""

    min_length: int
    eos_token_id: Sequence[int]
    start: int = 0

    def __call__(self, ids: Tensor, scores: Tensor) -> Tensor:
        short = (ids[:, self.start :] >= 0).sum(1, keepdim=True) < self.min_length  # (B, 1)
        size = scores.shape[-1]  # an end beyond it, as many a tiny model has, cannot be written anyway
        return ban(scores, short & these([id_ for id_ in self.eos_token_id if id_ < size], scores))


@dataclass(frozen=True)
class Forced:
    """One of these tokens, and no other, once there are `at` columns."""

    token_ids: Sequence[int]
    at: int

    def __call__(self, ids: Tensor, scores: Tensor) -> Tensor:
        return scores if ids.shape[1] != self.at else ban(torch.zeros_like(scores), ~these(self.token_ids, scores))


@dataclass(frozen=True)
class Suppress:
    """None of these tokens, always or once there are `at` columns."""

    token_ids: Sequence[int]
    at: int | None = None

    def __call__(self, ids: Tensor, scores: Tensor) -> Tensor:
        return ban(scores, these(self.token_ids, scores)) if self.at in (None, ids.shape[1]) else scores
