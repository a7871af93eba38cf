"""A KV cache that attends and reorders its rows with the CPU's own kernels where they take it.

B batch, N layers, L capacity, T new tokens, S tokens so far, H heads, K head width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from torch import Tensor

from glassformer.blocks.attention import AttentionMask, LayerKV
from glassformer.blocks.batch_masks import AttentionOptions
from glassformer.blocks.cache import KVCache, LayerCache
from glassformer.blocks.decoder import Norms
from glassformer.blocks.rotary import Rotary, rotate

from . import native
from .kernels import NormParameters
from .linear import PreparedNorm


@dataclass(frozen=True)
class HeadTransform:
    """What new queries and keys (B, T, H, K) pass before they meet: norms of each head, the turn of their places."""

    query_norm: Norms | None = None
    key_norm: Norms | None = None
    rotary: Rotary | None = None

    def normed(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        query = query if self.query_norm is None else self.query_norm(query)
        return query, key if self.key_norm is None else self.key_norm(key)

    def __call__(self, query: Tensor, key: Tensor, mask: AttentionMask) -> tuple[Tensor, Tensor]:
        query, key = self.normed(query, key)
        if self.rotary is None:
            return query, key
        rotation = mask.rotation(self.rotary)
        return rotate(query, rotation), rotate(key, rotation)

    @cached_property
    def rms_norms(self) -> tuple[NormParameters, NormParameters] | None:
        """For a kernel that takes two RMS norms along; None where there are none, or others."""
        query, key = self.query_norm, self.key_norm
        if not isinstance(query, PreparedNorm) or not isinstance(key, PreparedNorm):
            return None
        return None if query.centred or key.centred or query.eps != key.eps else (query.parameters, key.parameters)


class AttendingKV(LayerKV, Protocol):
    """One layer's share of a cache, which also attends."""

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: AttentionMask,
        options: AttentionOptions,
        transform: HeadTransform,
    ) -> Tensor:
        """New tokens (B, T, H, K) are transformed and appended, and attend to all so far; gives (B, T, H, K)."""
        ...


class PreparedCache(KVCache):
    """As a KVCache."""

    def reorder_cache(self, rows: Tensor, group_size: int) -> None:
        if native.takes(self.keys, self.values):
            native.reorder_cache(self.keys, self.values, rows, group_size=group_size, used=self.used)
        else:
            super().reorder_cache(rows, group_size)

    def layers(self) -> Sequence["PreparedLayerCache"]:
        pairs = zip(self.keys.unbind(), self.values.unbind(), strict=True)
        return [PreparedLayerCache(keys, values, self.used) for keys, values in pairs]


class PreparedLayerCache(LayerCache):
    """One layer's share of a PreparedCache."""

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: AttentionMask,
        options: AttentionOptions,
        transform: HeadTransform,
    ) -> Tensor:
        window = options.window
        one = query.shape[1] == 1 and options.bias is None and (window is None or window.after is None)
        if one and native.takes(query, key, value, self.keys, self.values):
            keys, values = (x[:, : self.used + 1] for x in (self.keys, self.values))
            keep = None if mask.dense is None else mask.dense[:, 0, 0]
            first = 0 if window is None else max(0, self.used - window.before)
            rotation = None if transform.rotary is None else mask.rotation(transform.rotary)
            query, key = transform.normed(query, key)
            return native.attend_next(
                query, key, value, keys, values, keep=keep, scale=options.scale, rotation=rotation, first=first
            )
        query, key = transform(query, key, mask)
        return mask.attend(query, *self.append(key, value), options)
