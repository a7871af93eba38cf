"""Random choices that are the same for a seed on every machine and with every version of Python."""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


class StableRandom:
    """Only `Random.random()` is used, whose numbers Python promises to keep for a seed."""

    def __init__(self, *seed: str | int) -> None:
        self._random = Random("/".join(map(str, seed)))

    def happens(self, probability: float) -> bool:
        return self._random.random() < probability

    def below(self, limit: int) -> int:
        """An integer from 0 to `limit` - 1."""
        return int(self._random.random() * limit)

    def choice(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]

    def sample(self, options: Sequence[T], count: int) -> list[T]:
        """`count` different options, in random order."""
        left = list(options)
        return [left.pop(self.below(len(left))) for _ in range(count)]
