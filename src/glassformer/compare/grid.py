"""A grid of cells, carried out one after another or several at once; what is done stays done."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Protocol

import torch

from glassformer.files import write_text

from .cell import LOG, RESULT, SPEC, Cell, CellResult, State
from .worker import carry_out

CELLS, RESULTS = "cells", "results.jsonl"  # in the folder of an experiment
POLL = 0.2  # seconds
Changed = Callable[[Sequence[CellResult]], None]


class Executor(Protocol):
    """What carries out cells; `finished` gives the folders whose cell has come to an end, and how it ended."""

    capacity: int

    def submit(self, folder: Path) -> None: ...

    def finished(self) -> Iterator[tuple[Path, str]]: ...

    def close(self) -> None: ...


class InlineExecutor:
    """One cell after the other, in this process: for debuggers, notebooks and tests."""

    capacity = 1

    def __init__(self) -> None:
        self.done: list[Path] = []

    def submit(self, folder: Path) -> None:
        with (folder / LOG).open("a", encoding="utf-8") as log:
            carry_out(folder, log=lambda text: print(text, file=log, flush=True))
        self.done.append(folder)

    def finished(self) -> Iterator[tuple[Path, str]]:
        while self.done:
            yield self.done.pop(), ""

    def close(self) -> None: ...


class ProcessExecutor:
    """So many cells at once, each in a process of its own, which leaves with this one however this one ends."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.threads = max(1, len(os.sched_getaffinity(0)) // capacity) if hasattr(os, "sched_getaffinity") else 0
        self.running: dict[Path, subprocess.Popen[bytes]] = {}
        self.begun = 0  # cells: each takes the next GPU
        self.logs: dict[Path, IO[bytes]] = {}

    def submit(self, folder: Path) -> None:
        command = [sys.executable, "-m", "glassformer.compare.worker", str(folder), str(self.threads)]
        self.logs[folder] = (folder / LOG).open("ab")
        environment = {**os.environ, "OMP_NUM_THREADS": str(self.threads or 1), "TOKENIZERS_PARALLELISM": "false"}
        if (gpus := torch.cuda.device_count()) > 1 and "CUDA_VISIBLE_DEVICES" not in os.environ:
            environment["CUDA_VISIBLE_DEVICES"] = str(self.begun % gpus)
        self.begun += 1
        self.running[folder] = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=self.logs[folder], stderr=subprocess.STDOUT, env=environment
        )

    def finished(self) -> Iterator[tuple[Path, str]]:
        for folder, process in list(self.running.items()):
            if process.poll() is not None:
                self._forget(folder)
                yield folder, _ending(process.returncode)

    def close(self) -> None:
        """Ask what still runs to keep a checkpoint and leave."""
        for process in self.running.values():
            with suppress(OSError):
                process.terminate()
        for folder, process in list(self.running.items()):
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=60)
            process.kill()
            self._forget(folder)

    def _forget(self, folder: Path) -> None:
        stdin = self.running.pop(folder).stdin
        self.logs.pop(folder).close()
        if stdin is not None:
            stdin.close()


def _ending(code: int) -> str:
    """How a process ended that left no result."""
    if code == -9:
        return "the process was killed, which is what a machine does that has no memory left"
    return f"the process ended by signal {-code}" if code < 0 else f"the process ended with code {code}"


def run_grid(
    cells: Sequence[Cell], folder: Path, executor: Executor, *, on_change: Changed | None = None
) -> list[CellResult]:
    """Carry out all cells, those that are done already left as they are; the results in the order of the cells.

    A cell that has failed before is tried again. results.jsonl in the folder has a line for every cell that has ended.
    """
    check_grid(cells, folder)
    folders = {cell.name: folder / CELLS / cell.name for cell in cells}
    results = {cell.name: _before(cell, folders[cell.name]) for cell in cells}
    waiting = [cell for cell in cells if results[cell.name].state == "waiting"]
    with ExitStack() as stack:
        stack.callback(executor.close)
        running: dict[Path, Cell] = {}
        while waiting or running:
            while waiting and len(running) < executor.capacity:
                cell = waiting.pop(0)
                running[folders[cell.name]] = cell
                results[cell.name] = _result(cell, "running")
                _tell(on_change, cells, results, folder)
                executor.submit(folders[cell.name])
            ended = list(executor.finished())
            for path, how in ended:
                cell = running.pop(path)
                results[cell.name] = CellResult.read(path) or _failed(cell, path, how)
                _tell(on_change, cells, results, folder)
            if not ended:
                time.sleep(POLL)
    _tell(on_change, cells, results, folder)
    return [results[cell.name] for cell in cells]


def check_grid(cells: Sequence[Cell], folder: Path) -> None:
    """Refuse two cells of one name, and cells whose folder was begun with other settings."""
    if len({cell.name for cell in cells}) < len(cells):
        raise ValueError("two cells of the grid have the same contestant, place and seed: name them apart")
    for cell in cells:
        path = folder / CELLS / cell.name
        if cell.reason is None and (path / SPEC).exists() and not cell.is_in(path):
            raise ValueError(f"{path} was begun with other settings than these: choose another --out")


def _before(cell: Cell, folder: Path) -> CellResult:
    """What is known of a cell before anything is done: it is done, to be skipped, or waits with its folder ready."""
    if cell.reason is not None:
        return _result(cell, "skipped", cell.reason)
    if cell.is_in(folder):
        found = CellResult.read(folder)
        if found is not None and found.state == "done":
            return found
        (folder / RESULT).unlink(missing_ok=True)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        cell.write(folder)
    return _result(cell, "waiting")


def _failed(cell: Cell, folder: Path, how: str) -> CellResult:
    """The result of a cell whose process left none; the last words of its log are the best that is known."""
    log = folder / LOG
    last = log.read_text(encoding="utf-8", errors="replace").split("\n")[-2:-1] if log.is_file() else []
    result = _result(cell, "failed", "; ".join([how, *(line.strip()[:300] for line in last if line.strip())]))
    with suppress(OSError):  # a disk that is full
        result.write(folder)
    return result


def _result(cell: Cell, state: State, error: str | None = None) -> CellResult:
    return CellResult(
        contestant=cell.contestant, seed=cell.seed, place=cell.place, state=state, folder=cell.name, error=error
    )


def _tell(on_change: Changed | None, cells: Sequence[Cell], results: dict[str, CellResult], folder: Path) -> None:
    """Keep what has ended in results.jsonl, and tell who listens."""
    listed = [results[cell.name] for cell in cells]
    ended = [one for one in listed if one.state in ("done", "failed", "skipped")]
    with suppress(OSError):  # a disk that is full: the report will say it, if it can be written
        write_text(folder / RESULTS, "".join(json.dumps(_line(one), ensure_ascii=False) + "\n" for one in ended))
    if on_change is not None:
        on_change(listed)


def _line(result: CellResult) -> dict[str, object]:
    """A result as results.jsonl has it: the folder leads to the run."""
    return {**vars(result), "folder": f"{CELLS}/{result.folder}"}
