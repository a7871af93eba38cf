"""State: what a model that decodes step by step remembers of the tokens so far.

B batch, T new tokens.
"""

from typing import Protocol, Self, TypeVar, runtime_checkable

import torch
from torch import Tensor


class State(Protocol):
    """A KV cache, a recurrent state or both; one row a sequence."""

    def select(self, rows: Tensor, *, group_size: int | None = None) -> Self:
        """The state of these rows (B',), in this order; a row may be named twice or not at all.

        Rows that stay in place are not copied, so the state selected from must not be used again. `group_size`
        promises that rows are reordered only within groups of that many, one prompt each: then nothing has to be
        compared, and no GPU is waited for.
        """
        ...

    def rewind(self, tokens: int) -> Self | None:
        """The state before the last `tokens` tokens; None where it is forgotten, and must be computed again."""
        ...


S = TypeVar("S", bound=State)


@runtime_checkable
class FixedState(State, Protocol):
    """A state of one size however long the text, so that it can be carried on without end; a KV cache is none."""

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All that it remembers, (B, …) each."""
        ...

    def filled(self, tensors: tuple[Tensor, ...]) -> Self:
        """A state of this kind that remembers these."""
        ...


def is_identity(rows: Tensor, count: int) -> bool:
    """Whether a selection of `rows` from `count` moves nothing."""
    return len(rows) == count and torch.equal(rows, torch.arange(count, device=rows.device))
