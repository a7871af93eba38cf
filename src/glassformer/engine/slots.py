"""A KV cache for sequences that come and go at any step, and the keys and values of beginnings that were read before.

N layers, R rows, n live rows, L capacity, P tokens of a prompt, H heads, K head width.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import torch
from torch import Tensor

from glassformer.blocks.cache import DecoderState, KVCache
from glassformer.models.contract import GenerativeModel, Stepper

from .cache import PreparedCache
from .graphs import GraphDecoder
from .prepare import prepared

SLACK = 64  # tokens of room beyond the longest row: the axis is moved once in so many steps at most
BLOCK = 16  # tokens: beginnings are known in whole blocks


def slot_decoder(model: GenerativeModel[Any], rows: int) -> Stepper[DecoderState]:
    """What `prepared` gives, without the CUDA graphs of a GPU: those are of one number of rows."""
    decoder = prepared(model, rows)
    return decoder.decoder if isinstance(decoder, GraphDecoder) else decoder


class SlotCache:
    """Memory for R sequences, of which the first n rows are live.

    All rows end at the same place of a shared axis, `used`, and each begins at its own: to every kernel it is a batch
    with padding on the left. A sequence that joins is laid before `used`; the axis is moved where there is no room.
    What is not of a sequence is always a number, since what is masked is still multiplied by zero.
    """

    def __init__(self, like: KVCache, *, rows: int, length: int) -> None:
        """For `rows` sequences of at most `length` tokens, of the layers and heads of another cache."""
        layers, _, _, heads, width = like.keys.shape
        shape = (layers, rows, length + SLACK, heads, width)
        self.keys, self.values = (like.keys.new_zeros(shape) for _ in range(2))
        self.begins: list[int] = []  # of the live rows
        self.used = 0

    @staticmethod
    def bytes(like: KVCache, *, rows: int, length: int) -> int:
        """What it allocates."""
        layers, _, _, heads, width = like.keys.shape
        return KVCache.bytes(layers, rows, heads, length + SLACK, width, like=like.keys)

    def __len__(self) -> int:
        return len(self.begins)

    @property
    def capacity(self) -> int:
        return self.keys.shape[2]

    def join(self, prompt: KVCache, copies: int = 1) -> None:
        """Append rows for the one sequence of another cache, as far as that is used."""
        length, live = prompt.used, len(self)
        if not live:
            self.used = length
        elif length > self.used:
            self._move(length - self.used)
        begin = self.used - length
        for here, there in ((self.keys, prompt.keys), (self.values, prompt.values)):
            here[:, live : live + copies, begin : self.used] = there[:, :, :length]
        self.begins += [begin] * copies

    def leave(self, row: int, *, erase: bool = False) -> None:
        """Give up a row; the last one takes its place. `erase` a row whose model has broken down (NaN)."""
        last, begin = len(self) - 1, self.begins[-1]
        for x in (self.keys, self.values):
            if erase:
                x[:, row].zero_()
            if row < last:
                x[:, row, begin : self.used] = x[:, last, begin : self.used]
        self.begins[row] = begin
        self.begins.pop()

    def row(self, row: int) -> tuple[Tensor, Tensor]:
        """Keys and values (N, P, H, K) of a live row, as views."""
        begin = self.begins[row]
        return self.keys[:, row, begin : self.used], self.values[:, row, begin : self.used]

    def state(self) -> DecoderState:
        """What a step of one token for each live row reads and writes; then call `advance`."""
        first = min(self.begins)
        if self.used == self.capacity:
            self._move(-first)
            first = 0
        keys, values = (x[:, : len(self), first:] for x in (self.keys, self.values))
        return DecoderState(PreparedCache(keys, values, self._keep(first), self.used - first))

    def advance(self) -> None:
        """After a step."""
        self.used += 1

    def _keep(self, first: int) -> Tensor | None:
        """(n, tokens from `first` to the new one): what belongs to each row."""
        if max(self.begins) == first:
            return None
        device = self.keys.device
        return torch.arange(first, self.used + 1, device=device) >= torch.tensor(self.begins, device=device)[:, None]

    def _move(self, by: int) -> None:
        """All live rows along the axis."""
        span = slice(min(self.begins), self.used)
        for x in (self.keys, self.values):
            for layer in x:  # one after another needs little memory
                layer[: len(self), span.start + by : span.stop + by] = layer[: len(self), span].clone()
        self.begins = [begin + by for begin in self.begins]
        self.used += by


@dataclass(frozen=True)
class PrefixBlock:
    """Keys and values (N, BLOCK, H, K) of some tokens behind certain others."""

    number: int  # by which blocks behind it know it
    keys: Tensor
    values: Tensor


class PrefixCache:
    """Keys and values of texts that were read before, in blocks that texts with the same beginning share.

    It keeps to a number of bytes; what was not used for longest goes first, and never before what stands behind it.
    """

    def __init__(self, like: KVCache, *, max_bytes: int) -> None:
        """For keys and values as another cache has them."""
        layers, _, _, heads, width = like.keys.shape
        self.max_blocks = max_bytes // KVCache.bytes(layers, 1, heads, BLOCK, width, like=like.keys)
        self.blocks: OrderedDict[tuple[int, tuple[int, ...]], PrefixBlock] = OrderedDict()  # least recently used first
        self.numbers = count(1)

    def clear(self) -> None:
        self.blocks.clear()

    def put(self, ids: Sequence[int], keys: Tensor, values: Tensor) -> None:
        """Remember keys and values (N, P, H, K) of these P ids, or of as many of the first as there is memory for."""
        path = self._known(ids)
        before = path[-1].number if path else 0
        for place in range(len(path), min(len(ids) // BLOCK, self.max_blocks)):
            part = slice(place * BLOCK, (place + 1) * BLOCK)
            if len(self.blocks) >= self.max_blocks:
                self.blocks.popitem(last=False)
            block = PrefixBlock(next(self.numbers), keys[:, part].clone(), values[:, part].clone())
            self.blocks[before, tuple(ids[part])] = block
            before = block.number
        self._known(ids)  # the new ones were used, and their beginnings after them

    def restore(self, ids: Sequence[int], cache: KVCache) -> KVCache:
        """An empty cache of one row with the longest known beginning of ids in it, but never with the last of them."""
        blocks = self._known(ids[:-1])
        for place, block in enumerate(blocks):
            part = slice(place * BLOCK, (place + 1) * BLOCK)
            cache.keys[:, 0, part], cache.values[:, 0, part] = block.keys, block.values
        return cache.advance(len(blocks) * BLOCK)

    def _known(self, ids: Sequence[int]) -> list[PrefixBlock]:
        """The blocks that ids begin with, which are now the last used: the first of them most of all."""
        found, path = list[PrefixBlock](), list[tuple[int, tuple[int, ...]]]()
        for start in range(0, len(ids) - BLOCK + 1, BLOCK):
            key = (found[-1].number if found else 0, tuple(ids[start : start + BLOCK]))
            if key not in self.blocks:
                break
            path.append(key)
            found.append(self.blocks[key])
        for key in reversed(path):
            self.blocks.move_to_end(key)
        return found
