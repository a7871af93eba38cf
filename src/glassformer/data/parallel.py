"""Texts with their translations: two files line by line, or one table with a column for each side.

Of two plain files the first is the source and the second the target, line for line.
Of a table the columns are `source` and `target`, or those called by two languages, or the first two; a column of
dictionaries, as {"en": …, "de": …}, is taken apart. Summaries have names of their own (article, summary, …).
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import zip_longest
from typing import Any, NamedTuple

from glassformer.data.examples import Parallel
from glassformer.data.report import Place, Read, ReadReport
from glassformer.data.roles import (
    ABSTRACTS,
    ARTICLES,
    LANGUAGES,
    SOURCES,
    TARGETS,
    Columns,
    are_numbers,
    check_roles,
    find,
    missing,
    named_column,
    names_given,
)
from glassformer.data.rows import EXTENSIONS, DataTable, Format, TableOptions, json_format, open_table, sniff
from glassformer.data.source import DataSource, Line, Sources, checked_lines, peeked, resolve


class SideNames(NamedTuple):
    """What the columns of two sides may be called."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    guessed: bool  # whether the first two of many columns are taken where no name is known

    @property
    def known(self) -> frozenset[str]:
        return frozenset([*self.sources, *self.targets])


TRANSLATIONS = SideNames(SOURCES, TARGETS, guessed=True)
SUMMARIES = SideNames((*ARTICLES, *SOURCES), (*ABSTRACTS, *TARGETS), guessed=False)
Pair = tuple[Place, Any, Any]  # where it stands, and the two cells: texts, or None, or what is no text


def read_parallel(
    sources: Sources,
    columns: Columns | None = None,
    *,
    names: SideNames = TRANSLATIONS,
    require_target: bool = True,
    file_format: Format | None = None,
    header: bool | None = None,
) -> Read[Parallel]:
    """Pairs of a text and its translation, or its summary; without `require_target` the second may be missing."""
    named = check_roles(columns, ("source", "target"))
    by_position = are_numbers(named)
    reading = TableOptions(
        file_format=file_format,
        header=header,
        known=names.known | names_given(named),
        known_together=LANGUAGES,
        by_position=by_position,
    )
    report = ReadReport()
    examples: list[Parallel] = []
    for pair in pairs(resolve(sources), named, names, reading, report, required=require_target):
        example = checked(pair, report, required=require_target)
        if example is not None:
            examples.append(example)
    return report.finished(examples)


def pairs(
    sources: list[DataSource],
    named: Mapping[str, str],
    names: SideNames,
    reading: TableOptions,
    report: ReadReport,
    *,
    required: bool,
) -> Iterator[Pair]:
    """Every pair of cells in the sources."""
    opened = [(source, lines_if_plain(source, reading, report)) for source in sources]
    plain = [(source, lines) for source, (lines, is_plain) in opened if lines is not None and is_plain]
    if len(opened) == len(plain) == 2:
        yield from side_by_side(plain[0], plain[1], report)
        return
    if plain and (required or len(plain) < len(opened)):
        raise ValueError(
            f"{plain[0][0].name} is plain text: give two such files, source and target, or files with both sides"
        )
    for source, (lines, _) in opened:
        yield from table_pairs(open_table(source, report, reading, lines), named, names, report, required=required)


def lines_if_plain(source: DataSource, reading: TableOptions, report: ReadReport) -> tuple[Iterator[Line] | None, bool]:
    """The lines of a file, unless it is a table by its name, and whether they are texts and no table."""
    if source.hub or source.extension in EXTENSIONS or reading.file_format not in (None, "text"):
        return None, False
    sample, lines = peeked(source.lines(report))
    texts = [text.rstrip("\r\n") for _, text in sample]
    return lines, reading.file_format == "text" or not (json_format(texts, "") or sniff(texts, reading.known) != "text")


def side_by_side(
    first: tuple[DataSource, Iterator[Line]], second: tuple[DataSource, Iterator[Line]], report: ReadReport
) -> Iterator[Pair]:
    """The lines of two files with the same number; an error where one has more than the other."""
    (source, source_lines), (target, target_lines) = first, second
    name = f"{source.name} and {target.name}"
    report.rows[name] = 0
    report.take(name, f"source: {source.name}; target: {target.name}")
    for one, other in zip_longest(checked_lines(source_lines, source.name), checked_lines(target_lines, target.name)):
        if one is None or other is None:
            more = sum(1 for _ in (target_lines if one is None else source_lines)) + 1
            same = report.rows[name]
            counts = (same, same + more) if one is None else (same + more, same)
            raise ValueError(
                f"{source.name} has {counts[0]} lines and {target.name} has {counts[1]}: "
                f"give files in which each line translates the other's"
            )
        report.count(name)
        yield Place(name, one[0]), one[1].rstrip("\r\n"), other[1].rstrip("\r\n")


def table_pairs(
    table: DataTable, named: Mapping[str, str], names: SideNames, report: ReadReport, *, required: bool
) -> Iterator[Pair]:
    """The two cells of each row of a table."""
    inner = find(table, ["translation"])
    if inner is not None and isinstance(table.sample[0].get(inner), dict):
        table = taken_apart(table, inner)
    source, target = named_column(table, named, "source"), named_column(table, named, "target")
    target = target or find(table, names.targets, but=[source or ""])
    source = source or find(table, names.sources, but=[target or ""])
    languages = [column for column in table.columns if column.casefold() in LANGUAGES]
    sides = languages if len(languages) > 1 else table.columns
    rest = [column for column in sides if column not in (source, target)]
    rest = rest if names.guessed or len(table.columns) < 3 else []
    if source is None:
        source = rest.pop(0) if rest else None
    if target is None and required:
        target = rest.pop(0) if rest else None
    if source is None or (target is None and required):
        raise missing(table, "source" if source is None else "target")
    message = f"source: column {source!r}" + (f"; target: column {target!r}" if target else "")
    report.take(table.source.name, message)
    for place, cells in table.rows:
        yield place, cells.get(source), cells.get(target) if target else None


def taken_apart(table: DataTable, column: str) -> DataTable:
    """A table of what is in the dictionaries of one column."""

    def inside(cells: Mapping[str, object]) -> dict[str, Any]:
        value = cells.get(column)
        return value if isinstance(value, dict) else {}

    sample = [inside(cells) for cells in table.sample]
    rows = ((place, inside(cells)) for place, cells in table.rows)
    return replace(table, columns=list(sample[0]), sample=sample, rows=rows)


def checked(pair: Pair, report: ReadReport, *, required: bool) -> Parallel | None:
    """An example of a pair; None, and counted, where a side is missing."""
    place, source, target = pair
    if not isinstance(source, str) or (required and not isinstance(target, str)):
        report.skip("a side that is not a text", place)
        return None
    if required and not (source.strip() and target.strip()):
        report.skip("an empty side", place)
        return None
    return Parallel(source, target if isinstance(target, str) else None)
