"""A corpus larger than memory: files that are streamed, never held, and tokenised once into shards.

Shards lie in the folder "shards" of $GLASSFORMER_CACHE, by default ~/.cache/glassformer, so that every run on the same
files with the same tokenizer finds them, whatever its run folder. They can be deleted at any time.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from glassformer.data.documents import Unit, stream_documents
from glassformer.data.examples import Document
from glassformer.data.report import ReadReport
from glassformer.data.rows import Format
from glassformer.data.shard_store import cache_home
from glassformer.data.shard_writer import Marked, home_of, identity_of, tokenise_to_shards
from glassformer.data.shards import DocumentFrame, Shards
from glassformer.data.source import resolve
from glassformer.data.tokenising import usable_cores
from glassformer.files import read_json, write_json
from glassformer.text.tokenizer import Tokenizer

Part = Literal["all", "but the last", "last"]
OnProgress = Callable[[int, int], None]  # bytes of text read, bytes there are on disk
LARGE = 256 << 20  # bytes on disk from which files are streamed
HELD_OUT = 1_000_000  # characters at the end of a stream that are kept for dev, or a tenth of a small one
REPORT = "report.json"


class Account(NamedTuple):
    """What the reading of a corpus came to."""

    lines: list[str]
    facts: dict[str, object]


@dataclass(frozen=True)
class Corpus:
    """Files as a stream of documents: all of it, all but its last `held` characters, or these."""

    sources: tuple[str, ...]
    columns: Mapping[str, str] | None = None
    unit: Unit = "file"
    file_format: Format | None = None
    held: int = 0
    part: Part = "all"
    limit: int | None = None  # at most so many documents
    labels: tuple[str, ...] = ()  # those that its documents have, where they are learnt with them

    @property
    def files(self) -> list[Path]:
        return files_of(self.sources)

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(file.stat().st_size for file in self.files)

    def __iter__(self) -> Iterator[Document]:
        return self.documents()

    def documents(self, on_progress: OnProgress | None = None, report: ReadReport | None = None) -> Iterator[Document]:
        """The documents one by one; `report` is complete when the last has come."""
        stream = stream_documents(
            self.sources, self.columns, unit=self.unit, file_format=self.file_format, report=report
        )
        if on_progress is not None:
            stream = counted(stream, self.size, on_progress)
        if self.part != "all":
            stream = Tail(stream, self.held).last() if self.part == "last" else iter(Tail(stream, self.held))
        return islice(stream, self.limit)

    def lines(self, most: int, on_progress: OnProgress | None = None) -> Iterator[str]:
        """Lines from all over it, about so many bytes of them at most."""
        step = max(1, -(-self.size // most))
        return islice((line for one in self.documents(on_progress) for line in one.text.split("\n")), 0, None, step)

    def split(self) -> tuple["Corpus", "Corpus"]:
        """All but the last part, and this last part, which may begin inside a document."""
        held = min(HELD_OUT, self.size // 10)
        return replace(self, part="but the last", held=held), replace(self, part="last", held=held)

    def identity(self) -> str:
        """What tells this stream from others."""
        columns = sorted((self.columns or {}).items())
        reading = (self.unit, self.file_format, columns, self.part, self.held, self.limit)
        named = [one.label for one in resolve(self.sources, labels=True, folder="txt")] if self.labels else []
        return f"{identity_of(self.files)}\n{reading}" + (f"\n{named}" if self.labels else "")

    def home(self, tokenizer: Tokenizer, frame: DocumentFrame) -> Path:
        """The folder of its shards."""
        return home_of(shards_folder(), tokenizer, identity=self.identity(), **frame._asdict())

    def to_shards(
        self,
        tokenizer: Tokenizer,
        frame: DocumentFrame,
        on_progress: OnProgress | None = None,
        *,
        marked: Marked | None = None,
    ) -> Shards:
        """Tokenise it, or what is left of it after a stop, with all cores if it is large; what was done before is only
        opened. `marked` is the text of a document as it is learnt."""
        report = ReadReport()
        shards = tokenise_to_shards(
            self.documents(on_progress, report),
            tokenizer,
            shards_folder(),
            identity=self.identity(),
            jobs=usable_cores() if self.size >= LARGE else 1,
            marked=marked,
            **frame._asdict(),
        )
        if report.rows:
            write_json(shards.folder / REPORT, {"lines": report.lines(), "facts": report.as_dict()})
        return shards


def account_of(shards: Shards) -> Account:
    """What was said of the reading when the shards were made."""
    if not (shards.folder / REPORT).exists():  # stopped between the last shard and the account
        return Account([], {})
    return Account(**read_json(shards.folder / REPORT))


class Tail:
    """A stream without its last `size` characters, which are there when the rest has come."""

    def __init__(self, documents: Iterable[Document], size: int) -> None:
        self._documents, self._size = documents, size
        self._held: deque[Document] = deque()

    def __iter__(self) -> Iterator[Document]:
        held, total = self._held, 0
        for one in self._documents:
            held.append(one)
            total += len(one.text)
            while held and total - len(held[0].text) >= self._size:
                total -= len(held[0].text)
                yield held.popleft()
        if total > self._size:  # the end begins inside a document
            first = held.popleft()
            border = total - self._size
            held.appendleft(replace(first, text=first.text[border:]))
            yield replace(first, text=first.text[:border])

    def last(self) -> Iterator[Document]:
        """Read to the end, and give what was held back."""
        deque(self, maxlen=0)
        yield from self._held


def counted(documents: Iterable[Document], total: int, on_progress: OnProgress) -> Iterator[Document]:
    """The same documents, with word of how much has been read."""
    done = 0
    for one in documents:
        done += len(one.text.encode())
        on_progress(done, total)
        yield one


def is_large(sources: Sequence[str]) -> bool:
    """Whether these are files, and together too large to be held in memory as a matter of course."""
    return all(one.path for one in resolve(sources, labels=True, folder="txt")) and (
        sum(file.stat().st_size for file in files_of(sources)) >= LARGE
    )


def is_labelled(sources: Sequence[str], columns: Mapping[str, str] | None) -> bool:
    """Whether documents will have labels."""
    return "label" in (columns or {}) or bool(labels_of(sources))


def labels_of(sources: Sequence[str]) -> list[str]:
    """The labels that names bring, as LABEL=file."""
    found = (one.label for one in resolve(sources, labels=True, folder="txt"))
    return sorted({label for label in found if label is not None})


def files_of(sources: Sequence[str]) -> list[Path]:
    """The files that names stand for; only files can be streamed, more than once."""
    found = resolve(sources, labels=True, folder="txt")
    for one in found:
        if one.path is None:
            raise ValueError(f"{one.name} cannot be read twice, as shards need it to be: save it to a file first")
    return [one.path for one in found if one.path is not None]


def shards_folder() -> Path:
    """Where the shards of all corpora are."""
    return cache_home() / "shards"
