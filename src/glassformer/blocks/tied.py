"""Modules that are several, so that each can be told from the others, and hold the same tensors."""

from copy import deepcopy
from typing import TypeVar

from torch import nn

Tied = TypeVar("Tied", bound=nn.Module)


def tied_copy(module: Tied) -> Tied:
    """Another module of the same make, whose parameters and buffers are this one's own."""
    tensors = (*module.parameters(), *module.buffers())
    return deepcopy(module, {id(tensor): tensor for tensor in tensors})
