"""Dropout for recurrent networks: one mask a text, so that what is dropped at one token is dropped at all.

B batch, T length, D width.
"""

import torch.nn.functional as F
from torch import Tensor, nn


def locked_dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """Variational dropout (Gal and Ghahramani, 2016): a row's tokens share their mask; x (B, T, D) or (B, D)."""
    if not training or not p:
        return x
    between = (1,) * (x.dim() - 2)
    return x * F.dropout(x.new_ones(len(x), *between, x.shape[-1]), p)


class LockedDropout(nn.Dropout):
    """`locked_dropout` as a module."""

    def forward(self, x: Tensor) -> Tensor:
        return locked_dropout(x, self.p, self.training)
