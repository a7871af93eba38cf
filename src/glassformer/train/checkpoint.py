"""Checkpoints: everything a run needs to go on exactly where it was, written whole or not at all."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from glassformer.files import write_atomically
from glassformer.files.writing import PARTIAL

FOLDER = "checkpoints"
FILE, SHARDS = ".pt", ".shards"  # a checkpoint is one file, or a folder that every process has written a part of
Kind = Literal["step", "timed", "stopped"]  # what a file's name begins with
DUE: Kind = "step"  # after a step that the plan names
TIMED: Kind = "timed"  # between two of those, because the last one is long ago
BETWEEN: Kind = "stopped"  # between two of those, because the run was asked to stop


def path_of(folder: Path, step: int, kind: Kind = DUE, ending: str = FILE) -> Path:
    return folder / FOLDER / f"{kind}-{step:08d}{ending}"


def found(folder: Path, kind: Kind = DUE) -> list[Path]:
    """The checkpoints of a run that were due, oldest first: the same whether or not it was stopped on its way."""
    return sorted(
        (path for ending in (FILE, SHARDS) for path in (folder / FOLDER).glob(f"{kind}-*{ending}")), key=step_of
    )


def step_of(path: Path) -> int:
    """How many steps were done when a checkpoint was written."""
    return int(path.stem[-8:])


def newest(folder: Path) -> Path | None:
    """Where to go on from."""
    return max((path for kind in get_args(Kind) for path in found(folder, kind)), key=step_of, default=None)


def save(folder: Path, step: int, state: dict[str, Any], *, kind: Kind = DUE, keep: int = 1) -> None:
    """Write the state after a step; of those that were due the last `keep` stay, of the others none but this one."""
    if kind == DUE or not path_of(folder, step).exists():
        _save(path_of(folder, step, kind), state)
    remove_older(folder, path_of(folder, step, kind), keep=keep)


def remove_older(folder: Path, newest: Path, *, keep: int) -> None:
    """Of the checkpoints that were due leave the last `keep`, of the others none but the newest."""
    between = [path for kind in (TIMED, BETWEEN) for path in found(folder, kind)]
    for old in [*found(folder)[:-keep], *between]:
        if old != newest:
            remove(old)


def remove(path: Path) -> None:
    """A folder first loses its name, so that one that is half removed is never taken for a checkpoint."""
    if path.is_dir():
        doomed = path.with_name(f".{path.name.lstrip('.')}.old{PARTIAL}")
        shutil.rmtree(doomed, ignore_errors=True)
        path.rename(doomed)
        shutil.rmtree(doomed)
    else:
        path.unlink(missing_ok=True)


def _save(path: Path, state: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, lambda partial: _write(partial, state))


def _write(path: Path, state: dict[str, Any]) -> None:
    try:
        with path.open("wb") as file:
            torch.save(state, file)
    except RuntimeError as error:
        if isinstance(error.__context__, OSError):  # the disk's own words, which torch talks over
            raise error.__context__ from None
        raise


def load(path: Path) -> dict[str, Any]:
    """The state after a step, with whole tensors on the CPU."""
    if path.is_dir():
        from .sharded_checkpoint import read  # torch.distributed.checkpoint takes a while to import

        return read(path)
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds for a file that is none
        reason = (str(error).splitlines() or ["empty"])[0]
        raise ValueError(
            f"{path} is not a whole checkpoint ({reason}); delete it to go on from the one before"
        ) from None
    return state


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Where a disk is full, say it in one line, with what there still is."""
    try:
        yield
    except OSError as error:
        last = newest(folder)
        whole = f"{last.name} is whole: free some space and go on with --resume" if last else "no checkpoint was due"
        raise OSError(f"nothing more can be written to {folder} ({error.strerror or error}); {whole}") from None


def sweep(folder: Path) -> None:
    """Remove files that a run was killed in the middle of writing."""
    for partial in (*folder.glob(f".*{PARTIAL}"), *(folder / FOLDER).glob(f".*{PARTIAL}")):
        shutil.rmtree(partial) if partial.is_dir() else partial.unlink()


class MetricsFile:
    """metrics.jsonl: one object a line; what was written after the last checkpoint is written again on resuming."""

    def __init__(self, path: Path, *, size: int = 0) -> None:
        """Go on after the first `size` bytes."""
        self.path = path
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab"):
            pass
        os.truncate(path, min(size, self.size))

    def add(self, line: str) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())

    @property
    def size(self) -> int:
        return self.path.stat().st_size
