"""Scores that know how far apart two tokens are: what is added to a score before the softmax.

T target length, S source length, H heads, K head width.
"""

import math
from collections.abc import Callable, Hashable
from typing import Protocol, TypeVar

import torch
from torch import Tensor, nn

V = TypeVar("V")


class Memoize(Protocol):
    """What a batch remembers: the value of a key, made where it is first asked for."""

    def __call__(self, key: Hashable, make: Callable[[], V]) -> V: ...


class PositionScores(Protocol):
    """What distances add to the scores of an attention."""

    @property
    def depends_on_content(self) -> bool:
        """Whether queries and keys count, too; if not, all layers of a batch add the same."""
        ...

    def prepare(self, distances: Tensor, memoize: Memoize) -> Tensor:
        """What follows from distances (T, S), key less query, alone; `memoize` remembers what other layers share."""
        ...

    def scores(self, query: Tensor, key: Tensor, prepared: Tensor) -> Tensor:
        """What is added to the scaled scores of (…, H, T, K) and (…, H, S, K): broadcasts to (…, H, T, S)."""
        ...


class RelativeBias(nn.Module):
    """A learned number for each head and each bucket of distances (Raffel et al. 2020): near ones exact, far ones in
    buckets that grow with the logarithm."""

    depends_on_content = False

    def __init__(self, heads: int, buckets: int, max_distance: int, *, bidirectional: bool) -> None:
        super().__init__()
        self.table = nn.Embedding(buckets, heads)
        self.buckets, self.max_distance, self.bidirectional = buckets, max_distance, bidirectional

    def prepare(self, distances: Tensor, memoize: Memoize) -> Tensor:
        """(H, T, S)"""
        found: Tensor = memoize(
            (self, *distances.shape), lambda: self.table(self.bucket(distances)).permute(2, 0, 1).contiguous()
        )
        return found

    def scores(self, query: Tensor, key: Tensor, prepared: Tensor) -> Tensor:
        del query, key  # T5 looks at distances alone
        return prepared

    def bucket(self, distances: Tensor) -> Tensor:
        """Which of the buckets a distance falls into."""
        buckets, first = self.buckets, torch.zeros_like(distances)
        if self.bidirectional:
            buckets //= 2
            first, distances = (distances > 0).long() * buckets, distances.abs()
        else:
            distances = -distances.clamp(max=0)
        exact = buckets // 2
        growth = torch.log(distances.float() / exact) / math.log(self.max_distance / exact)
        far = exact + (growth * (buckets - exact)).long()
        return first + torch.where(distances < exact, distances, far.clamp(max=buckets - 1))
