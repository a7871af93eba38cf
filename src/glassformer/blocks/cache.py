"""The key-value cache: what a Transformer remembers of earlier tokens, preallocated.

N layers, B batch, T new tokens, S source length, L room, H heads, K head width.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from . import native
from .masks import causal, real_positions
from .packing import Dense
from .state import in_place


@dataclass(frozen=True)
class KVCache:
    """Keys and values of every layer, and which prompt positions are padding.

    A step writes into the room it finds, and `select` moves rows within it: a state is used up by what takes it.
    """

    keys: Tensor  # (N, B, L, H, K)
    values: Tensor  # (N, B, L, H, K)
    keep: Tensor | None  # (B, L), None where nothing is padding
    used: int = 0

    @staticmethod
    def empty(
        layers: int, batch: int, heads: int, room: int, width: int, *, keep: Tensor | None, like: Tensor
    ) -> "KVCache":
        """Room for `room` tokens; `keep` (B, T) marks the padding of the prompt."""
        keys, values = (like.new_empty(layers, batch, room, heads, width) for _ in range(2))
        if keep is not None:
            keep = torch.cat([keep, keep.new_ones(batch, room - keep.shape[1])], dim=1)
        return KVCache(keys, values, keep)

    @staticmethod
    def bytes(layers: int, batch: int, heads: int, room: int, width: int, *, like: Tensor) -> int:
        """What `empty` takes."""
        return 2 * layers * batch * heads * room * width * like.element_size()

    @property
    def rows(self) -> int:
        return self.keys.shape[1]

    def select(self, rows: Tensor, *, within: int | None = None) -> "KVCache":
        if within is not None and rows.is_cuda:
            for x in (self.keys, self.values):
                x[:, :, : self.used] = x[:, rows, : self.used]
            return self
        if within is not None and native.takes(self.keys, self.values):
            native.trade(self.keys, self.values, rows, within=within, used=self.used)
            return self
        if in_place(rows, self.rows):
            return self
        keep = None if self.keep is None else self.keep[rows]
        return replace(self, keys=self._moved(self.keys, rows), values=self._moved(self.values, rows), keep=keep)

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

    def rewind(self, tokens: int) -> "KVCache":
        return replace(self, used=self.used - tokens)

    def advance(self, tokens: int) -> "KVCache":
        return replace(self, used=self.used + tokens)

    def layers(self) -> list["LayerCache"]:
        pairs = zip(self.keys.unbind(), self.values.unbind(), strict=True)
        return [LayerCache(keys, values, self.used) for keys, values in pairs]

    def scope(self, tokens: int) -> Dense:
        """What the next `tokens` tokens may look at: all before them, themselves, and no padding."""
        self.check_room(tokens)
        everything = self.used + tokens
        order = causal(tokens, everything, self.keys.device) if tokens > 1 else None
        return Dense.over(None if self.keep is None else self.keep[:, :everything], order)

    def check_room(self, tokens: int) -> None:
        if self.used + tokens > (room := self.keys.shape[2]):
            raise ValueError(
                f"the cache has room for {room} tokens, and {self.used + tokens} are asked for; start with more length"
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
        end = self.used + key.shape[1]
        self.keys[:, self.used : end] = key
        self.values[:, self.used : end] = value
        return self.keys[:, :end], self.values[:, :end]

    def attend(self, query: Tensor, key: Tensor, value: Tensor, scope: Dense, *, scale: float) -> Tensor:
        """The new tokens (B, T, H, K) join the others, and look back."""
        if query.shape[1] == 1 and native.takes(query, key, value, self.keys, self.values):
            keys, values = (x[:, : self.used + 1] for x in (self.keys, self.values))
            keep = None if scope.mask is None else scope.mask[:, 0, 0]
            return native.attend_next(query, key, value, keys, values, keep=keep, scale=scale)
        return scope.attend(query, *self.append(key, value), scale=scale, dropout=0.0)


@dataclass(frozen=True)
class DecoderState:
    """The decoder's own cache, and the encoder's keys and values for each of its layers.

    There are as many sources as rows, or fewer: then the same number of rows after one another share each.
    """

    cache: KVCache
    sources: list[tuple[Tensor, Tensor]]  # (B, S, H, K) each
    keep: Tensor | None  # (B, S)

    def select(self, rows: Tensor, *, within: int | None = None) -> "DecoderState":
        if within is not None:  # rows that trade places have the same source
            return replace(self, cache=self.cache.select(rows, within=within))
        count = len(self.sources[0][0])
        sharing = self.cache.rows // count
        owners = rows // sharing
        for width in sorted({sharing, max(1, len(rows) // count), 1}, reverse=True):
            chosen = owners[::width]
            if len(rows) % width == 0 and torch.equal(chosen.repeat_interleave(width), owners):
                break
        cache = self.cache.select(rows)
        if in_place(chosen, count):
            return replace(self, cache=cache)
        keep = None if self.keep is None else self.keep[chosen]
        return DecoderState(cache, [(k[chosen], v[chosen]) for k, v in self.sources], keep)

    def rewind(self, tokens: int) -> "DecoderState":
        return replace(self, cache=self.cache.rewind(tokens))
