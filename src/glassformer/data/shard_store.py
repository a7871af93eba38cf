"""Where the files of shards lie: in a folder, or at an address (s3://, gs://, hf://, …) of which some are kept here.

Copies are made when they are read, or before where that is foreseen; each is checked as it comes. All processes of a
machine share them. When more bytes are here than may be, those that were not used for longest go; what is mapped stays
readable until it is let go of.
"""

import os
import platform
import queue
import re
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol

from filelock import FileLock

from glassformer.data.arrow import one_line
from glassformer.data.remote import file_system, is_remote
from glassformer.files import parse_json, read_json
from glassformer.files.writing import PARTIAL

INDEX = "shards.json"
ENDINGS = (".npy", ".ends.npy")
CACHE_BYTES = "GLASSFORMER_STREAM_CACHE"  # the variable that says how much is kept of what lies elsewhere
STANDARD = "16GB"  # two windows of a shuffle have 4 GB, and twice that with a vocabulary of more than 65,536
UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
TRIES, PAUSE = 9, 1.0  # how often a file is asked for, and seconds before it is asked for again, doubled each time
FETCHERS = 4  # files that are fetched at once

Files = Mapping[str, list[int]]  # the size and checksum of each file of a shard, by its ending


class ShardStore(Protocol):
    """The files of a folder of shards, as paths on this machine."""

    @property
    def most_open(self) -> int | None:
        """How many of its files may be mapped at once; None: as many as the system allows."""
        ...

    def path(self, name: str, ending: str, files: Files) -> Path:
        """A file of a shard, which is here when this returns."""
        ...

    def expect(self, shards: Sequence[tuple[str, Files]]) -> None:
        """These will be asked for."""
        ...

    def check(self, name: str, files: Files, *, checksums: bool) -> None:
        """Refuse a shard whose files are not as they were written, as far as that can be seen without fetching them."""
        ...

    def settle(self) -> None:
        """Wait for what is being fetched."""
        ...


class LocalStore:
    """A folder of this machine, or one that it sees as its own."""

    most_open: int | None = None

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str, ending: str, files: Files) -> Path:
        del files
        return self.folder / f"{name}{ending}"

    def expect(self, shards: Sequence[tuple[str, Files]]) -> None: ...

    def check(self, name: str, files: Files, *, checksums: bool) -> None:
        for ending, known in files.items():
            check_file(self.path(name, ending, files), known, checksums=checksums)

    def settle(self) -> None: ...


class RemoteStore:
    """An address, of which some files are kept in a folder here, with those of all others up to `limit` bytes."""

    def __init__(self, address: str, folder: Path, *, limit: int) -> None:
        self.address, self.limit, self.home = address.rstrip("/"), limit, folder
        self.folder = folder / blake2b(self.address.encode(), digest_size=8).hexdigest()
        self._largest = 1
        self._fetchers: _Fetchers | None = None

    @property
    def most_open(self) -> int | None:
        return max(2, self.limit // self._largest)

    def path(self, name: str, ending: str, files: Files) -> Path:
        found = self._here(name, ending, files)
        if self._fetchers is not None:
            self._fetchers.wait(found)
        if not _is_whole(found, files[ending][0]):
            self._fetch(name, ending, files)
        with suppress(OSError):
            os.utime(found)
        return found

    def expect(self, shards: Sequence[tuple[str, Files]]) -> None:
        self._fetchers = self._fetchers or _Fetchers()
        for name, files in shards:
            path = self._here(name, ".npy", files)
            if not _is_whole(path, files[".npy"][0]):
                self._fetchers.add(path, partial(self._fetch, name, ".npy", files))

    def check(self, name: str, files: Files, *, checksums: bool) -> None:
        del name, checksums  # each is checked as it comes
        self._largest = max(self._largest, files[".npy"][0])

    def settle(self) -> None:
        if self._fetchers is not None:
            self._fetchers.settle()

    def _here(self, name: str, ending: str, files: Files) -> Path:
        """Under its checksum, so that what takes its place there does not pass for it here."""
        return self.folder / f"{name.replace('/', '-')}-{files[ending][1]:08x}{ending}"

    def _fetch(self, name: str, ending: str, files: Files) -> None:
        """Fetch a file, unless another process did meanwhile."""
        path, (size, _) = self._here(name, ending, files), files[ending]
        half = path.with_name(f".{path.name}{PARTIAL}")
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path.with_name(f".{path.name}.lock")):
            if _is_whole(path, size):
                return
            self._copy(f"{self.address}/{name}{ending}", half, files[ending])
            with _locked(self.home / ".room.lock"):
                self._make_room(size)
                os.replace(half, path)

    def _copy(self, address: str, path: Path, known: Sequence[int]) -> None:
        """A checked copy of a file; what goes wrong is tried again for some minutes."""
        for attempt in range(TRIES):
            try:
                system, place = file_system(address)
                system.get_file(place, str(path))
                check_file(path, known, checksums=True, known_as=address)
                return
            except Exception as error:  # of many kinds: no network, no key, a file that is not whole
                path.unlink(missing_ok=True)
                if attempt + 1 == TRIES and isinstance(error, ValueError):
                    raise  # which says all
                if attempt + 1 == TRIES:
                    told = f"{type(error).__name__}: {one_line(error)}"
                    raise ValueError(f"{address} cannot be fetched ({told})") from None
                time.sleep(PAUSE * 2**attempt)

    def _make_room(self, size: int) -> None:
        """Let go of what was not used for longest, from wherever it is, so that `size` more bytes are within the
        limit."""
        here = []
        for path in self.home.glob("*/*.npy"):
            with suppress(OSError):  # someone has deleted it by hand
                stat = path.stat()
                here.append((stat.st_mtime_ns, stat.st_size, path))
        total = size + sum(one for _, one, _ in here)
        for _, one, path in sorted(here):
            if total > self.limit:
                path.unlink(missing_ok=True)
                total -= one


class _Fetchers:
    """Threads that fetch what is wanted, first come first served. They end with the process, whatever is left to do."""

    def __init__(self) -> None:
        self._queue: queue.Queue[tuple[Path, Callable[[], None]]] = queue.Queue()
        self._over: dict[Path, threading.Event] = {}
        self._lock = threading.Lock()
        for _ in range(FETCHERS):
            threading.Thread(target=self._work, daemon=True).start()

    def add(self, path: Path, fetch: Callable[[], None]) -> None:
        with self._lock:
            if path in self._over:
                return
            self._over[path] = threading.Event()
        self._queue.put((path, fetch))

    def wait(self, path: Path) -> None:
        """Until a file that is wanted has come, or could not be fetched."""
        with self._lock:
            over = self._over.get(path)
        if over is not None:
            over.wait()

    def settle(self) -> None:
        """Until all have."""
        self._queue.join()

    def _work(self) -> None:
        while True:
            path, fetch = self._queue.get()
            with suppress(Exception):  # of any kind: it is asked for again by whoever reads it, and fails there
                fetch()
            with self._lock:
                self._over.pop(path).set()
            self._queue.task_done()


def _is_whole(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except OSError:
        return False


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One at a time; on a file system that has no locks, do without."""
    lock = FileLock(path)
    try:
        lock.acquire()
    except (OSError, NotImplementedError):
        yield
        return
    try:
        yield
    finally:
        lock.release()


def store_of(place: str | Path) -> ShardStore:
    """Where the shards of a folder or an address lie."""
    if not is_remote(str(place)):
        return LocalStore(Path(place))
    return RemoteStore(str(place), streams_folder(), limit=stream_cache())


def streams_folder() -> Path:
    """Where is kept what lies elsewhere: for each machine apart, as a file that one lets go of may be mapped."""
    return cache_home() / "streams" / (re.sub(r"[^\w.-]", "-", platform.node()) or "here")


def stream_cache() -> int:
    """How many bytes are kept here of all that lies elsewhere."""
    given = os.environ.get(CACHE_BYTES, STANDARD)
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]B)", given.strip().upper())
    if found is None:
        raise ValueError(f"{CACHE_BYTES}={given!r} is no size: write it as 16GB")
    return int(float(found[1]) * UNITS[found[2]])


def cache_home() -> Path:
    """Where everything is that can be deleted at any time."""
    home = os.environ.get("GLASSFORMER_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "glassformer"
    return Path(home).expanduser()


def has_index(place: str | Path) -> bool:
    """Whether a place holds finished shards."""
    if not is_remote(str(place)):
        return (Path(place) / INDEX).is_file()
    system, path = file_system(f"{str(place).rstrip('/')}/{INDEX}")
    try:
        return bool(system.exists(path))
    except Exception as error:  # of many kinds
        raise ValueError(f"{place} cannot be read ({type(error).__name__}: {one_line(error)})") from None


def read_index(place: str | Path) -> dict[str, Any]:
    """What shards.json says."""
    if not has_index(place):
        raise ValueError(f"{place} has no {INDEX}: tokenise to the end first")
    if not is_remote(str(place)):
        return dict(read_json(Path(place) / INDEX))
    address = f"{str(place).rstrip('/')}/{INDEX}"
    system, path = file_system(address)
    return dict(parse_json(system.cat_file(path), address))


def file_of(home: Path, number: int, ending: str) -> Path:
    return home / f"shard-{number:05}{ending}"


def check_file(path: Path, known: Sequence[int], *, checksums: bool, known_as: str | None = None) -> None:
    """Refuse a file that has not the size, or the checksum, that it was written with."""
    size, sum_of_bytes = known
    found, name = path.stat().st_size if path.exists() else 0, known_as or path
    if found != size:
        raise ValueError(f"{name} is damaged ({found} bytes, not {size}): delete it and tokenise again")
    if checksums and checksum(path) != sum_of_bytes:
        raise ValueError(f"{name} is damaged (its checksum is wrong): delete it and tokenise again")


def checksum(path: Path) -> int:
    """The CRC-32 of a file."""
    total = 0
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            total = zlib.crc32(chunk, total)
    return total
