"""Embedding tables on a CPU: a step reads a few rows, and fresh zeros for all the others cost as much as a layer."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

LARGE = 1 << 20  # numbers in a table; below it, zeros are cheap


class Tables:
    """The large tables of a model that are trained and not tied, each with a gradient that is kept from step to step.

    While a step's gradients are made they are lists of rows; `fill` puts the rows into the kept gradient, which is
    zero everywhere else, and `clear` takes them out again. The numbers are the same as without all this.
    """

    def __init__(self, model: nn.Module) -> None:
        names = Counter(id(tensor) for _, tensor in model.named_parameters(remove_duplicate=False))
        self.embeddings = [
            module
            for module in model.modules()
            if isinstance(module, nn.Embedding)
            and module.weight.requires_grad
            and module.weight.device.type == "cpu"
            and module.weight.numel() >= LARGE
            and names[id(module.weight)] == 1
        ]
        self.kept: dict[Tensor, Tensor] = {}
        self.rows: dict[Tensor, Tensor] = {}  # of the kept gradient, those that are not zero

    @contextmanager
    def as_rows(self) -> Iterator[None]:
        """Within the block the gradients of the tables are sparse."""
        for embedding in self.embeddings:
            embedding.sparse = True
        try:
            yield
        finally:
            for embedding in self.embeddings:
                embedding.sparse = False

    def fill(self) -> None:
        """Make the gradients ordinary ones."""
        for weight in (embedding.weight for embedding in self.embeddings):
            if weight.grad is None or not weight.grad.is_sparse:
                continue  # nothing was read, or the table has another use
            rows, values = weight.grad._indices()[0], weight.grad._values()
            if weight not in self.kept:
                self.kept[weight] = torch.zeros_like(weight)
            weight.grad, self.rows[weight] = self.kept[weight].index_add_(0, rows, values), rows

    def clear(self) -> None:
        """Set what the last step filled to zero."""
        for weight, rows in self.rows.items():
            self.kept[weight].index_fill_(0, rows, 0.0)
        self.rows.clear()
