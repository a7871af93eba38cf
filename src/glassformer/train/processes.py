"""One process or many: the same loop under `torchrun`, each process with its share of every batch."""

import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

SECONDS_BETWEEN_SIGNS = 60.0  # of life, at most; a process that hears nothing until the deadline gives up
SECONDS_TO_REPORT = 10.0  # by when after that all who still live have said so


class ProcessLost(ValueError):
    """Others waited for a process until the deadline."""


class Processes:
    """This process's rank among all of the world; alone it is rank 0 of 1, and nothing is exchanged."""

    def __init__(self, *, minutes: float = 30.0, group: dist.ProcessGroup | None = None) -> None:
        """`minutes`: how long others are waited for; `group`: some of the processes, as if they were all."""
        self.rank = dist.get_rank(group) if dist.is_initialized() else 0
        self.world_size = dist.get_world_size(group) if dist.is_initialized() else 1
        self.minutes, self.group = minutes, group

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes files and logs."""
        return self.rank == 0

    def all_reduce(self, *values: float) -> list[float]:
        """The sums over all processes; numbers travel between CPUs, so that no GPU is waited for."""
        if self.world_size == 1:
            return list(values)
        numbers = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(numbers, group=self.group)
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
            if time.monotonic() - heard_at > min(SECONDS_BETWEEN_SIGNS, 60 * self.minutes / 3):
                heard_at = time.monotonic()
                self.all_gather(False)

        work(still_at_it)
        self.all_gather(True)

    def all_gather(self, value: Any) -> list[Any]:
        """Every process's value, in order."""
        if self.world_size == 1:
            return [value]
        values: list[Any] = [None] * self.world_size
        dist.all_gather_object(values, value, group=self.group)
        return values

    def one_of_each(self, size: int) -> "Processes":
        """Of each `size` processes in a row the one that has the same place among them as this one; all call it."""
        if size == 1:
            return self
        wait = timedelta(minutes=self.minutes)
        groups = [
            dist.new_group([*range(place, self.world_size, size)], backend="gloo", timeout=wait)
            for place in range(size)
        ]
        return Processes(minutes=self.minutes, group=groups[self.rank % size])


@contextmanager
def joined(device: torch.device, *, minutes: float = 30.0) -> Iterator[Processes]:
    """Join the other processes that torchrun has started, if it has.

    When one is waited for in vain, for so many minutes, all others stop with its name.
    """
    if "LOCAL_RANK" not in os.environ or dist.is_initialized():
        yield Processes(minutes=minutes)
        return
    if device.type == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    found, rank, world_size = next(iter(rendezvous("env://")))
    store = PrefixStore(f"attempt/{_restarts()}", found)  # which holds what the processes of before had said
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    group_store, deadline = PrefixStore("group", store), timedelta(minutes=minutes)
    dist.init_process_group(backend, store=group_store, rank=rank, world_size=world_size, timeout=deadline)
    store.set(f"name/{rank}", f"rank {rank} (process {os.getpid()} on {platform.node()})")
    try:
        yield Processes(minutes=minutes)
    except RuntimeError as error:
        if "timed out" in str(error).lower() and (lost := _silent(store, rank, world_size)):
            raise ProcessLost(
                f"{' and '.join(lost)} did not answer for {minutes:g} minutes (deadline): look there, then go on with "
                "--resume; if it was only slow, set a longer deadline"
            ) from error
        raise
    finally:
        dist.destroy_process_group()


def _silent(store: Store, rank: int, world_size: int) -> list[str]:
    """The names of those that do not report, as all do that have waited until the deadline."""
    store.set(f"waited/{rank}", "")
    until = time.monotonic() + SECONDS_TO_REPORT
    others = set(range(world_size)) - {rank}
    while others and time.monotonic() < until:
        others = {other for other in others if not store.check([f"waited/{other}"])}
        time.sleep(0.1)
    return [store.get(f"name/{other}").decode() for other in sorted(others)]


def is_restarted() -> bool:
    """Whether torchrun has started all processes again, after one of them died."""
    return _restarts() > 0


def _restarts() -> int:
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def local_device(device: str) -> str:
    """cuda under torchrun means this process's own GPU."""
    is_ours = device.startswith("cuda") and "LOCAL_RANK" in os.environ  # torch gives the first one a number, cuda:0
    return f"cuda:{os.environ['LOCAL_RANK']}" if is_ours else device
