"""The engine: a model made ready for decoding once, and kept as long as its weights stay what they are."""

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from glassformer.blocks import native
from glassformer.blocks.decode import Decoder, is_plain
from glassformer.blocks.digest import Digest, digest_of
from glassformer.blocks.graphs import GraphDecoder
from glassformer.blocks.kernels import on_current_gpu
from glassformer.blocks.linear import joined
from glassformer.blocks.point import hooked

from .memory import free_bytes


@dataclass(frozen=True)
class Ready:
    """A decoder, and what its model was like when it was made."""

    decoder: Decoder[Any]
    many: bool  # whether it was made for several rows at once
    places: list[int]
    digests: Tensor
    digest: Digest

    def is_of(self, weights: list[Tensor]) -> bool:
        return self.places == places_of(weights) and torch.equal(self.digests, self.digest())


_ready: WeakKeyDictionary[nn.Module, Ready] = WeakKeyDictionary()


def engine(model: Any, rows: int) -> Any:
    """The model, or what decodes faster and says the same; it will go on with `rows` sequences.

    A model that learns, to which somebody listens, or with parts of somebody's own, is taken as it is.
    """
    device, modules = next(model.parameters()).device, list(model.modules())
    if not _as_written(model, modules) or any(map(hooked, modules)) or torch.is_autocast_enabled(device.type):
        return model
    many, weights = device.type == "cpu" and rows > (native.FEW if native.kernels() else 1), _weights(modules)
    known = _ready.get(model)
    if known is None or (many and not known.many) or not known.is_of(weights):
        _ready.pop(model, None)  # its memory first
        packed = many and _fits_twice(weights)
        kind = GraphDecoder if on_current_gpu(weights[0]) else Decoder
        decoder: Decoder[Any] = kind(model, lambda linears: joined(linears, packed=packed))
        digest = digest_of(weights)
        known = _ready[model] = Ready(decoder, many, places_of(weights), digest().clone(), digest)
    return known.decoder


def places_of(weights: list[Tensor]) -> list[int]:
    """Where the weights lie, which changes when one is replaced."""
    return [weight.data_ptr() for weight in weights]


def _weights(modules: list[nn.Module]) -> list[Tensor]:
    """Parameters and buffers, each once, and without their names, which take longer than a token."""
    kept = (part for module in modules for part in (*module._parameters.values(), *module._buffers.values()))
    return list({id(weight): weight for weight in kept if weight is not None}.values())


def _as_written(model: Any, modules: list[nn.Module]) -> bool:
    """Whether a model is at rest, and its decoder made of the layers that the engine knows."""
    at_rest = not any(module.training for module in modules)
    return at_rest and hasattr(model, "decoder_layers") and all(map(is_plain, model.decoder_layers))


def _fits_twice(weights: list[Tensor]) -> bool:
    """Whether there is memory for another copy of the weights, and as much again for everything else."""
    free = free_bytes(weights[0].device)
    return free is None or 2 * sum(weight.nbytes for weight in weights) < free
