"""Packing: run the layers on real tokens only, and attend within each sequence's boundaries.

B batch, S padded length, N real tokens in the whole batch, H heads, G heads of keys and values, K head width.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import groupby

import torch
import torch.nn.functional as F
from torch import Tensor

from .batch_masks import AttentionOptions, BatchMask, fused
from .masks import both, causal, combine, send


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
        return whole.index_copy_(0, self.index, x).unflatten(0, self.shape)

    @property
    def text_lengths(self) -> Tensor:
        assert self.positions is not None
        ends = self.positions.new_zeros(len(self.lengths))
        return ends.scatter_reduce(0, self.sequence.long(), self.positions, "amax")[self.sequence] + 1

    def attend(self, query: Tensor, key: Tensor, value: Tensor, options: AttentionOptions) -> Tensor:
        if not query.is_cuda:
            return self.by_equal_lengths(query, key, value, options)
        return PackedCross(self, self, self.causal, memo=self.memo).attend(query, key, value, options)

    def convolved(self, x: Tensor, convolution: Callable[[Tensor], Tensor], reach: int) -> Tensor:
        """As a DenseMask's, of (N, D): one long text, with zeros between the sequences so that none sees another."""
        index = torch.arange(len(x), device=x.device) + reach * (self.sequence + 1)
        spaced = x.new_zeros(len(x) + reach * (len(self.lengths) + 1), x.shape[1]).index_copy(0, index, x)
        return convolution(spaced[None])[0, index]

    def padded(self, x: Tensor) -> Tensor:
        """(N, …) -> (B, L, …) of the longest length L, in the order of the sequences, zero at padding."""
        index, keep = self.places
        return x.new_zeros(keep.numel(), *x.shape[1:]).index_copy(0, index, x).unflatten(0, keep.shape)

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

    def by_equal_lengths(self, query: Tensor, key: Tensor, value: Tensor, options: AttentionOptions) -> Tensor:
        """One dense call for each run of sequences of the same length: no padding."""
        runs = [(length, len(list(same))) for length, same in groupby(self.lengths) if length]
        sizes = [length * count for length, count in runs]
        context = []
        for (length, count), *parts in zip(runs, *(x.split(sizes) for x in (query, key, value)), strict=True):
            q, k, v = (part.unflatten(0, (count, length)).transpose(1, 2) for part in parts)
            order = self.order(length, length, query.device, options.window)
            plain = order is None and options.bias is None
            if self.causal and not plain:
                order = both(causal(length, length, query.device), order)
            is_causal = self.causal and length > 1 and plain
            mask = self.with_bias(order, q, k, options)
            found = fused(q, k, v, options=options, mask=mask, is_causal=is_causal)
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

    def attend(self, query: Tensor, key: Tensor, value: Tensor, options: AttentionOptions) -> Tensor:
        """(N, H, K) queries over (M, G, K) keys and values; gives (N, H, K)."""
        if query.is_cuda and _varlen_kernel_takes(query) and not options.dropout and options.bias is None:
            return self._by_varlen_kernel(query, key, value, options)
        return self.by_mask(query, key, value, options)

    def _by_varlen_kernel(self, query: Tensor, key: Tensor, value: Tensor, options: AttentionOptions) -> Tensor:
        from torch.nn.attention.varlen import varlen_attn  # it takes a second to import, and only a GPU needs it

        before, after = options.window or (None, None)
        spans = (-1 if before is None else before, 0 if self.causal else -1 if after is None else after)
        ends, sizes = (self.queries.boundaries, self.keys.boundaries), (self.queries.longest, self.keys.longest)
        kernel = varlen_attn
        if (group := query.shape[1] // key.shape[1]) > 1:
            if torch.__version__ >= "2.12":
                kernel = partial(varlen_attn, enable_gqa=True)
            else:  # which has no grouped queries
                key, value = (x.repeat_interleave(group, 1) for x in (key, value))
        context = kernel(query, key, value, *ends, *sizes, scale=options.scale, window_size=spans)
        assert isinstance(context, Tensor)
        return context

    def by_mask(self, query: Tensor, key: Tensor, value: Tensor, options: AttentionOptions) -> Tensor:
        """One dense call over padded batches: a call costs more than the padding it saves."""
        longest = self.queries.longest, self.keys.longest
        order = self.order(*longest, query.device, options.window)
        order = both(causal(*longest, query.device), order) if self.causal else order
        mask = combine(self.keys.places[1], order)
        padded = (self.queries.padded(query), self.keys.padded(key), self.keys.padded(value))
        query, key, value = (x.transpose(1, 2) for x in padded)  # (B, H, L, K)
        context = fused(query, key, value, options=options, mask=self.with_bias(mask, query, key, options))
        return context.transpose(1, 2).flatten(0, 1)[self.queries.places[0]]


def _varlen_kernel_takes(query: Tensor) -> bool:
    """Flash attention is for half precision on recent GPUs, and heads of 8, 16 … 256."""
    half = query.dtype in (torch.float16, torch.bfloat16)
    fits = query.shape[-1] % 8 == 0 and query.shape[-1] <= 256
    return half and fits and torch.cuda.get_device_capability(query.device) >= (8, 0)
