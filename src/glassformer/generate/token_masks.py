"""Marks over the vocabulary: which tokens stand in a text, which are meant, and what a ban leaves.

B rows, L tokens so far, V vocabulary, S length of a text looked at, W words, n a word's length.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.functional import pad


def hide(ids: Tensor, keep: Tensor | None) -> Tensor:
    """The ids with -1 for padding, where `keep` is 0; columns beyond `keep` are real, so the prompt's mask will do."""
    if keep is None:
        return ids
    return ids.masked_fill(~pad(keep.bool(), (0, ids.shape[1] - keep.shape[1]), value=True), -1)


def beside(ids: Tensor, source: Tensor | None) -> Tensor:
    """(B, S): the text a filter looks at; one source serves all beams of its text."""
    return ids if source is None else source.repeat_interleave(len(ids) // len(source), 0)


def standing(ids: Tensor, scores: Tensor) -> Tensor:
    """(B, V): which tokens stand among these ids; a last column takes those without a score, and is cut off."""
    size = scores.shape[-1]
    marks = scores.new_zeros(len(scores), size + 1, dtype=torch.bool)
    return marks.scatter(1, torch.where((ids < 0) | (ids > size), size, ids), True)[:, :size]


def unless_empty(changed: Tensor, scores: Tensor) -> Tensor:
    """The changed scores; a row left without a token keeps those it had."""
    return torch.where(changed.amax(-1, keepdim=True) == -math.inf, scores, changed)


def ban(scores: Tensor, banned: Tensor) -> Tensor:
    return unless_empty(scores.masked_fill(banned, -math.inf), scores)


def these(ids: Sequence[int], scores: Tensor) -> Tensor:
    return mask(tuple(ids), scores.shape[-1], scores.device)


@lru_cache(maxsize=64)
def mask(ids: tuple[int, ...], size: int, device: torch.device) -> Tensor:
    """(V,): True at these ids; made once, since sending it to a GPU at every step would wait."""
    for wrong in (id_ for id_ in ids if not 0 <= id_ < size):
        raise ValueError(f"the id {wrong} is not in the vocabulary; give one from 0 to {size - 1}")
    with torch.inference_mode(False):  # so that it serves outside of it as well
        return torch.zeros(size, dtype=torch.bool).index_fill(0, torch.tensor(ids, dtype=torch.long), True).to(device)


@lru_cache(maxsize=64)
def by_length(words: tuple[tuple[tuple[int, ...], float], ...], size: int, device: torch.device) -> list[list[Tensor]]:
    """The words of each length: their ids but the last (W, n - 1), the last (W,), and their biases (W,)."""
    mask(tuple({id_ for ids, _ in words for id_ in ids}), size, device)  # all are in the vocabulary
    groups = [[word for word in words if len(word[0]) == n] for n in {len(ids) for ids, _ in words}]
    with torch.inference_mode(False):
        tables = [[torch.tensor(column) for column in zip(*group, strict=True)] for group in groups]
        return [[x.to(device) for x in (ids[:, :-1], ids[:, -1], bias)] for ids, bias in tables]
