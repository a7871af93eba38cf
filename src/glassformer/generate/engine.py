"""The engine: a model made ready for decoding once, and kept as long as its weights stay what they are."""

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from glassformer.blocks.decode import Decoder, is_plain
from glassformer.blocks.graphs import GraphDecoder
from glassformer.blocks.linear import joined
from glassformer.blocks.point import anyone_listens

from .memory import free_bytes

WORTH_A_GRAPH = 32  # tokens: recording a step takes about as long as taking so many without


@dataclass(frozen=True)
class Ready:
    """A decoder, and what its model was like when it was made."""

    decoder: Decoder[Any]
    many: bool  # whether it was made for several rows at once
    places: list[int]
    sums: Tensor

    def is_of(self, model: nn.Module) -> bool:
        return self.places == places_of(model) and torch.equal(self.sums, sums_of(model))


_ready: WeakKeyDictionary[nn.Module, Ready] = WeakKeyDictionary()


def engine(model: Any, rows: int, tokens: int) -> Any:
    """The model, or what decodes faster and says the same; it will go on with `rows` sequences for `tokens` tokens.

    A model that learns, to which somebody listens, or with parts of somebody's own, is taken as it is.
    """
    device = next(model.parameters()).device
    if not _as_written(model) or anyone_listens(model) or torch.is_autocast_enabled(device.type):
        return model
    graph, many = device.type == "cuda" and tokens >= WORTH_A_GRAPH, rows > 1 and device.type == "cpu"
    known = _ready.get(model)
    less = known is None or (graph and not isinstance(known.decoder, GraphDecoder)) or (many and not known.many)
    if known is None or less or not known.is_of(model):
        _ready.pop(model, None)  # its memory first
        packed = many and _fits_twice(model)
        kind = GraphDecoder if graph else Decoder
        decoder: Decoder[Any] = kind(model, lambda linears: joined(linears, packed=packed))
        known = _ready[model] = Ready(decoder, many, places_of(model), sums_of(model))
    return known.decoder


def places_of(model: nn.Module) -> list[int]:
    """Where the weights lie, which changes when one is replaced."""
    return [weight.data_ptr() for weight in _weights(model)]


def sums_of(model: nn.Module) -> Tensor:
    """What changes with the weights, at the price of one token: torch's own marks miss fused optimisers and `.data`."""
    return torch.stack([weight.detach().sum().float() for weight in _weights(model) if weight.is_floating_point()])


def _weights(model: nn.Module) -> list[Tensor]:
    return [*model.parameters(), *model.buffers()]


def _as_written(model: Any) -> bool:
    """Whether a model is at rest, and its decoder made of the layers that the engine knows."""
    at_rest = not any(module.training for module in model.modules())
    return at_rest and hasattr(model, "decoder_layers") and all(map(is_plain, model.decoder_layers))


def _fits_twice(model: nn.Module) -> bool:
    """Whether there is memory for another copy of the weights, and as much again for everything else."""
    weights = list(model.parameters())
    free = free_bytes(weights[0].device)
    return free is None or 2 * sum(weight.nbytes for weight in weights) < free
