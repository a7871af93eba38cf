"""Masks of padded batches: who may look at whom, what positions add to that, and the fused kernel for it.

B batch, T target length, S source length, H heads, G heads of keys and values, K head width.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from .masks import Window, both, causal, combine, distances, within
from .relative import PositionScores
from .rotary import Rotary, Rotation

V = TypeVar("V")


class AttentionOptions(NamedTuple):
    """What a layer asks of the fused kernel beside queries, keys and values."""

    scale: float
    dropout: float = 0.0
    window: Window | None = None
    bias: PositionScores | None = None


class Memo:
    """What was worked out for a batch. No dict, since FSDP hands each layer a copy of one."""

    def __init__(self) -> None:
        self.found: dict[Hashable, Any] = {}


def empty_memo() -> Memo:
    """A function, since torch.compile follows one where it would not follow a class."""
    return Memo()


@dataclass(frozen=True, kw_only=True)
class BatchMask:
    """What the masks of a batch share: where its tokens stand, and what follows from that once for all layers."""

    positions: Tensor | None = None  # (B or 1, T), or (N,) of a packed batch: the position ids
    memo: Memo = field(default_factory=empty_memo, compare=False, repr=False)

    def memoize(self, key: Hashable, make: Callable[[], V]) -> V:
        """What `make` gave when this key was first asked for in this batch."""
        found = self.memo.found
        if key not in found:
            found[key] = make()
        value: V = found[key]
        return value

    def rotation(self, rotary: Rotary) -> Rotation:
        """The rotation of the batch's tokens."""
        assert self.positions is not None, "rotary positions need a mask that knows where its tokens stand"
        lengths = self.text_lengths if rotary.is_dynamic else None
        found: Rotation = self.memoize(rotary, lambda: rotary(self.positions, lengths))
        return found

    def with_empty_memo(self) -> Self:
        """The same mask, with nothing worked out yet: what a layer learns from is made anew when it is run again."""
        return replace(self, memo=Memo())

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
        return self.memoize(
            (window, targets, sources), lambda: within(self.distances(targets, sources, device), window)
        )

    def position_bias(self, bias: PositionScores | None, query: Tensor, key: Tensor) -> Tensor | None:
        """What distances add to the scores of (B, H, T, K) and (B, H, S, K)."""
        if bias is None:
            return None
        sizes = query.shape[-2], key.shape[-2]
        between = self.memoize(sizes, lambda: self.distances(*sizes, query.device))
        return bias.scores(query, key, bias.prepare(between, self.memoize))

    def with_bias(self, keep: Tensor | None, query: Tensor, key: Tensor, options: AttentionOptions) -> Tensor | None:
        """A mask for torch's kernel: `keep`, or what distances add to scores, −∞ where nothing is kept.

        Layers that add the same share one: it is as large as all scores of a layer.
        """
        found = self.position_bias(options.bias, query, key)
        if found is None or options.bias is None:
            return keep

        def masked() -> Tensor:
            wide = found if found.dim() == 4 else found[None]  # the quick kernels take no other
            return (wide if keep is None else wide.masked_fill(~keep, -torch.inf)).to(query.dtype)

        if options.bias.depends_on_content:
            return masked()
        return self.memoize(("masked", options.bias, options.window, query.shape[-2], key.shape[-2]), masked)


def fused(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    options: AttentionOptions,
    mask: Tensor | None,
    is_causal: bool = False,
) -> Tensor:
    """torch's kernel on (B, H, T, K) queries and (B, G, S, K) keys and values: every H / G heads share one of G."""
    grouped = query.shape[1] != key.shape[1]
    return F.scaled_dot_product_attention(
        query, key, value, mask, options.dropout, is_causal=is_causal, scale=options.scale, enable_gqa=grouped
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

    def attend(self, query: Tensor, key: Tensor, value: Tensor, options: AttentionOptions) -> Tensor:
        """Several rows of queries, one after another, may share a source: they are then one longer row."""
        shape, sharing = query.shape, query.shape[0] // max(1, key.shape[0])
        if sharing > 1:
            query = query.unflatten(0, (-1, sharing)).flatten(1, 2)
        query, key, value = (x.transpose(1, 2) for x in (query, key, value))  # (B, H, …, K)
        keep = both(self.dense, self.order(query.shape[2], key.shape[2], query.device, options.window))
        mask = self.with_bias(keep, query, key, options)
        context = fused(query, key, value, options=options, mask=mask).transpose(1, 2)
        return context if sharing <= 1 else context.reshape(shape)


@dataclass(frozen=True)
class CausalMask(BatchMask):
    """A batch in which a token sees itself and what came before, and padding, if any, comes last."""

    length: int
    device: torch.device
    before: int = 0  # tokens that come before these, and are keys alone

    @property
    def dense(self) -> Tensor:
        return causal(self.length, self.before + self.length, self.device)  # (T, S)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, options: AttentionOptions) -> Tensor:
        query, key, value = (x.transpose(1, 2) for x in (query, key, value))
        order = self.order(self.length, self.before + self.length, self.device, options.window)
        plain = order is None and options.bias is None
        if plain:
            mask = self._lower_right(query) if self.before else None
        else:
            mask = self.with_bias(both(self.dense, order), query, key, options)
        context = fused(query, key, value, options=options, mask=mask, is_causal=plain and not self.before)
        return context.transpose(1, 2)

    def _lower_right(self, query: Tensor) -> Tensor:
        """The order alone, for torch's kernel, whose `is_causal` would align the first query with the first key.

        A GPU's kernels know it by its name; elsewhere it is added to scores, and all layers share one.
        """
        if query.is_cuda:
            from torch.nn.attention.bias import causal_lower_right  # it takes a second to import

            return causal_lower_right(self.length, self.before + self.length)
        return self.memoize(
            ("lower right", query.dtype), lambda: query.new_zeros(self.dense.shape).masked_fill(~self.dense, -torch.inf)
        )
