"""From hidden states to losses over a vocabulary, at just the places that have a target.

P places, D model width, V vocabulary. A head gives scores (…, V) of hidden states (…, D).
"""

from collections.abc import Callable
from itertools import repeat

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

Head = Callable[[Tensor], Tensor]
NO_TARGET = -100  # a place that is not scored
JUDGED = 2048  # places looked at in one go when nothing is learnt


def summed_cross_entropy(
    hidden: Tensor, head: Head, targets: Tensor, *, weights: Tensor | None = None, chunk: int | None = None
) -> Tensor:
    """The loss over all targets, in float32, each times its weight.

    Where memory is short: `chunk` places at a time, whose scores are made anew for the gradient.
    """
    rows, words = hidden.flatten(0, -2), targets.flatten()  # (P, D), (P,)
    if chunk is None or len(rows) <= chunk:
        return _summed(rows, head, words, weights)
    weighing = repeat(None) if weights is None else weights.split(chunk)
    losses = [
        checkpoint(_summed, some, head, their, weight, use_reentrant=False, preserve_rng_state=False)
        for some, their, weight in zip(rows.split(chunk), words.split(chunk), weighing, strict=False)
    ]
    return torch.stack(losses).sum()


def _summed(rows: Tensor, head: Head, words: Tensor, weights: Tensor | None) -> Tensor:
    scores = head(rows).float()
    if weights is None:
        return F.cross_entropy(scores, words, reduction="sum", ignore_index=NO_TARGET)
    return weighted_sum(F.cross_entropy(scores, words, reduction="none", ignore_index=NO_TARGET), weights)


def weighted_sum(losses: Tensor, weights: Tensor) -> Tensor:
    """Not as a product of vectors, which autocast would round."""
    return (losses * weights).sum()


def judged(hidden: Tensor, head: Head, targets: Tensor) -> tuple[Tensor, Tensor]:
    """For each target its loss, and whether the first guess is right; 0 and False where there is none."""
    losses, right = [], []
    for rows, words in zip(hidden.flatten(0, -2).split(JUDGED), targets.flatten().split(JUDGED), strict=True):
        scores = head(rows).float()  # (P, V)
        losses.append(F.cross_entropy(scores, words, reduction="none", ignore_index=NO_TARGET))
        right.append(scores.argmax(-1) == words)
    return torch.cat(losses).view_as(targets), torch.cat(right).view_as(targets)
