"""What a reader gives and a task takes: one small record per kind of example."""

from dataclasses import dataclass
from typing import Protocol

Label = str | tuple[str, ...] | float
"""A class, several classes (multi-label), or a score (regression)."""


class Example(Protocol):
    """What every kind of example tells of itself."""

    @property
    def texts(self) -> tuple[str, ...]:
        """What a vocabulary is learnt from."""
        ...

    @property
    def key(self) -> str:
        """Examples with the same key must never be on two sides of a split."""
        ...


@dataclass(frozen=True, slots=True)
class Labelled:
    """A text, or a pair of texts, with its label; None where it is to be predicted."""

    text: str
    pair: str | None = None
    label: Label | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.text,) if self.pair is None else (self.text, self.pair)

    @property
    def key(self) -> str:
        return f"{self.text}\t{self.pair or ''}"


@dataclass(frozen=True, slots=True)
class Tagged:
    """The words of a sentence and a tag for each, always in IOB2; None where they are to be predicted."""

    words: tuple[str, ...]
    tags: tuple[str, ...] | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.key,)

    @property
    def key(self) -> str:
        return " ".join(self.words)


@dataclass(frozen=True, slots=True)
class SquadAnswer:
    """A span of the context: context[start : start + len(text)] == text."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class SquadExample:
    """A question about a context; no answers where it has none (SQuAD 2) or where they are to be predicted."""

    id: str
    question: str
    context: str
    answers: tuple[SquadAnswer, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.question, self.context)

    @property
    def key(self) -> str:
        return self.context


@dataclass(frozen=True, slots=True)
class Parallel:
    """A text and its translation; None where it is to be made."""

    source: str
    target: str | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.source,) if self.target is None else (self.source, self.target)

    @property
    def key(self) -> str:
        return self.source


@dataclass(frozen=True, slots=True)
class Document:
    """Running text; its paragraphs are lines. The label, if any, is a control word for generation."""

    text: str
    label: str | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.text,)

    @property
    def key(self) -> str:
        return self.text
