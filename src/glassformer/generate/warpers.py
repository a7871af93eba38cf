"""Warpers: filters that shape the distribution a token is drawn from.

B rows, V vocabulary.
"""

import math
from dataclasses import dataclass

from torch import Tensor

from .rules import Checked


@dataclass(frozen=True)
class Temperature(Checked):
    """Below 1 sharpens the distribution, above 1 flattens it."""

    temperature: float

    def __call__(self, _ids: Tensor, scores: Tensor) -> Tensor:
        return scores / self.temperature


@dataclass(frozen=True)
class TopK(Checked):
    """The k likeliest tokens, and those that equal the last of them."""

    top_k: int

    def __call__(self, _ids: Tensor, scores: Tensor) -> Tensor:
        return scores.masked_fill(scores < _nth_best(scores, self.top_k), -math.inf)


@dataclass(frozen=True)
class TopP(Checked):
    """The nucleus: the likeliest tokens that together reach the probability top_p."""

    top_p: float
    min_tokens_to_keep: int = 1

    def __call__(self, _ids: Tensor, scores: Tensor) -> Tensor:
        rising, order = scores.sort(stable=True)
        out = rising.softmax(-1).cumsum(-1) <= 1 - self.top_p
        out[:, -self.min_tokens_to_keep :] = False
        return scores.masked_fill(out.scatter(1, order, out), -math.inf)


@dataclass(frozen=True)
class MinP(Checked):
    """The tokens at least min_p times as likely as the likeliest."""

    min_p: float
    min_tokens_to_keep: int = 1

    def __call__(self, _ids: Tensor, scores: Tensor) -> Tensor:
        chances = scores.softmax(-1)
        out = chances < self.min_p * chances.amax(-1, keepdim=True)
        best = chances.topk(min(self.min_tokens_to_keep, scores.shape[-1])).indices
        return scores.masked_fill(out.scatter(1, best, False), -math.inf)


@dataclass(frozen=True)
class Typical(Checked):
    """The tokens whose surprise is nearest to the expected one, up to the probability typical_p."""

    typical_p: float
    min_tokens_to_keep: int = 1

    def __call__(self, _ids: Tensor, scores: Tensor) -> Tensor:
        logs = scores.log_softmax(-1)
        distance, order = (-logs - _entropy(logs)).abs().sort()
        before = (scores.gather(1, order).softmax(-1).cumsum(-1) < self.typical_p).sum(-1, keepdim=True)
        out = distance > distance.gather(1, before.clamp(max=scores.shape[-1] - 1))
        out[:, : self.min_tokens_to_keep] = False
        return scores.masked_fill(out.scatter(1, order, out), -math.inf)


@dataclass(frozen=True)
class Epsilon(Checked):
    """The tokens with at least the probability epsilon_cutoff."""

    epsilon_cutoff: float
    min_tokens_to_keep: int = 1

    def __call__(self, _ids: Tensor, scores: Tensor) -> Tensor:
        out = scores.softmax(-1) < self.epsilon_cutoff
        return scores.masked_fill(out & (scores < _nth_best(scores, self.min_tokens_to_keep)), -math.inf)


@dataclass(frozen=True)
class Eta(Checked):
    """As Epsilon, with a threshold that falls where the distribution is flat."""

    eta_cutoff: float
    min_tokens_to_keep: int = 1

    def __call__(self, _ids: Tensor, scores: Tensor) -> Tensor:
        eta = math.sqrt(self.eta_cutoff) * (-_entropy(scores.log_softmax(-1))).exp()
        out = scores.softmax(-1) < eta.clamp(max=self.eta_cutoff)
        return scores.masked_fill(out & (scores < _nth_best(scores, self.min_tokens_to_keep)), -math.inf)


def _nth_best(scores: Tensor, n: int) -> Tensor:
    return scores.topk(min(n, scores.shape[-1])).values[:, -1:]  # (B, 1)


def _entropy(logs: Tensor) -> Tensor:
    return -(logs * logs.exp()).nansum(-1, keepdim=True)  # (B, 1); 0 · -inf counts nothing
