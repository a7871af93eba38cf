"""What an encoder-decoder looks at in its source for each token that it writes.

B batch, T target length, S source length, H heads.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from .record import record

CROSSINGS = ("cross_attention.pattern", "decoder.attention.pattern")  # a Transformer's, an RNN's


def crossing_name(model: nn.Module) -> str:
    """The Point that says where a model looks: of several layers the last but one.

    In trained translators its looks agree best with a dictionary, and with people (Garg et al. 2019).
    """
    names: list[str] = [name for name, _ in model.named_modules() if name.endswith(CROSSINGS)]
    if not names:
        raise ValueError("this model has no attention from target to source, so its words cannot be aligned")
    return names[max(0, len(names) - 2)]


@torch.inference_mode()
def crossing(model: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor:
    """(B, T, S): the share of attention of every source token when the token after each decoder input is written.

    Of several heads it is the mean.
    """
    name = crossing_name(model)
    with record(model, name) as seen:
        model(**inputs)
    return seen[name].mean(1) if seen[name].dim() == 4 else seen[name]  # (B, H, T, S), or without heads
