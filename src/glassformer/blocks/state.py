"""Step and State: the protocol between a model that predicts the next token and any search over it.

B batch, T new tokens, S source length, D model width, V vocabulary.
"""

from typing import Protocol, Self, TypeVar

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


def in_place(rows: Tensor, count: int) -> bool:
    """Whether a selection of `rows` from `count` moves nothing."""
    return len(rows) == count and torch.equal(rows, torch.arange(count, device=rows.device))
