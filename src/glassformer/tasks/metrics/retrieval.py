"""Scores of search: how often the right candidate is among the best k, and its mean reciprocal rank.

Q queries, N candidates, B pairs, D width.
"""

from collections.abc import Sequence
from typing import Self

import numpy as np
import torch
from torch import Tensor

from glassformer.tasks.metrics.metric import Array, DeferredMetric, Metric

QUERIES = 1024  # ranked at a time


class Retrieval(Metric):
    """retrieval@k for each k, and mrr. A candidate that scores as high as the right one stands before it.

    So a model that cannot tell candidates apart finds nothing, whatever order they come in.
    """

    def __init__(self, ks: Sequence[int] = (1, 5, 10), *, keep_examples: bool = False) -> None:
        self.ks = tuple(ks)
        self.shares = tuple(f"retrieval@{k}" for k in self.ks)
        super().__init__(np.zeros(len(self.ks) + 2), keep_examples=keep_examples)  # found in k, reciprocals, count

    def update(self, scores: Tensor, right: Tensor) -> None:
        """Scores (Q, N) of all candidates, -inf for what is no candidate, and the place (Q,) of the right one."""
        broken = scores.isnan().any(-1).nonzero()
        if len(broken):
            raise ValueError(
                f"query {self.count + int(broken[0])} has a score that is nan; look for an embedding that is 0 or nan"
            )
        own = scores.gather(1, right[:, None])
        ranks = (scores >= own).sum(-1, keepdim=True).cpu().numpy()  # (Q, 1), from 1
        self._add(np.concatenate([ranks <= np.array(self.ks), 1 / ranks, np.ones_like(ranks)], -1))

    def _scores(self, total: Array) -> dict[str, float]:
        return dict(zip((*self.shares, "mrr"), (total[:-1] / total[-1]).tolist(), strict=True))


class VectorRetrieval(DeferredMetric):
    """How well second texts are found by their firsts. Candidates are all different second texts of the split, so the
    vectors of such a split are kept."""

    def __init__(self, *, keep_examples: bool) -> None:
        self.keep_examples, self.count = keep_examples, 0
        self.kept: list[tuple[Tensor, Tensor, Tensor]] = []

    def update(self, first: Tensor, second: Tensor, same: Tensor) -> None:
        """Vectors (B, D) of both sides, of length 1, and numbers (B,) that tell which second texts are the same."""
        self.kept.append((first.cpu(), second.cpu(), same.cpu()))
        self.count += len(same)

    def merge(self, other: Self) -> None:
        self.kept += other.kept
        self.count += other.count

    def judge(self) -> Retrieval:
        retrieval = Retrieval(keep_examples=self.keep_examples)
        first, second, same = (torch.cat(parts) for parts in zip(*self.kept, strict=True))
        _, right = same.unique(return_inverse=True)
        candidates = torch.empty(int(right.max()) + 1, second.shape[1])
        candidates[right] = second
        for start in range(0, len(first), QUERIES):
            some = slice(start, start + QUERIES)
            retrieval.update(first[some] @ candidates.T, right[some])
        return retrieval
