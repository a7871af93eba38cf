"""Random starting weights."""

from torch import nn


def initialise(module: nn.Module, std: float) -> None:
    """The start of BERT and GPT-2: normal weights, zero biases, norms that change nothing."""
    for part in module.modules():
        if isinstance(part, (nn.Linear, nn.Embedding)):
            nn.init.normal_(part.weight, std=std)
        if isinstance(part, nn.LayerNorm):
            nn.init.ones_(part.weight)
        if isinstance(part, (nn.Linear, nn.LayerNorm)) and part.bias is not None:
            nn.init.zeros_(part.bias)
