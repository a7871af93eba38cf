"""Running text: files, the articles, blocks or lines in them, or rows of a table with a column of text.

A file and its articles keep every character: joined, the documents are the file. Blocks and lines lose the blank
lines and line ends that only separate them. A folder stands for all the .txt files in it. A table (csv, tsv, jsonl,
json, parquet, hub) is known by its name alone, and each of its rows is a document.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, get_args

from glassformer.data.examples import Document
from glassformer.data.labels import as_class
from glassformer.data.report import Place, Read, ReadReport
from glassformer.data.roles import LABELS, Columns, are_numbers, check_roles, find, missing, named_column, names_given
from glassformer.data.rows import EXTENSIONS, DataTable, Format, TableOptions, open_table
from glassformer.data.source import LONGEST_TEXT, DataSource, Line, Sources, checked_lines, resolve

Unit = Literal["file", "article", "block", "line"]
LONGEST = 1 << 23  # characters of a document; a longer one comes in pieces, so that half a GB is enough to tokenise it
NAMES = ("text", "content", "document", "article", "body", "story", "paragraphs", "review", "sentence", "comment")
HEADING = re.compile(r" ?= [^=\s](.*[^=])? = ?")  # WikiText's title of an article; its sections have more signs


def read_documents(
    sources: Sources,
    columns: Columns | None = None,
    *,
    unit: Unit = "file",
    file_format: Format | None = None,
) -> Read[Document]:
    """All documents at once."""
    report = ReadReport()
    examples = list(stream_documents(sources, columns, unit=unit, file_format=file_format, report=report))
    return Read(examples, report)


def stream_documents(
    sources: Sources,
    columns: Columns | None = None,
    *,
    unit: Unit = "file",
    file_format: Format | None = None,
    report: ReadReport | None = None,
) -> Iterator[Document]:
    """Documents one by one, for more text than memory; `report` is complete when the last has come."""
    found = resolve(sources, labels=True, folder="txt")
    return documents_of(found, columns, unit=unit, file_format=file_format, report=report)


def documents_of(
    sources: list[DataSource],
    columns: Columns | None = None,
    *,
    unit: Unit = "file",
    file_format: Format | None = None,
    report: ReadReport | None = None,
) -> Iterator[Document]:
    """The same of files that are found already."""
    if unit not in get_args(Unit):
        raise ValueError(f"unit={unit!r} is not known: use one of {', '.join(get_args(Unit))}")
    named = check_roles(columns, ("text", "label"))
    reading = TableOptions(
        file_format=file_format, known=names_given(named) | set(NAMES), by_position=are_numbers(named)
    )
    return documents(sources, named, unit, reading, ReadReport() if report is None else report)


def documents(
    sources: list[DataSource], named: Mapping[str, str], unit: Unit, reading: TableOptions, report: ReadReport
) -> Iterator[Document]:
    """The documents of all sources; an error where there are none."""
    count = 0
    for source in sources:
        report.rows.setdefault(source.name, 0)
        table = source.hub or source.extension in EXTENSIONS or reading.file_format not in (None, "text")
        found = row_documents(source, named, reading, report) if table else text_documents(source, unit, report)
        for place, text, label in found:
            if text.strip():
                count += 1
                yield Document(text, source.label if label is None else label)
            else:
                report.skip("an empty text", place)
    report.require(count)


def row_documents(
    source: DataSource, named: Mapping[str, str], reading: TableOptions, report: ReadReport
) -> Iterator[tuple[Place, str, str | None]]:
    """The documents of a table, and their labels where the user names a column of them."""
    table = open_table(source, report, reading)
    text_in = named_column(table, named, "text") or find(table, NAMES) or only_column(table)
    label_in = named_column(table, named, "label")
    if text_in is None:
        raise missing(table, "text")
    message = f"text: column {text_in!r}"
    if label_in is not None:
        message += f"; label: column {label_in!r}"
    elif (spare := find(table, LABELS, but=(text_in,))) is not None:
        message += f"; column {spare!r} is not read (to learn it as a condition: --columns label={spare})"
    report.take(source.name, message)
    for place, cells in table.rows:
        yield place, running_text(cells.get(text_in)), as_class(cells.get(label_in)) if label_in else None


def only_column(table: DataTable) -> str | None:
    return table.columns[0] if len(table.columns) == 1 else None


def running_text(cell: object) -> str:
    """The text in a cell; a list holds paragraphs."""
    if isinstance(cell, list):
        return "\n".join(map(str, cell))
    return cell if isinstance(cell, str) else ""


def text_documents(source: DataSource, unit: Unit, report: ReadReport) -> Iterator[tuple[Place, str, str | None]]:
    """The documents of a text file."""
    report.take(source.name, f"a document is: {unit}")
    for number, text in UNITS[unit](source.lines(report), source.name):
        place = Place(source.name, number)
        report.count(source.name)
        if len(text) >= LONGEST:
            report.note(f"a text of more than {LONGEST} characters: it comes in pieces", place)
        yield place, text, None


def whole_file(lines: Iterator[Line], _file: str) -> Iterator[Line]:
    """All the text, in pieces of whole lines where it is very long."""
    return gathered((number, text, False) for number, text in cut(lines))


def articles(lines: Iterator[Line], _file: str) -> Iterator[Line]:
    """The text from each title to the next; a title stands between blank lines."""
    return gathered(with_titles(cut(lines)))


def cut(lines: Iterator[Line]) -> Iterator[Line]:
    """Lines, the longest of them cut behind a blank: some corpora are a single line."""
    for number, text in lines:
        while len(text) > LONGEST_TEXT:
            end = text.rfind(" ", 0, LONGEST) + 1 or LONGEST
            yield number, text[:end]
            text = text[end:]
        yield number, text


def with_titles(lines: Iterator[Line]) -> Iterator[tuple[int, str, bool]]:
    """Each line, and whether it is the title of an article."""
    blank_before = True
    waiting: Line | None = None
    for line in lines:
        if waiting is not None:
            yield *waiting, not line[1].strip()
            waiting, blank_before = None, False
        if blank_before and HEADING.fullmatch(line[1].rstrip("\r\n")):
            waiting = line
        else:
            yield *line, False
            blank_before = not line[1].strip()
    if waiting is not None:
        yield *waiting, False


def gathered(lines: Iterator[tuple[int, str, bool]]) -> Iterator[Line]:
    """Texts that begin at the lines marked so, or where the one before is very long."""
    parts: list[str] = []
    start, size = 1, 0
    for number, text, begins in lines:
        if parts and (size >= LONGEST or (begins and "".join(parts).strip())):
            yield start, "".join(parts)
            parts, start, size = [], number, 0
        parts.append(text)
        size += len(text)
    yield start, "".join(parts)


def blocks(lines: Iterator[Line], file: str) -> Iterator[Line]:
    """The text between blank lines."""
    parts: list[str] = []
    start = 1
    for number, text in checked_lines(lines, file):
        if text.strip():
            start = start if parts else number
            parts.append(text)
        elif parts:
            yield start, "".join(parts).rstrip("\r\n")
            parts = []
    if parts:
        yield start, "".join(parts).rstrip("\r\n")


def single_lines(lines: Iterator[Line], file: str) -> Iterator[Line]:
    """Each line that is not blank."""
    return ((number, text.rstrip("\r\n")) for number, text in checked_lines(lines, file) if text.strip())


UNITS: Mapping[Unit, Callable[[Iterator[Line], str], Iterator[Line]]] = {
    "file": whole_file,
    "article": articles,
    "block": blocks,
    "line": single_lines,
}
