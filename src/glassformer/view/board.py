"""What a picture shows: matrices of one kind in a grid, with the tokens along their sides.

R grid rows (layers), C grid columns (heads, or gates), T matrix rows (who looks, or time), S matrix columns (what is
looked at, or units).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from .colours import ColourScale

Matrices = NDArray[np.floating]  # (R, C, T, S)
LARGEST = float(np.finfo(np.float16).max)  # of the numbers that a page can hold


@dataclass(frozen=True, kw_only=True)
class AxisTokens:
    """The tokens along one side, with their ids; `sides` says of a pair's tokens which text they are from."""

    texts: Sequence[str]
    ids: Sequence[int]
    sides: Sequence[int | None] = ()

    def __post_init__(self) -> None:
        if len(self.texts) != len(self.ids) or (self.sides and len(self.sides) != len(self.ids)):
            raise ValueError(f"{len(self.texts)} tokens, {len(self.ids)} ids and {len(self.sides)} sides do not agree")


@dataclass(frozen=True)
class BoardSource:
    """Where a matrix was taken from: a recorded value, and the place in it."""

    name: str
    index: tuple[int, ...]

    def __str__(self) -> str:
        return f'seen["{self.name}"][{", ".join(map(str, self.index))}]'


@dataclass(frozen=True, kw_only=True)
class Board:
    """Matrices in a grid. `across` is None where the columns are units, which have numbers and no names."""

    name: str
    values: Matrices
    scales: Sequence[ColourScale]  # C
    down: AxisTokens
    across: AxisTokens | None
    axes: tuple[str, str]  # what T and S are
    rows: Sequence[str]  # R names
    columns: Sequence[str]  # C names
    grid: tuple[str, str] = ("layer", "head")  # what R and C are
    sources: Sequence[BoardSource] = ()  # R·C
    statistics: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)  # (R, C) numbers by name

    def __post_init__(self) -> None:
        width = self.values.shape[-1] if self.across is None else len(self.across.ids)
        named = (len(self.rows), len(self.columns), len(self.down.ids), width)
        if self.values.shape != named or len(self.scales) != len(self.columns):
            raise ValueError(f"the values of {self.name!r} have shape {self.values.shape}, but names for {named}")
        if self.values.size == 0:
            raise ValueError(f"{self.name!r} of shape {self.values.shape} has nothing to show")

    def check(self) -> None:
        """Refuse what a page cannot hold: numbers too large for 16 bits, infinities and NaN."""
        if not (fits := np.abs(self.values) <= LARGEST).all():
            place = tuple(np.argwhere(~fits)[0].tolist())
            raise ValueError(f"{self.name!r} holds {self.values[place]} at {place}, which cannot be shown")

    @property
    def attends(self) -> bool:
        return self.across is not None

    def columns_of_cells(self) -> list[str]:
        """A label for every matrix column."""
        if self.across is None:
            return [str(unit) for unit in range(self.values.shape[-1])]
        return list(self.across.texts)

    def cut(self, layer: int | None = None, head: int | str | None = None) -> "Board":
        """Only the grid row of this layer (both directions of a bidirectional one), and this head or gate."""
        keep_rows = self.picked(self.rows, layer, self.grid[0])
        keep_columns = self.picked(self.columns, head, self.grid[1])
        places = [row * len(self.columns) + column for row in keep_rows for column in keep_columns]
        return replace(
            self,
            values=self.values[np.ix_(keep_rows, keep_columns)],
            scales=[self.scales[column] for column in keep_columns],
            rows=[self.rows[row] for row in keep_rows],
            columns=[self.columns[column] for column in keep_columns],
            sources=[self.sources[place] for place in places] if self.sources else (),
            statistics={name: found[np.ix_(keep_rows, keep_columns)] for name, found in self.statistics.items()},
        )

    def picked(self, names: Sequence[str], wanted: int | str | None, what: str) -> list[int]:
        """The places of the names that are meant; a name's first word counts, so that 0 means `0 →` and `0 ←`."""
        if wanted is None:
            return list(range(len(names)))
        found = [place for place, name in enumerate(names) if name.split()[0] == str(wanted)]
        if not found:
            known = ", ".join(dict.fromkeys(name.split()[0] for name in names))
            raise ValueError(f"{self.name!r} has no {what} {wanted!r}; it has {known}")
        return found


def pooled(values: Matrices, down: int, across: int) -> Matrices:
    """(…, T, S) in blocks of `down` x `across` cells, each the value that is furthest from zero."""
    *lead, rows, columns = values.shape
    high, wide = ceil(rows / down), ceil(columns / across)
    padding = [(0, 0)] * len(lead) + [(0, high * down - rows), (0, wide * across - columns)]
    blocks = np.pad(values, padding).reshape(*lead, high, down, wide, across)
    largest, least = blocks.max((-3, -1)), blocks.min((-3, -1))
    furthest: Matrices = np.where(-least > largest, least, largest)
    return furthest
