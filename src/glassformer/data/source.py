"""Names to numbered lines of text: files, globs, standard input and hub datasets, compressed or not.

A name is a file, a glob, "-" (standard input), or "hub:NAME:CONFIG:SPLIT", where config and split may be left out
("hub:imdb", "hub:imdb::test"). Where a reader can use it, "LABEL=name" gives a label to every row of a file.

Text is UTF-8. A line that is not is read as latin-1 (Windows' variant) and counted, so that one stray byte does not
spoil a file and a whole file in latin-1 reads well; UTF-16 is known by its mark. Lines end at a newline and nothing
else; NUL bytes are taken out and counted.
"""

import bz2
import glob
import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeVar, cast

from glassformer.data.report import Place, ReadReport

T = TypeVar("T")
Sources = str | Path | Sequence[str | Path]
Line = tuple[int, str]  # its number, from 1, and its text with the end of the line

COMPRESSED = (".gz", ".zst", ".xz", ".bz2")
GZIP, XZ, BZIP2, ZSTD = b"\x1f\x8b", b"\xfd7zXZ\x00", b"BZh", b"\x28\xb5\x2f\xfd"
ARCHIVES = ("tar", "tgz", "zip", "7z")
NOT_TEXT = {
    b"PK\x03\x04": "a zip archive or a spreadsheet: unpack it, or save it as csv",
    b"PAR1": "parquet: end its name with .parquet",
    b"ARROW1": "an arrow file: save it as parquet",
}
UTF8_MARK = b"\xef\xbb\xbf"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
NOT_UTF8 = "not UTF-8, read as latin-1 (if it is another encoding: iconv -f ENCODING -t utf-8)"
MOST_FILES = 100_000  # that one name may stand for: the root of a disk is a slip
LONGEST_TEXT = 10_000_000  # characters of a line or a cell: to tokenise more takes minutes and gigabytes
SAMPLE = 1000  # rows that are looked at before columns and formats are decided
SAMPLE_SIZE = 1 << 20  # characters, if the rows are long


class HubName(NamedTuple):
    """A data set of the Hugging Face hub, or a folder that `datasets` reads as one."""

    name: str
    config: str | None
    split: str


@dataclass(frozen=True, slots=True)
class DataSource:
    """One thing to read, with the name that reports give it; neither path nor hub name means standard input."""

    name: str
    path: Path | None = None
    hub: HubName | None = None
    label: str | None = None

    @property
    def extension(self) -> str:
        """What the name ends in, before a compression's suffix: "csv" for data.csv.gz."""
        name = self.path.name.lower() if self.path else ""
        for suffix in COMPRESSED:
            name = name.removesuffix(suffix)
        return Path(name).suffix.removeprefix(".")

    def lines(self, report: ReadReport) -> Iterator[Line]:
        """The lines of the text, each with its number and its end; an empty file is an error."""
        number = 0
        for number, raw in enumerate(self._raw_lines(report), 1):
            text = raw if isinstance(raw, str) else self._decoded(raw, number, report)
            if "\0" in text:
                report.note("NUL bytes taken out", Place(self.name, number))
                text = text.replace("\0", "")
            yield number, text
        if number == 0:
            raise ValueError(f"{self.name} is empty: give a file with text in it")

    @contextmanager
    def opened(self) -> Iterator[io.BufferedReader]:
        """The content of the file, uncompressed."""
        if self.path is None:
            waiting = io.BufferedReader(cast(Any, sys.stdin.buffer))
            try:
                yield uncompressed(waiting, self.name)
            finally:
                waiting.detach()  # standard input is not ours to close
        else:
            with self.path.open("rb") as file:
                yield uncompressed(file, self.name)

    def _raw_lines(self, report: ReadReport) -> Iterator[bytes | str]:
        """Lines as bytes, without the mark of UTF-8; as text where the file is marked as UTF-16."""
        if self.hub or self.extension in ARCHIVES:
            raise ValueError(f"{self.name} is not a text file: give the text files that are in it")
        try:
            with self.opened() as file:
                start = file.peek(8)
                for mark, what in NOT_TEXT.items():
                    if start.startswith(mark):
                        raise ValueError(f"{self.name} is {what}")
                if start.startswith(UTF16_MARKS):
                    report.take(self.name, "encoding: UTF-16")
                    wrapper = io.TextIOWrapper(file, encoding="utf-16", newline="\n")
                    yield from wrapper
                    wrapper.detach()
                else:
                    file.read(len(UTF8_MARK) if start.startswith(UTF8_MARK) else 0)
                    yield from file
        except UnicodeDecodeError as error:
            raise ValueError(f"{self.name} is marked as UTF-16 and is not ({error.reason}): save it as UTF-8") from None
        except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
            reason = getattr(error, "strerror", None) or error
            raise ValueError(f"{self.name} cannot be read ({reason}): is it whole?") from None

    def _decoded(self, raw: bytes, number: int, report: ReadReport) -> str:
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            report.note(NOT_UTF8, Place(self.name, number))
        try:
            return raw.decode("cp1252")
        except UnicodeDecodeError:  # the few bytes that Windows' variant leaves undefined
            return raw.decode("latin-1")


def check_length(size: int, where: str) -> None:
    """Refuse so many characters as one text."""
    if size > LONGEST_TEXT:
        raise ValueError(f"{where} has {size:,} characters; {LONGEST_TEXT:,} are the most that is read as one text")


def checked_lines(lines: Iterator[Line], file: str) -> Iterator[Line]:
    """Lines of which each is a text; an error at one that is too long for that."""
    for number, text in lines:
        check_length(len(text), str(Place(file, number)))
        yield number, text


def uncompressed(file: io.BufferedReader, name: str) -> io.BufferedReader:
    """A file's content; compression is known by its first bytes, whatever the name says."""
    start = file.peek(8)
    if start.startswith(GZIP):
        return wrapped(gzip.GzipFile(fileobj=file))
    if start.startswith(XZ):
        return wrapped(lzma.LZMAFile(file))
    if start.startswith(BZIP2):
        return wrapped(bz2.BZ2File(file))
    if start.startswith(ZSTD):
        return io.BufferedReader(ZstandardReader(file, name))
    return file


def wrapped(file: Any) -> io.BufferedReader:
    """A decompressor as a file that can be looked ahead in."""
    return io.BufferedReader(file)


class ZstandardReader(io.RawIOBase):
    """The content of a zstd file; the package's own reader does not say when the file is cut short."""

    def __init__(self, file: io.BufferedReader, name: str) -> None:
        self.file = file
        zstandard = extra("zstandard", name)
        self.engine, self.error = zstandard.ZstdDecompressor(), zstandard.ZstdError
        self.frame = self.engine.decompressobj()
        self.ready = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self.ready and (block := self.frame.unused_data or self.file.read(1 << 16)):
            if self.frame.eof:  # frames may follow one another
                self.frame = self.engine.decompressobj()
            try:
                self.ready = self.frame.decompress(block)
            except self.error as error:
                raise OSError(str(error)) from None
        if not self.ready and not self.frame.eof:
            raise EOFError("the file ended before the end of its zstd frame")
        count = min(len(buffer), len(self.ready))
        buffer[:count], self.ready = self.ready[:count], self.ready[count:]
        return count


def extra(module: str, needed_by: str) -> ModuleType:
    """An optional package, or an error that says how to get it."""
    try:
        return import_module(module)
    except ImportError:
        raise ValueError(f"{needed_by} needs {module}: pip install 'glassformer[data]'") from None


def resolve(sources: Sources, *, labels: bool = False, folder: str | None = None) -> list[DataSource]:
    """The things to read, in order; `labels` allows LABEL=name, a folder stands for its files that end in `folder`."""
    given = [sources] if isinstance(sources, (str, Path)) else list(sources)
    if not given:
        raise ValueError("no file was given: name at least one, or - for standard input")
    found: list[DataSource] = []
    for name in map(str, given):
        label, equals, rest = name.partition("=")
        if labels and equals and label and "/" not in label and not Path(name).exists():
            found += [replace(one, label=label) for one in resolve_name(rest, folder)]
        else:
            found += resolve_name(name, folder)
    return found


def resolve_name(name: str, folder: str | None) -> list[DataSource]:
    """What one name stands for; globs in alphabetical order."""
    if name == "-":
        return [DataSource("stdin")]
    if name.startswith("hub:"):
        return [DataSource(name, hub=hub_name(name))]
    path = Path(name).expanduser()
    if path.is_dir() and folder is None:
        raise ValueError(f"{name} is a folder: name its files, for instance '{name.rstrip('/')}/*.csv'")
    if path.exists() and not path.is_dir():
        return [DataSource(name, path)]
    pattern = f"{glob.escape(str(path))}/**" if path.is_dir() else str(path)
    matches = list(islice(glob.iglob(pattern, recursive=True), MOST_FILES + 1))
    if len(matches) > MOST_FILES:
        raise ValueError(f"{name!r} stands for more than {MOST_FILES:,} files: name those to read")
    found = [DataSource(match, Path(match)) for match in sorted(matches) if Path(match).is_file()]
    if path.is_dir():
        found = [source for source in found if source.extension == folder]
    if not found:
        if path.is_dir():
            raise ValueError(f"{name} has no .{folder} files in it")
        there = [one.name for one in path.parent.iterdir()] if path.parent.is_dir() else []
        near = [str(path.with_name(one)) for one in get_close_matches(path.name, there)]
        raise ValueError(f"there is no file {name!r}" + (f"; near it: {', '.join(near)}" if near else ""))
    return found


def hub_name(name: str) -> HubName:
    """The parts of hub:NAME:CONFIG:SPLIT; the split may have a slice, as in train[:100]."""
    parts = name.removeprefix("hub:").split(":", 2)
    if not parts[0]:
        raise ValueError(f"{name!r} names no data set: write hub:NAME, or hub:NAME:CONFIG:SPLIT")
    rest = [*parts[1:], "", ""]
    return HubName(parts[0], rest[0] or None, rest[1] or "train")


def row_size(row: object) -> int:
    """About how many characters a row holds, whatever it is: a line, a record, or cells."""
    if isinstance(row, str):
        return len(row)
    cells = row.values() if isinstance(row, dict) else row if isinstance(row, (list, tuple)) else ()
    return 1 + sum(len(cell) if isinstance(cell, str) else row_size(cell) for cell in cells)


def peeked(rows: Iterator[T], most: int = SAMPLE) -> tuple[list[T], Iterator[T]]:
    """The first rows, not too much of them, and an iterator that gives all."""
    sample: list[T] = []
    size = 0
    for row in rows:
        sample.append(row)
        size += row_size(row)
        if len(sample) >= most or size > SAMPLE_SIZE:
            break
    return sample, chain(sample, rows)
