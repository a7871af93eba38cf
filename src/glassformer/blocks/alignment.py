"""The attentions of the RNN era: additive (Bahdanau), and dot, general and concat (Luong), and scaled dot.

B batch, T target length, S source length, D query width, E memory width, W width of the comparison.
Masks: 1 or True = keep.
"""

from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .attention import masked_softmax
from .point import Point, StepPoint

AlignmentName = Literal["additive", "dot", "general", "concat", "scaled_dot"]


class DotScore(nn.Module):
    """q · m, times a scale."""

    def __init__(self, *, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = scale

    def keys(self, memory: Tensor) -> Tensor:
        return memory

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return query @ keys.mT * self.scale  # (B, T, S)


class GeneralScore(nn.Module):
    """q · W m."""

    def __init__(self, query_width: int, memory_width: int) -> None:
        super().__init__()
        self.memory = nn.Linear(memory_width, query_width, bias=False)

    def keys(self, memory: Tensor) -> Tensor:
        return self.memory(memory)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return query @ keys.mT  # (B, T, S)


class AdditiveScore(nn.Module):
    """v · tanh(W q + U m)."""

    def __init__(self, query_width: int, memory_width: int, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(query_width, width, bias=False)
        self.memory = nn.Linear(memory_width, width, bias=False)
        self.weigh = nn.Linear(width, 1, bias=False)

    def keys(self, memory: Tensor) -> Tensor:
        return self.memory(memory)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        met = torch.tanh(self.query(query)[:, :, None] + keys[:, None])  # (B, T, S, W)
        return self.weigh(met).squeeze(-1)  # (B, T, S)


class ConcatScore(nn.Module):
    """v · tanh(W [q; m]); the two halves of W are applied apart, so that no pair is ever concatenated."""

    def __init__(self, query_width: int, memory_width: int, width: int) -> None:
        super().__init__()
        self.query_width = query_width
        self.both = nn.Linear(query_width + memory_width, width, bias=False)
        self.weigh = nn.Linear(width, 1, bias=False)

    def keys(self, memory: Tensor) -> Tensor:
        return F.linear(memory, self.both.weight[:, self.query_width :])

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        projected = F.linear(query, self.both.weight[:, : self.query_width])
        met = torch.tanh(projected[:, :, None] + keys[:, None])  # (B, T, S, W)
        return self.weigh(met).squeeze(-1)  # (B, T, S)


class Alignment(nn.Module):
    """Scores, softmax over the kept source tokens, and the weighted mean of the memory.

    In a loop over target tokens build it `stepwise`: it is then called with one query at a time (T = 1), and
    its Points see (B, S) a step, which a recorder joins to the same (B, T, S) that the parallel form shows.
    """

    def __init__(
        self, scorer: DotScore | GeneralScore | AdditiveScore | ConcatScore, *, stepwise: bool = False
    ) -> None:
        super().__init__()
        self.scorer = scorer
        self.stepwise = stepwise
        self.scores = StepPoint() if stepwise else Point()  # before the mask
        self.pattern = StepPoint() if stepwise else Point()  # after softmax; zero at masked tokens

    def keys(self, memory: Tensor) -> Tensor:
        """What queries are compared with; a loop computes it once and hands it to every step."""
        return self.scorer.keys(memory)

    def forward(self, query: Tensor, memory: Tensor, keep: Tensor | None = None, keys: Tensor | None = None) -> Tensor:
        """query (B, T, D), memory (B, S, E), keep (B, S) -> context (B, T, E), zero where nothing is kept."""
        scores = self.scorer(query, self.keys(memory) if keys is None else keys)  # (B, T, S)
        weights = masked_softmax(self._show(self.scores, scores), None if keep is None else keep[:, None])
        return self._show(self.pattern, weights) @ memory

    def _show(self, point: Point, value: Tensor) -> Tensor:
        return point(value.squeeze(1)).unsqueeze(1) if self.stepwise else point(value)


def alignment(
    name: AlignmentName,
    query_width: int,
    memory_width: int,
    *,
    width: int | None = None,
    stepwise: bool = False,
) -> Alignment:
    """The attention of this name; `width`, of additive and concat, is the query's unless said."""
    if name not in get_args(AlignmentName):
        raise ValueError(f"there is no attention {name!r}; choose one of {', '.join(get_args(AlignmentName))}")
    if name in ("dot", "scaled_dot"):
        if query_width != memory_width:
            raise ValueError(
                f"{name} attention needs equal widths, not a query of {query_width} and a memory of "
                f"{memory_width}; use 'general' or 'additive' (a bidirectional encoder doubles its memory)"
            )
        scale = query_width**-0.5 if name == "scaled_dot" else 1.0
        return Alignment(DotScore(scale=scale), stepwise=stepwise)
    if name == "general":
        return Alignment(GeneralScore(query_width, memory_width), stepwise=stepwise)
    build = AdditiveScore if name == "additive" else ConcatScore
    return Alignment(build(query_width, memory_width, width or query_width), stepwise=stepwise)
