"""What is done to a model before it is trained: compiled layers, and layers that forget their activations."""

from functools import partial

from torch import nn
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
        layer.forward = partial(checkpoint, layer.forward, use_reentrant=False)  # type: ignore[method-assign]
    return model
