"""Several folders of shards as one row of ids, one after the other."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from glassformer.data.shards import Shards


class JoinedShards(Shards):
    """The ids of several shards, all of one tokenizer; `weights` are their shares of what is learnt, by default as each
    is large."""

    def __init__(self, parts: Sequence[Shards], weights: Sequence[float] | None = None) -> None:
        first, places = parts[0], [one.place.rstrip("/") for one in parts]
        if twice := [place for place in places if places.count(place) > 1]:
            raise ValueError(f"{twice[0]} is named twice: name each folder of shards once, and give weights")
        for one in parts[1:]:
            if (one.tokenizer, one.frame, one.dtype) != (first.tokenizer, first.frame, first.dtype):
                raise ValueError(f"{one.place} and {first.place} were made with two tokenizers, or for two tasks")
        self.parts, self.weights = list(parts), weights
        self.place, self.tokenizer, self.frame, self.dtype = first.place, first.tokenizer, first.frame, first.dtype
        self.shards = [shard for one in parts for shard in one.shards]
        self.bytes = sum(one.bytes for one in parts)
        self.documents = sum(one.documents for one in parts)
        self.borders = np.cumsum([0, *map(len, parts)])  # where each begins, and the end

    @property
    def is_here(self) -> bool:
        return all(one.is_here for one in self.parts)

    @property
    def folder(self) -> Path:
        raise ValueError("these shards lie in several folders")

    def __len__(self) -> int:
        return int(self.borders[-1])

    def __reduce__(self) -> tuple[Any, ...]:
        return JoinedShards, (self.parts, self.weights)

    def between(self, start: int, stop: int) -> Self:
        inside = self._inside(start, stop) or [(self.parts[0], (0, 0))]
        return type(self)([part.between(*inner) for part, inner in inside])

    def tokens(self, start: int, stop: int) -> NDArray[Any]:
        found = [part.tokens(*inner) for part, inner in self._inside(start, stop)]
        return found[0] if len(found) == 1 else np.concatenate([np.zeros(0, self.dtype), *found])

    def _inside(self, start: int, stop: int) -> list[tuple[Shards, tuple[int, int]]]:
        """The parts that have tokens from start to stop, with what these are called in them."""
        if not 0 <= start <= stop <= len(self):
            raise ValueError(f"tokens {start} to {stop}: give 0 <= start <= stop <= {len(self)}")
        return [
            (part, (max(0, start - first), min(len(part), stop - first)))
            for part, first in zip(self.parts, self.borders.tolist(), strict=False)
            if first < stop and start < first + len(part)
        ]

    def expect(self, starts: NDArray[np.int64], size: int) -> None:
        for part, first in zip(self.parts, self.borders.tolist(), strict=False):
            own = starts[(starts > first - size) & (starts < first + len(part))] - first
            part.expect(np.maximum(own, 0), size)

    def ends(self) -> NDArray[np.int64]:
        parts = zip(self.parts, self.borders.tolist(), strict=False)
        return np.concatenate([part.ends() + first for part, first in parts])

    def identity(self) -> list[Any]:
        return [part.identity() for part in self.parts]
