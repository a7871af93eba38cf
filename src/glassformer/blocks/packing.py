"""Packing: run the layers on real tokens only, and attend within each sequence's boundaries.

B batch, S padded length, N real tokens in the whole batch, H heads, K head width, D model width.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import Any, Self, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from .masks import Window, both, causal, combine, distances, send, within
from .relative import PositionScores
from .rotary import Rotary, Rotation

V = TypeVar("V")


@dataclass(frozen=True, kw_only=True)
class BatchMask:
    """What the masks of a batch share: where its tokens stand, and what follows from that once for all layers."""

    positions: Tensor | None = None  # (B or 1, T), or (N,) of a packed batch: the position ids
    found: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)

    def once(self, key: Hashable, make: Callable[[], V]) -> V:
        """What `make` gave when this key was first asked for in this batch."""
        if key not in self.found:
            self.found[key] = make()
        value: V = self.found[key]
        return value

    def rotation(self, rotary: Rotary) -> Rotation:
        """The rotation of the batch's tokens."""
        assert self.positions is not None, "rotary positions need a mask that knows where its tokens stand"
        lengths = self.text_lengths if rotary.is_dynamic else None
        found: Rotation = self.once(rotary, lambda: rotary(self.positions, lengths))
        return found

    def without_memory(self) -> Self:
        """The same mask, which remembers nothing yet: what a layer learns from is made anew when it is run again."""
        return replace(self, found={})

    @property
    def text_lengths(self) -> Tensor:
        """(B or 1, 1), or (N,): how far the positions of each text go."""
        assert self.positions is not None
        return self.positions.amax(-1, keepdim=True) + 1

    def distances(self, targets: int, sources: int, device: torch.device) -> Tensor:
        """(T, S): key less query, in tokens."""
        return distances(targets, sources, device)

    def order(self, targets: int, sources: int, device: torch.device, window: Window | None) -> Tensor | None:
        """(T, S), True = keep: what a window leaves; None where it spans all."""
        if window is None or window.spans(targets, sources):
            return None
        return self.once((window, targets, sources), lambda: within(self.distances(targets, sources, device), window))

    def added(self, bias: PositionScores | None, query: Tensor, key: Tensor) -> Tensor | None:
        """What distances add to the scores of (B, H, T, K) and (B, H, S, K)."""
        if bias is None:
            return None
        sizes = query.shape[-2], key.shape[-2]
        between = self.once(sizes, lambda: self.distances(*sizes, query.device))
        return bias.scores(query, key, bias.prepare(between, self.once))


def fused(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None,
    added: Tensor | None = None,
    scale: float,
    dropout: float,
    is_causal: bool = False,
) -> Tensor:
    """torch's kernel on (B, H, T, K) queries and (B, G, S, K) keys and values: every H / G heads share one of G."""
    if added is not None:
        mask = added if mask is None else added.masked_fill(~mask, -torch.inf)
        mask = mask.to(query.dtype)
    grouped = query.shape[1] != key.shape[1]
    return F.scaled_dot_product_attention(
        query, key, value, mask, dropout, is_causal=is_causal, scale=scale, enable_gqa=grouped
    )


@dataclass(frozen=True)
class DenseMask(BatchMask):
    """An ordinary padded batch."""

    dense: Tensor | None = None  # True = keep; broadcasts to (B, H, T, S)

    @staticmethod
    def from_keep(keep: Tensor | None, order: Tensor | None = None, positions: Tensor | None = None) -> "DenseMask":
        return DenseMask(combine(keep, order), positions=positions)

    def convolved(self, x: Tensor, convolution: Callable[[Tensor], Tensor], reach: int) -> Tensor:
        """A convolution of (B, T, D) that looks so far to both sides, with zeros in place of padding."""
        del reach
        return convolution(x if self.dense is None else x.masked_fill(~self.dense[:, 0, 0, :, None], 0.0))

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        scale: float,
        dropout: float,
        window: Window | None = None,
        bias: PositionScores | None = None,
    ) -> Tensor:
        """Several rows of queries, one after another, may share a source: they are then one longer row."""
        shape, sharing = query.shape, query.shape[0] // key.shape[0]
        if sharing > 1:
            query = query.unflatten(0, (-1, sharing)).flatten(1, 2)
        query, key, value = (x.transpose(1, 2) for x in (query, key, value))  # (B, H, …, K)
        mask = both(self.dense, self.order(query.shape[2], key.shape[2], query.device, window))
        added = self.added(bias, query, key)
        context = fused(query, key, value, mask=mask, added=added, scale=scale, dropout=dropout).transpose(1, 2)
        return context if sharing == 1 else context.reshape(shape)


@dataclass(frozen=True)
class CausalMask(BatchMask):
    """A batch in which a token sees itself and what came before, and padding, if any, comes last."""

    length: int
    device: torch.device

    @property
    def dense(self) -> Tensor:
        return causal(self.length, self.length, self.device)  # (T, T)

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        scale: float,
        dropout: float,
        window: Window | None = None,
        bias: PositionScores | None = None,
    ) -> Tensor:
        query, key, value = (x.transpose(1, 2) for x in (query, key, value))
        order, added = self.order(self.length, self.length, self.device, window), self.added(bias, query, key)
        plain = order is None and added is None
        mask = None if plain else both(self.dense, order)
        context = fused(query, key, value, mask=mask, added=added, scale=scale, dropout=dropout, is_causal=plain)
        return context.transpose(1, 2)


@dataclass(frozen=True)
class PackedBatch(BatchMask):
    """A batch without its padding: the sequences one after another, the longest first unless an order was given."""

    index: Tensor  # (N,) where each real token stood in the flattened (B·S) batch
    lengths: list[int]  # of the sequences
    longest: int
    boundaries: Tensor  # (B + 1,) int32, where each sequence starts
    shape: tuple[int, int]  # (B, S) of the padded batch
    rows: Tensor  # (B,) which row of the padded batch each sequence is
    causal: bool = False

    @staticmethod
    def from_keep(
        keep: Tensor, *, rows: Tensor | None = None, causal: bool = False, device: torch.device | None = None
    ) -> "PackedBatch":
        """The packing of a (B, S) mask; padding may stand anywhere. `rows` (B,) sets the order of the sequences.

        A mask on the CPU is worked out there and sent to `device` without waiting for what the device does.
        """
        batch, width = keep.shape
        if rows is None:
            lengths, rows = keep.sum(1).sort(descending=True, stable=True)
        else:
            lengths = keep.sum(1)[rows]
        places = torch.arange(width, device=keep.device) + rows[:, None] * width  # (B, S)
        boundaries = F.pad(lengths.cumsum(0), (1, 0)).int()
        counts: list[int] = lengths.tolist()
        index, boundaries = (send(x, device or keep.device) for x in (places[keep[rows]], boundaries))
        return PackedBatch(index, counts, max(counts), boundaries, (batch, width), rows, causal)

    @property
    def dense(self) -> None:
        raise AssertionError("the readable path runs on padded batches: nothing is packed while a hook is there")

    def pack(self, x: Tensor) -> Tensor:
        """(B, S, …) -> (N, …)"""
        return x.flatten(0, 1)[self.index]

    def unpack(self, x: Tensor) -> Tensor:
        """(N, …) -> (B, S, …), zero at padding"""
        whole = x.new_zeros(self.shape[0] * self.shape[1], *x.shape[1:])
        return whole.index_copy_(0, self.index, x).unflatten(0, self.shape)  # type: ignore[no-any-return]

    @property
    def text_lengths(self) -> Tensor:
        assert self.positions is not None
        rows = self.places[0] // self.longest  # (N,): which sequence a token belongs to
        ends = self.positions.new_zeros(len(self.lengths)).scatter_reduce(0, rows.long(), self.positions, "amax")
        return ends[rows] + 1

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        scale: float,
        dropout: float,
        window: Window | None = None,
        bias: PositionScores | None = None,
    ) -> Tensor:
        if not query.is_cuda:
            return self.by_equal_lengths(query, key, value, scale, dropout, window=window, bias=bias)
        across = PackedCross(self, self, self.causal, found=self.found)
        return across.attend(query, key, value, scale=scale, dropout=dropout, window=window, bias=bias)

    def convolved(self, x: Tensor, convolution: Callable[[Tensor], Tensor], reach: int) -> Tensor:
        """As a DenseMask's, of (N, D): one long text, with zeros between the sequences so that none sees another."""
        index = torch.arange(len(x), device=x.device) + reach * (self.sequence + 1)
        spaced = x.new_zeros(len(x) + reach * (len(self.lengths) + 1), x.shape[1]).index_copy(0, index, x)
        return convolution(spaced[None])[0, index]

    def padded(self, x: Tensor) -> Tensor:
        """(N, …) -> (B, L, …) of the longest length L, in the order of the sequences, zero at padding."""
        index, keep = self.places
        return x.new_zeros(keep.numel(), *x.shape[1:]).index_copy(0, index, x).unflatten(0, keep.shape)  # type: ignore[no-any-return]

    @cached_property
    def sequence(self) -> Tensor:
        """(N,): the number of each token's sequence."""
        tokens = torch.arange(len(self.index), device=self.index.device)
        return torch.searchsorted(self.boundaries, tokens, right=True, out_int32=True) - 1

    @cached_property
    def places(self) -> tuple[Tensor, Tensor]:
        """For a batch (B, L) of the longest length: where each token stands in it (N,), and its mask."""
        tokens, row = torch.arange(len(self.index), device=self.index.device), self.sequence
        index = row * self.longest + tokens - self.boundaries[row]
        places = torch.arange(self.longest, device=self.index.device)
        return index, places < self.boundaries.diff()[:, None]

    def by_equal_lengths(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        scale: float,
        dropout: float,
        *,
        window: Window | None = None,
        bias: PositionScores | None = None,
    ) -> Tensor:
        """One dense call for each run of sequences of the same length: no padding."""
        runs = [(length, len(list(same))) for length, same in groupby(self.lengths) if length]
        sizes = [length * count for length, count in runs]
        context = []
        for (length, count), *parts in zip(runs, *(x.split(sizes) for x in (query, key, value)), strict=True):
            q, k, v = (part.unflatten(0, (count, length)).transpose(1, 2) for part in parts)
            order, added = self.order(length, length, query.device, window), self.added(bias, q, k)
            plain = order is None and added is None
            if self.causal and not plain:
                order = both(causal(length, length, query.device), order)
            is_causal = self.causal and length > 1 and plain
            found = fused(q, k, v, mask=order, added=added, scale=scale, dropout=dropout, is_causal=is_causal)
            context.append(found.transpose(1, 2).flatten(0, 1))
        return torch.cat(context) if context else torch.zeros_like(query)


@dataclass(frozen=True)
class PackedCross(BatchMask):
    """Packed queries over packed keys: each sequence looks at the one of the same number."""

    queries: PackedBatch
    keys: PackedBatch
    causal: bool = False

    @property
    def dense(self) -> None:
        raise AssertionError("the readable path runs on padded batches: nothing is packed while a hook is there")

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        scale: float,
        dropout: float,
        window: Window | None = None,
        bias: PositionScores | None = None,
    ) -> Tensor:
        """(N, H, K) queries over (M, G, K) keys and values; gives (N, H, K)."""
        if query.is_cuda and _varlen_kernel_takes(query) and not dropout and bias is None:
            return self._by_varlen_kernel(query, key, value, scale, window)
        return self.by_mask(query, key, value, scale, dropout, window=window, bias=bias)

    def _by_varlen_kernel(
        self, query: Tensor, key: Tensor, value: Tensor, scale: float, window: Window | None
    ) -> Tensor:
        from torch.nn.attention.varlen import varlen_attn  # it takes a second to import, and only a GPU needs it

        before, after = (None, None) if window is None else window
        spans = (-1 if before is None else before, 0 if self.causal else -1 if after is None else after)
        ends, sizes = (self.queries.boundaries, self.keys.boundaries), (self.queries.longest, self.keys.longest)
        grouped = query.shape[1] != key.shape[1]
        context = varlen_attn(query, key, value, *ends, *sizes, scale=scale, window_size=spans, enable_gqa=grouped)
        assert isinstance(context, Tensor)
        return context

    def by_mask(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        scale: float,
        dropout: float,
        *,
        window: Window | None = None,
        bias: PositionScores | None = None,
    ) -> Tensor:
        """One dense call over padded batches: a call costs more than the padding it saves."""
        longest = self.queries.longest, self.keys.longest
        order = both(
            causal(*longest, query.device) if self.causal else None, self.order(*longest, query.device, window)
        )
        mask = combine(self.keys.places[1], order)
        padded = (self.queries.padded(query), self.keys.padded(key), self.keys.padded(value))
        query, key, value = (x.transpose(1, 2) for x in padded)  # (B, H, L, K)
        added = self.added(bias, query, key)
        context = fused(query, key, value, mask=mask, added=added, scale=scale, dropout=dropout)
        return context.transpose(1, 2).flatten(0, 1)[self.queries.places[0]]


def _varlen_kernel_takes(query: Tensor) -> bool:
    """Flash attention is for half precision on recent GPUs, and heads of 8, 16 … 256."""
    half = query.dtype in (torch.float16, torch.bfloat16)
    fits = query.shape[-1] % 8 == 0 and query.shape[-1] <= 256
    return half and fits and torch.cuda.get_device_capability(query.device) >= (8, 0)
