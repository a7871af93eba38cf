"""Starting values: random weights, and the fixed tables that no checkpoint holds."""

import torch
from torch import nn

from glassformer.blocks.embeddings import Sinusoidal


def initialise(module: nn.Module, std: float) -> None:
    """The start of BERT and GPT-2: normal weights, zero biases, norms that change nothing."""
    for part in module.modules():
        if isinstance(part, (nn.Linear, nn.Embedding)):
            nn.init.normal_(part.weight, std=std)
        if isinstance(part, nn.LayerNorm):
            nn.init.ones_(part.weight)
        if isinstance(part, (nn.Linear, nn.LayerNorm)) and part.bias is not None:
            nn.init.zeros_(part.bias)


def fill_tables(model: nn.Module, device: torch.device, dtype: torch.dtype) -> None:
    """Give values to the fixed tables of a model that was built without any."""
    for part in model.modules():
        if isinstance(part, Sinusoidal):
            part.reset_buffers(device, dtype)
