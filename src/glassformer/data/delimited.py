"""Lines to records of fields: tsv, where a quote is a letter, and csv, where it holds cells together.

A broken record costs its own line and no other: where a quote is never closed, reading goes on at the next line.
"""

import csv
import re
import sys
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Sequence

from glassformer.data.report import Place, ReadReport
from glassformer.data.source import Line

Record = tuple[int, list[str]]  # the number of its first line, and its fields

DELIMITERS = (",", ";", "\t", "|")
MOST_LINES = 10_000  # in one record; a quote left open would otherwise take the rest of the file
QUOTED = re.compile(r'"[^"]*"')  # two quotes within a cell end one such part and begin the next
NAME = re.compile(r"[^\W\d][\w #/-]{0,40}")  # what a column may be called


def tsv_records(lines: Iterable[Line]) -> Iterator[Record]:
    """Fields between tabs, quotes as they are."""
    for number, text in lines:
        yield number, text.rstrip("\r\n").split("\t")


def csv_records(lines: Iterator[Line], delimiter: str, *, file: str, report: ReadReport) -> Iterator[Record]:
    """Fields between delimiters, over several lines where a quoted cell has several."""
    csv.field_size_limit(sys.maxsize)  # a cell may be long; the module's own limit is 128 kB
    feed = Feed(lines)
    reader = csv.reader(feed, delimiter=delimiter, strict=True)
    while True:
        feed.used.clear()
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error:
            report.count(file)
            report.skip("quotes that do not match", Place(file, feed.used[0][0]))
            feed.give_back()
            continue
        yield feed.used[0][0], fields


class Feed:
    """Lines one at a time, which can take back all but the first of a broken record."""

    def __init__(self, lines: Iterator[Line]) -> None:
        self.lines = lines
        self.used: list[Line] = []
        self.waiting: deque[Line] = deque()

    def __iter__(self) -> "Feed":
        return self

    def __next__(self) -> str:
        if len(self.used) == MOST_LINES:
            raise csv.Error(f"a record of more than {MOST_LINES} lines")
        self.used.append(self.waiting.popleft() if self.waiting else next(self.lines))
        return self.used[-1][1]

    def give_back(self) -> None:
        self.waiting.extendleft(reversed(self.used[1:]))


def find_delimiter(lines: Sequence[str]) -> str:
    """What stands between the cells of a csv: of what its first line has, that which most lines have as often."""
    candidates = [delimiter for delimiter in DELIMITERS if lines and delimiter in QUOTED.sub("", lines[0])]
    return max(candidates or [","], key=lambda delimiter: regularity(lines, delimiter))


def regularity(lines: Sequence[str], delimiter: str) -> float:
    """The share of lines that have a delimiter as often as the first line, outside quotes."""
    counts = [QUOTED.sub("", line).count(delimiter) for line in lines]
    return counts.count(counts[0]) / len(counts) if counts else 0.0


def usual_width(records: Iterable[Sequence[object]]) -> int:
    """The number of fields that most records have."""
    widths = Counter(len(fields) for fields in records)
    return max(widths, key=lambda width: widths[width], default=0)


def has_header(records: Sequence[Sequence[str]], known: Collection[str], together: Collection[str] = ()) -> bool:
    """Whether the first record names the columns.

    It does if it holds a name that is known and that its column does not have as a value; if all of it is among
    the names known together; or if it looks like names and some column tells its name from its values: they are
    numbers, or few that come again and again.
    """
    first = [cell.strip() for cell in records[0]]
    rest = [fields for fields in records[1:] if len(fields) == len(first)]
    if any(cell.casefold() in known and cell not in values_of(rest, at) for at, cell in enumerate(first)):
        return True
    if len(first) > 1 and all(cell.casefold() in together for cell in first):
        return True
    if len(set(first)) < len(first) or not all(NAME.fullmatch(cell) for cell in first):
        return False
    return any(tells_its_name(cell, values_of(rest, at), len(rest)) for at, cell in enumerate(first))


def values_of(records: Sequence[Sequence[str]], at: int) -> set[str]:
    """What stands in a column."""
    return {fields[at].strip() for fields in records}


def tells_its_name(name: str, values: set[str], count: int) -> bool:
    """Whether a name is unlike the values of its column: they are numbers, or few for so many rows."""
    if not values or name in values:
        return False
    return (count >= 4 and len(values) <= count / 2) or all(map(is_number, values))


def could_be_header(records: Sequence[Sequence[str]], *, unlike_the_rest: bool) -> bool:
    """Whether the first record, which does not show to be a header, might be one: names that never come again.

    With `unlike_the_rest`, only if some column has values that do come again.
    """
    first = [cell.strip() for cell in records[0]]
    rest = [fields for fields in records[1:] if len(fields) == len(first)]
    if len(set(first)) < len(first) or not all(NAME.fullmatch(cell) for cell in first):
        return False
    if any(cell in values_of(rest, at) for at, cell in enumerate(first)):
        return False
    return not unlike_the_rest or any(len(values_of(rest, at)) < len(rest) for at in range(len(first)))


def is_number(cell: object) -> bool:
    """Whether a cell can be read as a number."""
    try:
        float(str(cell))
    except ValueError:
        return False
    return True


def column_names(header: Sequence[str]) -> list[str]:
    """The names in a header; a column without one of its own goes by its number, from 0."""
    names: dict[str, None] = {}
    for at, cell in enumerate(header):
        name = cell.strip()
        if not name or name in names:
            name = str(at)
        while name in names:  # another column is called by this number
            name += "_"
        names[name] = None
    return list(names)
