"""The layers of a decoder for the next token of few rows on a CPU: one call of stack.c.

B batch, D model width.
"""

import ctypes
from collections.abc import Sequence
from ctypes import c_float, c_void_p

import torch
from torch import Tensor

from glassformer.blocks.batch_masks import DenseMask
from glassformer.blocks.decoder import DecodesLayer, Norms
from glassformer.blocks.rotary import Rotary

from . import native
from .cache import PreparedCache
from .layers import PreparedFeedForward, PreparedLayer, PreparedSelfAttention
from .linear import FusedLinear, PreparedNorm

ACTIVATIONS = ("relu", "gelu", "tanh_gelu", "silu")  # as stack.c counts them
NO_WINDOW = 2**62


class LayerStruct(ctypes.Structure):
    _fields_ = [
        *native.fields(
            "project output up down attention_norm feed_forward_norm query_norm key_norm",
            "pre_norm gated activation before rotary",
        ),
        ("scale", c_float),
    ]


class StackStruct(ctypes.Structure):
    _fields_ = native.fields("layers final_norm x y cosines sines attention", "count stride")


class StackKernel:
    """final_norm(layers(x)) for one new token of each row."""

    def __init__(self, layers: Sequence[PreparedLayer], final_norm: PreparedNorm | None) -> None:
        """Of layers that `known` takes."""
        self.rotaries: list[Rotary] = []
        self.kept = (layers, final_norm)  # whose memory the structs point to
        self.layers = (LayerStruct * len(layers))(*map(self.struct, layers))
        self.final_norm = None if final_norm is None else ctypes.addressof(final_norm.struct)  # type: ignore[arg-type]
        attention = layers[0].attention
        assert isinstance(attention, PreparedSelfAttention)
        self.heads = attention.sizes[0]

    @staticmethod
    def of(layers: Sequence[DecodesLayer], final_norm: Norms | None) -> "StackKernel | None":
        """None where a part is of a kind that the kernels do not know, or there are no kernels."""
        prepared = [layer for layer in layers if isinstance(layer, PreparedLayer) and known(layer)]
        if native.kernels() is None or len(prepared) < max(1, len(layers)) or not known_norm(final_norm):
            return None
        assert final_norm is None or isinstance(final_norm, PreparedNorm)
        attentions = [layer.attention for layer in prepared if isinstance(layer.attention, PreparedSelfAttention)]
        shapes = {(attention.sizes, attention.head_width) for attention in attentions}
        return StackKernel(prepared, final_norm) if len(shapes) == 1 else None

    def struct(self, layer: PreparedLayer) -> LayerStruct:
        attention, block = layer.attention, layer.feed_forward
        assert isinstance(attention, PreparedSelfAttention)
        assert isinstance(block, PreparedFeedForward)
        linears = [linear.small for linear in linears_of(attention, block)]
        structs = [norm.struct if isinstance(norm, PreparedNorm) else None for norm in norms_of(layer, attention)]
        parts = [*(None if linear is None else linear.struct for linear in linears), *structs]
        rotary, window = attention.transform.rotary, attention.options.window
        if rotary is not None and rotary not in self.rotaries:
            self.rotaries.append(rotary)
        assert block.up.name is not None
        return LayerStruct(
            *(None if part is None else ctypes.addressof(part) for part in parts),
            layer.pre_norm,
            block.up.gated,
            ACTIVATIONS.index(block.up.name),
            NO_WINDOW if window is None else window.before,
            -1 if rotary is None else self.rotaries.index(rotary),
            attention.options.scale,
        )

    def takes(self, ids: Tensor, cache: PreparedCache) -> bool:
        """Whether these new tokens (B, T) are one of each row, of few rows."""
        return ids.shape[1] == 1 and len(ids) <= native.SMALL_BATCH and native.takes(cache.keys, cache.values)

    def __call__(self, x: Tensor, cache: PreparedCache, mask: DenseMask) -> Tensor:
        """(B, 1, D) -> (B, 1, D); the caller advances the cache."""
        found, x = native.kernels(), x.contiguous()
        assert found is not None
        y = torch.empty_like(x)
        keys, values = (half[0, :, : cache.used + 1] for half in (cache.keys, cache.values))
        keep = None if mask.dense is None else mask.dense[:, 0, 0]
        turns = [[part.contiguous() for part in mask.rotation(rotary)] for rotary in self.rotaries]
        first = (turns[0][0], turns[0][1]) if turns else None
        attention, _kept = native.attention_struct(
            keys, values, self.heads, keep=keep, scale=1.0, rotation=first, first=0
        )
        cosines, sines = ((c_void_p * len(turns))(*(pair[side].data_ptr() for pair in turns)) for side in (0, 1))
        job = StackStruct(
            ctypes.addressof(self.layers),
            self.final_norm,
            x.data_ptr(),
            y.data_ptr(),
            ctypes.addressof(cosines),
            ctypes.addressof(sines),
            ctypes.addressof(attention),
            len(self.layers),
            cache.keys.stride(0),
        )
        found.stack(found.threads, torch.get_num_threads(), ctypes.addressof(job))
        return y


def known(layer: PreparedLayer) -> bool:
    """Whether there is a kernel for every part of a layer, and it reads no source."""
    attention, block = layer.attention, layer.feed_forward
    if not isinstance(attention, PreparedSelfAttention) or not isinstance(block, PreparedFeedForward):
        return False
    linears, norms, options = linears_of(attention, block), norms_of(layer, attention), attention.options
    looks_back = options.bias is None and (options.window is None or options.window.after is None)
    parts = all(linear.small is not None for linear in linears) and all(map(known_norm, norms))
    return parts and looks_back and block.up.name in ACTIVATIONS and not layer.reads_source


def linears_of(attention: PreparedSelfAttention, block: PreparedFeedForward) -> tuple[FusedLinear, ...]:
    """As stack.c has them in order."""
    return attention.project, attention.output, block.up, block.down


def norms_of(layer: PreparedLayer, attention: PreparedSelfAttention) -> tuple[Norms | None, ...]:
    """As stack.c has them in order."""
    transform = attention.transform
    return layer.attention_norm, layer.feed_forward_norm, transform.query_norm, transform.key_norm


def known_norm(norm: Norms | None) -> bool:
    return norm is None or (isinstance(norm, PreparedNorm) and norm.struct is not None)
