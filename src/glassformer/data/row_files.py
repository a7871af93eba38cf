"""Rows written to a file, with what was predicted of each behind its own cells: csv, tsv, jsonl or parquet."""

import csv
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from glassformer.data.arrow import Cells, one_line
from glassformer.data.source import extra

RowFormat = Literal["csv", "tsv", "jsonl", "parquet"]
PREDICTED, ERROR = "predicted", "prediction_error"
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet runs
IN_TSV = str.maketrans({"\t": "\\t", "\n": "\\n", "\r": "\\r"})  # where a cell ends at a tab and a row at its line


class OutputRow(NamedTuple):
    """A row, what was predicted of it, and why nothing was."""

    cells: Cells
    found: Any = None
    error: str | None = None


class RowWriter(ABC):
    """A file in the making.

    `columns` are those of the rows' own cells. Those of what is predicted are told by `sample`, a result such as all
    files of a run have; without one by the first result, and rows before it wait. `guard`: a spreadsheet runs nothing
    of what was predicted. `schema`: of the parquet file that the rows are of, where they are of one.
    """

    def __init__(
        self, path: Path, columns: Sequence[str], *, sample: Any = None, guard: bool = True, schema: Any = None
    ) -> None:
        self.path, self.columns, self.guard, self.schema = path, list(columns), guard, schema
        self.sample: dict[str, Any] | None = None  # what is predicted, by columns
        self._waiting: list[OutputRow] = []
        if ERROR in columns:
            raise _taken(ERROR)
        if sample is not None:
            self._begin(sample)

    def add(self, rows: Iterable[OutputRow]) -> None:
        """Some more rows."""
        self._waiting += rows
        results = [one.found for one in self._waiting if one.error is None]
        if self.sample is None and results:
            self._begin(results[0])
        if self.sample is not None:
            self._flush()

    def finish(self) -> None:
        """Write what is left; a file of no rows, or of none that could be predicted, is one too."""
        if self.sample is None:
            self._begin({})
        self._flush()
        self._finish()

    def close(self) -> None:
        """Let go of the file, finished or not."""
        if self.sample is not None:
            self._release()

    def _begin(self, sample: object) -> None:
        found = columns_of(sample)
        if taken := [name for name in found if name in self.columns]:
            raise _taken(taken[0])
        self._open(found)
        self.sample = found

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._write([self._joined(row) for row in waiting])

    def _joined(self, row: OutputRow) -> Cells:
        if late := [name for name in row.cells if name not in self.columns]:
            raise ValueError(f"a column comes first after many rows, {late[0]!r}: write it with --format jsonl")
        found = {} if row.error is not None else columns_of(row.found)
        own = {name: row.cells.get(name) for name in self.columns}
        return {**own, **{name: found.get(name) for name in self.sample or ()}, ERROR: row.error}

    @abstractmethod
    def _open(self, sample: Mapping[str, object]) -> None: ...

    @abstractmethod
    def _write(self, rows: list[Cells]) -> None: ...

    @abstractmethod
    def _finish(self) -> None: ...

    @abstractmethod
    def _release(self) -> None: ...


def columns_of(found: object) -> dict[str, Any]:
    """A result by columns: a field of a flat one each, and else all of it in one."""
    return (
        {f"{PREDICTED}_{name}": one for name, one in found.items()} if isinstance(found, dict) else {PREDICTED: found}
    )


def _taken(name: str) -> ValueError:
    return ValueError(f"there is a column {name!r} already, which is what predictions are called: rename it")


class TextWriter(RowWriter):
    """A file of lines."""

    def _open(self, sample: Mapping[str, object]) -> None:
        del sample
        self.file = self.path.open("w", encoding="utf-8", newline="")

    def _finish(self) -> None:
        self.file.flush()

    def _release(self) -> None:
        self.file.close()


class JsonlWriter(TextWriter):
    """An object on each line; each row has the cells that it has."""

    def _joined(self, row: OutputRow) -> Cells:
        found = {} if row.error is not None else columns_of(row.found)
        return {**row.cells, **found, ERROR: row.error}

    def _write(self, rows: list[Cells]) -> None:
        self.file.writelines(f"{json_text(row)}\n" for row in rows)


class CsvWriter(TextWriter):
    """A header and rows; what is no text or number is json in its cell."""

    def _open(self, sample: Mapping[str, object]) -> None:
        super()._open(sample)
        self.table = csv.writer(self.file, lineterminator="\n")
        self._lines([[*self.columns, *sample, ERROR]])

    def _write(self, rows: list[Cells]) -> None:
        own = set(self.columns)
        self._lines([[self._cell(cell, own=name in own) for name, cell in row.items()] for row in rows])

    def _cell(self, cell: object, *, own: bool) -> str:
        text = "" if cell is None else cell if isinstance(cell, str) else json_text(cell)
        return text if own or not self.guard or not isinstance(cell, str) else guarded(text)

    def _lines(self, lines: list[list[str]]) -> None:
        self.table.writerows(lines)


class TsvWriter(CsvWriter):
    """The same between tabs, without quotes."""

    def _lines(self, lines: list[list[str]]) -> None:
        self.file.writelines("\t".join(cell.translate(IN_TSV) for cell in line) + "\n" for line in lines)


class ParquetWriter(RowWriter):
    """Columns of the kinds that they had, or that the first rows have; vectors are lists of numbers, and results that
    are deeper json."""

    def _open(self, sample: Mapping[str, object]) -> None:
        self.arrow = extra("pyarrow", str(self.path))
        numbers = self.arrow.list_(self.arrow.float32())
        self.deep = {name for name, one in sample.items() if isinstance(one, list | dict) and not is_vector(one)}
        self.predicted = {
            name: numbers if is_vector(one) else self.arrow.string() if name in self.deep else self._inferred([one])
            for name, one in sample.items()
        }
        self.writer: Any = None

    def _write(self, rows: list[Cells]) -> None:
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        for name in self.deep:
            columns[name] = [None if one is None else json_text(one) for one in columns[name]]
        try:
            if self.writer is None:
                self._begin_file(columns)
            table = self.arrow.table(columns, schema=self.kinds)
        except (self.arrow.ArrowException, TypeError, ValueError) as error:
            raise ValueError(f"a column changes its kind ({one_line(error)}): write it with --format jsonl") from None
        self.writer.write_table(table)

    def _begin_file(self, columns: Mapping[str, list[Any]]) -> None:
        own = {name: self._kind(name, columns[name]) for name in self.columns}
        self.kinds = self.arrow.schema([*own.items(), *self.predicted.items(), (ERROR, self.arrow.string())])
        self.writer = extra("pyarrow.parquet", str(self.path)).ParquetWriter(self.path, self.kinds)

    def _kind(self, name: str, values: list[Any]) -> Any:
        if self.schema is not None and name in self.schema.names:
            kind = self.schema.field(name).type
            try:
                self.arrow.array(values, kind)
                return kind
            except (self.arrow.ArrowException, TypeError, ValueError):
                pass  # classes by their names, where the file has their numbers
        return self._inferred(values)

    def _inferred(self, values: list[Any]) -> Any:
        kind = self.arrow.infer_type(values)
        return self.arrow.string() if self.arrow.types.is_null(kind) else kind

    def _finish(self) -> None:
        if self.writer is None:
            self._begin_file({name: [] for name in self.columns})

    def _release(self) -> None:
        if self.writer is not None:
            self.writer.close()


def is_vector(value: object) -> bool:
    """Whether a result is a list of numbers."""
    return isinstance(value, list) and bool(value) and all(isinstance(one, float | int) for one in value)


WRITERS: Mapping[RowFormat, type[RowWriter]] = {
    "csv": CsvWriter,
    "tsv": TsvWriter,
    "jsonl": JsonlWriter,
    "parquet": ParquetWriter,
}


def json_text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: object) -> Any:
    """Numbers of arrays as numbers; dates, decimals, bytes and whatever else as they print."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def guarded(text: str) -> str:
    """A cell that no spreadsheet runs, with a ' before it."""
    return f"'{text}" if text.startswith(FORMULA) and not _is_number(text) else text


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
