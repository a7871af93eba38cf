"""What an encoder-decoder looks at in its source for each token that it writes.

B batch, T target length, S source length, L layers, H heads.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from .record import record

CROSSINGS = ("cross_attention.pattern", "decoder.attention.pattern")  # a Transformer's, an RNN's
LAYERS = 2  # the last ones: together they agree better with a dictionary than any one of them, or all


def crossing_names(model: nn.Module) -> list[str]:
    """The Points that say where a model looks."""
    names: list[str] = [name for name, _ in model.named_modules() if name.endswith(CROSSINGS)]
    if not names:
        raise ValueError("this model has no attention from target to source, so its words cannot be aligned")
    return names[-LAYERS:]


@torch.inference_mode()
def crossing(model: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor:
    """(B, T, S): the share of attention of every source token when the token after each decoder input is written.

    It is the mean over the heads of the last two layers.
    """
    names = crossing_names(model)
    with record(model, names) as seen:
        model(**inputs)
    looks = torch.stack([seen[name] for name in names])  # (L, B, T, S), with heads (L, B, H, T, S)
    return looks.mean((0, 2)) if looks.dim() == 5 else looks.mean(0)
