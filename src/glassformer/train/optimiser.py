"""AdamW for any of our models: what is decayed, and how fast each layer learns, is read from the parameters' names."""

import math
import re
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.optim import AdamW

LAYER = re.compile(r"(?P<stack>.*?)(?:\blayers\.|_l)(?P<number>\d+)(?:\.|_reverse$|$)")  # torch's RNNs write `_l0`
FUSED = ("cpu", "cuda")  # one kernel for the whole update; on a CPU it is about four times as fast as the next best


def build_optimiser(
    model: nn.Module,
    lr: float,
    *,
    weight_decay: float = 0.01,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    layer_decay: float = 1.0,
) -> AdamW:
    """AdamW over the parameters that are trained, each in one group, tied ones once.

    Matrices are decayed, token and position tables among them, as in BERT and GPT-2; biases, norms and everything
    else with one dimension are not. With `layer_decay` below 1, a layer learns at that share of the rate of the one
    above it, the embeddings slowest; heads and whatever else has no number learn at the full rate.
    """
    _check(lr=lr, weight_decay=weight_decay, layer_decay=layer_decay)
    groups: dict[tuple[float, bool], list[Tensor]] = {}  # few, since each is a call of the kernel
    distances = distances_from_the_top(model)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            groups.setdefault((lr * layer_decay ** distances[name], parameter.dim() > 1), []).append(parameter)
    if not groups:
        raise ValueError("no parameter is trained: leave a part of the model unfrozen")
    settings: list[dict[str, Any]] = [
        {"params": parameters, "lr": rate, "weight_decay": weight_decay if decayed else 0.0}
        for (rate, decayed), parameters in groups.items()
    ]
    devices = {parameter.device.type for parameters in groups.values() for parameter in parameters}
    return AdamW(settings, lr=lr, betas=betas, eps=eps, fused=True if devices <= set(FUSED) else None)


def distances_from_the_top(model: nn.Module) -> Mapping[str, int]:
    """How many layers below the head each parameter lies, under the first of its names.

    The layers of an encoder and of a decoder are counted apart, because the top of either feeds the top of the other;
    all embeddings lie below the taller of the two. A tied tensor lies where its lowest name does.
    """
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    places = [match for tied in names.values() for name in tied if (match := LAYER.match(name))]
    heights: dict[str, int] = {}
    for place in places:
        heights[place["stack"]] = max(heights.get(place["stack"], 0), int(place["number"]) + 1)
    return {tied[0]: max(_distance(name, heights) for name in tied) for tied in names.values()}


def _distance(name: str, heights: Mapping[str, int]) -> int:
    if "embeddings" in name.split("."):
        return max(heights.values(), default=0) + 1
    place = LAYER.match(name)
    return heights[place["stack"]] - int(place["number"]) if place else 0


def _check(*, lr: float, weight_decay: float, layer_decay: float) -> None:
    if not (lr > 0 and math.isfinite(lr)):
        raise ValueError(f"lr must be above 0, not {lr}; 5e-5 suits fine-tuning, 1e-3 a small model from scratch")
    if not (weight_decay >= 0 and math.isfinite(weight_decay)):
        raise ValueError(f"weight_decay must be 0 or more, not {weight_decay}; 0.01 is usual")
    if not 0 < layer_decay <= 1:
        raise ValueError(f"layer_decay must be above 0 and at most 1 (off), not {layer_decay}")
