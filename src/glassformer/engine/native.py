"""Kernels for CPUs: linear layers for few rows, the next token's attention, beam moves, digests (native.c); what stands
around products of many rows in 8 bits, attention within sequences (rows.c); all of a decoder (stack.c, stack.py).

B batch, N layers, L capacity, H heads, K head width, D width in, E width out. They are compiled once for each
machine that has a C compiler, and run on torch's own threads. Each has a plain version elsewhere, for where there is
none.
"""

import ctypes
import logging
from collections.abc import Callable
from ctypes import c_float, c_long, c_uint, c_void_p
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from glassformer.blocks.masks import Window
from glassformer.files import compiled

LOG = logging.getLogger("glassformer")
STEPS = 63  # of rounded inputs on either side of zero: with 8-bit weights, 7 bits never overflow in any CPU's kernel
SMALL_BATCH = 8  # rows: the products of more are left to the libraries
Fields = list[tuple[str, "type[ctypes._SimpleCData[Any]]"]]


def fields(pointers: str, numbers: str = "") -> Fields:
    """The first of a struct's fields, as their names say."""
    return [(name, c_void_p) for name in pointers.split()] + [(name, c_long) for name in numbers.split()]


class LinearStruct(ctypes.Structure):
    _fields_ = fields("weight rounded scale centre bias", "inputs outputs")


class NormStruct(ctypes.Structure):
    _fields_ = [*fields("weight bias"), ("eps", c_float), ("centred", c_long)]


class AttentionStruct(ctypes.Structure):
    _fields_ = [
        *fields(
            "query key value keys values keep cosine sine context",
            "query_stride key_stride value_stride cache_stride keep_stride turn_stride"
            " batch length heads width group first",
        ),
        ("scale", c_float),
        *fields("", "next together"),
    ]


class ReorderStruct(ctypes.Structure):
    _fields_ = fields("keys values rows", "layers batch group_size used width layer_stride row_stride next")


class RowsStruct(ctypes.Structure):
    _fields_ = fields("x rounded y largest bias added", "rows width gelu next")


class PackedStruct(ctypes.Structure):
    _fields_ = [
        *fields(
            "query key value context boundaries",
            "query_stride key_stride value_stride sequences heads width group before after longest",
        ),
        ("scale", c_float),
        *fields("", "next"),
    ]


class DigestJob(ctypes.Structure):
    _fields_ = fields("starts sizes digests", "tensors next")


class Kernels(NamedTuple):
    threads: int  # where the function is that runs another on several of torch's threads
    linear: Callable[..., None]
    attend: Callable[..., None]
    reorder: Callable[..., None]
    digest: Callable[..., None]
    round: Callable[..., None]
    finish: Callable[..., None]
    attend_packed: Callable[..., None]
    stack: Callable[..., None]


@cache
def kernels() -> Kernels | None:
    """None where there is no compiler, or torch has other threads than OpenMP's; `why_not` says which."""
    found = opened()
    if isinstance(found, Kernels):
        return found
    LOG.info("decoding without kernels of our own: %s", found)
    return None


def why_not() -> str | None:
    """Why torch's kernels do all the work, in one line; None where ours help."""
    found = opened()
    return None if isinstance(found, Kernels) else found


@cache
def opened() -> Kernels | str:
    """The kernels, or why there are none: nothing that goes wrong here may stop a model from running."""
    try:
        torch_library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        threads = ctypes.cast(torch_library.GOMP_parallel, c_void_p).value
        loaded = ctypes.CDLL(str(library()))
        found = [getattr(loaded, f"glassformer_{name}") for name in Kernels._fields[1:]]
    except Exception as error:
        return compiled.reason(error)
    for kernel in found:
        kernel.argtypes, kernel.restype = [c_void_p, c_uint, c_void_p], None
    found[0].argtypes += [*[c_void_p] * 4, c_long]
    return Kernels(threads or 0, *found)


def library() -> Path:
    """The file of them."""
    return compiled.library(Path(__file__).parent, ("glassformer_check", "glassformer_check_rows"), STEPS=STEPS)


def takes(*tensors: Tensor | None) -> bool:
    """Whether these are ordinary tensors, and nobody wants to learn from them."""
    return ordinary(*tensors) and not torch.is_grad_enabled() and kernels() is not None


def ordinary(*tensors: Tensor | None) -> bool:
    return all(x is None or (x.dtype == torch.float32 and x.device.type == "cpu") for x in tensors)


class SmallBatchLinear:
    """A linear layer in 32 or 8 bits, with what stands around it, for few rows."""

    def __init__(self, weight: Tensor, bias: Tensor | None, scale: Tensor | None = None) -> None:
        self.outputs, self.inputs = weight.shape
        if scale is None:
            parts = [weight, None, None, None, bias]
        else:
            parts = [None, weight, scale, (weight.sum(1) * (STEPS + 1)).int(), bias]
        self.kept = [None if part is None else part.contiguous() for part in parts]
        self.struct = LinearStruct(*map(address, self.kept), self.inputs, self.outputs)

    def __call__(self, x: Tensor, *, norm: NormStruct | None, added: Tensor | None) -> Tensor:
        """added + linear(norm(x)) for (…, D)"""
        found, x = kernels(), x.contiguous()
        assert found is not None
        assert x.shape[-1] == self.inputs
        y = x.new_empty(*x.shape[:-1], self.outputs)
        struct = None if norm is None else ctypes.addressof(norm)
        more = None if added is None else added.expand_as(y).contiguous()
        places = (ctypes.addressof(self.struct), struct, x.data_ptr(), address(more), y.data_ptr())
        found.linear(found.threads, torch.get_num_threads(), *places, x.numel() // self.inputs)
        return y


def round_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """As `linear.round_rows`."""
    found, x = kernels(), x.contiguous()
    assert found is not None
    rounded, largest = x.new_empty(x.shape, dtype=torch.uint8), x.new_empty(*x.shape[:-1], 1)
    places = (x.data_ptr(), rounded.data_ptr(), None, largest.data_ptr(), None, None)
    job = RowsStruct(*places, largest.numel(), x.shape[-1], 0, 0)
    found.round(found.threads, torch.get_num_threads(), ctypes.addressof(job))
    return rounded, largest


def finish_rows(y: Tensor, largest: Tensor, *, bias: Tensor | None, added: Tensor | None, gelu: bool) -> None:
    """y = added + gelu(largest · y + bias) in place, for (…, E) and (…, 1), each part where it is given."""
    found = kernels()
    assert found is not None
    more = None if added is None else added.expand_as(y).contiguous()
    places = (None, None, y.data_ptr(), largest.data_ptr(), address(bias), address(more))
    job = RowsStruct(*places, largest.numel(), y.shape[-1], gelu, 0)
    found.finish(found.threads, torch.get_num_threads(), ctypes.addressof(job))


def attend_packed(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    boundaries: Tensor,
    longest: int,
    scale: float,
    window: Window | None = None,
    causal: bool = False,
) -> Tensor:
    """softmax(q kᵀ · scale) v within sequences that stand one after another, from `boundaries` (B + 1) on.

    Queries (N, H, K) over keys and values (N, G, K), as far as the window reaches on either side; gives (N, H, K).
    """
    found = kernels()
    assert found is not None
    _, heads, width = key.shape
    query, key, value = (x if x.stride()[1:] == (width, 1) else x.contiguous() for x in (query, key, value))
    context, boundaries = query.new_empty(query.shape), boundaries.int().contiguous()
    before, after = window or (longest, None)
    after = 0 if causal else longest if after is None else after
    places = [x.data_ptr() for x in (query, key, value, context, boundaries)]
    sizes = (len(boundaries) - 1, heads, width, query.shape[1] // heads, before, after, longest)
    job = PackedStruct(*places, *(x.stride(0) for x in (query, key, value)), *sizes, scale, 0)
    found.attend_packed(found.threads, torch.get_num_threads(), ctypes.addressof(job))
    return context


def attend_next(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    keep: Tensor | None,
    scale: float,
    rotation: tuple[Tensor, Tensor] | None = None,
    first: int = 0,
) -> Tensor:
    """Put (B, 1, G, K) keys and values into the last places of a cache (B, S, G, K); give softmax(q kᵀ · scale) v.

    Row b of the queries (B, 1, H, K) looks at the tokens from `first` on that keep (B, S) says, and at all without it.
    Cosines and sines (B or 1, 1, 1, K/2) turn queries and keys before.
    """
    found, width = kernels(), keys.shape[-1]
    assert found is not None
    query, key, value = (x if x.stride()[2:] == (width, 1) else x.contiguous() for x in (query, key, value))
    context = query.new_empty(query.shape)
    job, _kept = attention_struct(keys, values, query.shape[2], keep=keep, scale=scale, rotation=rotation, first=first)
    job.query, job.key, job.value, job.context = (x.data_ptr() for x in (query, key, value, context))
    job.query_stride, job.key_stride, job.value_stride = (x.stride(0) for x in (query, key, value))
    found.attend(found.threads, torch.get_num_threads(), ctypes.addressof(job))
    return context


def attention_struct(
    keys: Tensor,
    values: Tensor,
    heads: int,
    *,
    keep: Tensor | None,
    scale: float,
    rotation: tuple[Tensor, Tensor] | None,
    first: int,
) -> tuple[AttentionStruct, object]:
    """The attention of new tokens with so many heads over a cache, without the tokens; and what must live as long."""
    batch, length, key_heads, width = keys.shape
    assert keys.stride() == values.stride()
    assert keys.stride()[1:] == (key_heads * width, width, 1)
    assert keep is None or keep.stride(1) == 1
    cosine, sine = (None, None) if rotation is None else (x.contiguous() for x in rotation)
    places = [address(x) for x in (keys, values, keep, cosine, sine)]
    strides = (keys.stride(0), 0 if keep is None else keep.stride(0))
    turns = 0 if cosine is None or len(cosine) == 1 else cosine.stride(0)
    sizes = (batch, length, key_heads, width, heads // key_heads, first)
    return AttentionStruct(None, None, None, *places, None, 0, 0, 0, *strides, turns, *sizes, scale, 0, 0), (
        cosine,
        sine,
    )


def reorder_cache(keys: Tensor, values: Tensor, rows: Tensor, *, group_size: int, used: int) -> None:
    """Reorder the rows of a cache (N, B, L, H, K) within groups; a row may be taken twice, as far as it is used."""
    found, rows = kernels(), rows.contiguous()
    assert found is not None
    assert keys.is_contiguous()
    assert values.is_contiguous()
    layers, batch, _, heads, width = keys.shape
    places = (keys.data_ptr(), values.data_ptr(), rows.data_ptr())
    job = ReorderStruct(*places, layers, batch, group_size, used, heads * width, keys.stride(0), keys.stride(1), 0)
    found.reorder(found.threads, torch.get_num_threads(), ctypes.addressof(job))


def address(x: Tensor | None) -> int | None:
    return None if x is None else x.data_ptr()
