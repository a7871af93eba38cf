"""Answers as spans: of characters in a context, of tokens in a window, and the best of them over all windows.

N rows, B batch, T length, L longest answer, K spans of each window.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from glassformer.data.batches import Indices
from glassformer.data.examples import SquadAnswer, SquadExample

from .encoded import EncodedTexts
from .windows import Frame, Numbers, Span, ragged, windows


class Context(NamedTuple):
    """A context in tokens: their ids, the first character of each and the one after its last."""

    ids: Numbers
    starts: Numbers
    ends: Numbers


class WindowRow(NamedTuple):
    """A window over a context, behind its question."""

    owner: int  # the number of the question
    ids: Numbers
    types: Numbers
    span: Span  # the tokens of the context: the first, and the one after the last
    before: int  # the place in the row of the first of them
    target: Span  # the places of the first and the last token of the answer; 0, 0 where the row does not hold it


@dataclass
class AskedTexts(EncodedTexts):
    """The windows of a split."""

    examples: Sequence[SquadExample]
    contexts: Sequence[Context]  # of each example
    owners: Numbers  # (N,), as in WindowRow
    spans: Numbers  # (N, 2)
    before: Numbers  # (N,)
    targets: Numbers  # (N, 2)

    def inside(self, rows: Indices) -> Tensor:
        """True where a row holds its context: (B, T)."""
        place = np.arange(int(self.lengths[rows].max(initial=0)))
        first, size = self.before[rows, None], np.diff(self.spans[rows])
        return torch.from_numpy((first <= place) & (place < first + size))

    def characters(self, row: int, first: int, last: int) -> Span:
        """What the tokens from one place of a row to another stand for in the context, but for spaces at its ends."""
        owner, shift = int(self.owners[row]), self.spans[row, 0] - self.before[row]
        start, end = int(self.contexts[owner].starts[first + shift]), int(self.contexts[owner].ends[last + shift])
        text = self.examples[owner].context[start:end]
        start += len(text) - len(text.lstrip())
        return start, start + len(text.strip())


def asked_texts(
    examples: Sequence[SquadExample],
    contexts: Sequence[Context],
    rows: Sequence[WindowRow],
    *,
    segments: bool,
    num_truncated: int,
) -> AskedTexts:
    """All rows of a split, ready for batches."""
    return AskedTexts(
        rows=ragged([row.ids for row in rows]),
        segments=ragged([row.types for row in rows]) if segments else None,
        num_truncated=num_truncated,
        examples=examples,
        contexts=contexts,
        owners=np.array([row.owner for row in rows], np.int64),
        spans=np.array([row.span for row in rows], np.int64).reshape(-1, 2),
        before=np.array([row.before for row in rows], np.int64),
        targets=np.array([row.target for row in rows], np.int64).reshape(-1, 2),
    )


def window_rows(
    owner: int, question: Numbers, context: Context, answer: Span | None, *, frame: Frame, capacity: int, overlap: int
) -> Iterator[WindowRow]:
    """A row for each window of a context; a context without tokens has one, too."""
    space = capacity - len(question)
    for start, stop in windows(len(context.ids), space, min(overlap, space // 2)):
        sizes = len(question), stop - start
        before = frame.before(1, *sizes)
        target = 0, 0
        if answer is not None and start <= answer[0] and answer[1] < stop:
            target = answer[0] - start + before, answer[1] - start + before
        ids = frame.row(question, context.ids[start:stop])
        yield WindowRow(owner, ids, frame.types(*sizes), (start, stop), before, target)


def answer_tokens(context: Context, answer: SquadAnswer) -> Span | None:
    """The first and the last token that share a character with an answer; None where there is none."""
    first = int(np.searchsorted(context.ends, answer.start, side="right"))
    last = int(np.searchsorted(context.starts, answer.start + len(answer.text), side="left")) - 1
    return (first, last) if first <= last else None


class BestSpans(NamedTuple):
    """What the scores of some windows come to."""

    scores: NDArray[np.float32]  # (B, K) of the best spans, the sum at their two ends; -inf where there are fewer
    firsts: Numbers  # (B, K) their places
    lasts: Numbers  # (B, K)
    none: NDArray[np.float32]  # (B,) of no answer
    norms: NDArray[np.float32]  # (B, 2) log of the sum of all exp(score), at the start and at the end


def best_spans(start: Tensor, end: Tensor, inside: Tensor, *, count: int, longest: int) -> BestSpans:
    """The best spans of at most `longest` tokens inside a context, from scores (B, T) of where they start and end."""
    allowed = inside.clone()
    allowed[:, 0] = True  # no answer
    norms = torch.stack([one.masked_fill(~allowed, -inf).logsumexp(1) for one in (start, end)], 1)
    none = start[:, 0] + end[:, 0]
    start, end = start.masked_fill(~inside, -inf), end.masked_fill(~inside, -inf)
    longest = min(longest, start.shape[1])
    ends = F.pad(end, (0, longest - 1), value=-inf).unfold(1, longest, 1)  # (B, T, L): at each start, the ends ahead
    sums = (start[:, :, None] + ends).flatten(1)
    scores, places = sums.topk(min(count, sums.shape[1]))  # (B, K)
    firsts = places // longest
    return BestSpans(*(one.cpu().numpy() for one in (scores, firsts, firsts + places % longest, none, norms)))


class Candidate(NamedTuple):
    """An answer: the sum of its two scores, its characters, its text."""

    score: float
    start: int
    end: int
    text: str


@dataclass
class AnswerCandidates:
    """What the windows read so far say to one question: the best `top_k` answers, and the score of none."""

    top_k: int
    answers: list[Candidate] = field(default_factory=list)  # the best first
    none: float = inf
    norms: NDArray[np.float64] = field(default_factory=lambda: np.full(2, -inf))

    def merge(self, other: "AnswerCandidates") -> None:
        """Take in another window, or several."""
        spans: dict[Span, Candidate] = {}
        for one in sorted(self.answers + other.answers, reverse=True):
            spans.setdefault((one.start, one.end), one)  # neighbouring windows may find the same
        self.answers = list(spans.values())[: self.top_k]
        self.none = min(self.none, other.none)
        with np.errstate(invalid="ignore"):  # of a model with NaN among its weights
            self.norms = np.logaddexp(self.norms, other.norms)

    def ranked(self, threshold: float | None) -> list[Candidate]:
        """The answers, the best first; none among them where a threshold says how much better it must be."""
        if threshold is None:
            return self.answers or [Candidate(-inf, 0, 0, "")]
        better = sum(one.score >= self.none - threshold for one in self.answers)
        return [*self.answers[:better], Candidate(self.none, 0, 0, ""), *self.answers[better:]][: self.top_k]

    def share(self, one: Candidate) -> float:
        """The probability of an answer: of its start among all starts, times that of its end."""
        return float(np.exp(one.score - self.norms.sum()))


def answer_candidates(
    items: AskedTexts, rows: Indices, start: Tensor, end: Tensor, *, top_k: int, longest: int
) -> Iterator[tuple[int, AnswerCandidates]]:
    """The number of the question and the reading of each row, from its scores (B, T)."""
    found = best_spans(start, end, items.inside(rows).to(start.device), count=top_k, longest=longest)
    for place, row in enumerate(rows.tolist()):
        owner = int(items.owners[row])
        one = AnswerCandidates(top_k, none=float(found.none[place]), norms=found.norms[place].astype(np.float64))
        for score, first, last in zip(found.scores[place], found.firsts[place], found.lasts[place], strict=True):
            if score > -inf:
                span = items.characters(row, first, last)
                one.answers.append(Candidate(float(score), *span, items.examples[owner].context[slice(*span)]))
        yield owner, one
