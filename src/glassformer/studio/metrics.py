"""The rows of a metrics.jsonl, followed while it grows: where each begins and what they come to, not the rows."""

import json
import math
from array import array
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import BinaryIO, NamedTuple

TAIL = 4096  # bytes of the last row by which a file is known again
RUNS = 256  # that are followed at once
Row = dict[str, float]


class BestScore(NamedTuple):
    """A value, and the step it was reached at."""

    value: float
    step: float | None


class MetricsReader:
    """One file. What is kept does not grow with its rows but for eight bytes each; rows are read when asked for."""

    def __init__(self, path: Path) -> None:
        self.path, self._lock = path, Lock()
        self._begin()

    def _begin(self) -> None:
        self.starts = array("Q")  # where each row begins
        self._end, self._tail = 0, b""  # how far the file was read, and the end of the last row
        self.last: Row = {}
        self.loss: float | None = None
        self.least: dict[str, BestScore] = {}  # of every score of the dev split
        self.greatest: dict[str, BestScore] = {}

    def __len__(self) -> int:
        return len(self.starts)

    def read_on(self) -> "MetricsReader":
        """Take in what was written since; from the beginning if the file is another, or was cut by a resumed run."""
        with self._lock:
            try:
                if not self.path.is_file():  # a pipe would be waited for
                    raise FileNotFoundError
                with self.path.open("rb") as file:
                    if not self._goes_on(file):
                        self._begin()
                    for line in _lines(file, self._end):
                        self._take(line)
            except OSError:  # gone, or not ours to read
                self._begin()
        return self

    def rows(self, first: int) -> list[Row]:
        """The rows from `first` on."""
        with self._lock:
            if first >= len(self):
                return []
            try:
                with self.path.open("rb") as file:
                    lines = _lines(file, self.starts[first])
                    return [row_of(line) for _, line in zip(range(first, len(self)), lines, strict=False)]
            except OSError:
                return []

    def _goes_on(self, file: BinaryIO) -> bool:
        file.seek(self._end - len(self._tail))
        return file.read(len(self._tail)) == self._tail

    def _take(self, line: bytes) -> None:
        self.starts.append(self._end)
        self._end, self._tail, row = self._end + len(line), line[-TAIL:], row_of(line)
        self.last, self.loss = row, row.get("loss", self.loss)
        for name, value in row.items():
            if name.startswith("dev_"):
                score = BestScore(value, row.get("step"))
                self.least[name] = min(self.least.get(name, score), score, key=lambda one: one.value)
                self.greatest[name] = max(self.greatest.get(name, score), score, key=lambda one: one.value)


@lru_cache(maxsize=RUNS)
def followed(path: Path) -> MetricsReader:
    """The one MetricsReader of a file."""
    return MetricsReader(path)


def _lines(file: BinaryIO, start: int) -> Iterator[bytes]:
    """Whole lines; one that is still being written is none yet."""
    file.seek(start)
    return (line for line in file if line.endswith(b"\n"))


def row_of(line: bytes) -> Row:
    """A line's numbers; of a broken one there are none, but it keeps its place."""
    try:
        values = json.loads(line.decode("utf-8", errors="replace"))
    except (ValueError, RecursionError):
        return {}
    if not isinstance(values, dict):
        return {}
    return {name: value for name, value in values.items() if _is_number(value)}


def _is_number(value: object) -> bool:
    try:
        return isinstance(value, int | float) and math.isfinite(value)
    except OverflowError:  # a whole number beyond every float
        return False
