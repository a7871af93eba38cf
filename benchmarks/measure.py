"""How things are timed: contestants take turns, so that a noisy machine is noisy for all of them."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

Row = dict[str, Any]


def interleaved(contestants: dict[str, Callable[[], object]], rounds: int = 7) -> dict[str, float]:
    """The median seconds of each contestant, one warm-up round not counted."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds + 1):
        for name, work in contestants.items():
            start = time.perf_counter()
            work()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            if number:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def row(name: str, ours: float, peer: float, peer_name: str, unit: str = "s") -> Row:
    """One line of the table; the ratio says how many times faster than the peer."""
    return {"name": name, "ours": ours, "peer": peer, "peer_name": peer_name, "ratio": peer / ours, "unit": unit}
