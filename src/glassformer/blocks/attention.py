"""Multi-head scaled dot-product attention: the textbook equation, and the fused kernel it is proved equal to.

What differs between architectures is given: how many heads share keys and values, the width of a head, norms of
queries and keys, positions that turn them or add to their scores, and a window.

B batch, T target length, S source length, H heads, G heads of keys and values, K head width, D model width.
Masks: True = keep. A row that may look nowhere gets weights of zero, and so an output of zero.
"""

from collections.abc import Callable
from typing import Protocol, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .batch_masks import AttentionOptions
from .masks import Window, both
from .point import Point
from .relative import PositionScores
from .rotary import Rotary, Rotation, rotate


class AttentionMask(Protocol):
    """Who may look at whom in a batch, and the fused kernel for it."""

    @property
    def dense(self) -> Tensor | None:
        """True = keep; broadcasts to (B, H, T, S)."""
        ...

    def order(self, targets: int, sources: int, device: torch.device, window: Window | None) -> Tensor | None:
        """(T, S), True = keep: what a window leaves; None where it spans all."""
        ...

    def with_empty_memo(self) -> Self:
        """The same mask, with nothing that other layers have worked out."""
        ...

    def rotation(self, rotary: Rotary) -> Rotation:
        """What the batch's tokens are turned by."""
        ...

    def position_bias(self, bias: PositionScores | None, query: Tensor, key: Tensor) -> Tensor | None:
        """What distances add to the scores of (B, H, T, K) and (B, H, S, K)."""
        ...

    def attend(self, query: Tensor, key: Tensor, value: Tensor, options: AttentionOptions) -> Tensor:
        """The fused kernel on (…, T, H, K) queries and (…, S, G, K) keys and values; gives (…, T, H, K)."""
        ...


class LayerKV(Protocol):
    """One layer's keys and values of earlier tokens."""

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Store (B, T, G, K) new ones; return all so far, (B, S, G, K)."""
        ...


class MultiHeadAttention(nn.Module):
    """Self-attention, or cross-attention when a source is given."""

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        key_heads: int | None = None,
        head_width: int | None = None,
        dropout: float = 0.0,
        scale: float | None = None,
        bias: bool = True,
        output_bias: bool | None = None,
        head_norm: Callable[[], nn.Module] | None = None,
        rotary: Rotary | None = None,
        position_scores: PositionScores | None = None,
        window: Window | None = None,
    ) -> None:
        """`key_heads` of keys and values serve as many groups of heads (grouped queries); all have `head_width`.

        `bias` is of queries, keys and values, and of the output unless `output_bias` says otherwise; `head_norm` makes
        the norms of each head's queries and keys.
        """
        super().__init__()
        self.heads, self.key_heads = heads, key_heads or heads
        self.head_width = head_width or width // heads
        if heads % self.key_heads:
            raise ValueError(f"{heads} heads cannot share {self.key_heads} heads of keys; choose a divisor of {heads}")
        self.scale = self.head_width**-0.5 if scale is None else scale
        self.dropout = dropout
        self.query = nn.Linear(width, heads * self.head_width, bias=bias)
        self.key = nn.Linear(width, self.key_heads * self.head_width, bias=bias)
        self.value = nn.Linear(width, self.key_heads * self.head_width, bias=bias)
        self.output = nn.Linear(heads * self.head_width, width, bias=bias if output_bias is None else output_bias)
        self.query_norm = None if head_norm is None else head_norm()
        self.key_norm = None if head_norm is None else head_norm()
        self.rotary, self.position_scores, self.window = rotary, position_scores, window
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
        if self.query_norm is not None:
            query = self.query_norm(query)
        if self.rotary is not None:
            rotation = mask.rotation(self.rotary)
            query, key = rotate(query, rotation), rotate(key, rotation)
        if cache is not None:
            key, value = cache.append(key, value)
        if self.scores.has_hooks or self.pattern.has_hooks:
            context = self.readable(query, key, value, mask)
        else:
            dropout = self.dropout if self.training else 0.0
            options = AttentionOptions(self.scale, dropout, self.window, self.position_scores)
            context = mask.attend(query, key, value, options)
        return self.output(self.context(context).flatten(-2))

    def keys_and_values(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What others see of these tokens, before any turn: (…, T, G, K) each."""
        key = self.split(self.key(x))
        return key if self.key_norm is None else self.key_norm(key), self.split(self.value(x))

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.head_width))  # (…, H·K) -> (…, H, K)

    def readable(self, query: Tensor, key: Tensor, value: Tensor, mask: AttentionMask) -> Tensor:
        """softmax(Q Kᵀ / √K) V, step by step, through the Points."""
        sharing, dense = query.shape[0] // key.shape[0], mask.dense
        if sharing > 1:
            key, value = key.repeat_interleave(sharing, 0), value.repeat_interleave(sharing, 0)
            dense = None if dense is None else dense.repeat_interleave(sharing, 0)
        group = self.heads // self.key_heads
        key, value = key.repeat_interleave(group, -2), value.repeat_interleave(group, -2)
        query, key, value = (x.transpose(-3, -2) for x in (query, key, value))  # (B, H, …, K)
        scores = query @ key.transpose(-2, -1) * self.scale
        bias = mask.position_bias(self.position_scores, query, key)
        scores = self.scores(scores if bias is None else scores + bias)
        keep = both(dense, mask.order(query.shape[-2], key.shape[-2], query.device, self.window))
        pattern = self.pattern(masked_softmax(scores, keep))
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
