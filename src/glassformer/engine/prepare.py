"""A model made ready for decoding or for reading once, and kept as long as its weights stay what they are."""

from dataclasses import dataclass
from functools import partial
from types import NoneType
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from glassformer.blocks.memory import free_bytes
from glassformer.blocks.point import any_global_hook, is_hooked
from glassformer.models.contract import GenerativeModel, Model, Stepper, as_model, has_attention_decoder

from . import native
from .decoder import PreparedDecoder
from .digest import Digest, digest_of
from .encoder import can_be_prepared, with_prepared_stacks
from .graphs import VOCAB_MULTIPLE, GraphDecoder
from .kernels import on_current_gpu
from .layers import MODULE_ATTRIBUTES
from .linear import Int8Linear, fuse_linears, memoized

PLAIN_VALUES = (int, float, str, tuple, NoneType)


@dataclass(frozen=True)
class Snapshot:
    """What a model was like at one moment."""

    structure: list[object]
    layouts: list[object]
    digests: Tensor
    digest: Digest

    @staticmethod
    def of(modules: list[nn.Module], weights: list[Tensor]) -> "Snapshot":
        digest = digest_of(weights)
        return Snapshot(structure_of(modules), layouts_of(weights), digest().clone(), digest)

    def matches(self, modules: list[nn.Module], weights: list[Tensor]) -> bool:
        same = self.structure == structure_of(modules) and self.layouts == layouts_of(weights)
        return same and torch.equal(self.digests, self.digest())


@dataclass(frozen=True)
class Prepared:
    """A decoder, and what its model was like when it was made."""

    decoder: PreparedDecoder | GraphDecoder
    many_rows: bool  # whether it was made for several rows at once
    model: Snapshot


_prepared: WeakKeyDictionary[Model, Prepared] = WeakKeyDictionary()
_readers: WeakKeyDictionary[Model, tuple[Model, Snapshot]] = WeakKeyDictionary()


def prepared(model: GenerativeModel[Any], rows: int) -> Stepper[Any]:
    """The model, or what decodes faster and gives the same; it will go on with `rows` sequences.

    A model that is training, has hooks, or is not a Transformer decoder is taken as it is.
    """
    modules = list(model.modules())
    weights = _weights(modules)
    device = weights[0].device
    if _is_busy(modules, device) or not has_attention_decoder(model):
        if model.training:
            _prepared.pop(model, None)  # what learns needs its memory, and is another model afterwards
        return model
    many_rows = device.type == "cpu" and rows > (native.SMALL_BATCH if native.kernels() else 1)
    known = _prepared.get(model)
    if known is None or (many_rows and not known.many_rows) or not known.model.matches(modules, weights):
        _prepared.pop(model, None)  # its memory first
        _prepack(modules)
        fuse = partial(fuse_linears, prepacked=many_rows and _fits_twice(weights))
        decoder: PreparedDecoder | GraphDecoder
        on_gpu = on_current_gpu(weights[0])
        plain = decoder = PreparedDecoder(model, fuse, vocab_multiple=VOCAB_MULTIPLE if on_gpu else 1)
        if on_gpu and plain.can_be_captured:
            decoder = GraphDecoder(plain, model.config.max_positions)
        known = Prepared(decoder, many_rows, Snapshot.of(modules, weights))
        _prepared[model] = known
    return known.decoder


def prepared_reader(model: Model) -> Model:
    """The model, or what reads many texts faster on a CPU and gives the same; for use without gradients or autocast.

    Whether the weights are still the same is asked once, here: they must not change until all is read. A model that is
    training, has hooks, writes, or has no layers of an encoder is taken as it is.
    """
    modules = list(model.modules())
    weights = _weights(modules)
    on_cpu = bool(weights) and weights[0].device.type == "cpu"
    suits = on_cpu and any(map(can_be_prepared, modules)) and not has_attention_decoder(model)
    if not suits or _is_busy(modules, weights[0].device):
        if model.training:
            _readers.pop(model, None)
        return model
    known = _readers.get(model)
    if known is None or not known[1].matches(modules, weights):
        _readers.pop(model, None)
        _prepack(modules)
        assert isinstance(model, nn.Module)
        fuse = memoized(partial(fuse_linears, prepacked=_fits_twice(weights)))
        reader = as_model(with_prepared_stacks(model, fuse))
        if reader is model:
            return model
        known = _readers[model] = reader, Snapshot.of(modules, weights)
    return known[0]


def _is_busy(modules: list[nn.Module], device: torch.device) -> bool:
    """Whether a model learns, is looked into, or runs in other numbers than its weights'."""
    looked_into = any(module.training or is_hooked(module) for module in modules) or any_global_hook()
    return looked_into or torch.is_autocast_enabled(device.type)


def _prepack(modules: list[nn.Module]) -> None:
    """The 8-bit layers' own layouts are of the weights before."""
    for module in modules:
        if isinstance(module, Int8Linear):
            module.prepack()


def structure_of(modules: list[nn.Module]) -> list[object]:
    """Which modules there are, what each holds, runs and was given: numbers by value, all else by identity."""
    found: list[object] = []
    for module in modules:
        held = (*module._modules.values(), *module._parameters.values(), *module._buffers.values())
        found += [id(module), type(module), type(module).forward, *map(id, held)]
        for name, value in vars(module).items():
            if name not in MODULE_ATTRIBUTES:
                found += [name, value if isinstance(value, PLAIN_VALUES) else id(value)]
    return found


def layouts_of(weights: list[Tensor]) -> list[object]:
    """Where the weights lie and how they are read, which changes when one is replaced or seen in another way."""
    return [(weight.data_ptr(), weight.dtype, weight.shape, weight.stride()) for weight in weights]


def _weights(modules: list[nn.Module]) -> list[Tensor]:
    """Parameters and buffers, each once, and without their names, which take longer than a token."""
    kept = (part for module in modules for part in (*module._parameters.values(), *module._buffers.values()))
    return list({id(weight): weight for weight in kept if weight is not None}.values())


def _fits_twice(weights: list[Tensor]) -> bool:
    """Whether there is memory for another copy of the weights, and as much again for everything else."""
    return 2 * sum(weight.nbytes for weight in weights) < free_bytes(weights[0].device)
