"""Convolution over time (Kim, 2014): filters of several widths side by side, each over a window of tokens.

B batch, T length, D input width, F filters of one width, N widths.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .masks import kept_first


class WindowFilters(nn.Module):
    """relu(W [x_{t-a}; …; x_{t+b}] + b): filters over the window of `width` tokens around each token.

    Beyond the ends of a text stand zeros, so that a text may be shorter than a filter.
    """

    def __init__(self, input_width: int, filters: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.linear = nn.Linear(width * input_width, filters)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D), zero at padding, which stands last -> (B, T, F)."""
        length = x.shape[1]
        padded = F.pad(x, (0, 0, (self.width - 1) // 2, self.width // 2))
        windows = torch.cat([padded[:, start : start + length] for start in range(self.width)], dim=-1)
        return torch.relu(self.linear(windows))  # (B, T, width·D) -> (B, T, F)


class Convolution(nn.Module):
    """The features of filters of several widths, side by side; padding is dropped before any window is cut."""

    def __init__(self, input_width: int, filters: int, widths: Sequence[int]) -> None:
        super().__init__()
        self.filters = nn.ModuleList(WindowFilters(input_width, filters, width) for width in widths)

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        """x (B, T, D) -> (B, T, F·N), zero at padding, which may stand left, right or in between (keep = False)."""
        if keep is None:
            return torch.cat([filters(x) for filters in self.filters], dim=-1)
        order = kept_first(keep)[..., None]  # (B, T, 1)
        real = x.masked_fill(~keep[..., None], 0.0).take_along_dim(order, dim=1)
        features = torch.cat([filters(real) for filters in self.filters], dim=-1)
        return features.take_along_dim(order.argsort(dim=1), dim=1).masked_fill(~keep[..., None], 0.0)
