"""Packing: run the layers on real tokens only, and attend within each sequence's boundaries.

B batch, S padded length, N real tokens in the whole batch, H heads, K head width, D model width.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import torch
import torch.nn.functional as F
from torch import Tensor

from .masks import causal, combine, send


@dataclass(frozen=True)
class Dense:
    """An ordinary padded batch."""

    mask: Tensor | None = None  # True = keep; broadcasts to (B, H, T, S)

    @staticmethod
    def over(keep: Tensor | None, order: Tensor | None = None) -> "Dense":
        return Dense(combine(keep, order))

    def attend(self, query: Tensor, key: Tensor, value: Tensor, *, scale: float, dropout: float) -> Tensor:
        """Several rows of queries, one after another, may share a source: they are then one longer row."""
        shape, sharing = query.shape, query.shape[0] // key.shape[0]
        if sharing > 1:
            query = query.unflatten(0, (-1, sharing)).flatten(1, 2)
        query, key, value = (x.transpose(1, 2) for x in (query, key, value))  # (B, H, …, K)
        mixed = F.scaled_dot_product_attention(query, key, value, self.mask, dropout, scale=scale).transpose(1, 2)
        return mixed if sharing == 1 else mixed.reshape(shape)


@dataclass(frozen=True)
class Causal:
    """A batch in which a token sees itself and what came before, and padding, if any, comes last."""

    length: int
    device: torch.device

    @property
    def mask(self) -> Tensor:
        return causal(self.length, self.length, self.device)  # (T, T)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, *, scale: float, dropout: float) -> Tensor:
        query, key, value = (x.transpose(1, 2) for x in (query, key, value))
        mixed = F.scaled_dot_product_attention(query, key, value, None, dropout, is_causal=True, scale=scale)
        return mixed.transpose(1, 2)


@dataclass(frozen=True)
class Packed:
    """A batch without its padding: the sequences one after another, the longest first."""

    index: Tensor  # (N,) where each real token stood in the flattened (B·S) batch
    lengths: list[int]  # of the sequences, descending
    longest: int
    boundaries: Tensor  # (B + 1,) int32, where each sequence starts
    shape: tuple[int, int]  # (B, S) of the padded batch
    causal: bool = False

    @staticmethod
    def over(keep: Tensor, *, causal: bool = False, device: torch.device | None = None) -> "Packed":
        """The packing of a (B, S) mask; padding may stand anywhere.

        A mask on the CPU is worked out there and sent to `device` without waiting for what the device does.
        """
        batch, width = keep.shape
        lengths, rows = keep.sum(1).sort(descending=True, stable=True)
        places = torch.arange(width, device=keep.device) + rows[:, None] * width  # (B, S)
        boundaries = F.pad(lengths.cumsum(0), (1, 0)).int()
        counts: list[int] = lengths.tolist()
        index, boundaries = (send(x, device or keep.device) for x in (places[keep[rows]], boundaries))
        return Packed(index, counts, counts[0], boundaries, (batch, width), causal)

    @property
    def mask(self) -> None:
        raise AssertionError("the readable path runs on padded batches: nothing is packed while someone listens")

    def pack(self, x: Tensor) -> Tensor:
        """(B, S, …) -> (N, …)"""
        return x.flatten(0, 1)[self.index]

    def unpack(self, x: Tensor) -> Tensor:
        """(N, …) -> (B, S, …), zero at padding"""
        whole = x.new_zeros(self.shape[0] * self.shape[1], *x.shape[1:])
        return whole.index_copy_(0, self.index, x).unflatten(0, self.shape)  # type: ignore[no-any-return]

    def attend(self, query: Tensor, key: Tensor, value: Tensor, *, scale: float, dropout: float) -> Tensor:
        if not query.is_cuda:
            return self.by_equal_lengths(query, key, value, scale, dropout)
        if _varlen_kernel_takes(query) and not dropout:
            return self._by_varlen_kernel(query, key, value, scale)
        return self.by_mask(query, key, value, scale, dropout)

    def _by_varlen_kernel(self, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        from torch.nn.attention.varlen import varlen_attn  # it takes a second to import, and only a GPU needs it

        window = (-1, 0) if self.causal else (-1, -1)
        ends, longest = self.boundaries, self.longest
        mixed = varlen_attn(query, key, value, ends, ends, longest, longest, scale=scale, window_size=window)
        assert isinstance(mixed, Tensor)
        return mixed

    def by_mask(self, query: Tensor, key: Tensor, value: Tensor, scale: float, dropout: float) -> Tensor:
        """One dense call over a padded batch: on a GPU, where a call costs more than the padding it saves."""
        index, keep = self._padded
        order = causal(self.longest, self.longest, query.device) if self.causal else None
        room = query.new_zeros(keep.numel(), *query.shape[1:])
        query, key, value = (
            room.index_copy(0, index, x).unflatten(0, keep.shape).transpose(1, 2) for x in (query, key, value)
        )  # (B, H, L, K)
        mask = combine(keep, order)
        mixed = F.scaled_dot_product_attention(query, key, value, mask, dropout, scale=scale)
        return mixed.transpose(1, 2).flatten(0, 1)[index]

    @cached_property
    def _padded(self) -> tuple[Tensor, Tensor]:
        """For a batch (B, L) of the longest length: where each token stands in it (N,), and its mask."""
        tokens = torch.arange(len(self.index), device=self.index.device)
        row = torch.searchsorted(self.boundaries, tokens, right=True, out_int32=True) - 1
        index = row * self.longest + tokens - self.boundaries[row]
        places = torch.arange(self.longest, device=self.index.device)
        return index, places < self.boundaries.diff()[:, None]

    def by_equal_lengths(self, query: Tensor, key: Tensor, value: Tensor, scale: float, dropout: float) -> Tensor:
        """One dense call for each run of sequences of the same length: no mask, no padding."""
        runs = [(length, len(list(same))) for length, same in groupby(self.lengths) if length]
        sizes = [length * count for length, count in runs]
        mixed = []
        for (length, count), *parts in zip(runs, *(x.split(sizes) for x in (query, key, value)), strict=True):
            q, k, v = (part.unflatten(0, (count, length)).transpose(1, 2) for part in parts)
            causal = self.causal and length > 1
            found = F.scaled_dot_product_attention(q, k, v, None, dropout, is_causal=causal, scale=scale)
            mixed.append(found.transpose(1, 2).flatten(0, 1))
        return torch.cat(mixed) if mixed else torch.zeros_like(query)


def _varlen_kernel_takes(query: Tensor) -> bool:
    """Flash attention is for half precision on recent GPUs, and heads of 8, 16 … 256."""
    half = query.dtype in (torch.float16, torch.bfloat16)
    fits = query.shape[-1] % 8 == 0 and query.shape[-1] <= 256
    return half and fits and torch.cuda.get_device_capability(query.device) >= (8, 0)
