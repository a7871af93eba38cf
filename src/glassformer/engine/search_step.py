"""SearchStep: what a search does around one step of its model, so that a GPU can capture both as one graph.

B batch, T new tokens, D model width, V vocabulary.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from glassformer.blocks.state import S
from glassformer.models.contract import Stepper

ROWS = 128  # whose logits a CPU holds at a time: it works faster in memory that it has had before


@dataclass(frozen=True)
class SearchStep:
    """Rows of the state are reordered before the model's step, and its logits reduced and carried on after it."""

    update: Callable[[Any, Any], Any]  # (reduced logits, carry) -> carry of the next step
    carry: Any = None  # tensors, in dataclasses and lists
    rows: Tensor | None = None  # (B,), as for `State.select`
    group_size: int | None = None
    reduce: Callable[[Tensor, bool], tuple[Tensor, ...]] | None = None  # of each row of logits by itself, and whether
    # they may be written over; None passes (B, V) on

    def reduced(self, model: Stepper[Any], hidden: Tensor) -> Any:
        """What `reduce` makes of a model's logits after hidden states (B, D)."""
        if self.reduce is None:
            return model.logits(hidden)
        owned = isinstance(
            model, StepsSearch
        )  # a plain model's logits may pass a hook, which wants all rows as they are
        if hidden.is_cuda or not owned or len(hidden) <= ROWS:
            return self.reduce(model.logits(hidden), owned)
        parts = [self.reduce(model.logits(part), owned) for part in hidden.split(ROWS)]
        return tuple(torch.cat(part) for part in zip(*parts, strict=True))


@runtime_checkable
class StepsSearch(Protocol):
    """A prepared decoder: its logits are nobody else's, and it may know a faster way for a whole search step."""

    def step_search(self, ids: Tensor, state: object, search: SearchStep) -> tuple[Any, Any]: ...


def step_search(model: Stepper[S], ids: Tensor, state: S, search: SearchStep) -> tuple[Any, S]:
    """Feed (B, T) new tokens; return what `search` carries on after the last of them, and the state.

    A prepared decoder may capture the step. Its result then holds until the next step, and `search.update` must be the
    same tensor operations of fixed shapes for any carry; two updates that compare equal do the same.
    """
    if isinstance(model, StepsSearch):
        return model.step_search(ids, state, search)
    return step_eager(model, ids, state, search)


def step_eager(model: Stepper[S], ids: Tensor, state: S, search: SearchStep) -> tuple[Any, S]:
    """The same for any `search.update`."""
    if search.rows is not None:
        state = state.select(search.rows, group_size=search.group_size)
    hidden, state = model.hidden_step(ids, state)
    return search.update(search.reduced(model, hidden[:, -1]), search.carry), state
