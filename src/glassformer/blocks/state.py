"""Step and State: the protocol between a model that predicts the next token and any search over it.

B batch, T new tokens, S source length, D model width, V vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import torch
from torch import Tensor


class State(Protocol):
    """What a model remembers of the tokens so far; one row a sequence."""

    def select(self, rows: Tensor, *, within: int | None = None) -> Self:
        """The state of these rows, in this order; a row may be named twice or not at all.

        What stays in its place is not copied, so the state selected from is used up. `within` promises that rows
        trade places only in groups of so many, one text each: nobody then has to look, and no GPU is waited for.
        """
        ...

    def rewind(self, tokens: int) -> Self | None:
        """The state before the last `tokens` tokens; None where that is forgotten, and must be read again."""
        ...


S = TypeVar("S", bound=State)


class Stepper(Protocol[S]):
    """A model that can be decoded with: start once, then step as often as you like."""

    def start(self, input_ids: Tensor, attention_mask: Tensor | None = None, *, length: int) -> S:
        """An empty state with room for `length` decoder tokens.

        A decoder-only model reads only the shape and the padding of its prompt here (the prompt itself
        is the first step); an encoder-decoder encodes its source.
        """
        ...

    def step(self, ids: Tensor, state: S) -> tuple[Tensor, S]:
        """Feed (B, T) new tokens; return the logits (B, T, V) after each of them, and the state."""
        ...

    def hidden_step(self, ids: Tensor, state: S) -> tuple[Tensor, S]:
        """As `step`, with the last hidden states (B, T, D) instead of the logits that `logits` makes of them."""
        ...

    def logits(self, hidden: Tensor) -> Tensor:
        """A score for every word, (…, D) -> (…, V)."""
        ...

    def state_bytes(self, rows: int, length: int, source: tuple[int, int]) -> int:
        """The size of a state of `rows` sequences with this length, over a source (B, S) where there is one."""
        ...


ROWS = 128  # whose scores a CPU has at a time: it works faster in memory that it has had before


@dataclass(frozen=True)
class Turn:
    """What a search does around a step of its model: rows trade places before it, and scores are looked at after it."""

    then: Callable[[Any, Any], Any]  # of what is seen of the scores, and of the notes, makes new notes
    notes: Any = None  # tensors, in dataclasses and lists
    rows: Tensor | None = None  # (B,), as for `State.select`
    within: int | None = None
    see: Callable[[Tensor, bool], tuple[Tensor, ...]] | None = None  # of each row of scores for itself, and whether
    # they may be written over; None sees (B, V)

    def seen(self, model: "Stepper[Any]", hidden: Tensor) -> Any:
        """What is seen of the scores that a model gives after hidden states (B, D)."""
        if self.see is None:
            return model.logits(hidden)
        fresh = getattr(model, "fresh", False)  # else somebody may listen, who wants to see all rows, as they are
        if hidden.is_cuda or not fresh or len(hidden) <= ROWS:
            return self.see(model.logits(hidden), fresh)
        parts = [self.see(model.logits(part), fresh) for part in hidden.split(ROWS)]
        return tuple(torch.cat(part) for part in zip(*parts, strict=True))


def follow(model: Stepper[S], ids: Tensor, state: S, turn: Turn) -> tuple[Any, S]:
    """Feed (B, T) new tokens; return what `turn` makes of the scores after the last of them, and the state.

    A model may know a faster way. What it gives then holds until the next step, and `turn.then` must be the same sums
    for any notes: tensor operations of fixed shapes. Two that are equal do the same.
    """
    faster: Callable[[Tensor, S, Turn], tuple[Any, S]] | None = getattr(model, "follow", None)
    return follow_plainly(model, ids, state, turn) if faster is None else faster(ids, state, turn)


def follow_plainly(model: Stepper[S], ids: Tensor, state: S, turn: Turn) -> tuple[Any, S]:
    """The same for any `turn.then`."""
    if turn.rows is not None:
        state = state.select(turn.rows, within=turn.within)
    hidden, state = model.hidden_step(ids, state)
    return turn.then(turn.seen(model, hidden[:, -1]), turn.notes), state


def in_place(rows: Tensor, count: int) -> bool:
    """Whether a selection of `rows` from `count` moves nothing."""
    return len(rows) == count and torch.equal(rows, torch.arange(count, device=rows.device))
