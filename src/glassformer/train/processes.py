"""One process or many: the same loop under `torchrun`, each process with its share of every batch."""

import os
import platform
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from threading import Event, Thread
from typing import Any
from uuid import uuid4

import torch
import torch.distributed as dist
from torch.distributed.constants import default_pg_timeout
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

SECONDS_BETWEEN_SIGNS = 60.0  # of life, at most; a process that hears nothing until the deadline gives up
SECONDS_TO_REPORT = 10.0  # by when after that all who still live have said so
BROKEN = ("connection closed", "connection reset", "broken pipe")  # what gloo says of a process that has ended
ADDRESS = re.compile(r"\[([\d.]+|[\da-f:]+)\]:\d")  # and where


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
    store, names = _meet(found, rank, world_size)
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    group_store, deadline = PrefixStore("group", store), timedelta(minutes=minutes)
    try:
        dist.init_process_group(backend, store=group_store, rank=rank, world_size=world_size, timeout=deadline)
        yield Processes(minutes=minutes)
    except RuntimeError as error:
        if reason := _reason(str(error).lower(), store, names, rank=rank, minutes=minutes):
            raise ProcessLost(reason) from error
        raise
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def _meet(store: Store, rank: int, world_size: int) -> tuple[Store, list[str]]:
    """A part of the store in which the processes of this attempt alone speak, and the names of all of them.

    torchrun keeps one store for many attempts, in which those before are still heard, and its agents count attempts
    apart. So each process comes with a nonce, and rank 0, which answers to it, says where they meet.
    """
    nonce, others = uuid4().hex, range(1, world_size)
    until = time.monotonic() + default_pg_timeout.total_seconds()

    def wait_for(is_so: Callable[[], bool]) -> None:
        while not is_so():  # not in the store's own wait, in which no signal is heard
            if time.monotonic() > until:
                raise ProcessLost(
                    f"of {world_size} processes not all have come within half an hour: does torchrun run on each "
                    "machine, and can they reach each other?"
                )
            time.sleep(0.05)

    def answered() -> bool:
        for hello in [f"hello/{other}" for other in others if rank == 0]:
            if store.check([hello]):
                store.set(f"welcome/{store.get(hello).decode()}", nonce)
        return own.check(names)

    place = nonce
    if rank > 0:
        store.set(f"hello/{rank}", nonce)
        wait_for(lambda: store.check([f"welcome/{nonce}"]))
        place = store.get(f"welcome/{nonce}").decode()
    own, names = PrefixStore(place, store), [f"name/{one}" for one in range(world_size)]
    own.set(names[rank], f"rank {rank} (process {os.getpid()} on {platform.node()})")
    wait_for(answered)
    return own, [name.decode() for name in own.multi_get(names)]


def _reason(said: str, store: Store, names: Sequence[str], *, rank: int, minutes: float) -> str:
    """What an error of torch's about other processes comes to; nothing if it is about something else."""
    where = f" {match[1]}" if (match := ADDRESS.search(said)) else ""
    if "connectfullmesh" in said:
        return (
            f"no connection to{where or ' the other processes'}: if it is not the address of another machine, name the "
            "network card between them, as in GLOO_SOCKET_IFNAME=eth0 NCCL_SOCKET_IFNAME=eth0"
        )
    if ("timed out" in said or "timeout" in said) and (lost := _silent(store, names, rank)):
        return (
            f"{' and '.join(lost)} did not answer for {minutes:g} minutes (deadline): look there, then go on with "
            "--resume; if it was only slow, set a longer deadline"
        )
    if any(words in said for words in BROKEN):
        place = f" on{where}" if where else ""
        return f"a process{place} has ended before its time: torchrun says why, there; go on with --resume"
    return ""


def _silent(store: Store, names: Sequence[str], rank: int) -> list[str]:
    """The names of those that do not report, as all do that have waited until the deadline.

    The store is where rank 0 is: who cannot reach it does not hear of others.
    """
    others, is_heard = set(range(len(names))) - {rank}, Event()

    def ask() -> None:
        until = time.monotonic() + SECONDS_TO_REPORT
        with suppress(RuntimeError):
            store.set(f"waited/{rank}", "")
            while others and time.monotonic() < until:
                others.difference_update([other for other in others if store.check([f"waited/{other}"])])
                time.sleep(0.1)
            is_heard.set()

    Thread(target=ask, daemon=True).start()  # it may wait for the store for good
    return [names[other] for other in sorted(others if is_heard.wait(2 * SECONDS_TO_REPORT) else {0} - {rank})]


def is_restarted() -> bool:
    """Whether torchrun has started all processes again, after one of them died."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def local_device(device: str) -> str:
    """cuda under torchrun means this process's own GPU."""
    is_ours = device.startswith("cuda") and "LOCAL_RANK" in os.environ  # torch gives the first one a number, cuda:0
    return f"cuda:{os.environ['LOCAL_RANK']}" if is_ours else device
