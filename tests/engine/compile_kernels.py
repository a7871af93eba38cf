"""Compiles the kernels for a Hopper GPU as decoders of three shapes launch them; no GPU is needed, and nothing is run.

The interpreter takes more than the compiler does. Prints how often each kernel was compiled.
"""

import sys
from collections import Counter

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import JITFunction
from triton.runtime.driver import driver

from glassformer.engine import kernels
from glassformer.engine.kernels import NormParameters, Past

HOPPER = {"early": True, "launch_pdl": True}
COMPILED: Counter[str] = Counter()


class NoGpu:
    """What the compiler asks of a driver."""

    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self):
        return 0

    def get_current_stream(self, device=None):
        return 0


def compiled(kernel, grid):
    """In place of a launch."""

    def launch(*args, **named):
        assert kernel.warmup(*args, grid=grid, **named).asm["cubin"]
        COMPILED[kernel.fn.__name__] += 1

    return launch


def zeros(*shape, dtype=torch.bfloat16):
    return torch.zeros(*shape, dtype=dtype)


def layer(width, inner, heads, key_heads, head_width, *, llama):
    """A layer of a Llama or a GPT-2, of one row and of many."""
    inputs, norm = zeros(1, 1, width), NormParameters(zeros(width), None if llama else zeros(width), 1e-6, not llama)
    outputs = (heads + 2 * key_heads) * head_width
    kernels.linear(inputs, zeros(outputs, width), None if llama else zeros(outputs), norm=norm)
    both = zeros(inner * (2 if llama else 1), width)
    kernels.linear(inputs, both, None, norm=norm, activation="silu" if llama else "tanh_gelu", gated=llama)
    kernels.linear(zeros(1, 1, inner), zeros(width, inner), None, added=inputs)
    kernels.gate(zeros(64, 1, 2 * inner), "silu")
    own, whole = NormParameters(zeros(head_width), None, 1e-6, False), torch.int32
    for batch in (1, 64):
        new = zeros(batch, 1, heads + 2 * key_heads, head_width).split([heads, key_heads, key_heads], -2)
        counts = zeros(1, dtype=torch.int64), zeros(batch, dtype=whole), zeros(batch * key_heads, dtype=whole)
        past = Past(*(zeros(batch, 320, key_heads, head_width) for _ in range(2)), *counts)
        angles = zeros(batch, 1, 1, head_width // 2, dtype=torch.float32)
        kernels.attend_next(*new, past, scale=0.1, rotation=(angles, angles) if llama else None)
        kernels.attend_next(*new, past, scale=0.1, norms=(own, own), before=99, bias=zeros(heads, 1, 320))


def main():
    driver.set_active(NoGpu())
    JITFunction.__getitem__ = compiled
    for name in ("attend", "best", "linear", "sample", "token"):  # functions have taken the place of most of them
        sys.modules[f"{kernels.__name__}.{name}"].early = lambda: HOPPER
    layer(2048, 8192, 32, 8, 64, llama=True)
    layer(1024, 3072, 16, 8, 128, llama=True)
    layer(1600, 6400, 25, 25, 64, llama=False)
    for asked in ({}, {"top_k": 50, "top_p": 0.9}, {"top_k": 1}, {"top_p": 0.9, "min_p": 0.1}):
        kernels.sample(zeros(2, 50304)[:, :50257], zeros(2, 50257, dtype=torch.float32), **asked)
        kernels.sample(zeros(64, 128256), zeros(64, 128256, dtype=torch.float32), **asked)
    for dtype in (torch.bfloat16, torch.float32):
        kernels.best(zeros(1, 151936, dtype=dtype))
    whole, score = zeros(64, dtype=torch.int64), zeros(64, dtype=torch.float32)
    known = {"token": whole, "running": zeros(64, dtype=torch.bool), "highest": score[0], "new": whole[:, None]}
    kernels.write_tokens(whole, score, ends=whole[:3], padding=1, **known)
    cache = zeros(2, 4, 8, 2, 16)
    kernels.reorder_cache(cache, cache, zeros(4, dtype=torch.int64), group_size=2, used=zeros(1, dtype=torch.int64))
    kernels.GpuDigest([zeros(100, dtype=torch.float32)])()
    print(dict(COMPILED))


if __name__ == "__main__":
    main()
