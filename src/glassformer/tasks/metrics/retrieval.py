"""Scores of search: how often the right candidate is among the best k, and its mean reciprocal rank.

Q queries, N candidates.
"""

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from glassformer.tasks.metrics.metric import Array, Metric


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
