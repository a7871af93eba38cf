"""Memory: how much is free, and whether something fits, before anything is started."""

import os
from collections.abc import Iterator
from pathlib import Path

import torch

LIMITS = {"": ("memory.max", "memory.current"), "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes")}


SMALLER = "give fewer prompts at once, fewer beams or results, or less max_new_tokens"


def check_memory(needed: int, device: torch.device, what: str, fix: str = SMALLER) -> None:
    """Refuse what cannot fit, with both numbers and what would make it smaller."""
    free = free_bytes(device)
    if needed > free:
        raise ValueError(
            f"{what} needs about {needed / 1e9:,.1f} GB and {device.type} has {free / 1e9:,.1f} GB free; {fix}"
        )


def free_bytes(device: torch.device) -> int:
    """What a device can still give; devices that do not say have the machine's memory."""
    if device.type == "cuda":
        idle = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)  # held, and ours to use
        return int(torch.cuda.mem_get_info(device)[0]) + idle
    return free_on_this_machine()


def free_on_this_machine(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> int:
    """Free memory: the system's, or what is left of the smallest limit that a container puts on it."""
    return min([_system_free(proc), *_left_of_limits(proc, groups)])


def _system_free(proc: Path) -> int:
    if (proc / "meminfo").is_file():
        lines = dict(line.split(":") for line in (proc / "meminfo").read_text().splitlines())
        return 1024 * int(lines["MemAvailable"].split()[0])
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")  # a Mac says how much there is, not what is free


def _left_of_limits(proc: Path, groups: Path) -> Iterator[int]:
    """What is left in each control group this process is in, from its own up to the root; versions 2 and 1."""
    listing = proc / "self" / "cgroup"
    for line in listing.read_text().splitlines() if listing.is_file() else ():
        _, kind, path = line.split(":", 2)
        if kind in LIMITS:
            inside = groups / kind / path.lstrip("/")
            for folder in (inside, *inside.parents):
                if folder.is_relative_to(groups / kind):
                    yield from _left(folder, *LIMITS[kind])


def _left(folder: Path, limit: str, use: str) -> Iterator[int]:
    """Limit less use, where there is a limit."""
    files = [folder / limit, folder / use, folder / "memory.stat"]
    if all(file.is_file() for file in files):
        bound, used, statistics = (file.read_text().strip() for file in files)
        if bound != "max":
            yield max(0, int(bound) - int(used) + _droppable(statistics))


def _droppable(statistics: str) -> int:
    """Bytes of files that were read and not lately used: they count as use, but give way."""
    sizes = dict(line.split() for line in statistics.splitlines())
    return int(sizes.get("total_inactive_file", sizes.get("inactive_file", 0)))  # version 1 counts children apart
