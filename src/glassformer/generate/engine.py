"""The engine: a model made ready for decoding once, and kept as long as its weights stay what they are."""

from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor, nn

from glassformer.blocks.decode import Decoder
from glassformer.blocks.graphs import GraphDecoder
from glassformer.blocks.linear import joined
from glassformer.blocks.point import anyone_listens

from .memory import free_bytes

WORTH_A_GRAPH = 32  # tokens: recording a step takes about as long as taking so many without
_ready: WeakKeyDictionary[nn.Module, tuple[object, Decoder[Any]]] = WeakKeyDictionary()


def engine(model: Any, rows: int, tokens: int) -> Any:
    """The model, or what decodes faster and says the same; it will go on with `rows` sequences for `tokens` tokens.

    A model that learns, or to which somebody listens, is taken as it is.
    """
    if not hasattr(model, "decoder_layers") or model.training or anyone_listens(model):
        return model
    on_gpu = next(model.parameters()).is_cuda
    packed = rows > 1 and not on_gpu and _fits_twice(model)
    kind = GraphDecoder if on_gpu and tokens >= WORTH_A_GRAPH else Decoder
    marks = (kind, packed, *map(_mark, model.parameters()))
    known = _ready.get(model)
    if known is None or known[0] != marks:
        known = marks, kind(model, lambda linears: joined(linears, packed=packed))
        _ready[model] = known
    return known[1]


def _mark(weight: Tensor) -> tuple[int, int]:
    """What changes when a weight does."""
    return weight.data_ptr(), 0 if weight.is_inference() else weight._version


def _fits_twice(model: nn.Module) -> bool:
    """Whether there is memory for another copy of the weights, and as much again for everything else."""
    weights = list(model.parameters())
    free = free_bytes(weights[0].device)
    return free is None or 2 * sum(weight.nbytes for weight in weights) < free
