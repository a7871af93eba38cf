"""How long calls take and how much memory they need, on a CPU or a GPU."""

import time
from collections.abc import Callable, Mapping
from statistics import median

import torch
from torch.autograd.profiler import profile

Call = Callable[[], object]
LEAST = 0.02  # seconds that are timed at once: of shorter calls there are several


def seconds_in_turns(calls: Mapping[str, Call], device: torch.device, *, rounds: int) -> dict[str, float]:
    """The median seconds of each call over `rounds`, in each of which all take their turn, after one to warm up.

    Whatever else the machine does in a round, all of them meet; each begins a round as often as the others.
    """
    repeats = {}
    for name, call in calls.items():
        _seconds(call, device, 1)
        repeats[name] = max(1, round(LEAST / _seconds(call, device, 1)))
    taken: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for number in range(rounds if names else 0):
        first = number % len(names)
        for name in [*names[first:], *names[:first]]:
            taken[name].append(_seconds(calls[name], device, repeats[name]))
    return {name: median(values) for name, values in taken.items()}


def _seconds(call: Call, device: torch.device, repeats: int) -> float:
    _wait(device)
    begun = time.perf_counter()
    for _ in range(repeats):
        call()
    _wait(device)
    return (time.perf_counter() - begun) / repeats


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def peak_bytes(call: Call, device: torch.device) -> int:
    """The most bytes that a call has had at once from torch's allocator, beyond what was there before.

    Tensors count, and scratch memory that kernels ask the allocator for; what a library takes for itself does not.
    """
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        call()
        return torch.cuda.max_memory_allocated(device) - before
    with profile(profile_memory=True, acc_events=False) as seen:
        call()
    changes = [(one.start_ns(), one.nbytes()) for one in seen.kineto_results.events() if one.name() == "[memory]"]
    now = most = 0
    for _, change in sorted(changes, key=lambda one: one[0]):
        now += change
        most = max(most, now)
    return most
