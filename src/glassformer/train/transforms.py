"""What is done to a model before it is trained: compiled layers, and layers that forget their activations."""

from collections.abc import Callable
from functools import partial

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


def recomputing(model: nn.Module) -> nn.Module:
    """Gradient checkpointing: a layer keeps its input alone, and is run again when gradients are wanted."""
    layers = layers_of(model)
    if not layers:
        raise ValueError(f"a {type(model).__name__} has no layers to compute again; leave checkpointing out")
    for layer in layers:
        forward = _alone(layer.forward) if layer.uses_relative_positions else layer.forward
        layer.forward = partial(checkpoint, forward, use_reentrant=False)  # type: ignore[method-assign]
    return model


def _alone(forward: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A layer that shares nothing with the others: what it learns from is made again when it is run again."""
    return lambda x, mask, **more: forward(x, mask.with_empty_memo(), **more)
