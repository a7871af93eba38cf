"""Attention within the sequences of a batch, by the CPU's own kernel where that is faster than torch's.

B batch, T length, N real tokens, H heads, G heads of keys and values, K head width.
"""

import torch
from torch import Tensor

from glassformer.blocks.attention import AttentionMask
from glassformer.blocks.batch_masks import AttentionOptions, CausalMask, DenseMask
from glassformer.blocks.packing import PackedBatch

from . import native

LONGEST = 256  # tokens: of longer texts torch's own attention is faster


def attend(query: Tensor, key: Tensor, value: Tensor, mask: AttentionMask, options: AttentionOptions) -> Tensor:
    """`mask.attend` of (B, T, H, K) or (N, H, K) queries over keys and values of G heads."""
    packed = as_packed(mask, query)
    if packed is None or options.bias is not None or not native.takes(query, key, value):
        return mask.attend(query, key, value, options)
    boundaries, longest, causal = packed
    context = native.attend_packed(
        query.flatten(0, -3),
        key.flatten(0, -3),
        value.flatten(0, -3),
        boundaries=boundaries,
        longest=longest,
        scale=options.scale,
        window=options.window,
        causal=causal,
    )
    return context.view(query.shape)


def as_packed(mask: AttentionMask, query: Tensor) -> tuple[Tensor, int, bool] | None:
    """Where the sequences of a batch begin and end (B + 1), the longest of them, and whether they are causal.

    None where a token is masked by something else, or the texts are long.
    """
    if isinstance(mask, PackedBatch):
        return (mask.boundaries, mask.longest, mask.causal) if mask.longest <= LONGEST else None
    causal = isinstance(mask, CausalMask)
    batch, length = query.shape[:2]
    if length > LONGEST or not (causal or (isinstance(mask, DenseMask) and mask.dense is None)):
        return None
    return torch.arange(batch + 1, dtype=torch.int32, device=query.device) * length, length, causal
