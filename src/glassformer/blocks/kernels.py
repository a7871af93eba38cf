"""A kernel for GPUs: one new token of each row joins the cache and looks back over it, in one launch.

B batch, L room, H heads, K head width. It is one program for each row and head, with the softmax of one pass: the
largest score so far, the sum of weights and the weighted values are corrected as larger scores come.
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor

TILE = 64  # tokens that are read at once


@cache
def available() -> bool:
    """Whether Triton, in which the kernel is written, is here; it comes with torch for NVIDIA GPUs."""
    try:
        import triton  # noqa: F401
    except ImportError:
        return False
    return True


def attend_next(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    used: Tensor,
    padding: Tensor,
    scale: float,
) -> Tensor:
    """Put (B, 1, H, K) keys and values behind the `used` ones of a cache (B, L, H, K); give softmax(q kᵀ · scale) v.

    Row b looks at its tokens from padding[b] on.
    """
    batch, _, heads, width = query.shape
    mixed = torch.empty_like(query, memory_format=torch.contiguous_format)
    strides = (*(x.stride(0) for x in (query, key, value, keys)), keys.stride(1))
    shape = {"heads": heads, "width": width, "lanes": 1 << (width - 1).bit_length(), "tile": TILE}
    tensors = (query, key, value, keys, values, used, padding, mixed)
    _kernel()[(batch, heads)](*tensors, *strides, scale, **shape, num_warps=4)
    return mixed


@cache
def _kernel() -> Any:
    import triton
    import triton.language as tl

    @triton.jit  # type: ignore[untyped-decorator, unused-ignore]
    def kernel(  # type: ignore[no-untyped-def]
        query, key, value, keys, values, used, padding, mixed,
        query_row, key_row, value_row, cache_row, cache_token, scale,
        heads: tl.constexpr, width: tl.constexpr, lanes: tl.constexpr, tile: tl.constexpr,
    ):  # fmt: skip
        row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
        lane = tl.arange(0, lanes)
        own, real = head * width + lane, lane < width
        count, first = tl.load(used).to(tl.int32), tl.load(padding + row)
        q = tl.load(query + row * query_row + own, mask=real, other=0.0).to(tl.float32) * scale
        k = tl.load(key + row * key_row + own, mask=real, other=0.0)
        v = tl.load(value + row * value_row + own, mask=real, other=0.0)
        place = row * cache_row + count * cache_token + own
        tl.store(keys + place, k, mask=real)
        tl.store(values + place, v, mask=real)
        largest = tl.sum(q * k.to(tl.float32))  # the new token sees itself
        total = tl.full([], 1.0, tl.float32)
        gathered = v.to(tl.float32)
        for begin in range(first, count, tile):
            token = begin + tl.arange(0, tile)
            there = token < count
            block = row * cache_row + token[:, None] * cache_token + own[None, :]
            shown = there[:, None] & real[None, :]
            past = tl.load(keys + block, mask=shown, other=0.0).to(tl.float32)
            scores = tl.where(there, tl.sum(past * q[None, :], 1), float("-inf"))
            higher = tl.maximum(largest, tl.max(scores))
            weights, shrink = tl.exp(scores - higher), tl.exp(largest - higher)
            seen = tl.load(values + block, mask=shown, other=0.0).to(tl.float32)
            gathered = gathered * shrink + tl.sum(seen * weights[:, None], 0)
            total = total * shrink + tl.sum(weights)
            largest = higher
        tl.store(mixed + (row * heads + head) * width + lane, (gathered / total).to(mixed.dtype.element_ty), mask=real)

    return kernel
