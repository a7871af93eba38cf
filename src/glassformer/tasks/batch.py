"""Batches, as every task collates them, and the one way to read a split batch by batch.

B batch, T length.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from glassformer.data.batches import Budget, Indices, in_order
from glassformer.models.contract import Model

OnProgress = Callable[[int, int], None]  # how many are done, of how many
Carried = tuple[Tensor, ...]  # a model's state after a batch, (B, …) each; empty before the first
R = TypeVar("R")


@dataclass(frozen=True)
class Batch:
    """The model's inputs and what its outputs are compared with."""

    inputs: dict[str, Tensor]
    targets: dict[str, Tensor]
    count: int  # of targets: the loss is a sum over them
    extra: dict[str, Any] = field(default_factory=dict)  # what metrics want to know and the loss does not

    def to(self, device: torch.device) -> Self:
        """On the model's device; masks stay, since packing reads them on the CPU."""
        if device.type == "cpu":
            return self

        def move(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
            return {
                name: tensor if name.endswith("attention_mask") else tensor.pin_memory().to(device, non_blocking=True)
                for name, tensor in tensors.items()
            }

        return replace(self, inputs=move(self.inputs), targets=move(self.targets))

    @property
    def tokens(self) -> int:
        """Real tokens read, of a translation the source's."""
        mask = self.inputs.get("attention_mask")
        return self.inputs["input_ids"].numel() if mask is None else int(mask.sum())

    @property
    def padding(self) -> int:
        return self.inputs["input_ids"].numel() - self.tokens


class Items(Protocol):
    """Encoded examples."""

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(N,) tokens each costs."""
        ...

    @property
    def num_truncated(self) -> int:
        """Tokens lost to truncation, over all."""
        ...


def device_of(model: Model | nn.Module) -> torch.device:
    return next(model.parameters()).device


def predict_in_batches(
    lengths: NDArray[np.int64],
    budget: Budget,
    predict: Callable[[Indices], Iterable[R]],
    on_progress: OnProgress | None = None,
) -> list[R]:
    """One result for each of N rows, in their order, read in batches of like length.

    `predict` gives the results of some rows; `on_progress` hears after each batch how many rows are done, of how many.
    """
    found: dict[int, R] = {}
    for indices in in_order(lengths, budget):
        found.update(zip(indices.tolist(), predict(indices), strict=True))
        if on_progress is not None:
            on_progress(len(found), len(lengths))
    return [found[place] for place in range(len(lengths))]
