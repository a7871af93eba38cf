"""Files to be worked through one by one, here or elsewhere: what each is called, how large it is, and what tells it
from what it was before."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from glassformer.data.remote import is_remote, local_copy, remote_files
from glassformer.data.shard_writer import identity_of
from glassformer.data.source import DataSource, resolve


class ListedFile(NamedTuple):
    """A file and its identity: another one, when its content is."""

    source: DataSource
    size: int
    identity: str


def listed_files(names: Sequence[str], *, folder: str | None = None) -> list[ListedFile]:
    """What names, globs and addresses stand for, each file once, in the order of the names; a folder stands for its
    files that end in `folder`."""
    found: dict[str, ListedFile] = {}
    for name in names:
        for one in _elsewhere(name) if is_remote(name) else _here(name, folder):
            found.setdefault(one.source.name, one)
    return list(found.values())


@contextmanager
def opened_here(source: DataSource) -> Iterator[DataSource]:
    """The file on this machine: itself, or a copy for as long as it is read."""
    if not is_remote(source.name):
        yield source
        return
    with local_copy(source.name) as path:
        yield DataSource(source.name, path)


def _here(name: str, folder: str | None) -> Iterator[ListedFile]:
    for source in resolve([name], folder=folder):
        if source.path is None:
            raise ValueError(f"{name} is no file, by whose name what comes of it could be called: save it to one first")
        path = source.path.resolve()
        yield ListedFile(DataSource(str(path), path), path.stat().st_size, identity_of([path]))


def _elsewhere(name: str) -> Iterator[ListedFile]:
    for one in remote_files(name):
        yield ListedFile(DataSource(one.address, Path(one.address)), one.size, one.version)
