"""How things are timed: contestants take turns, so that a noisy machine is noisy for all of them."""

import statistics
import time
from collections.abc import Callable
from typing import Any

Row = dict[str, Any]


def in_turns(contestants: dict[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """The median of what each contestant's own clock says, one warm-up round not counted."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds + 1):
        for name, work in contestants.items():
            seconds = work()
            if number:
                times[name].append(seconds)
    return {name: statistics.median(values) for name, values in times.items()}


def interleaved(contestants: dict[str, Callable[[], object]], rounds: int = 7) -> dict[str, float]:
    """The median seconds of each contestant, one warm-up round not counted."""
    import torch  # here, for a benchmark's own processes import this file and may do without

    def clocked(work: Callable[[], object]) -> Callable[[], float]:
        def run() -> float:
            start = time.perf_counter()
            work()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            return time.perf_counter() - start

        return run

    return in_turns({name: clocked(work) for name, work in contestants.items()}, rounds)


def row(name: str, ours: float, peer: float, peer_name: str, unit: str = "s") -> Row:
    """One line of the table; the ratio says how many times faster than the peer."""
    return {"name": name, "ours": ours, "peer": peer, "peer_name": peer_name, "ratio": peer / ours, "unit": unit}


def row_of_rates(name: str, ours: float, peer: float, peer_name: str, unit: str) -> Row:
    """The same for work done in a second, where more is better."""
    return {**row(name, ours, peer, peer_name, unit), "ratio": ours / peer}


def show(rows: list[Row]) -> None:
    """A plain table: a machine lent for an hour may have no more than torch and transformers."""
    print(f"\n{'work':50} {'ours':>10} {'peer':>10}  {'times':>5}  peer")
    for line in rows:
        print("{name:50} {ours:10,.1f} {peer:10,.1f}  {ratio:5.2f}  {peer_name}".format(**line))
