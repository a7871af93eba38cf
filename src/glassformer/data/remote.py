"""Files elsewhere, by an address such as s3://bucket/part-*.parquet: listed, and copied here while they are read."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from glassformer.data.arrow import one_line

ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
OBJECTS = ("s3", "s3a", "gs", "gcs", "az", "abfs", "hf")  # without folders: to make one would make a bucket


class RemoteFile(NamedTuple):
    """A file elsewhere: `version` is another one when the file is."""

    address: str
    size: int
    version: str


def is_remote(name: str) -> bool:
    return bool(ADDRESS.match(name))


def remote_files(address: str) -> list[RemoteFile]:
    """The files that an address or a glob of them stands for, in alphabetical order; none is a ValueError."""
    system, path = file_system(address)
    try:
        found = sorted(system.glob(path)) if _is_glob(path) else [path]
        known = [(one, system.info(one)) for one in found]
        files = [
            RemoteFile(system.unstrip_protocol(one), int(info["size"] or 0), str(system.ukey(one)))
            for one, info in known
            if info["type"] == "file"
        ]
    except Exception as error:  # of many kinds: no network, no key, no such bucket
        raise ValueError(f"{address} cannot be listed ({type(error).__name__}: {one_line(error)})") from None
    if not files:
        raise ValueError(f"there is no file {address!r}")
    return files


@contextmanager
def local_copy(address: str) -> Iterator[Path]:
    """A copy of a file, of the same name, for as long as it is read."""
    system, path = file_system(address)
    with TemporaryDirectory(prefix="glassformer-") as folder:
        copy = Path(folder) / Path(path).name
        try:
            system.get_file(path, str(copy))
        except Exception as error:
            raise ValueError(f"{address} cannot be fetched ({type(error).__name__}: {one_line(error)})") from None
        yield copy


def upload(folder: Path, address: str, *, last: str = "") -> None:
    """Copy the files of a folder to an address; the one called `last` when all others are there."""
    files = sorted((one for one in folder.iterdir() if one.is_file()), key=lambda one: (one.name == last, one.name))
    for file in files:
        system, path = file_system(f"{address.rstrip('/')}/{file.name}")
        try:
            if address.partition("://")[0].lower() not in OBJECTS:
                system.makedirs(path.rpartition("/")[0], exist_ok=True)
            system.put_file(str(file), path)
        except Exception as error:  # of many kinds: no network, no key, no such bucket
            raise ValueError(f"{address} cannot be written to ({type(error).__name__}: {one_line(error)})") from None


def download(address: str, folder: Path) -> None:
    """Copy the files at an address into a folder; those in folders there are left."""
    system, path = file_system(address)
    try:
        found = [one["name"] for one in system.ls(path, detail=True) if one["type"] == "file"]
        folder.mkdir(parents=True, exist_ok=True)
        for one in found:
            system.get_file(one, str(folder / Path(one).name))
    except Exception as error:  # of many kinds: no network, no key, nothing there
        raise ValueError(f"{address} cannot be fetched ({type(error).__name__}: {one_line(error)})") from None


def file_system(address: str) -> tuple[Any, str]:
    """The file system of an address, and the path in it."""
    try:
        core: Any = import_module("fsspec.core")
    except ImportError:
        raise ValueError(f"{address} needs fsspec: pip install fsspec") from None
    try:
        system, path = core.url_to_fs(address)
    except ImportError as error:  # which says what to install
        raise ValueError(f"{address} needs another package: {one_line(error)}") from None
    except Exception as error:
        raise ValueError(f"{address} cannot be opened ({type(error).__name__}: {one_line(error)})") from None
    return system, str(path)


def _is_glob(path: str) -> bool:
    return any(mark in path for mark in "*?[")
