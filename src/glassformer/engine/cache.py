"""A KV cache that attends and reorders its rows with the CPU's own kernels where they take it.

B batch, N layers, L capacity, T new tokens, S tokens so far, H heads, K head width.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from torch import Tensor

from glassformer.blocks.attention import AttentionMask, LayerKV
from glassformer.blocks.batch_masks import AttentionOptions
from glassformer.blocks.cache import KVCache, LayerCache
from glassformer.blocks.rotary import Rotary, rotate

from . import native


class AttendingKV(LayerKV, Protocol):
    """One layer's share of a cache, which also attends."""

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: AttentionMask,
        options: AttentionOptions,
        rotary: Rotary | None = None,
    ) -> Tensor:
        """New tokens (B, T, H, K) are turned and appended, and attend to all so far; gives (B, T, H, K)."""
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
        rotary: Rotary | None = None,
    ) -> Tensor:
        rotation = None if rotary is None else mask.rotation(rotary)
        window = options.window
        one = query.shape[1] == 1 and options.bias is None and (window is None or window.after is None)
        if one and native.takes(query, key, value, self.keys, self.values):
            keys, values = (x[:, : self.used + 1] for x in (self.keys, self.values))
            keep = None if mask.dense is None else mask.dense[:, 0, 0]
            first = 0 if window is None else max(0, self.used - window.before)
            places: dict[str, Any] = {"keep": keep, "rotation": rotation, "first": first}
            return native.attend_next(query, key, value, keys, values, scale=options.scale, **places)
        if rotation is not None:
            query, key = rotate(query, rotation), rotate(key, rotation)
        return mask.attend(query, *self.append(key, value), options)
