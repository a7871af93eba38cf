"""Writing files: each is written whole or not at all."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PARTIAL = ".partial"  # what a file that is being written ends in


def write_json(path: Path, value: object) -> None:
    """Write a JSON file atomically, with letters of every script as they are."""
    write_text(path, json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    write_atomically(path, lambda partial: partial.write_bytes(content))


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Write beside the file, then take its place in one step: never half a file, and mapped readers keep theirs."""
    with replacing(path) as partial:
        write(partial)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to, which takes the place of the file at the end; after an error nothing of it stays."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}{PARTIAL}")
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())  # on the disk before it counts: a power cut leaves the old or the new
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
