"""Starting values: random weights, and the fixed tables that no checkpoint holds."""

import torch
from torch import Tensor, nn

from glassformer.blocks.embeddings import Sinusoidal
from glassformer.blocks.rotary import Rotary


def initialise(model: nn.Module, std: float) -> None:
    """The start of BERT and GPT-2, for every parameter of a new model."""
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            start(module, name, parameter, std)


def start(module: nn.Module, name: str, tensor: Tensor, std: float) -> None:
    """Fill one tensor of a module: normal weights, zero biases, norms that change nothing."""
    if isinstance(module, (nn.LayerNorm, nn.RMSNorm)) and name == "weight":
        nn.init.ones_(tensor)
    elif isinstance(module, (nn.Linear, nn.Embedding, nn.Conv1d)) and name == "weight":
        nn.init.normal_(tensor, std=std)
    else:
        nn.init.zeros_(tensor)


def fill_tables(model: nn.Module, device: torch.device, dtype: torch.dtype) -> None:
    """Give values to the fixed tables of a model that was built without any."""
    for part in model.modules():
        if isinstance(part, (Sinusoidal, Rotary)):
            part.reset_buffers(device, dtype)
