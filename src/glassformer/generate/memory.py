"""Memory: how much is free, and whether something fits, before anything is started."""

from pathlib import Path

import torch

CGROUP = Path("/sys/fs/cgroup")
MEMINFO = Path("/proc/meminfo")


def check_memory(needed: int, device: torch.device, what: str) -> None:
    """Refuse what cannot fit, with both numbers."""
    free = free_bytes(device)
    if free is not None and needed > free:
        raise ValueError(
            f"{what} needs about {needed / 1e9:,.1f} GB and {device.type} has {free / 1e9:,.1f} GB free; "
            "give fewer prompts at once, fewer beams or results, or less max_new_tokens"
        )


def free_bytes(device: torch.device) -> int | None:
    """What a device can still give; None where nobody says."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        idle = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)  # held, and ours to use
        return free + idle
    if device.type != "cpu" or not MEMINFO.is_file():
        return None
    lines = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
    free = int(lines["MemAvailable"].split()[0]) * 1024
    limit, used = CGROUP / "memory.max", CGROUP / "memory.current"
    if limit.is_file() and used.is_file() and (most := limit.read_text().strip()).isdigit():
        free = min(free, int(most) - int(used.read_text()))
    return free
