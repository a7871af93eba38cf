"""Kernels for few rows on a CPU: native.c, compiled where a C compiler is found, once for each machine.

B batch, L room, H heads, K head width, D width in, E width out. They run on torch's own threads.
"""

import ctypes
import hashlib
import logging
import os
import platform
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from ctypes import c_float, c_long, c_uint, c_void_p
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .linear import STEPS, Eight, Packed, Plain, Project

LOG = logging.getLogger("glassformer")
FEW = 8  # rows: more are left to the libraries' matrix products
SOURCE = Path(__file__).with_name("native.c")
SAFE = ("-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-fassociative-math")  # sums in any order
WIDE = {"x86_64": ["-mprefer-vector-width=512"]}


Fields = list[tuple[str, "type[ctypes._SimpleCData[Any]]"]]


def fields(pointers: str, numbers: str = "") -> Fields:
    """The first of a struct's fields, as their names say."""
    return [(name, c_void_p) for name in pointers.split()] + [(name, c_long) for name in numbers.split()]


class Linear(ctypes.Structure):
    _fields_ = fields("weight rounded scale centre bias", "inputs outputs")


class Norm(ctypes.Structure):
    _fields_ = [*fields("weight bias"), ("eps", c_float)]


class Attention(ctypes.Structure):
    _fields_ = [
        *fields(
            "query key value keys values keep mixed",
            "query_stride key_stride value_stride cache_stride keep_stride batch length heads width",
        ),
        ("scale", c_float),
        *fields("", "next together"),
    ]


class Kernels(NamedTuple):
    linear: Callable[..., None]
    attend: Callable[..., None]
    threads: int  # where the function is that runs another on several of torch's threads


@cache
def kernels() -> Kernels | None:
    """None where there is no compiler, or torch has other threads than OpenMP's."""
    try:
        torch_library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        threads = ctypes.cast(torch_library.GOMP_parallel, c_void_p).value
        library = ctypes.CDLL(str(built()))
        linear, attend = library.glassformer_linear, library.glassformer_attend
    except (OSError, AttributeError, subprocess.SubprocessError) as error:
        LOG.info("decoding without kernels of our own: %s", error)
        return None
    linear.argtypes, linear.restype = [c_void_p, c_uint, *[c_void_p] * 5, c_long], None
    attend.argtypes, attend.restype = [c_void_p, c_uint, c_void_p], None
    return Kernels(linear, attend, threads or 0)


def built() -> Path:
    """The library for this processor, compiled if it is not there yet."""
    flags = ["-O3", "-march=native", *WIDE.get(platform.machine(), []), *SAFE, f"-DSTEPS={STEPS}", "-shared", "-fPIC"]
    command = [*shlex.split(os.environ.get("CC") or "cc"), *flags]
    name = hashlib.sha256(repr((SOURCE.read_text(), command, processor())).encode()).hexdigest()[:24]
    folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "glassformer" / "native"
    target = folder / f"{name}.so"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as made:
            fresh = f"{made}/native.so"
            check = [sys.executable, "-ISc", "import ctypes, sys; ctypes.CDLL(sys.argv[1]).glassformer_check()", fresh]
            for line in ([*command, str(SOURCE), "-o", fresh, "-lm"], check):
                subprocess.run(line, check=True, capture_output=True, timeout=120)
            os.replace(fresh, target)
    return target


def processor() -> str:
    """What tells apart the processors that share a folder of libraries."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))}))


def takes(x: Tensor, rows: int) -> bool:
    """Whether there are few rows, and nobody wants to learn from them."""
    return rows <= FEW and ordinary(x) and not torch.is_grad_enabled() and kernels() is not None


def ordinary(x: Tensor) -> bool:
    return x.dtype == torch.float32 and x.device.type == "cpu"


class Few:
    """A linear layer in 32 or 8 bits, with what stands around it, for few rows."""

    def __init__(self, weight: Tensor, bias: Tensor | None, scale: Tensor | None = None) -> None:
        self.outputs, self.inputs = weight.shape
        if scale is None:
            parts = [weight, None, None, None, bias]
        else:
            parts = [None, weight, scale, (weight.sum(1) * (STEPS + 1)).int(), bias]
        self.kept = [None if part is None else part.contiguous() for part in parts]
        self.struct = Linear(*map(address, self.kept), self.inputs, self.outputs)

    @staticmethod
    def of(project: Project) -> "Few | None":
        """For layers of these kinds, where there are kernels."""
        project = project.plain if isinstance(project, Packed) else project
        if isinstance(project, Eight) and kernels() is not None:
            return Few(project.linear.weight, project.linear.bias, project.linear.scale)
        if isinstance(project, Plain) and ordinary(project.weight) and kernels() is not None:
            return Few(project.weight, project.bias)
        return None

    def __call__(self, x: Tensor, *, norm: Norm | None, added: Tensor | None) -> Tensor:
        """added + linear(norm(x)) for (…, D)"""
        found, x = kernels(), x.contiguous()
        assert found is not None
        y = x.new_empty(*x.shape[:-1], self.outputs)
        around = None if norm is None else ctypes.addressof(norm)
        more = None if added is None else added.expand_as(y).contiguous()
        places = (ctypes.addressof(self.struct), around, x.data_ptr(), address(more), y.data_ptr())
        found.linear(found.threads, torch.get_num_threads(), *places, x.numel() // self.inputs)
        return y


def attend_next(
    query: Tensor, key: Tensor, value: Tensor, keys: Tensor, values: Tensor, *, keep: Tensor | None, scale: float
) -> Tensor:
    """Put (B, 1, H, K) keys and values into the last places of a cache (B, S, H, K); give softmax(q kᵀ · scale) v.

    Row b looks at the tokens that keep (B, S) says, and at all without it.
    """
    found = kernels()
    assert found is not None
    batch, length, heads, width = keys.shape
    query, key, value = (x if x.stride(2) == width else x.contiguous() for x in (query, key, value))
    mixed = query.new_empty(query.shape)
    places = [address(x) for x in (query, key, value, keys, values, keep, mixed)]
    strides = [x.stride(0) for x in (query, key, value, keys)] + [0 if keep is None else keep.stride(0)]
    job = Attention(*places, *strides, batch, length, heads, width, scale, 0, 0)
    found.attend(found.threads, torch.get_num_threads(), ctypes.addressof(job))
    return mixed


def address(x: Tensor | None) -> int | None:
    return None if x is None else x.data_ptr()
