"""Multi-head scaled dot-product attention: the textbook equation, and the fused kernel it is proved equal to.

B batch, T target length, S source length, H heads, K head width, D model width.
Masks: True = keep. A row that may look nowhere gets weights of zero, and so an output of zero.
"""

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .point import Point


class AttentionMask(Protocol):
    """Who may look at whom in a batch, and the fused kernel for it."""

    @property
    def dense(self) -> Tensor | None:
        """True = keep; broadcasts to (B, H, T, S)."""
        ...

    def attend(self, query: Tensor, key: Tensor, value: Tensor, *, scale: float, dropout: float) -> Tensor:
        """The fused kernel on (…, T, H, K) queries and (…, S, H, K) keys and values; gives (…, T, H, K)."""
        ...


class LayerKV(Protocol):
    """One layer's keys and values of earlier tokens."""

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Store (B, T, H, K) new ones; return all so far, (B, S, H, K)."""
        ...


class MultiHeadAttention(nn.Module):
    """Self-attention, or cross-attention when a source is given."""

    def __init__(
        self, width: int, heads: int, *, dropout: float = 0.0, scale: float | None = None, bias: bool = True
    ) -> None:
        super().__init__()
        self.heads, self.head_width = heads, width // heads
        self.scale = self.head_width**-0.5 if scale is None else scale
        self.dropout = dropout
        self.query = nn.Linear(width, width, bias=bias)
        self.key = nn.Linear(width, width, bias=bias)
        self.value = nn.Linear(width, width, bias=bias)
        self.output = nn.Linear(width, width, bias=bias)
        self.scores = Point()  # (B, H, T, S), scaled, before the mask
        self.pattern = Point()  # (B, H, T, S), every row sums to 1
        self.context = Point()  # (…, T, H, K), what each head gathered

    def forward(
        self,
        x: Tensor,
        mask: AttentionMask,
        *,
        source: tuple[Tensor, Tensor] | None = None,
        cache: LayerKV | None = None,
    ) -> Tensor:
        """(…, T, D) -> (…, T, D). `source`: keys and values of another sequence, as `keys_and_values` gives them.

        A source may have fewer rows than x: then as many rows of x after one another look at the same one.
        """
        query = self.split(self.query(x))  # (…, T, H, K)
        key, value = self.keys_and_values(x) if source is None else source
        if cache is not None:
            key, value = cache.append(key, value)
        if self.scores.has_hooks or self.pattern.has_hooks:
            context = self.readable(query, key, value, mask.dense)
        else:
            dropout = self.dropout if self.training else 0.0
            context = mask.attend(query, key, value, scale=self.scale, dropout=dropout)
        return self.output(self.context(context).flatten(-2))  # type: ignore[no-any-return]

    def keys_and_values(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What others see of these tokens."""
        return self.split(self.key(x)), self.split(self.value(x))

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1))  # type: ignore[no-any-return]  # (…, D) -> (…, H, K)

    def readable(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        """softmax(Q Kᵀ / √K) V, step by step, through the Points."""
        sharing = query.shape[0] // key.shape[0]
        if sharing > 1:
            key, value = key.repeat_interleave(sharing, 0), value.repeat_interleave(sharing, 0)
            mask = None if mask is None else mask.repeat_interleave(sharing, 0)
        query, key, value = (x.transpose(-3, -2) for x in (query, key, value))  # (B, H, …, K)
        scores = self.scores(query @ key.transpose(-2, -1) * self.scale)
        pattern = self.pattern(masked_softmax(scores, mask))
        pattern = F.dropout(pattern, self.dropout, self.training)
        return (pattern @ value).transpose(-3, -2)


def masked_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax over the last dimension in at least fp32; masked places get 0, also where all of them are masked."""
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if mask is None:
        return wide.softmax(-1).to(scores.dtype)
    masked = ~mask.bool()
    lowest = torch.finfo(wide.dtype).min  # finite: a row that may look nowhere makes no NaN, forward or backward
    weights = wide.masked_fill(masked, lowest).softmax(-1)
    return weights.masked_fill(masked, 0.0).to(scores.dtype)
