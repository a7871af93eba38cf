"""Rows that are to be predicted: each with all its cells, and with what a task is asked of it, or why it cannot be."""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from glassformer.data.arrow import Cells
from glassformer.data.report import Place, ReadReport
from glassformer.data.roles import (
    ABSTRACTS,
    LABELS,
    SCORES,
    TAGS,
    TARGETS,
    TEXTS,
    WORDS,
    Columns,
    are_numbers,
    check_roles,
    find,
    missing,
    named_column,
    names_given,
)
from glassformer.data.rows import BLANK, DataTable, Format, TableOptions, check_cells, table_of_source
from glassformer.data.source import DataSource
from glassformer.data.table import as_text, text_columns

PARQUET = ("parquet", "pq")
ANSWERS = frozenset([*LABELS, *SCORES, *TARGETS, *ABSTRACTS, *TAGS])  # columns of what is to be predicted


class InputRow(NamedTuple):
    """A row of a table: its cells as they are, and what is asked of a model, unless something is wrong with it."""

    cells: Cells
    asked: object = None
    error: str | None = None


class InputColumns(Protocol):
    """Which columns a task reads, and what it is asked of their cells."""

    @property
    def roles(self) -> tuple[str, ...]:
        """What a user may name a column for."""
        ...

    @property
    def names(self) -> frozenset[str]:
        """What such columns are called, in lower case."""
        ...

    def find(self, table: DataTable, named: Mapping[str, str]) -> dict[str, str]:
        """The column of each role that is read; a ValueError where one is missing."""
        ...

    def ask(self, cells: Cells, columns: Mapping[str, str]) -> object:
        """What a pipeline is asked of a row; a ValueError where the row has nothing to ask."""
        ...


@dataclass(frozen=True)
class TextColumn:
    """One column: the text."""

    role: str = "text"
    known: tuple[str, ...] = TEXTS

    @property
    def roles(self) -> tuple[str, ...]:
        return (self.role,)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self.known)

    def find(self, table: DataTable, named: Mapping[str, str]) -> dict[str, str]:
        column = named_column(table, named, self.role) or find(table, self.known) or _only(table)
        if column is None:
            raise missing(table, self.role)
        return {self.role: column}

    def ask(self, cells: Cells, columns: Mapping[str, str]) -> object:
        return _text(cells, columns[self.role])


@dataclass(frozen=True)
class WordsColumn(TextColumn):
    """One column: the text, or a list of its words."""

    known: tuple[str, ...] = (*TEXTS, *WORDS)

    def ask(self, cells: Cells, columns: Mapping[str, str]) -> object:
        cell = cells.get(columns[self.role])
        if isinstance(cell, list) and cell and all(isinstance(word, str) and word.strip() for word in cell):
            return cell
        return super().ask(cells, columns)


@dataclass(frozen=True)
class PairColumns:
    """The text, and its pair where the table has one, or always."""

    required: bool = False
    roles: tuple[str, ...] = ("text", "pair", "label")
    names: frozenset[str] = frozenset([*TEXTS, *LABELS, *SCORES])

    def find(self, table: DataTable, named: Mapping[str, str]) -> dict[str, str]:
        label = named_column(table, named, "label") or find(table, (*LABELS, *SCORES))
        text, pair = text_columns(table, named, [] if label is None else [label])
        if text is None or (self.required and pair is None):
            raise missing(table, "text" if text is None else "pair")
        return {"text": text} if pair is None else {"text": text, "pair": pair}

    def ask(self, cells: Cells, columns: Mapping[str, str]) -> object:
        texts = tuple(_text(cells, column) for column in columns.values())
        return texts if len(texts) == 2 else texts[0]


@dataclass(frozen=True)
class QuestionColumns:
    """A question and its context."""

    roles: tuple[str, ...] = ("question", "context")
    names: frozenset[str] = frozenset(roles)

    def find(self, table: DataTable, named: Mapping[str, str]) -> dict[str, str]:
        columns = {role: named_column(table, named, role) or find(table, [role]) for role in self.roles}
        found = {role: column for role, column in columns.items() if column is not None}
        for role in self.roles:
            if role not in found:
                raise missing(table, role)
        return found

    def ask(self, cells: Cells, columns: Mapping[str, str]) -> object:
        return {role: _text(cells, column) for role, column in columns.items()}


def _only(table: DataTable) -> str | None:
    """The column that is left when those of answers are taken out."""
    left = [column for column in table.columns if column.casefold() not in ANSWERS]
    return left[0] if len(left) == 1 else None


def _text(cells: Cells, column: str) -> str:
    text = as_text(cells.get(column))
    if text is None:
        raise ValueError(f"column {column!r} holds no text but {type(cells[column]).__name__}")
    return text


@dataclass
class RowReport(ReadReport):
    """A report in which rows that cannot be read are not skipped, but wait to be asked for."""

    waiting: deque[tuple[Place, str]] = field(default_factory=deque)

    def skip(self, reason: str, place: Place) -> None:
        if reason == BLANK:
            super().skip(reason, place)
        else:
            self.waiting.append((place, reason))

    def before(self, number: float) -> Iterator[InputRow]:
        """The rows that cannot be read before the one of this number."""
        while self.waiting and self.waiting[0][0].number < number:
            place, reason = self.waiting.popleft()
            yield InputRow({}, error=f"{place.unit} {place.number}: {reason}")


class InputTable(NamedTuple):
    """The columns of a file, and an InputRow for each of its rows, in their order."""

    columns: list[str]
    rows: Iterator[InputRow]


def open_inputs(
    source: DataSource,
    wanted: InputColumns,
    report: RowReport,
    *,
    columns: Columns | None = None,
    file_format: Format | None = None,
    header: bool | None = None,
) -> InputTable:
    """A file to be predicted; one that cannot be read, or lacks a column, is a ValueError. It may have no rows."""
    named = check_roles(columns, wanted.roles)
    known = wanted.names | names_given(named)
    reading = TableOptions(file_format=file_format, header=header, known=known, by_position=are_numbers(named))
    report.waiting.clear()
    if source.path is not None and not source.path.stat().st_size and source.extension not in PARQUET:
        return InputTable([], iter(()))  # as others write a part without rows
    table = table_of_source(source, report, reading)
    found = wanted.find(table, named) if table.sample else {}
    if found:
        report.take(source.name, "; ".join(f"{role}: column {column!r}" for role, column in found.items()))
    return InputTable(table.columns, _rows(table, wanted, found, report))


def _rows(table: DataTable, wanted: InputColumns, columns: Mapping[str, str], report: RowReport) -> Iterator[InputRow]:
    for place, cells in table.rows:
        yield from report.before(place.number)
        try:
            check_cells(place, cells)
            yield InputRow(cells, wanted.ask(cells, columns))
        except ValueError as error:
            yield InputRow(cells, error=str(error))
    yield from report.before(float("inf"))
