"""What was read, what was taken for what, and what was left out: nothing a reader does is silent."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

E = TypeVar("E")


class Place(NamedTuple):
    """Where a row stands: a line of a text file, or a row of one that has no lines."""

    file: str
    number: int
    unit: str = "line"

    def __str__(self) -> str:
        return f"{self.file}, {self.unit} {self.number}"


@dataclass(slots=True)
class Tally:
    """How often something happened, and where first."""

    first: Place
    count: int = 0


@dataclass
class ReadReport:
    """The account of a reading: the rows of each file are the examples it gave and the rows skipped."""

    rows: dict[str, int] = field(default_factory=dict)
    taken: dict[str, list[str]] = field(default_factory=dict)
    skipped: dict[str, Tally] = field(default_factory=dict)
    noted: dict[str, Tally] = field(default_factory=dict)
    _seen: set[tuple[str, str]] = field(default_factory=set, repr=False, compare=False)

    def count(self, file: str) -> None:
        """One more row was read, whatever becomes of it."""
        self.rows[file] = self.rows.get(file, 0) + 1

    def take(self, file: str, what: str) -> None:
        """A choice that was made for a file: its columns, its encoding, its scheme."""
        if (what, file) not in self._seen:
            self._seen.add((what, file))
            self.taken.setdefault(what, []).append(file)

    def skip(self, reason: str, place: Place) -> None:
        """A row was left out."""
        self.skipped.setdefault(reason, Tally(place)).count += 1

    def note(self, what: str, place: Place) -> None:
        """A row was mended, and kept."""
        self.noted.setdefault(what, Tally(place)).count += 1

    def add(self, other: "ReadReport") -> None:
        """The account of more files."""
        self.rows |= other.rows
        for what, files in other.taken.items():
            for file in files:
                self.take(file, what)
        for own, new in ((self.skipped, other.skipped), (self.noted, other.noted)):
            for what, tally in new.items():
                own.setdefault(what, Tally(tally.first)).count += tally.count

    def lines(self) -> list[str]:
        """The account for a person, a line for each fact."""
        total = sum(self.rows.values())
        found = [f"read {total} row{'s' if total != 1 else ''} from {named(self.rows)}"]
        for what, files in self.taken.items():
            found.append(what if len(files) == len(self.rows) else f"{named(files)}: {what}")
        for verb, tallies in (("skipped", self.skipped), ("noted", self.noted)):
            found += [f"{verb} {one.count}: {what} (first: {one.first})" for what, one in tallies.items()]
        return found

    def as_dict(self) -> dict[str, Any]:
        """The account for a machine."""

        def spelt(tallies: dict[str, Tally]) -> dict[str, Any]:
            return {
                what: {"count": one.count, "file": one.first.file, one.first.unit: one.first.number}
                for what, one in tallies.items()
            }

        return {
            "rows": dict(self.rows),
            "taken": {what: list(files) for what, files in self.taken.items()},
            "skipped": spelt(self.skipped),
            "noted": spelt(self.noted),
        }

    def require(self, found: int, file: str | None = None) -> None:
        """Refuse a reading, or a file of it, that gave nothing, and say why it gave nothing."""
        if found == 0:
            reasons = "; ".join(self.lines()[1 + len(self.taken) :]) or "there are no rows"
            raise ValueError(f"{file or named(self.rows)}: no example to use: {reasons}")

    def finished(self, examples: list[E]) -> "Read[E]":
        """The examples with their account; an error where there are none."""
        self.require(len(examples))
        return Read(examples, self)


@dataclass(frozen=True, slots=True)
class Read(Generic[E]):
    """What a reader gives: the examples, and how it came by them."""

    examples: list[E]
    report: ReadReport


def named(files: Iterable[str], most: int = 3) -> str:
    """The names of files, the first few of many."""
    names = list(files)
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest
