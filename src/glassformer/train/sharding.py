"""FSDP: each process holds a shard of weights, gradients and optimiser state; layers are gathered as they are run."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard
from torch.distributed.tensor import DTensor, Placement, distribute_tensor
from torch.optim import Optimizer
from torch.utils import swap_tensors

from glassformer.blocks.point import ignore_hooks
from glassformer.blocks.transformer import Layer, Stack

from . import checkpoint
from .deferred import Deferred
from .optimiser import Combined
from .processes import Processes
from .sharded_checkpoint import Where, Writing, mapped, read

REPLICATE, SHARD, TENSOR = "replicate", "shard", "tensor"  # the dimensions of a mesh


class Sharded:
    """A Layout: the model's parameters are shards (DTensors) from now on, as part of `objective`, which calls it.

    Of a model that has no values yet each process takes its shards of `values`, one tensor after another.

    Layers in a row are joined to units until these have `min_num_params`; a unit is gathered before it is run and, with
    `reshard`, freed after it. All that is outside the layers belongs to the objective. Refused: LayerDrop, because
    every process must run every layer.
    """

    def __init__(
        self,
        model: nn.Module,
        objective: nn.Module,
        mesh: DeviceMesh,
        data: Processes,
        *,
        compute_dtype: torch.dtype | None = None,
        min_num_params: int = 0,
        reshard: bool = True,
        offload: bool = False,
        values: Deferred | None = None,
    ) -> None:
        if any(isinstance(module, Stack) and module.layerdrop for module in model.modules()):
            raise ValueError(
                "with shards every process runs every layer: set layerdrop to 0, or take ddp without tensor_parallel"
            )
        self.model, self.objective, self.data = model, objective, data
        whole = dict(model.named_parameters())
        self.device = next(iter(whole.values())).device if values is None else values.device
        if values is not None:
            values.fill_buffers(model)
        self._plain = _hollow_copy(model, self.device)
        names = mesh.mesh_dim_names or ()
        if TENSOR in names:
            from .tensor_parallel import parallelise

            parallelise(model, mesh[TENSOR])
            logging.getLogger("torch.distributed.tensor._redistribute").setLevel(logging.ERROR)  # of two meshes' order
        settings: dict[str, Any] = {
            "mesh": mesh[tuple(name for name in names if name != TENSOR)],
            "reshard_after_forward": reshard,
            "mp_policy": MixedPrecisionPolicy(param_dtype=compute_dtype, reduce_dtype=torch.float32),
            "offload_policy": CPUOffloadPolicy() if offload else OffloadPolicy(),
        }
        for unit in units_of(model, min_num_params):
            fully_shard(unit, **settings)
            for layer in unit:
                ignore_hooks(layer)
        # What is outside the layers is wanted again at once, on the way back; labels and weights are not rounded.
        policy = replace(settings["mp_policy"], cast_forward_inputs=False)
        fully_shard(objective, **settings | {"reshard_after_forward": False, "mp_policy": policy})
        if values is not None:
            _take_shards(model, whole, values, torch.device("cpu") if offload else self.device)
        self._writers = dist.new_group(backend="gloo")  # talk to each other while training does
        self._writing: Writing | None = None

    @contextmanager
    def no_sync(self, *, last: bool) -> Iterator[None]:
        """Gradients are exchanged once for each batch, with its last micro-batch; until then each keeps whole ones."""
        self.objective.set_requires_gradient_sync(last)  # type: ignore[operator]
        yield

    @contextmanager
    def whole(self, *, everywhere: bool = True) -> Iterator[nn.Module]:
        """A copy without hooks, so that processes may run it as often as each has texts. Its weights are freed at the
        end; those that are only to be saved are gathered one by one, in the memory of the main process's CPU.
        """
        own = dict(self.model.named_parameters())
        try:
            for name, tensor in self._plain.named_parameters():
                gathered = _whole(own[name].detach())
                if everywhere:
                    tensor.data = gathered.to(self.device)
                elif dist.get_rank() == 0:
                    tensor.data = gathered.cpu()
            for mine, its in zip(self.model.buffers(), self._plain.buffers(), strict=True):
                its.copy_(mine)
            yield self._plain
        finally:
            for tensor in self._plain.parameters():
                tensor.data = tensor.data.new_empty(0)

    def clip(self, limit: float) -> Tensor:
        """Of each kind of shards the squares of what this process holds are summed over those that hold the rest."""
        kinds: dict[tuple[DeviceMesh, tuple[Placement, ...]], list[Tensor]] = {}
        for tensor in self.objective.parameters():
            if tensor.grad is not None:
                assert isinstance(tensor.grad, DTensor)
                kind = tensor.grad.device_mesh, tensor.grad.placements
                kinds.setdefault(kind, []).append(tensor.grad.to_local())
        squares = [_summed(nn.utils.get_total_norm(shards).square(), *kind) for kind, shards in kinds.items()]
        norm = torch.stack(squares).sum().sqrt()
        scale = (limit / (norm + 1e-6)).clamp(max=1.0)
        for shards in kinds.values():
            torch._foreach_mul_(shards, scale)
        return norm

    def gather(self, value: Any) -> Any:
        return mapped(value, lambda _, one: _whole(one))

    def save(self, folder: Path, step: int, state: dict[str, Any], *, kind: checkpoint.Kind, keep: int) -> None:
        self.settle(wait=True)
        path = checkpoint.path_of(folder, step, kind, checkpoint.SHARDS)
        then = partial(checkpoint.remove_older, folder, path, keep=keep)
        self._writing = Writing(path, state, self._writers, then=then)
        if kind == checkpoint.BETWEEN:  # the run ends with it
            self.settle(wait=True)

    def settle(self, *, wait: bool) -> None:
        if self._writing is not None and self._writing.settle(wait=wait):
            self._writing = None

    def load(self, path: Path, optimiser: Optimizer) -> dict[str, Any]:
        """Each process reads its shards, if there are any in the checkpoint."""
        like = partial(_owner, dict(self.model.named_parameters(remove_duplicate=False)), optimiser)
        if path.is_dir():
            return read(path, like)
        state: dict[str, Any] = mapped(checkpoint.load(path), lambda where, value: _shard_like(value, like(where)))
        return state


def _owner(parameters: Mapping[str, Tensor], optimiser: Optimizer, where: Where) -> Tensor | None:
    """The parameter that a value of a checkpoint belongs to."""
    match where:
        case ("model", str(name)) | ("ema", "weights", str(name)):
            return parameters.get(name)
        case ("optimiser", "parts", int(part), "state", int(number), _):
            assert isinstance(optimiser, Combined)
            return _trained(optimiser.parts[part])[number]
        case ("optimiser", "state", int(number), _):
            return _trained(optimiser)[number]
    return None


def _trained(optimiser: Optimizer) -> list[Tensor]:
    return [tensor for group in optimiser.param_groups for tensor in group["params"]]


class FsdpUnit(NamedTuple):
    """Layers that are gathered together."""

    stack: str  # where they stand: encoder.layers
    layers: list[nn.Module]
    parameters: set[nn.Parameter]

    def joined(self, other: "FsdpUnit") -> "FsdpUnit":
        return FsdpUnit(other.stack, self.layers + other.layers, self.parameters | other.parameters)


def units_of(model: nn.Module, min_num_params: int = 0) -> list[list[nn.Module]]:
    """The layers of a model, as they are gathered: those that share a parameter together, and those of one stack that
    follow each other until they have so many parameters, since a call costs more than to keep a small layer."""
    units: list[FsdpUnit] = []
    for name, layer in model.named_modules():
        if isinstance(layer, Layer):
            unit = FsdpUnit(name.rpartition(".")[0], [layer], set(layer.parameters()))
            for other in [one for one in units if one.parameters & unit.parameters]:
                units.remove(other)
                unit = other.joined(unit)
            units.append(unit)
    rows: list[FsdpUnit] = []
    for unit in units:
        last = rows[-1] if rows else None
        if last and last.stack == unit.stack and sum(one.numel() for one in last.parameters) < min_num_params:
            rows[-1] = last.joined(unit)
        else:
            rows.append(unit)
    return [unit.layers for unit in rows]


def mesh_of(device: torch.device, shard_size: int, tensor_size: int = 1) -> DeviceMesh:
    """All processes: `tensor_size` in a row compute one model together, and `shard_size` such rows hold it once."""
    groups = dist.get_world_size() // (shard_size * tensor_size)
    sizes = {REPLICATE: groups, SHARD: shard_size, TENSOR: tensor_size}
    kept = {name: size for name, size in sizes.items() if size > 1 or name == SHARD}
    return init_device_mesh(device.type, (*kept.values(),), mesh_dim_names=(*kept,))


def _summed(value: Tensor, mesh: DeviceMesh, placements: tuple[Placement, ...]) -> Tensor:
    """A number of each process, summed over those that hold other shards of tensors that lie so."""
    for dimension, placement in enumerate(placements):
        assert not placement.is_partial()
        if not placement.is_replicate():
            dist.all_reduce(value, group=mesh.get_group(dimension))
    return value


def _whole(value: Any) -> Any:
    return value.full_tensor() if isinstance(value, DTensor) else value


def _shard_like(whole: Any, like: Tensor | None) -> Any:
    """This process's shard of a tensor that all have, laid out as another; what is no such tensor, as it is."""
    if not isinstance(like, DTensor) or not isinstance(whole, Tensor) or whole.shape != like.shape:
        return whole
    return distribute_tensor(whole.to(like.device), like.device_mesh, like.placements, src_data_rank=None)


@torch.no_grad()
def _take_shards(model: nn.Module, whole: Mapping[str, Tensor], values: Deferred, device: torch.device) -> None:
    """Give shards their values. Of what is drawn one tensor is whole at a time, the largest first, while little else is
    there; of a file each process reads its part."""
    for name, shard in sorted(model.named_parameters(), key=lambda one: -one[1].numel()):
        filled = torch.empty_like(shard, device=device)
        assert isinstance(shard, DTensor)
        assert isinstance(filled, DTensor)
        (mine,) = shard.__create_chunk_list__()  # type: ignore[no-untyped-call]  # as checkpoints ask for it
        rows = tuple(slice(begin, begin + size) for begin, size in zip(mine.offsets, mine.sizes, strict=True))
        filled.to_local().copy_(values.value(whole[name])[rows])
        swap_tensors(shard, nn.Parameter(filled, shard.requires_grad))  # which others are tied to, and FSDP knows


def _hollow_copy(model: nn.Module, device: torch.device) -> nn.Module:
    """A copy whose parameters are empty, and tied as the model's are."""
    empty = {
        id(one): nn.Parameter(torch.empty(0, dtype=one.dtype, device=device), requires_grad=one.requires_grad)
        for one in model.parameters()
    }
    return deepcopy(model, empty)
