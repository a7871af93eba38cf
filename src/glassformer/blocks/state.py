"""Step and State: the protocol between a model that predicts the next token and any search over it.

B batch, T new tokens, L positions kept, H heads, K head width, V vocabulary.
"""

from typing import Protocol, Self, TypeVar

from torch import Tensor


class State(Protocol):
    """What a model remembers of the tokens so far; one row a sequence."""

    def select(self, rows: Tensor) -> Self:
        """The state of these rows, in this order; a row may be named twice or not at all."""
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
