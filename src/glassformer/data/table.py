"""Tables to texts with labels: classes, several classes at once, or scores.

Columns are found by name; `columns={"text": "body", "label": "kind"}` overrides, by name or by number from 0.
Several 0/1 columns are one multi-label: `columns={"label": "toxic+obscene"}`. A source "LABEL=FILE" labels all the
rows of a file. Texts are kept as they are; labels lose the blanks around them.
"""

from collections.abc import Mapping, Sequence
from shlex import quote
from typing import get_args

from glassformer.data.examples import Labelled
from glassformer.data.labels import FLAGS, Kind, label_reader
from glassformer.data.report import Read, ReadReport
from glassformer.data.roles import (
    LABELS,
    PAIRS,
    SCORES,
    TEXTS,
    Columns,
    are_numbers,
    check_roles,
    column_of,
    could_be_label,
    find,
    find_pair,
    longest,
    missing,
    named_column,
    names_given,
    suggestion,
)
from glassformer.data.rows import DataTable, Format, TableOptions, open_table
from glassformer.data.source import Sources, resolve

KNOWN = frozenset([*TEXTS, *LABELS, *SCORES, *(name for pair in PAIRS for name in pair)])
BAD_LABEL = {
    "classes": "no label",
    "multi-label": "no labels that can be read",
    "regression": "a score that is not a finite number",
}


def read_labelled(
    sources: Sources,
    columns: Columns | None = None,
    *,
    kind: Kind = "classes",
    require_target: bool = True,
    file_format: Format | None = None,
    header: bool | None = None,
) -> Read[Labelled]:
    """Texts, or pairs of texts, with their labels; without `require_target` rows are kept that have no label."""
    if kind not in get_args(Kind):
        raise ValueError(f"kind={kind!r} is not known: use one of {', '.join(get_args(Kind))}")
    named = check_roles(columns, ("text", "pair", "label"))
    reading = TableOptions(
        file_format=file_format, header=header, known=KNOWN | names_given(named), by_position=are_numbers(named)
    )
    report = ReadReport()
    examples: list[Labelled] = []
    for source in resolve(sources, labels=True):
        table = open_table(source, report, reading)
        examples += labelled_rows(table, named, kind, report, required=require_target)
    return report.finished(examples)


def labelled_rows(
    table: DataTable, named: Mapping[str, str], kind: Kind, report: ReadReport, *, required: bool
) -> list[Labelled]:
    """The examples of one table."""
    text, pair, labels = choose(table, named, kind, required=required)
    report.take(table.source.name, f"text: column {text!r}" + (f"; pair: column {pair!r}" if pair else ""))
    label_of = None
    if labels or table.source.label is not None:
        label_of, message = label_reader(table, labels, kind)
        report.take(table.source.name, message)
    examples: list[Labelled] = []
    for place, cells in table.rows:
        first, second = as_text(cells.get(text)), as_text(cells.get(pair)) if pair else None
        label = label_of(cells) if label_of else None
        if first is None or (pair and second is None):
            report.skip("the text is not a string", place)
        elif required and not (first.strip() and (second is None or second.strip())):
            report.skip("an empty text", place)  # to be predicted, it keeps its place among the others
        elif required and label is None:
            report.skip(BAD_LABEL[kind], place)
        else:
            examples.append(Labelled(first, second, label))
    return examples


def as_text(cell: object) -> str | None:
    """The text in a cell; a missing one is empty, a number is its digits, and a list or an object is none."""
    if cell is None or cell != cell:  # a missing value is not a number, which differs from itself
        return ""
    return str(cell) if isinstance(cell, (str, int, float)) else None


def choose(
    table: DataTable, named: Mapping[str, str], kind: Kind, *, required: bool
) -> tuple[str, str | None, Sequence[str]]:
    """The columns of the text, its pair and its labels: as the user says, by name, or by looks."""
    labels = label_columns(table, named, kind)
    text, pair = text_columns(table, named, labels)
    if text is None and not labels and len(table.columns) == 2 and not table.headed:
        looks = longest(table)
        rest = [column for column in table.columns if column != looks]
        if could_be_label(table, rest[0], score=kind == "regression"):
            refuse_doubt(table, text=looks, label=rest[0])
            text, labels = looks, rest
    if text is None:
        raise missing(table, "text", hint=suggestion(table, score=kind == "regression"))
    if not labels and kind == "multi-label" and table.source.label is None:
        labels = flag_columns(table, text, pair)
    if not labels and required and table.source.label is None:
        if table.columns == ["text"]:
            raise ValueError(
                f"{table.source.name} holds texts without labels: give a file for each class as LABEL=FILE, "
                f"or --set file_format=first-word if every line begins with its label"
            )
        raise missing(table, "label", hint=suggestion(table, text, pair, score=kind == "regression"))
    return text, pair, labels


def refuse_doubt(table: DataTable, *, text: str, label: str) -> None:
    """Ask the user, rather than learn from a header or lose a row."""
    if table.names_in_doubt:
        names = dict(zip(table.columns, table.names_in_doubt, strict=True))
        raise ValueError(
            f"{table.source.name}: is its first row, {', '.join(map(repr, names.values()))}, a header? if it is, give "
            f"--columns text={quote(names[text])} --columns label={quote(names[label])}; if not, --set header=false"
        )


def text_columns(table: DataTable, named: Mapping[str, str], labels: Sequence[str]) -> tuple[str | None, str | None]:
    """The columns of the text and of its pair, None where there is none."""
    text, pair = named_column(table, named, "text"), named_column(table, named, "pair")
    if text is None and pair is None and (found := find_pair(table, but=labels)):
        return found
    taken = {*labels, *([pair] if pair else [])}
    if text is None:
        text = find(table, TEXTS, but=taken)
    left = [column for column in table.columns if column not in taken]
    return left[0] if text is None and len(left) == 1 else text, pair


def label_columns(table: DataTable, named: Mapping[str, str], kind: Kind) -> list[str]:
    """The columns of the label that the user names, or the one that is called so."""
    if table.source.label is not None:
        return []
    if "label" in named:
        wanted = named["label"]
        if wanted in table.columns:
            return [wanted]
        known = set(table.columns)  # of many labels, each is looked up once
        return [part if part in known else column_of(table, part, "label") for part in wanted.split("+")]
    found = find(table, (*SCORES, *LABELS) if kind == "regression" else (*LABELS, *SCORES))
    return [] if found is None else [found]


def flag_columns(table: DataTable, text: str, pair: str | None) -> list[str]:
    """The columns in which every cell is 0 or 1, if there are several."""
    flags = [
        column
        for column in table.columns
        if column not in (text, pair) and all(str(row.get(column)).strip() in FLAGS for row in table.sample)
    ]
    return flags if len(flags) > 1 else []
