"""What is done to a model before it is trained: compiled layers, and layers that forget their activations."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from glassformer.blocks.transformer import Layer


def layers_of(model: nn.Module) -> list[Layer]:
    return [module for module in model.modules() if isinstance(module, Layer)]


def compiled(model: nn.Module) -> nn.Module:
    """Compile each layer by itself: as fast as the whole on a GPU, and ready in seconds, since all are alike."""
    for layer in layers_of(model):
        layer.compile()
    return model


def recomputing(model: nn.Module, *, compile: bool = False) -> nn.Module:  # noqa: A002 - torch's name for it
    """Gradient checkpointing: a layer keeps its input alone, and is run again when gradients are wanted.

    `compile` compiles what is run twice; `compiled` could not, since torch does not compile through a checkpoint.
    """
    layers = layers_of(model)
    if not layers:
        raise ValueError(f"a {type(model).__name__} has no layers to compute again; leave checkpointing out")
    for layer in layers:
        shares = not compile and not layer.uses_relative_positions
        layer.forward = CheckpointedForward(layer.forward, shares=shares, compile=compile)  # type: ignore[method-assign]
    return model


class CheckpointedForward:
    """A layer's forward pass, of which nothing is kept but its inputs.

    Without `shares` it shares nothing with the other layers: what it learns from is made again when it is run again.
    """

    def __init__(self, forward: Callable[..., Tensor], *, shares: bool, compile: bool) -> None:  # noqa: A002
        self.forward, self.shares, self.compile = forward, shares, compile
        run = forward if shares else self._alone
        self._run = torch.compile(run) if compile else run

    def __call__(self, *inputs: Any, **named: Any) -> Tensor:
        found: Tensor = checkpoint(self._run, *inputs, use_reentrant=False, **named)
        return found

    def _alone(self, x: Tensor, mask: Any, **more: Any) -> Tensor:
        return self.forward(x, mask.with_empty_memo(), **more)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """That of a copy of the layer: a compiled function would go on to run this one."""
        return type(self)(deepcopy(self.forward, memo), shares=self.shares, compile=self.compile)
