"""What a reader gives and a task takes: one small record per kind of example."""

from dataclasses import dataclass

Label = str | tuple[str, ...] | float
"""A class, several classes (multi-label), or a score (regression)."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """A text, or a pair of texts, with its label; None where it is to be predicted."""

    text: str
    pair: str | None = None
    label: Label | None = None


@dataclass(frozen=True, slots=True)
class Tagged:
    """The words of a sentence and a tag for each, always in IOB2; None where they are to be predicted."""

    words: tuple[str, ...]
    tags: tuple[str, ...] | None = None


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


@dataclass(frozen=True, slots=True)
class Parallel:
    """A text and its translation; None where it is to be made."""

    source: str
    target: str | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """Running text; its paragraphs are lines. The label, if any, is a control word for generation."""

    text: str
    label: str | None = None
