"""LoRA (Hu et al. 2021): a linear layer that stays as it is and learns a low-rank correction beside it.

V vocabulary, D model width, N tokens that were added.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize


class LoraLinear(nn.Linear):
    """W x + b + α/r · U D x, with D (r, in) random and U (out, r) zero at first: at the start nothing is changed.

    W and b are the very tensors of the layer it replaces, under their old names.
    """

    def __init__(self, base: nn.Linear, *, rank: int, alpha: float, dropout: float) -> None:
        _become(self, base)
        self.scale, self.dropout = alpha / rank, dropout
        self.lora_down = nn.Parameter(self.weight.new_empty(rank, self.in_features))
        self.lora_up = nn.Parameter(self.weight.new_zeros(self.out_features, rank))
        nn.init.kaiming_uniform_(self.lora_down, a=math.sqrt(5))

    def forward(self, x: Tensor) -> Tensor:
        narrow = F.linear(F.dropout(x, self.dropout, self.training), self.lora_down) * self.scale  # (…, r)
        return super().forward(x) + F.linear(narrow, self.lora_up)

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """A plain layer, in which W holds the correction; computed in float64, so that little is lost."""
        correction = self.lora_up.double() @ self.lora_down.double() * self.scale
        self.weight.copy_(self.weight.double() + correction)
        self.lora_up.zero_()  # a layer with the same tensors has nothing left to add
        plain = nn.Linear.__new__(nn.Linear)
        _become(plain, self)
        return plain


class NewTokens(nn.Module):
    """A table (V, D) of which only N rows from `first` on are trained: those of tokens added to the vocabulary."""

    def __init__(self, rows: nn.Parameter, first: int) -> None:
        super().__init__()
        self.rows, self.first = rows, first  # (N, D)

    def forward(self, table: Tensor) -> Tensor:
        return torch.cat([table[: self.first], self.rows, table[self.first + len(self.rows) :]])

    @staticmethod
    def placed_in(parts: Sequence[nn.Module], tokens: range) -> None:
        """Have modules that share one weight, an embedding and the output tied to it, train these rows of it."""
        rows = nn.Parameter(parts[0].get_parameter("weight").detach()[tokens.start : tokens.stop].clone())
        for part in parts:
            parametrize.register_parametrization(part, "weight", NewTokens(rows, tokens.start))

    @staticmethod
    @torch.no_grad()
    def merged_in(model: nn.Module) -> None:
        """Write the rows into their tables: plain modules again, tied as they were.

        torch's remove_parametrizations changes the class, which a deepcopy shares: here it is left alone.
        """
        for part in list(model.modules()):
            if parametrize.is_parametrized(part, "weight"):
                table = part.get_parameter("parametrizations.weight.original")
                table.copy_(part.get_submodule("parametrizations.weight")())
                part.__class__ = type(part).__mro__[1]
                del part.parametrizations
                part.register_parameter("weight", table)


def _become(new: nn.Linear, old: nn.Linear) -> None:
    """Take over a layer's tensors; nn.Linear's own start would draw new ones."""
    nn.Module.__init__(new)
    new.in_features, new.out_features = old.in_features, old.out_features
    new.weight, new.bias = old.weight, old.bias
    new.train(old.training)
