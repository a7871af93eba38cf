"""Files of any format to numbered rows with named columns: csv, tsv, jsonl, json, parquet, hub, and plain lines.

The format is what the name ends in, else what the first lines look like. Columns of a file without a header are
called by their number, from "0".
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal, get_args

from glassformer.data.arrow import Cells, read_hub, read_parquet
from glassformer.data.delimited import (
    Record,
    column_names,
    could_be_header,
    csv_records,
    find_delimiter,
    has_header,
    regularity,
    tsv_records,
    usual_width,
)
from glassformer.data.report import Place, ReadReport
from glassformer.data.source import LONGEST_TEXT, DataSource, Line, check_length, peeked, row_size

Format = Literal["csv", "tsv", "jsonl", "json", "parquet", "text", "first-word"]
Row = tuple[Place, Cells]

EXTENSIONS: dict[str, Format] = {
    "csv": "csv",
    "tsv": "tsv",
    "tab": "tsv",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "json": "json",
    "parquet": "parquet",
    "pq": "parquet",
}
BLANK = "a blank line"  # the one reason to skip what is no row at all
DEEPEST = 100  # levels of JSON; data has few, and repr and comparison of more can end the process
ARRAYS = ("data", "rows", "examples")  # what an object calls the array of its rows


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """How a table is to be read, where the user or the reader knows better than the file's looks."""

    file_format: Format | None = None  # "first-word": plain lines, the first word of each is its label
    header: bool | None = None  # whether the first line of a csv or tsv names the columns; None to find out
    known: Collection[str] = ()  # names that columns may have, in lower case: one of them makes a header
    known_together: Collection[str] = ()  # names that make a header if all of it is among them
    by_position: bool = False  # columns are given by number: without a header, a longer line still has them

    def __post_init__(self) -> None:
        if self.file_format is not None and self.file_format not in get_args(Format):
            raise ValueError(f"file_format={self.file_format!r} is not known: use one of {', '.join(get_args(Format))}")


@dataclass(frozen=True)
class DataTable:
    """A file's columns, its first rows to judge them by, and all its rows, which can be gone through once."""

    source: DataSource
    columns: list[str]
    headed: bool
    sample: list[Cells]
    rows: Iterator[Row]
    names_in_doubt: tuple[str, ...] = ()  # the first row of a table without a header, where it might yet be one


def open_table(
    source: DataSource, report: ReadReport, reading: TableOptions, lines: Iterator[Line] | None = None
) -> DataTable:
    """The table in a file, or in lines already taken from it; an error where no row of it can be used."""
    table = table_of_source(source, report, reading, lines)
    report.require(len(table.sample), source.name)
    return replace(table, rows=checked_rows(table.rows))


def table_of_source(
    source: DataSource, report: ReadReport, reading: TableOptions, lines: Iterator[Line] | None = None
) -> DataTable:
    """The same of a table that may have no rows, or rows that are too long."""
    report.rows.setdefault(source.name, 0)
    if source.hub:
        return table_of(source, report, *read_hub(source))
    if lines is None and (reading.file_format or EXTENSIONS.get(source.extension)) == "parquet":
        return table_of(source, report, *read_parquet(source))
    return table_of_lines(source, report, reading, source.lines(report) if lines is None else lines)


def checked_rows(rows: Iterator[Row]) -> Iterator[Row]:
    """Rows in which each cell can be a text; an error at one that is too long for that."""
    for place, cells in rows:
        check_cells(place, cells)
        yield place, cells


def check_cells(place: Place, cells: Cells) -> None:
    """Refuse a cell that is too long to be a text."""
    for name, cell in cells.items():
        if (size := len(cell) if isinstance(cell, str) else row_size(cell)) > LONGEST_TEXT:
            check_length(size, f"{place}, column {name!r}")


def table_of_lines(source: DataSource, report: ReadReport, reading: TableOptions, lines: Iterator[Line]) -> DataTable:
    """The table in a text, by the format asked for, else the name's, else that of the first lines."""
    sample, lines = peeked(lines)
    texts = [text.rstrip("\r\n") for _, text in sample]
    named = EXTENSIONS.get(source.extension)
    found = reading.file_format or named
    if reading.file_format is None and named in (None, "json", "jsonl"):
        found = json_format(texts, named or "") or sniff(texts, reading.known)
        if found != named:
            report.take(source.name, f"format: {found}")
    assert found is not None
    return READERS[found](Opened(source, report, reading, texts, lines))


@dataclass(frozen=True)
class Opened:
    """A text file about to be read: its first lines, and all its lines."""

    source: DataSource
    report: ReadReport
    reading: TableOptions
    texts: Sequence[str]
    lines: Iterator[Line]


def table_of(source: DataSource, report: ReadReport, columns: Sequence[str], cells: Iterator[Cells]) -> DataTable:
    """A table of rows that are numbered as they come."""

    def numbered() -> Iterator[Row]:
        for number, row in enumerate(cells, 1):
            report.count(source.name)
            yield Place(source.name, number, "row"), row

    sample, rows = peeked(numbered())
    return DataTable(source, list(columns), True, [row for _, row in sample], rows)


def json_format(texts: Sequence[str], extension: str) -> Format | None:
    """Whether lines are JSON: an object on each, or one value over all; the two often have each other's name."""
    filled = [text.strip() for text in texts if text.strip()]
    first = filled[0] if filled else ""
    if first == "[" or first.startswith("[{"):
        return "json"
    if extension == "jsonl" or (len(filled) > 1 and any(map(is_object, filled[:2]))):
        return "jsonl"
    return "json" if extension == "json" or first == "{" or first.startswith('{"') else None


def is_object(text: str) -> bool:
    """Whether a line is a JSON object by itself."""
    try:
        return text.startswith("{") and isinstance(json_value(text), dict)
    except ValueError:
        return False


def json_value(text: str) -> Any:
    """The value that JSON spells; a ValueError where it spells none, or one nested so deep that others would break."""
    too_deep = ValueError(f"nested more than {DEEPEST} deep")
    try:
        value = json.loads(text)
    except RecursionError:
        raise too_deep from None
    if text.count("[") + text.count("{") > DEEPEST:
        level = [value]
        for _ in range(DEEPEST):
            inner = [
                list(one.values()) if isinstance(one, dict) else one for one in level if isinstance(one, (dict, list))
            ]
            level = list(chain.from_iterable(inner))
        if level:
            raise too_deep
    return value


def sniff(texts: Sequence[str], known: Collection[str]) -> Format:
    """The format of a file whose name does not tell: tabs in every line, a header that is known, else plain lines."""
    filled = [text for text in texts if text.strip()]
    if filled and all("\t" in text for text in filled):
        return "tsv"
    delimiter = find_delimiter(filled)
    header = [cell.strip(' "') for cell in filled[0].split(delimiter)] if filled else []
    named = len(header) > 1 and any(cell.casefold() in known for cell in header)
    return "csv" if named and regularity(filled, delimiter) > 0.5 else "text"


def read_delimited(opened: Opened, *, quotes: bool) -> DataTable:
    """The table of a csv or tsv, with or without a header."""
    source, report, reading = opened.source, opened.report, opened.reading
    if quotes:
        delimiter = find_delimiter(opened.texts)
        if delimiter != ",":
            report.take(source.name, f"cells are separated by {delimiter!r}")
        records = csv_records(opened.lines, delimiter, file=source.name, report=report)
    else:
        records = tsv_records(opened.lines)
    first, records = peeked(records)
    filled = [fields for _, fields in first if any(fields)]
    headed = bool(filled) and (
        has_header(filled, reading.known, reading.known_together) if reading.header is None else reading.header
    )
    if headed:
        names = column_names(filled[0])
        records = without_header(records)
    else:
        names = [str(at) for at in range(usual_width(filled) or 1)]
        report.take(source.name, f"no header, {len(names)} columns called by their number from 0")
    doubtful = bool(filled) and not headed and reading.header is None
    doubtful = doubtful and could_be_header(filled, unlike_the_rest=not quotes)
    rows = fitting(records, names, opened, longer=reading.by_position and not headed)
    sample, rows = peeked(rows)
    doubt = tuple(cell.strip() for cell in filled[0]) if doubtful else ()
    return DataTable(source, names, headed, [cells for _, cells in sample], rows, doubt)


def without_header(records: Iterator[Record]) -> Iterator[Record]:
    """The records after the first that has anything in it."""
    next((fields for _, fields in records if any(fields)), None)
    return records


def fitting(records: Iterator[Record], names: Sequence[str], opened: Opened, *, longer: bool) -> Iterator[Row]:
    """The records that have as many fields as there are columns; with `longer`, those that have more as well."""
    report, file = opened.report, opened.source.name
    for number, fields in records:
        place = Place(file, number)
        report.count(file)
        if len(fields) == len(names):
            yield place, dict(zip(names, fields, strict=True))
        elif not any(fields):
            report.skip(BLANK, place)
        elif longer and len(fields) > len(names):
            report.note("more fields than most lines: the last ones left out", place)
            yield place, dict(zip(names, fields, strict=False))
        else:
            report.skip("a wrong number of fields", place)


def read_jsonl(opened: Opened) -> DataTable:
    """The table of a file with a JSON object on each line."""
    report, file = opened.report, opened.source.name

    def rows() -> Iterator[Row]:
        for number, text in opened.lines:
            place = Place(file, number)
            report.count(file)
            try:
                cells = json_value(text) if text.strip() else None
            except ValueError:
                report.skip("not valid JSON", place)
                continue
            if isinstance(cells, dict):
                yield place, cells
            else:
                report.skip("not a JSON object" if text.strip() else BLANK, place)

    sample, every = peeked(rows())
    columns = list(dict.fromkeys(chain.from_iterable(cells for _, cells in sample)))
    return DataTable(opened.source, columns, True, [cells for _, cells in sample], every)


def parse_json(source: DataSource, text: str) -> Any:
    """The value of a whole JSON file."""
    try:
        return json_value(text)
    except ValueError as error:
        raise ValueError(f"{source.name} is not valid JSON ({error}): mend it or write it again") from None


def read_json_array(opened: Opened) -> DataTable:
    """The table of one JSON array of objects, which may be inside an object; another object is a single row."""
    value = parse_json(opened.source, "".join(text for _, text in opened.lines))
    if isinstance(value, dict):
        value = next((value[name] for name in ARRAYS if isinstance(value.get(name), list)), [value])
    if not isinstance(value, list):
        raise ValueError(f"{opened.source.name} holds a {type(value).__name__}: give an array of objects")
    objects = [one for one in value if isinstance(one, dict)]
    if len(objects) < len(value):
        raise ValueError(f"{opened.source.name} is an array with things that are not objects: take them out")
    columns = list(dict.fromkeys(chain.from_iterable(objects)))
    return table_of(opened.source, opened.report, columns, iter(objects))


def read_plain(opened: Opened, *, label_first: bool) -> DataTable:
    """The table of plain lines: each is a text, or a label and a text."""
    report, file = opened.report, opened.source.name

    def rows() -> Iterator[Row]:
        for number, line in opened.lines:
            report.count(file)
            text = line.rstrip("\r\n")
            label, _, rest = text.partition(" ")
            yield Place(file, number), {"label": label, "text": rest.strip()} if label_first else {"text": text}

    sample, every = peeked(rows())
    columns = ["label", "text"] if label_first else ["text"]
    return DataTable(opened.source, columns, True, [cells for _, cells in sample], every)


READERS: Mapping[Format, Callable[[Opened], DataTable]] = {
    "csv": lambda opened: read_delimited(opened, quotes=True),
    "tsv": lambda opened: read_delimited(opened, quotes=False),
    "jsonl": read_jsonl,
    "json": read_json_array,
    "text": lambda opened: read_plain(opened, label_first=False),
    "first-word": lambda opened: read_plain(opened, label_first=True),
}
