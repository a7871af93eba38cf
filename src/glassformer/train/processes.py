"""One process or many: the same loop under `torchrun`, each process with its share of every batch."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from glassformer.blocks.transformer import Stack

SECONDS_BETWEEN_SIGNS = 60.0  # of life; a process that hears nothing for half an hour gives up


class Processes:
    """This process's rank among all of the world; alone it is rank 0 of 1, and nothing is exchanged."""

    def __init__(self) -> None:
        self.rank = dist.get_rank() if dist.is_initialized() else 0
        self.world_size = dist.get_world_size() if dist.is_initialized() else 1

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes files and logs."""
        return self.rank == 0

    def wrap(self, objective: nn.Module) -> nn.Module:
        """Average the gradients of all processes as they come."""
        if self.world_size == 1:
            return objective
        drops = any(isinstance(module, Stack) and module.layerdrop for module in objective.modules())
        return nn.parallel.DistributedDataParallel(objective, find_unused_parameters=drops)

    def no_sync(self, objective: nn.Module, *, last: bool) -> AbstractContextManager[None]:
        """Gradients are exchanged once for each batch, with its last micro-batch."""
        if self.world_size == 1 or last:
            return nullcontext()
        return objective.no_sync()  # type: ignore[operator, no-any-return]

    def all_reduce(self, *values: float) -> list[float]:
        """The sums over all processes; numbers travel between CPUs, so that no GPU is waited for."""
        if self.world_size == 1:
            return list(values)
        numbers = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(numbers)
        return numbers.tolist()

    def run_on_main(self, work: Callable[[Callable[[], None]], object]) -> None:
        """Let the main process work while the others wait.

        It is given a function to call now and then: the others hear of it, and wait for as long as it takes.
        """
        if not self.is_main:
            while not self.all_gather(True)[0]:
                continue
            return
        heard_at = time.monotonic()

        def still_at_it() -> None:
            nonlocal heard_at
            if time.monotonic() - heard_at > SECONDS_BETWEEN_SIGNS:
                heard_at = time.monotonic()
                self.all_gather(False)

        work(still_at_it)
        self.all_gather(True)

    def all_gather(self, value: Any) -> list[Any]:
        """Every process's value, in order."""
        if self.world_size == 1:
            return [value]
        values: list[Any] = [None] * self.world_size
        dist.all_gather_object(values, value)
        return values


@contextmanager
def joined(device: torch.device) -> Iterator[Processes]:
    """Join the other processes that torchrun has started, if it has."""
    if "LOCAL_RANK" not in os.environ or dist.is_initialized():
        yield Processes()
        return
    if device.type == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
    try:
        yield Processes()
    finally:
        dist.destroy_process_group()


def local_device(device: str) -> str:
    """cuda under torchrun means this process's own GPU."""
    return f"cuda:{os.environ['LOCAL_RANK']}" if device == "cuda" and "LOCAL_RANK" in os.environ else device
