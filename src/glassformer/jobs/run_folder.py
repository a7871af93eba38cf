"""The run folder: one run at a time writes to it, and it writes over nothing that no run has made."""

import json
import os
import platform
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from shlex import quote
from typing import Any

from filelock import FileLock, Timeout

from glassformer.files import write_text
from glassformer.hub.folder import CONFIG, GENERATION, SAFETENSORS
from glassformer.tasks import pooling
from glassformer.text.saving import FILES
from glassformer.train import checkpoint
from glassformer.train.processes import Processes

from . import generator
from .recipe import RECIPE, Recipe

LOCK = ".lock"  # there while a run goes on; whether it is held is known to the kernel, so a killed run leaves it free
CARD, CURVES, RESULT, METRICS, BOARD = "README.md", "curves.svg", "run.json", "metrics.jsonl", "tensorboard"
EXAMPLES = "examples.npz"  # the scores of each example
POOLING = (pooling.MODULES, pooling.LENGTH, pooling.PLACE)
OWN = (RECIPE, CARD, CURVES, RESULT, METRICS, EXAMPLES, BOARD, checkpoint.FOLDER)
WRITTEN = (*OWN, CONFIG, GENERATION, SAFETENSORS, *FILES, *POOLING, generator.FOLDER)
RECIPE_HEADER = "# The recipe of a run, as glassformer wrote it down: to change something, change a copy.\n"
LENGTH = ("epochs", "steps")
CARD_HEADER = "---\nlibrary_name: glassformer\n"


@contextmanager
def claimed(folder: Path, recipe: Recipe, *, resume: bool, processes: Processes) -> Iterator[None]:
    """The folder made ready for a run, and nobody else's until its end; what speaks against it, in every process."""
    with ExitStack() as stack:
        refusal = None
        if processes.is_main:
            try:
                stack.enter_context(_new_folders(folder))
                stack.enter_context(locked(folder))
                stack.enter_context(_taken_back(folder))
                _prepare(folder, recipe, resume=resume)
            except ValueError as error:
                refusal = str(error)
            except OSError as error:
                refusal = f"nothing can be written to {folder}: {error.strerror}"
        if (refusal := processes.all_gather(refusal)[0]) is not None:
            raise ValueError(refusal)
        if len({*processes.all_gather(_holder(folder / LOCK))}) > 1:
            raise ValueError(f"{folder} is not the same folder on all machines: out must be one that they share")
        yield


@contextmanager
def _new_folders(folder: Path) -> Iterator[None]:
    """The folder, and those above it, made where they are not there; of a run that is refused no empty one stays."""
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except ValueError:
        with suppress(OSError):  # what has something in it stays
            for path in new:
                path.rmdir()
        raise


@contextmanager
def _taken_back(folder: Path) -> Iterator[None]:
    """A run that is refused before its first step takes its recipe and its vocabulary back."""
    before = {path.name for path in folder.iterdir()}
    try:
        yield
    except ValueError:
        if not (folder / METRICS).exists() and checkpoint.newest(folder) is None:
            for name in (RECIPE, *FILES):
                if name not in before:
                    (folder / name).unlink(missing_ok=True)
        raise


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other runs out; on a file system that has no locks, or where nothing can be written, do without."""
    path = folder / LOCK
    lock = FileLock(path, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise ValueError(f"{folder} is another run's{_holder(path)}: wait for it, or choose another --out") from None
    except (OSError, NotImplementedError):
        yield
        return
    try:
        with suppress(OSError):
            path.write_text(f"process {os.getpid()} on {platform.node()}", encoding="utf-8")
        yield
    finally:
        with suppress(OSError):  # before it is free, so that no one waits for a file that is gone
            path.unlink()
        lock.release()


def _holder(path: Path) -> str:
    """Who has written his name into a lock."""
    with suppress(OSError, ValueError):
        if name := path.read_text(encoding="utf-8"):
            return f" ({name})"
    return ""


def _prepare(folder: Path, recipe: Recipe, *, resume: bool) -> None:
    """Refuse to write over another run, or over files of others; keep the recipe beside what it makes."""
    path, holds_model = folder / RECIPE, (folder / CONFIG).exists()
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    if not resume and (checkpoint.newest(folder) or (holds_model and text)):
        raise ValueError(f"{folder} holds a run: go on with --resume, or choose another --out")
    if holds_model and not text:
        raise ValueError(f"{folder} holds a model that would be written over: choose another --out")
    same = _is_said_by(text, recipe)
    if resume and text and not (same or _differs_in_length(text, recipe)):
        raise ValueError(f"{path} is another recipe than this one; resume with: {resume_command(folder)}")
    for name in () if (resume and same) or text.startswith(RECIPE_HEADER) else WRITTEN:
        if (folder / name).exists() and not (same and name == RECIPE):  # which may lie where its run is to be
            raise ValueError(f"{folder / name} was not written by a run, and would be lost: choose another --out")
    checkpoint.sweep(folder)
    if not same:
        write_text(path, RECIPE_HEADER + recipe.toml())


def _is_said_by(text: str, recipe: Recipe) -> bool:
    """Whether a recipe file says what this recipe does."""
    try:
        return bool(text) and tomllib.loads(text) == tomllib.loads(recipe.toml())
    except tomllib.TOMLDecodeError:
        return False


def _differs_in_length(text: str, recipe: Recipe) -> bool:
    """Whether this recipe differs from a file's in how long it trains alone, which may be changed on resuming."""
    try:
        then, now = tomllib.loads(text), tomllib.loads(recipe.toml())
    except tomllib.TOMLDecodeError:
        return False
    return {**then, **dict.fromkeys(LENGTH)} == {**now, **dict.fromkeys(LENGTH)}


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The lines of a run's metrics.jsonl; none where it has not written any. A value that is no number is null."""
    path = folder / METRICS
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [json.loads(line) for line in lines]


def write_card(folder: Path, text: str) -> bool:
    """Write the model card, unless someone has put a README of his own in its place; whether it was written."""
    path = folder / CARD
    if path.exists() and not path.read_text(encoding="utf-8", errors="replace").startswith(CARD_HEADER):
        return False
    write_text(path, text)
    return True


def resume_command(folder: Path) -> str:
    """The command that resumes a run."""
    return f"glassformer train {quote(str(folder / RECIPE))} --resume"
