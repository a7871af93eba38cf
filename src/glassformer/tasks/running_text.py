"""What tasks on running text have in common: how it is read, and how a part of it is held out."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from glassformer.data.batches import Indices
from glassformer.data.blocks import Blocks, Windows
from glassformer.data.corpus import Corpus, is_large
from glassformer.data.documents import Unit, read_documents
from glassformer.data.examples import Document
from glassformer.data.mixing import CorpusPart
from glassformer.data.report import Read
from glassformer.data.rows import Format
from glassformer.data.shards import DocumentFrame

from .task import I, Task

FEW = 100  # documents of which each gives its last part to the dev split, rather than some of them all


class RunningTextTask(Task[Document, I]):
    """A task whose examples are documents."""

    metric = "-loss"
    reads_shards: ClassVar[bool] = True  # of text that is tokenised already, where sentences are not told apart

    @classmethod
    def read(
        cls,
        sources: Sequence[str],
        *,
        columns: Mapping[str, str] | None = None,
        unit: Unit = "file",
        file_format: Format | None = None,
        shards: bool | None = None,
        **_: object,
    ) -> Read[Document]:
        """
        Args:
            columns: Of a table: which column is the text and, for text-generation, the label (its kind of text).
            unit: What is a document: a file, an article (WikiText's headings), a block between blank lines, a line.
            shards: Stream the text through files on disk, for more than memory; by default from 256 MB on.
        """
        del shards  # see `corpus`: what is read here is held in memory
        return read_documents(sources, columns, unit=unit, file_format=file_format)

    @classmethod
    def corpus(
        cls,
        sources: Sequence[str],
        *,
        columns: Mapping[str, str] | None = None,
        unit: Unit = "file",
        file_format: Format | None = None,
        shards: bool | None = None,
        packing: bool = True,
        **_: object,
    ) -> Corpus | None:
        """The files as a stream that goes to shards, if `shards` is true, or not said and they are large; else None."""
        if shards is False or (shards is None and not (packing and is_large(sources))):
            return None
        return Corpus(tuple(sources), columns, unit, file_format)

    @property
    @abstractmethod
    def end(self) -> int | None:
        """The id that stands after each document of a stream."""

    @property
    def frame(self) -> DocumentFrame:
        """What stands around each document of a stream."""
        return DocumentFrame(end_token_id=self.end)

    def stream(self, items: I) -> Windows | Blocks | None:
        """What of the examples is cut from a stream; None where they are in memory, or read from anywhere."""
        del items
        return None

    def expect(self, items: I, indices: Indices) -> None:
        if (stream := self.stream(items)) is not None:
            stream.expect(indices)

    def sources(self, items: I) -> Sequence[CorpusPart]:
        stream = self.stream(items)
        return () if stream is None else stream.sources

    def marked(self, example: Document) -> str:
        """The text of a document as it is learnt."""
        return example.text

    @classmethod
    def split(cls, examples: Sequence[Document]) -> tuple[list[Document], list[Document]]:
        """Of many documents some are held out, of few the last tenth of each."""
        if len(examples) >= FEW:
            return super().split(examples)
        borders = [(one, len(one.text) * 9 // 10) for one in examples]
        train = [replace(one, text=one.text[:border]) for one, border in borders if border]
        return train, [replace(one, text=one.text[border:]) for one, border in borders]


def as_text(given: object) -> str:
    """A text, or a Document or dict with one."""
    match given:
        case str():
            return given
        case Document():
            return given.text
        case {"text": str(text)}:
            return text
    raise ValueError(f"a text or a dict with 'text' is wanted, not {given!r}")
