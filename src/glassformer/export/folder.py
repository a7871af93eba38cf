"""The folder of an export: there whole or not at all, and never in the place of something else."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

REPORT = "export.json"


def check_free(folder: Path, *, force: bool | None) -> None:
    """Refuse a folder that holds something; with `force`, an earlier export may be replaced, and nothing else.

    None: who asks has no --force.
    """
    if not str(folder).strip() or folder == Path("."):
        raise ValueError("the name of the folder is empty: name a new folder to write to")
    if folder.is_dir() and not any(folder.iterdir()):
        return
    if folder.exists() and not (force and (folder / REPORT).is_file()):
        rest = "is there and is no earlier export" if force else "is there already"
        rest += "; --force replaces an earlier export" if force is False else ""
        raise ValueError(f"{folder} {rest}: choose another folder")


@contextmanager
def fresh_folder(folder: Path, *, force: bool | None = None) -> Iterator[Path]:
    """A folder beside the one that is wanted, which takes its place at the end; whatever goes wrong, it is gone."""
    check_free(folder, force=force)
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    partial.mkdir()
    try:
        yield partial
        old = partial.with_suffix(".old")
        if folder.exists():
            os.replace(folder, old)
        os.replace(partial, folder)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
