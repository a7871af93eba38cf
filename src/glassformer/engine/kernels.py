"""Kernels for GPUs, one launch each: the next token's attention, linear layers for few rows, beam moves, digests.

B batch, N layers, L capacity, H heads, K head width, D width in, E width out. Each has a plain version elsewhere, which
says what it computes and takes its place where there is no Triton.
"""

import logging
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

LOG = logging.getLogger("glassformer")
SMALL_BATCH = 4  # rows: more are left to the libraries' matrix products
BUSY = 256  # programs at once that keep a GPU busy; fewer must read more at a time
ACTIVATIONS = {None: 0, "tanh_gelu": 1, "relu": 2}


@cache
def available() -> bool:
    """Whether the kernels can run here: Triton comes with torch for NVIDIA GPUs, but not the compiler that it needs."""
    try:
        one = torch.ones(1, 16, device="cuda")
        linear(one, one, None)
    except Exception as error:  # Triton, the compiler and the driver each have their own
        LOG.info("decoding without kernels of our own: %s", error)
        return False
    return True


@cache
def early() -> dict[str, bool]:
    """Since Hopper a kernel may start before the last one has ended, and wait for it where it must."""
    hopper = torch.cuda.is_available() and not torch.version.hip and torch.cuda.get_device_capability() >= (9, 0)
    return {"early": True, "launch_pdl": True} if hopper else {"early": False}


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

    Row b looks at its tokens from padding[b] on. One program for each row and head, with the softmax of one pass: the
    largest score so far, the sum of weights and the weighted values are corrected as larger scores come.
    """
    batch, _, heads, width = query.shape
    context = torch.empty_like(query, memory_format=torch.contiguous_format)
    strides = (*(x.stride(0) for x in (query, key, value, keys)), keys.stride(1))
    lanes = power_of_two(width)
    numbers, warps = (4096, 2) if batch * heads >= BUSY else (32768, 8)  # read at once
    shape = {"heads": heads, "width": width, "lanes": lanes, "tile": max(1, numbers // lanes)}
    tensors = (query, key, value, keys, values, used, padding, context)
    _attend()[(batch, heads)](*tensors, *strides, scale, **shape, num_warps=warps, **early())
    return context


def linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    *,
    norm: tuple[Tensor, Tensor, float] | None = None,
    activation: str | None = None,
    added: Tensor | None = None,
) -> Tensor:
    """added + activation(norm(x) weightᵀ + bias) for few rows (…, D), each part where it is given.

    One program for a few outputs of one row, which reads their weights at once and makes the norm for itself: such
    products wait for memory and for their launch, not for sums.
    """
    outputs, inputs = weight.shape
    x = x.contiguous()
    out = x.new_empty(*x.shape[:-1], outputs)
    gain, shift, eps = norm or (None, None, 0.0)
    lanes = power_of_two(inputs)
    tile = max(1, 4096 // lanes)
    grid = (-(-outputs // tile), x.numel() // inputs)
    shape = {"inputs": inputs, "outputs": outputs, "lanes": lanes, "tile": tile, "activation": ACTIVATIONS[activation]}
    tensors = (x, weight, bias, gain, shift, added, out)
    _linear()[grid](*tensors, eps, **shape, num_warps=4, **early())
    return out


def takes(x: Tensor, weight: Tensor) -> bool:
    """Whether `linear` is the way to go: few rows on a GPU, none of them too long for one program."""
    few = x.numel() <= SMALL_BATCH * x.shape[-1] and x.shape[-1] <= 16384 and on_current_gpu(x)
    return few and x.dtype == weight.dtype and weight.is_contiguous() and available()


def on_current_gpu(x: Tensor) -> bool:
    """Kernels of our own and graphs, unlike torch's operations, run where torch stands, not where a tensor lies."""
    return x.is_cuda and x.get_device() == torch.cuda.current_device()


def reorder_cache(keys: Tensor, values: Tensor, rows: Tensor, *, group_size: int, used: Tensor) -> None:
    """x[:, :, :used] = x[:, rows, :used] for both halves of a cache (N, B, L, H, K), whose rows trade in groups.

    One program for one token of a group in one layer, which reads all of them before it writes any.
    """
    layers, batch, capacity = keys.shape[:3]
    lanes = power_of_two(size := keys[0, 0, 0].numel())
    shape = {"group_size": group_size, "seats": power_of_two(group_size), "size": size, "lanes": lanes}
    strides = keys.stride()[:3]
    for x in (keys, values):
        _reorder()[(capacity, batch // group_size, layers)](x, rows, used, *strides, **shape, num_warps=4)


class GpuDigest:
    """Digests of tensors as engine/digest.py has them, of all in one launch: a program for each stretch of words."""

    words = 8192

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        """Contiguous tensors of whole words of 32 bits, which stay where they are."""
        self.device, self.count = tensors[0].device, len(tensors)
        sizes = [tensor.nbytes // 4 for tensor in tensors]
        stretches = [-(-size // self.words) for size in sizes]
        owners = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(stretches))
        numbers = torch.cat([torch.arange(many) for many in stretches])
        starts = torch.tensor([tensor.data_ptr() for tensor in tensors])
        self.work = [x.to(self.device) for x in (starts, torch.tensor(sizes), owners, numbers)]

    def __call__(self) -> Tensor:
        found = torch.zeros(self.count, dtype=torch.int64, device=self.device)
        _digest()[(len(self.work[-1]),)](*self.work, found, words=self.words, num_warps=8)
        return found


def power_of_two(number: int) -> int:
    """The next one that is not smaller."""
    return 1 << (number - 1).bit_length()


@cache
def _attend() -> Any:
    """Compiled when first called: to import Triton takes a second, and only a GPU needs it."""
    import triton
    import triton.language as tl

    @triton.jit  # type: ignore[untyped-decorator, unused-ignore]
    def attend_kernel(  # type: ignore[no-untyped-def]
        query, key, value, keys, values, used, padding, context,
        query_row, key_row, value_row, cache_row, cache_token, scale,
        heads: tl.constexpr, width: tl.constexpr, lanes: tl.constexpr, tile: tl.constexpr, early: tl.constexpr,
    ):  # fmt: skip
        if early:
            tl.extra.cuda.gdc_launch_dependents()
            tl.extra.cuda.gdc_wait()
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
            seen = tl.load(values + block, mask=shown, other=0.0)  # on its way while scores are made
            scores = tl.where(there, tl.sum(past * q[None, :], 1), float("-inf"))
            higher = tl.maximum(largest, tl.max(scores))
            weights, shrink = tl.exp(scores - higher), tl.exp(largest - higher)
            gathered = gathered * shrink + tl.sum(seen.to(tl.float32) * weights[:, None], 0)
            total = total * shrink + tl.sum(weights)
            largest = higher
        tl.store(
            context + (row * heads + head) * width + lane, (gathered / total).to(context.dtype.element_ty), mask=real
        )

    return attend_kernel


@cache
def _linear() -> Any:
    import triton
    import triton.language as tl

    @triton.jit  # type: ignore[untyped-decorator, unused-ignore]
    def linear_kernel(  # type: ignore[no-untyped-def]
        x, weight, bias, gain, shift, added, out, eps,
        inputs: tl.constexpr, outputs: tl.constexpr, lanes: tl.constexpr, tile: tl.constexpr,
        activation: tl.constexpr, early: tl.constexpr,
    ):  # fmt: skip
        if early:
            tl.extra.cuda.gdc_launch_dependents()
        row, place = tl.program_id(1), tl.program_id(0) * tile + tl.arange(0, tile)
        lane = tl.arange(0, lanes)
        real, there = lane < inputs, place < outputs
        block = place[:, None] * inputs + lane[None, :]
        w = tl.load(weight + block, mask=there[:, None] & real[None, :], other=0.0)  # the only part that need not wait
        if early:
            tl.extra.cuda.gdc_wait()
        v = tl.load(x + row * inputs + lane, mask=real, other=0.0).to(tl.float32)
        if gain is not None:
            v = tl.where(real, v - tl.sum(v) / inputs, 0.0)
            v = v * tl.rsqrt(tl.sum(v * v) / inputs + eps)
            v = v * tl.load(gain + lane, mask=real, other=0.0) + tl.load(shift + lane, mask=real, other=0.0)
        y = tl.sum(w.to(tl.float32) * v[None, :], 1)
        if bias is not None:
            y += tl.load(bias + place, mask=there, other=0.0)
        if activation == 1:  # y/2 · (1 + tanh(z)), by its exponential
            y = y / (1.0 + tl.exp(-1.5957691216057308 * (y + 0.044715 * y * y * y)))
        if activation == 2:
            y = tl.maximum(y, 0.0)
        if added is not None:
            y += tl.load(added + row * outputs + place, mask=there, other=0.0)
        tl.store(out + row * outputs + place, y.to(out.dtype.element_ty), mask=there)

    return linear_kernel


@cache
def _reorder() -> Any:
    import triton
    import triton.language as tl

    @triton.jit  # type: ignore[untyped-decorator, unused-ignore]
    def reorder_kernel(  # type: ignore[no-untyped-def]
        x, rows, used, by_layer, by_row, by_token,
        group_size: tl.constexpr, seats: tl.constexpr, size: tl.constexpr, lanes: tl.constexpr,
    ):  # fmt: skip
        token, group, layer = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
        if token < tl.load(used):
            seat, lane = tl.arange(0, seats), tl.arange(0, lanes)
            own = group * group_size + seat
            source = tl.load(rows + own, mask=seat < group_size, other=0)
            moves = ((seat < group_size) & (source != own))[:, None] & (lane < size)[None, :]
            here = layer * by_layer + token * by_token + lane[None, :]
            moved = tl.load(x + here + source[:, None] * by_row, mask=moves)
            tl.debug_barrier()
            tl.store(x + here + own[:, None].to(tl.int64) * by_row, moved, mask=moves)

    return reorder_kernel


@cache
def _digest() -> Any:
    import triton
    import triton.language as tl

    @triton.jit  # type: ignore[untyped-decorator, unused-ignore]
    def digest_kernel(starts, sizes, owners, numbers, found, words: tl.constexpr):  # type: ignore[no-untyped-def]
        owner, number = tl.load(owners + tl.program_id(0)), tl.load(numbers + tl.program_id(0))
        start = tl.load(starts + owner).to(tl.pointer_type(tl.int32))
        lane = tl.arange(0, words).to(tl.int64)
        place = number * words + lane
        word = tl.load(start + place, mask=place < tl.load(sizes + owner), other=0).to(tl.int64)
        own = (lane * 0x9E3779B1 & 0xFFFFFFFF) ^ 0x85EBCA6B  # of each word: all different, and none 0
        mixed = (number + 1) * 0x1E3779B97F4A7C15
        mixed = (mixed ^ (mixed >> 29)) * 0x3F58476D1CE4E5B9 | 1  # of each stretch
        tl.atomic_add(found + owner, tl.sum(word * own, 0) * mixed)

    return digest_kernel
