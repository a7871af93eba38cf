"""A row's label out of its cells: a class, several classes, or a score."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from glassformer.data.examples import Label, Labelled
from glassformer.data.rows import DataTable, json_value
from glassformer.files import shown

Kind = Literal["classes", "multi-label", "regression"]
Reader = Callable[[Mapping[str, Any]], Label | None]  # None where there is no label that can be used

SEPARATORS = ("|", ";", ",")  # between the labels of a text; the first that occurs is meant
ITEM = re.compile(  # of a list in Python's spelling: in quotes of either kind, a number, or nothing before the end
    r"""\s*(?:'([^'\\]*+(?:\\.[^'\\]*+)*+)'|"([^"\\]*+(?:\\.[^"\\]*+)*+)"|(-?\d+)|(?=\]$))\s*(?:,|\]$)"""
)
UNDECIDED = "-"  # in the gold_label of SNLI and MultiNLI: those who were asked did not agree
FLAGS = {"0": False, "0.0": False, "False": False, "false": False, "1": True, "1.0": True, "True": True, "true": True}


def label_reader(table: DataTable, columns: Sequence[str], kind: Kind) -> tuple[Reader, str]:
    """What reads the label of a row, and what it reads, in words."""
    if (label := table.source.label) is not None:
        fixed = fixed_label(label, kind)
        return lambda _: fixed, f"label: {label!r} for every row"
    column = columns[0]
    if len(columns) > 1:
        if kind != "multi-label":
            raise ValueError(f"{len(columns)} label columns ({'+'.join(columns)}): {kind} has one label for a text")
        return lambda cells: flagged(cells, columns), f"label: 0/1 columns {', '.join(map(repr, columns))}"
    if kind == "classes":
        undecided = UNDECIDED if column.casefold() == "gold_label" else None
        return lambda cells: as_class(cells.get(column), undecided), f"label: column {column!r}"
    if kind == "regression":
        return lambda cells: as_score(cells.get(column)), f"label: column {column!r}, a score"
    written = [str(row.get(column)) for row in table.sample]
    separator = next((one for one in SEPARATORS if any(one in cell for cell in written)), ",")
    message = (
        f"label: column {column!r}, labels separated by {separator!r} if not listed; an empty cell is none of them"
    )
    return lambda cells: as_classes(cells.get(column), separator), message


def listed_names(given: str) -> list[str]:
    """What "negative,positive" lists, or a file with a name on each line."""
    path = Path(given).expanduser()
    if path.is_file():
        return path.read_text(encoding="utf-8").rstrip().splitlines()
    if "," not in given:
        raise ValueError(f"labels: there is no file {given!r}; give one with a name on each line, or negative,positive")
    return given.split(",")


def class_names(given: str | Sequence[str]) -> dict[str, str]:
    """The names of classes, each by what the data calls it: 0, 1, …, or as the user says, "1=bad,2=good"."""
    parts = [part.strip() for part in (listed_names(given) if isinstance(given, str) else map(str, given))]
    pairs = [part.partition("=")[::2] for part in parts]
    if any("=" not in part for part in parts):
        pairs = [(str(number), part) for number, part in enumerate(parts)]
    names = {called.strip(): name.strip() for called, name in pairs}
    if len(parts) < 2 or not all(names.values()) or len(set(names.values())) < len(parts) or len(names) < len(parts):
        raise ValueError(
            f"labels: two names or more, all different, are wanted, as negative,positive, not {', '.join(parts[:20])!r}"
        )
    return names


def with_names(examples: Sequence[Labelled], names: Mapping[str, str]) -> list[Labelled]:
    """Examples whose classes are called by their names; data that calls them so already is left as it is."""
    found = {one for example in examples for one in classes_of(example)}
    if found <= set(names.values()):
        return list(examples)
    if strange := sorted(found - names.keys()):
        listed = ", ".join(f"{called}={name}" for called, name in list(names.items())[:20])
        wrong = shown(strange[0])
        raise ValueError(f"label {wrong} has no name: --labels says {listed[:400]}; add {wrong[1:-1]}=NAME")
    return [replace(one, label=_named(one.label, names)) for one in examples]


def _named(label: Label | None, names: Mapping[str, str]) -> Label | None:
    if isinstance(label, tuple):
        return tuple(names[one] for one in label)
    return None if label is None else names[str(label)]


def classes_of(example: Labelled) -> tuple[str, ...]:
    """The classes of an example, of which it has one, several, or none."""
    if example.label is None:
        return ()
    return example.label if isinstance(example.label, tuple) else (str(example.label),)


def fixed_label(label: str, kind: Kind) -> Label:
    """The label that a source gives to all its rows."""
    if kind == "multi-label":
        return (label,)
    if kind == "classes":
        return label
    if (score := as_score(label)) is None:
        raise ValueError(f"{label}=FILE: for regression the label must be a finite number, as in 4.5=FILE")
    return score


def as_class(cell: object, undecided: str | None = None) -> str | None:
    """A class as text; a whole number has no point, since missing values make numbers out of integers."""
    if cell == undecided:
        return None
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float):
        return None if math.isnan(cell) else f"{cell:.0f}" if cell.is_integer() else str(cell)
    if isinstance(cell, (str, int)):
        return str(cell).strip() or None
    return None


def as_score(cell: Any) -> float | None:
    """A finite number."""
    try:
        score = math.nan if isinstance(cell, bool) else float(cell)
    except (TypeError, ValueError, OverflowError):
        return None
    return score if math.isfinite(score) else None


def as_classes(cell: object, separator: str) -> tuple[str, ...] | None:
    """The classes in a list, in a list written as text, or between separators."""
    if isinstance(cell, str):
        parts = written_list(cell)
        cell = [part for part in cell.split(separator) if part.strip()] if parts is None else parts
    classes = [as_class(one) for one in (cell if isinstance(cell, list) else [cell])]
    return tuple(dict.fromkeys(one for one in classes if one)) if all(classes) else None


def written_list(cell: str) -> list[Any] | None:
    """The list that a cell spells out, as JSON or as "['joy', 'fear']"; None where it does not."""
    text = cell.strip()
    if not (text.startswith("[") and text.endswith("]")):
        return None
    try:
        return list(json_value(text))
    except ValueError:
        found: list[Any] = []
        place = 1
        while (item := ITEM.match(text, place)) is not None:
            found += [re.sub(r"\\(.)", r"\1", part) for part in item.groups() if part is not None]
            place = item.end()
        return found if place == len(text) else [None] if text.startswith("[[") else None


def flagged(cells: Mapping[str, object], columns: Sequence[str]) -> tuple[str, ...] | None:
    """The columns that have a 1; None where one has neither 0 nor 1."""
    flags = {column: FLAGS.get(str(cells.get(column)).strip()) for column in columns}
    return None if None in flags.values() else tuple(column for column, flag in flags.items() if flag)
