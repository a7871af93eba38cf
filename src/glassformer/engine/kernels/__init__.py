"""Kernels for GPUs, one launch each; a plain version elsewhere says what each computes, and serves without Triton.

They are compiled when first called: to import Triton takes a second, and only a GPU needs it.
"""

from .attend import Past, attend_next
from .best import best
from .digest import GpuDigest
from .launch import available, on_current_gpu
from .linear import ACTIVATIONS, NormParameters, Tiling, gate, linear, takes
from .reorder import reorder_cache
from .sample import sample
from .token import write_tokens

__all__ = [
    "ACTIVATIONS",
    "GpuDigest",
    "NormParameters",
    "Past",
    "Tiling",
    "attend_next",
    "available",
    "best",
    "gate",
    "linear",
    "on_current_gpu",
    "reorder_cache",
    "sample",
    "takes",
    "write_tokens",
]
