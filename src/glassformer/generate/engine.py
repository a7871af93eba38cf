"""The engine: a model made ready for decoding once, and kept as long as its weights stay what they are."""

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from glassformer.blocks.decode import Decoder
from glassformer.blocks.graphs import GraphDecoder
from glassformer.blocks.linear import joined
from glassformer.blocks.point import anyone_listens

from .memory import free_bytes

WORTH_A_GRAPH = 32  # tokens: recording a step takes about as long as taking so many without
LOOKED_AT = 64  # numbers of each weight


@dataclass(frozen=True)
class Ready:
    """A decoder, and what its model was like when it was made."""

    decoder: Decoder[Any]
    many: bool  # whether it was made for several rows at once
    marks: list[tuple[int, int]]
    sample: Tensor

    def is_of(self, model: nn.Module) -> bool:
        return self.marks == marks_of(model) and torch.equal(self.sample, sample_of(model))


_ready: WeakKeyDictionary[nn.Module, Ready] = WeakKeyDictionary()


def engine(model: Any, rows: int, tokens: int) -> Any:
    """The model, or what decodes faster and says the same; it will go on with `rows` sequences for `tokens` tokens.

    A model that learns, or to which somebody listens, is taken as it is.
    """
    if not hasattr(model, "decoder_layers") or _learns(model) or anyone_listens(model):
        return model
    on_gpu = next(model.parameters()).is_cuda
    kind = GraphDecoder if on_gpu and tokens >= WORTH_A_GRAPH else Decoder
    many = rows > 1 and not on_gpu
    known = _ready.get(model)
    if known is None or type(known.decoder) is not kind or (many and not known.many) or not known.is_of(model):
        _ready.pop(model, None)  # its memory first
        packed = many and _fits_twice(model)
        decoder: Decoder[Any] = kind(model, lambda linears: joined(linears, packed=packed))
        known = _ready[model] = Ready(decoder, many, marks_of(model), sample_of(model))
    return known.decoder


def marks_of(model: nn.Module) -> list[tuple[int, int]]:
    """What changes when a weight is replaced, or changed in its place."""
    return [(weight.data_ptr(), 0 if weight.is_inference() else weight._version) for weight in model.parameters()]


def sample_of(model: nn.Module) -> Tensor:
    """Some numbers of every weight: what is written through `.data` leaves no mark."""
    flat = [weight.detach().flatten() for weight in model.parameters()]
    return torch.cat([weight[:: max(1, len(weight) // LOOKED_AT)].float() for weight in flat])


def _learns(model: nn.Module) -> bool:
    return any(module.training for module in model.modules())


def _fits_twice(model: nn.Module) -> bool:
    """Whether there is memory for another copy of the weights, and as much again for everything else."""
    weights = list(model.parameters())
    free = free_bytes(weights[0].device)
    return free is None or 2 * sum(weight.nbytes for weight in weights) < free
