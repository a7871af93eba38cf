"""Where a model's weights are while it is trained: whole on every process (DDP), or in shards over them (FSDP)."""

import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from glassformer.blocks.transformer import Stack
from glassformer.models.contract import as_model
from glassformer.tasks.batch import Batch, Carried
from glassformer.tasks.task import AnyTask

from . import checkpoint
from .deferred import Deferred
from .plan import Plan
from .processes import Processes

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Objective(nn.Module):
    """A model and what is asked of it: (batch, carried state) -> (summed loss, state carried to the next batch)."""

    def __init__(self, model: nn.Module, task: AnyTask) -> None:
        super().__init__()
        self.model = model
        self.task = task

    def forward(self, batch: Batch, carried: Carried) -> tuple[Tensor, Carried]:
        return self.task.carried_loss(as_model(self.model), batch, carried)


class Layout(Protocol):
    """What the loop asks of weights, wherever they are. States are of whole tensors: they fit any layout."""

    device: torch.device
    """Where it computes."""
    objective: nn.Module
    """The objective to call; the gradients of its backward pass are averaged over `data`."""
    data: Processes
    """The processes that have a share of each batch: all, or one of each group that has the same examples."""

    def no_sync(self, *, last: bool) -> AbstractContextManager[None]:
        """Gradients are exchanged once for each batch, with its last micro-batch."""
        ...

    def whole(self, *, everywhere: bool = True) -> AbstractContextManager[nn.Module]:
        """The model with all of its weights, to score, to write with and to save; all processes ask for it.

        Without `everywhere` only the main process needs it, on whatever device: it is only to be saved.
        """
        ...

    def clip(self, limit: float) -> Tensor:
        """Scale the gradients down to this norm where theirs is larger; the norm that they had."""
        ...

    def gather(self, value: Any) -> Any:
        """A tensor, or nested dicts and lists of them, whole; all processes ask for it."""
        ...

    def save(self, folder: Path, step: int, state: dict[str, Any], *, kind: checkpoint.Kind, keep: int) -> None:
        """Write a checkpoint of a run, as `checkpoint.save`; all processes call it, and training may go on at once."""
        ...

    def settle(self, *, wait: bool) -> None:
        """Put in its place what `save` is still writing, if it is done; with `wait`, when it is."""
        ...

    def load(self, path: Path, optimiser: Optimizer) -> dict[str, Any]:
        """The state of a checkpoint that any layout has written, its tensors laid out as this one's are."""
        ...


class Replicated:
    """The whole model on every process: alone, or under DDP, which averages gradients as they come."""

    def __init__(
        self, model: nn.Module, objective: nn.Module, processes: Processes, data: Processes | None = None
    ) -> None:
        """`data`: those with a share of each batch, where that is not all of them."""
        self.model, self.objective, self._alone = model, objective, processes.world_size == 1
        self.data = data or processes
        self._is_main = processes.is_main
        self.device = next(model.parameters()).device
        if not self._alone:
            drops = any(isinstance(module, Stack) and module.layerdrop for module in model.modules())
            self.objective = nn.parallel.DistributedDataParallel(objective, find_unused_parameters=drops)

    def no_sync(self, *, last: bool) -> AbstractContextManager[None]:
        if self._alone or last:
            return nullcontext()
        return self.objective.no_sync()  # type: ignore[operator, no-any-return]

    def whole(self, *, everywhere: bool = True) -> AbstractContextManager[nn.Module]:
        del everywhere
        return nullcontext(self.model)

    def clip(self, limit: float) -> Tensor:
        return nn.utils.clip_grad_norm_(self.model.parameters(), limit)

    def gather(self, value: Any) -> Any:
        return value

    def save(self, folder: Path, step: int, state: dict[str, Any], *, kind: checkpoint.Kind, keep: int) -> None:
        if self._is_main:
            checkpoint.save(folder, step, state, kind=kind, keep=keep)

    def settle(self, *, wait: bool) -> None:
        del wait

    def load(self, path: Path, optimiser: Optimizer) -> dict[str, Any]:
        del optimiser
        return checkpoint.load(path)


def is_dealt_out(parallel: str = Plan.parallel, tensor_parallel: int = Plan.tensor_parallel) -> bool:
    """Whether no process holds all weights of a run of these settings.

    A run that was sharded and is resumed without torchrun is one process that holds it all.
    """
    return dist.is_initialized() and (parallel != "ddp" or tensor_parallel > 1)


def lay_out(
    model: nn.Module, task: AnyTask, plan: Plan, processes: Processes, values: Deferred | None = None
) -> Layout:
    """Put a model where the plan says; before its optimiser is built, since its parameters may be others then.

    `values` are those of a model that is to be dealt out and was built without them.
    """
    if not dist.is_initialized():
        return Replicated(model, Objective(model, task), processes)
    device = next(model.parameters()).device if values is None else values.device
    objective = _objective(model, task, plan, processes, device)
    if not is_dealt_out(plan.parallel, plan.tensor_parallel):
        return Replicated(model, objective, processes, processes.one_of_each(plan.context_parallel))
    if plan.optimiser == "adafactor":
        raise ValueError(
            "adafactor has no step for shards of weights: take adamw, or parallel = ddp without tensor_parallel"
        )
    if plan.offload and device.type == "cpu":
        raise ValueError("offload keeps shards in the memory of the CPU, where this run has all of it: set it to false")
    if plan.compile and plan.tensor_parallel > 1:
        raise ValueError("layers that are dealt out are not compiled: leave compile or tensor_parallel out")
    holders = processes.one_of_each(_tensor_size(plan, processes))
    alike = plan.tensor_parallel * plan.context_parallel
    data = holders if plan.context_parallel == 1 else processes.one_of_each(alike)
    from .sharding import Sharded, mesh_of  # DTensors take a third of a second to import

    return Sharded(
        model,
        objective,
        mesh_of(device, _shard_size(plan.parallel, plan.shard_size, holders), plan.tensor_parallel),
        data,
        compute_dtype=DTYPES.get(plan.precision),
        min_num_params=plan.min_num_params,
        reshard=plan.reshard,
        offload=plan.offload,
        values=values,
    )


def _objective(model: nn.Module, task: AnyTask, plan: Plan, processes: Processes, device: torch.device) -> Objective:
    """What each process computes: the loss of its texts, or of its places of texts that several read together."""
    size, tensor_size = plan.context_parallel, plan.tensor_parallel
    if size == 1:
        return Objective(model, task)
    if plan.compile:
        raise ValueError("layers that gather what others have are not compiled: leave compile or context_parallel out")
    if processes.world_size % (size * tensor_size):
        groups = f"{size} times {tensor_size} (tensor_parallel)" if tensor_size > 1 else f"{size}"
        raise ValueError(
            f"context_parallel is {groups}, and {processes.world_size} processes do not fall into groups of that: "
            "start a multiple, or lower it"
        )
    from .context_parallel import ContextObjective, context_mesh

    return ContextObjective(model, task, context_mesh(device, size, tensor_size))


def _tensor_size(plan: Plan, processes: Processes) -> int:
    """Processes that compute one model together."""
    size, local = plan.tensor_parallel, int(os.environ.get("LOCAL_WORLD_SIZE", processes.world_size))
    if local % size:
        raise ValueError(
            f"tensor_parallel is {size}, and {local} processes of a machine do not fall into groups of that"
        )
    return size


def _shard_size(parallel: Literal["ddp", "fsdp", "hsdp"], asked: int | None, data: Processes) -> int:
    """Of the processes with a share of the data those that hold one model between them: all with fsdp, with hsdp those
    of a machine, or as many as asked for."""
    world = data.world_size
    if parallel == "fsdp" and asked is not None:
        raise ValueError(f"shard_size is {asked}, and parallel = fsdp takes all processes; take hsdp")
    if parallel != "hsdp":
        return world if parallel == "fsdp" else 1
    everyone = dist.get_world_size()
    size = asked or max(1, int(os.environ.get("LOCAL_WORLD_SIZE", everyone)) * world // everyone)
    if world % size:
        raise ValueError(f"shard_size is {size}, and {world} processes do not fall into groups of that")
    return size
