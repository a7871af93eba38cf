"""Encoders over prepared weights: the layers of a model at rest, for reading many texts on a CPU."""

import copy
from typing import TypeGuard

from torch import Tensor, nn

from glassformer.blocks.attention import AttentionMask
from glassformer.blocks.transformer import Layer, Stack

from .layers import is_known, prepared_layers
from .linear import Fuse


class PreparedStack(nn.Module):
    """A Stack whose layers that are known run by their prepared form."""

    def __init__(self, stack: Stack, fuse: Fuse) -> None:
        super().__init__()
        self.layers = prepared_layers(list(stack), fuse)
        self.uses_relative_positions = stack.uses_relative_positions

    def forward(self, x: Tensor, mask: AttentionMask, *, keep: Tensor | None = None) -> Tensor:
        """As `Stack.forward`."""
        for layer in self.layers:
            x = layer(x, mask, cache=None, source=None, source_mask=None)
        return x if keep is None else x.masked_fill(~keep[..., None], 0.0)


def can_be_prepared(stack: nn.Module) -> TypeGuard[Stack]:
    """Whether these are layers of an encoder, at least one of them known."""
    if type(stack) is not Stack or not all(isinstance(layer, Layer) for layer in stack):
        return False
    across = any(layer.cross_attention is not None for layer in stack)
    return not across and any(is_known(layer) for layer in stack)


def with_prepared_stacks(model: nn.Module, fuse: Fuse) -> nn.Module:
    """The model in another shell that shares every module but its stacks of encoder layers, which are prepared."""
    parts: dict[str, nn.Module] = {}
    for name, child in model.named_children():
        made = PreparedStack(child, fuse) if can_be_prepared(child) else with_prepared_stacks(child, fuse)
        if made is not child:
            parts[name] = made
    if not parts:
        return model
    shell = copy.copy(model)
    shell._modules = {**model._modules, **parts}
    return shell
