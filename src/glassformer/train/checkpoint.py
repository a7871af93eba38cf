"""Checkpoints: everything a run needs to go on exactly where it was, written whole or not at all."""

import os
from pathlib import Path
from typing import Any

import torch

from glassformer.text.files import write_atomically

FOLDER = "checkpoints"


def path_of(folder: Path, step: int) -> Path:
    return folder / FOLDER / f"step-{step:08d}.pt"


def found(folder: Path) -> list[Path]:
    """The checkpoints of a run, oldest first."""
    return sorted((folder / FOLDER).glob("step-*.pt"))


def save(folder: Path, step: int, state: dict[str, Any], *, keep: int = 1) -> None:
    """Write the state after a step, then forget all but the last `keep`."""
    path = path_of(folder, step)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        write_atomically(path, lambda partial: torch.save(state, partial))
    except (OSError, RuntimeError) as error:  # torch says RuntimeError where a disk is full
        last = found(folder)
        whole = f"{last[-1].name} is whole: free some space and go on with --resume" if last else "none was written yet"
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error).splitlines()[0]
        raise OSError(
            f"the checkpoint of step {step} could not be written to {path.parent} ({reason}); {whole}"
        ) from None
    for old in found(folder)[:-keep]:
        old.unlink()


def load(path: Path) -> dict[str, Any]:
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds for a file that is none
        reason = (str(error).splitlines() or ["empty"])[0]
        raise ValueError(
            f"{path} is not a whole checkpoint ({reason}); delete it to go on from the one before"
        ) from None
    return state


class MetricsFile:
    """metrics.jsonl: one object a line; what was written after the last checkpoint is written again on resuming."""

    def __init__(self, path: Path, *, size: int = 0) -> None:
        """Go on after the first `size` bytes."""
        self.path = path
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab"):
            pass
        os.truncate(path, size)

    def add(self, line: str) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())

    @property
    def size(self) -> int:
        return self.path.stat().st_size
