"""Transformer layers, and the stacks that run them with or without padding.

B batch, T target length, S source length, N real tokens, D model width.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, TypedDict

import torch
from torch import Tensor, nn

from .activations import Activation
from .attention import AttentionMask, LayerKV, MultiHeadAttention
from .batch_masks import CausalMask, DenseMask
from .masks import has_gaps, send
from .packing import PackedBatch, PackedCross
from .point import Point, any_hooked


class FeedForward(nn.Module):
    """down(activation(up(x)))"""

    def __init__(
        self, width: int, inner: int, activation: Activation, *, dropout: float = 0.0, bias: bool = True
    ) -> None:
        super().__init__()
        self.up = nn.Linear(width, inner, bias=bias)
        self.neurons = Point()  # (…, inner), after the activation
        self.down = nn.Linear(inner, width, bias=bias)
        self.activation = activation
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.dropout(self.neurons(self.activation(self.up(x)))))


class GatedFeedForward(nn.Module):
    """down(activation(gate(x)) · up(x)) (Shazeer 2020)"""

    def __init__(
        self, width: int, inner: int, activation: Activation, *, dropout: float = 0.0, bias: bool = False
    ) -> None:
        super().__init__()
        self.gate = nn.Linear(width, inner, bias=bias)
        self.up = nn.Linear(width, inner, bias=bias)
        self.neurons = Point()  # (…, inner), after the gate
        self.down = nn.Linear(inner, width, bias=bias)
        self.activation = activation
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.neurons(self.activation(self.gate(x)) * self.up(x))
        return self.down(self.dropout(inner))


class Layer(nn.Module):
    """Attention, cross-attention in a decoder, and a feed-forward, each with its residual and norm."""

    def __init__(
        self,
        attention: MultiHeadAttention,
        feed_forward: nn.Module,
        norm: Callable[[], nn.Module],
        *,
        cross_attention: MultiHeadAttention | None = None,
        pre_norm: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.attention, self.attention_norm = attention, norm()
        self.cross_attention = cross_attention
        self.cross_attention_norm = None if cross_attention is None else norm()
        self.feed_forward, self.feed_forward_norm = feed_forward, norm()
        self.dropout = nn.Dropout(dropout)
        self.pre_norm = pre_norm

    def forward(
        self,
        x: Tensor,
        mask: AttentionMask,
        *,
        cache: LayerKV | None = None,
        source: Tensor | tuple[Tensor, Tensor] | None = None,
        source_mask: AttentionMask | None = None,
    ) -> Tensor:
        """(…, T, D) -> (…, T, D).

        For a decoder `source` is the encoder's last hidden states (…, S, D), or the keys and values that its
        cross-attention makes of them, and `source_mask` their padding.
        """
        x = self.residual(self.attention_norm, lambda y: self.attention(y, mask, cache=cache), x)
        if source is not None:
            across, norm = self.cross_attention, self.cross_attention_norm
            assert across is not None, "a layer without cross-attention reads no source"
            assert norm is not None
            pair = source if isinstance(source, tuple) else across.keys_and_values(source)
            x = self.residual(norm, lambda y: across(y, source_mask, source=pair), x)
        return self.residual(self.feed_forward_norm, self.feed_forward, x)

    @property
    def uses_relative_positions(self) -> bool:
        """Whether it asks how far apart two tokens stand."""
        return self.attention.window is not None or self.attention.position_scores is not None

    def residual(self, norm: nn.Module, block: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """x + block(x), with the norm after the sum as in 2017, or before the block as in GPT-2."""
        if self.pre_norm:
            return x + self.dropout(block(norm(x)))
        return norm(x + self.dropout(block(x)))


class Source(NamedTuple):
    """What a decoder looks across at: the encoder's last hidden states, and which of them are real."""

    hidden: Tensor  # (B, S, D)
    keep: Tensor | None  # (B, S); None: all


class Stack(nn.ModuleList):
    """Layers one after another; what they give at padding, where there still is any, is set to zero."""

    layerdrop = 0.0  # how likely a layer is left out in training (Fan et al. 2019)

    def forward(
        self,
        x: Tensor,
        mask: AttentionMask,
        *,
        keep: Tensor | None = None,
        source: Tensor | None = None,
        source_mask: AttentionMask | None = None,
    ) -> Tensor:
        """(…, T, D) -> (…, T, D), zero where `keep` (…, T) is not; a decoder's layers also read a source (…, S, D)."""
        for layer in self:
            if self.training and self.layerdrop and torch.rand(()) < self.layerdrop:
                continue
            x = layer(x, mask, source=source, source_mask=source_mask)
        return x if keep is None else x.masked_fill(~keep[..., None], 0.0)

    @property
    def uses_relative_positions(self) -> bool:
        """Whether a layer asks how far apart two tokens stand, padding between them included."""
        return any(layer.uses_relative_positions for layer in self if isinstance(layer, Layer))

    def keys_and_values(self, source: Tensor) -> list[tuple[Tensor, Tensor]]:
        """A source (…, S, D) as the cross-attention of each layer sees it."""
        return [layer.cross_attention.keys_and_values(source) for layer in self]  # type: ignore[operator, union-attr]


class _Across(TypedDict, total=False):
    source: Tensor
    source_mask: AttentionMask


def embed_and_run(
    embeddings: nn.Module,
    layers: Stack,
    keep: Tensor | None,
    *indices: Tensor | None,
    norm: nn.Module | None = None,
    causal: bool = False,
    source: Source | None = None,
) -> Tensor:
    """norm(layers(embeddings(*indices))), (B, T) -> (B, T, D), zero at padding; a decoder also reads a source.

    `indices` are token ids, position ids and whatever else the embeddings take.

    Padding costs nothing: it is dropped before the first look-up and restored after the last layer. It stays only
    while a module inside has hooks, so that they see (B, T, …) everywhere.
    """
    norm = nn.Identity() if norm is None else norm
    length, device = next((index.shape[1], index.device) for index in indices if index is not None)
    hooked = any_hooked(layers) or any_hooked(embeddings) or any_hooked(norm)
    if keep is not None and not hooked and not (layers.uses_relative_positions and has_gaps(keep)):
        packed = PackedBatch.from_keep(keep, causal=causal, device=device)
        real = [None if index is None else packed.pack(index.expand_as(keep)) for index in indices]
        packed = replace(packed, positions=real[1])
        return packed.unpack(norm(layers(embeddings(*real), packed, **_packed_source(source, packed))))
    x = embeddings(*indices)
    across: _Across = {}
    if source is not None:
        source_keep = None if source.keep is None else send(source.keep, device)
        across = {"source": source.hidden, "source_mask": DenseMask.from_keep(source_keep)}
    places = indices[1]
    order = CausalMask(length, device, positions=places) if causal else None
    if keep is None:
        return norm(layers(x, order or DenseMask(positions=places), **across))
    keep = send(keep, device)
    mask = DenseMask.from_keep(keep, None if order is None else order.dense, places)
    x = norm(layers(x, mask, keep=keep, **across))
    return x.masked_fill(~keep[..., None], 0.0)


def _packed_source(source: Source | None, packed: PackedBatch) -> _Across:
    """A source without its padding, its sequences in the order of those that look at it."""
    if source is None:
        return {}
    keep = torch.ones(source.hidden.shape[:2], dtype=torch.bool) if source.keep is None else source.keep
    found = PackedBatch.from_keep(keep, rows=packed.rows.to(keep.device), device=source.hidden.device)
    return {"source": found.pack(source.hidden), "source_mask": PackedCross(packed, found)}
