"""The KV cache of a Transformer decoder, and a decoder's state around it.

B batch, N layers, L capacity, T new tokens, S source length, H heads, K head width.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, Self

import torch
from torch import Tensor

from .attention import AttentionMask, LayerKV
from .batch_masks import DenseMask
from .masks import causal, real_positions
from .state import is_identity


class TokenCache(Protocol):
    """Keys and values of all layers, in which a step of decoding reads and writes."""

    def positions(self, tokens: int) -> Tensor:
        """(B or 1, T): the position ids of the next `tokens` tokens, padding not counted."""
        ...

    def mask(self, tokens: int, positions: Tensor) -> AttentionMask:
        """What the next `tokens` tokens, at these positions, may look at."""
        ...

    def layers(self) -> Sequence[LayerKV]:
        """Each layer's share."""
        ...

    def advance(self, tokens: int) -> Self:
        """The cache after `tokens` more tokens, which the layers have written."""
        ...


@dataclass(frozen=True)
class KVCache:
    """Keys and values of every layer, and which prompt positions are padding.

    A step writes into the memory it finds, and `select` moves rows within it: a cache is used up by what takes it.
    """

    keys: Tensor  # (N, B, L, H, K)
    values: Tensor  # (N, B, L, H, K)
    keep: Tensor | None  # (B, L), None where nothing is padding
    used: int = 0

    @classmethod
    def empty(
        cls, layers: int, batch: int, heads: int, capacity: int, width: int, *, keep: Tensor | None, like: Tensor
    ) -> Self:
        """Memory for `capacity` tokens; `keep` (B, T) marks the padding of the prompt."""
        keys, values = (like.new_empty(layers, batch, capacity, heads, width) for _ in range(2))
        if keep is not None:
            keep = torch.cat([keep, keep.new_ones(batch, capacity - keep.shape[1])], dim=1)
        return cls(keys, values, keep)

    @staticmethod
    def bytes(layers: int, batch: int, heads: int, capacity: int, width: int, *, like: Tensor) -> int:
        """What `empty` allocates."""
        return 2 * layers * batch * heads * capacity * width * like.element_size()

    @property
    def rows(self) -> int:
        return self.keys.shape[1]

    @property
    def capacity(self) -> int:
        return self.keys.shape[2]

    def select(self, rows: Tensor, *, group_size: int | None = None) -> Self:
        """As `State.select`."""
        if group_size is not None:
            self.reorder_cache(rows, group_size)
            return self
        if is_identity(rows, self.rows):
            return self
        keep = None if self.keep is None else self.keep[rows]
        return replace(self, keys=self._moved(self.keys, rows), values=self._moved(self.values, rows), keep=keep)

    def reorder_cache(self, rows: Tensor, group_size: int) -> None:
        """Reorder rows in place, within groups of one prompt, whose padding is the same."""
        del group_size  # a kernel's business
        for x in (self.keys, self.values):
            if rows.is_cuda:
                x[:, :, : self.used] = x[:, rows, : self.used]
            else:
                self._moved(x, rows)

    def _moved(self, x: Tensor, rows: Tensor) -> Tensor:
        """Only what is used, and among as many rows as before only those that change."""
        if len(rows) == self.rows:
            changed = (rows != torch.arange(self.rows, device=rows.device)).nonzero()[:, 0]
            for layer in x:  # one after another needs little memory, and the same again
                layer[changed, : self.used] = layer[rows[changed], : self.used]
            return x
        fresh = x.new_empty(x.shape[0], len(rows), *x.shape[2:])
        fresh[:, :, : self.used] = x[:, rows, : self.used]
        return fresh

    def rewind(self, tokens: int) -> Self:
        return replace(self, used=self.used - tokens)

    def advance(self, tokens: int) -> Self:
        return replace(self, used=self.used + tokens)

    def layers(self) -> Sequence[LayerKV]:
        pairs = zip(self.keys.unbind(), self.values.unbind(), strict=True)
        return [LayerCache(keys, values, self.used) for keys, values in pairs]

    def mask(self, tokens: int, positions: Tensor | None = None) -> DenseMask:
        """What the next `tokens` tokens may look at: all before them, themselves, and no padding."""
        self.check_capacity(tokens)
        everything = self.used + tokens
        order = causal(tokens, everything, self.keys.device) if tokens > 1 else None
        keep = None if self.keep is None else self.keep[:, :everything]
        return DenseMask.from_keep(keep, order, positions)

    def check_capacity(self, tokens: int) -> None:
        if self.used + tokens > self.capacity:
            raise ValueError(
                f"the cache has room for {self.capacity} tokens, and {self.used + tokens} are asked for; "
                "start with more length"
            )

    def positions(self, tokens: int) -> Tensor:
        """(B or 1, T): the position of each new token in its own sequence, padding not counted."""
        return real_positions(self.keep, tokens, self.keys.device, start=self.used)


@dataclass(frozen=True)
class LayerCache:
    """One layer's share of a KVCache."""

    keys: Tensor  # (B, L, H, K)
    values: Tensor
    used: int

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Store (B, T, H, K) new ones; return all so far, (B, S, H, K)."""
        end = self.used + key.shape[1]
        self.keys[:, self.used : end] = key
        self.values[:, self.used : end] = value
        return self.keys[:, :end], self.values[:, :end]


class LayerInputs(NamedTuple):
    """What one decoder layer reads beside its hidden states."""

    cache: LayerKV
    source: tuple[Tensor, Tensor] | None  # the encoder's keys and values (B, S, H, K) for this layer
    source_mask: AttentionMask | None


@dataclass(frozen=True)
class DecoderState:
    """The state of a Transformer decoder: its own cache, and in an encoder-decoder the encoder's keys and values.

    There are as many sources as rows, or fewer: then the same number of rows after one another share each.
    """

    cache: KVCache
    sources: list[tuple[Tensor, Tensor]] | None = None  # (B, S, H, K) each, one pair a layer
    source_keep: Tensor | None = None  # (B, S)

    def layer_inputs(self, cache: TokenCache) -> Iterator[LayerInputs]:
        """For every layer, with its share of a cache: the state's own or what stands in for it."""
        layers = cache.layers()
        if self.sources is None:
            yield from (LayerInputs(layer, None, None) for layer in layers)
        else:
            mask = DenseMask.from_keep(self.source_keep)
            yield from (LayerInputs(layer, source, mask) for layer, source in zip(layers, self.sources, strict=True))

    def select(self, rows: Tensor, *, group_size: int | None = None) -> "DecoderState":
        """As `State.select`; rows reordered within a group have the same source."""
        cache = self.cache.select(rows, group_size=group_size)
        if group_size is not None or self.sources is None:
            return replace(self, cache=cache)
        count = len(self.sources[0][0])
        sharing = self.cache.rows // count
        owners = rows // sharing
        for width in sorted({sharing, max(1, len(rows) // count), 1}, reverse=True):
            chosen = owners[::width]
            if len(rows) % width == 0 and torch.equal(chosen.repeat_interleave(width), owners):
                break
        if is_identity(chosen, count):
            return replace(self, cache=cache)
        keep = None if self.source_keep is None else self.source_keep[chosen]
        return DecoderState(cache, [(k[chosen], v[chosen]) for k, v in self.sources], keep)

    def rewind(self, tokens: int) -> "DecoderState":
        return replace(self, cache=self.cache.rewind(tokens))
