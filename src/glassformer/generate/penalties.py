"""Penalties and bans: filters by what has been written so far.

B rows, L tokens so far, V vocabulary, S source length, W words, n an n-gram's length.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .rules import Checked
from .token_masks import ban, beside, by_length, standing, unless_empty


@dataclass(frozen=True)
class RepetitionPenalty(Checked):
    """Divides the positive scores of tokens in the text so far (or in a source), multiplies the negative ones."""

    repetition_penalty: float
    source: Tensor | None = None

    def __call__(self, ids: Tensor, scores: Tensor) -> Tensor:
        penalised = torch.where(scores < 0, scores * self.repetition_penalty, scores / self.repetition_penalty)
        return torch.where(standing(beside(ids, self.source), scores), penalised, scores)


@dataclass(frozen=True)
class PresenceFrequency(Checked):
    """Takes a constant from each token written so far, and another for each time it was; the prompt is free."""

    presence_penalty: float
    frequency_penalty: float
    prompt_length: int

    def __call__(self, ids: Tensor, scores: Tensor) -> Tensor:
        size, new = scores.shape[-1], ids[:, self.prompt_length :]
        new = new.masked_fill(new < 0, size).clamp(max=size)
        counts = torch.zeros(len(ids), size + 1, device=ids.device)  # the last column: ids that have no score
        counts = counts.scatter_add(1, new, torch.ones_like(new, dtype=counts.dtype))[:, :size]
        return (scores - self.frequency_penalty * counts - self.presence_penalty * (counts > 0)).to(scores.dtype)


@dataclass(frozen=True)
class NoRepeatNgram(Checked):
    """No n tokens in a row may be written that stand in the text so far, or in a source."""

    no_repeat_ngram_size: int
    source: Tensor | None = None

    def __call__(self, ids: Tensor, scores: Tensor) -> Tensor:
        n, text = self.no_repeat_ngram_size, beside(ids, self.source)
        if ids.shape[1] < n - 1 or text.shape[1] < n:
            return scores
        ngrams = text.unfold(1, n, 1)  # (B, S - n + 1, n)
        found = (ngrams[..., :-1] == ids[:, None, ids.shape[1] - n + 1 :]).all(-1)
        return ban(scores, standing(ngrams[..., -1].masked_fill(~found, -1), scores))


@dataclass(frozen=True)
class SequenceBias:
    """Adds a bias to the last id of a sequence where the ids before it have just been written."""

    sequence_bias: Mapping[tuple[int, ...], float]

    def __post_init__(self) -> None:
        for word, bias in self.sequence_bias.items():
            if not word or not bias < math.inf:
                raise ValueError(f"each word needs at least one id and a bias below infinity, not {list(word)}: {bias}")

    def __call__(self, ids: Tensor, scores: Tensor) -> Tensor:
        total = torch.zeros_like(scores)
        for begins, last, bias in by_length(tuple(self.sequence_bias.items()), scores.shape[-1], scores.device):
            if (start := ids.shape[1] - begins.shape[1]) >= 0:
                found = (ids[:, None, start:] == begins).all(-1)  # (B, W)
                total.index_add_(1, last, torch.where(found, bias, 0).to(scores.dtype))
        return unless_empty(scores + total, scores)


class BadWords(SequenceBias):
    """Sequences of ids that may not be written: the last id of one is banned where the others just were."""

    def __init__(self, bad_words_ids: Iterable[Sequence[int]]) -> None:
        super().__init__({tuple(word): -math.inf for word in bad_words_ids})
