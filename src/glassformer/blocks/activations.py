"""The activations that configs of the classic architectures name."""

import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

Activation = Callable[[Tensor], Tensor]

tanh_gelu = partial(F.gelu, approximate="tanh")


def quick_gelu(x: Tensor) -> Tensor:
    return x * torch.sigmoid(1.702 * x)


def clipped_gelu(x: Tensor) -> Tensor:
    return F.gelu(x).clamp(-10, 10)


def squared_relu(x: Tensor) -> Tensor:
    return F.relu(x).square()


def laplace(x: Tensor) -> Tensor:
    return 0.5 * (1.0 + torch.erf((x - 0.707107) / (0.282095 * math.sqrt(2.0))))


def linear(x: Tensor) -> Tensor:
    return x


ACTIVATIONS: dict[str, Activation] = {
    "gelu": F.gelu,
    "gelu_python": F.gelu,
    "gelu_10": clipped_gelu,
    "gelu_new": tanh_gelu,
    "gelu_fast": tanh_gelu,
    "gelu_accurate": tanh_gelu,
    "gelu_pytorch_tanh": tanh_gelu,
    "gelu_python_tanh": tanh_gelu,
    "quick_gelu": quick_gelu,
    "relu": F.relu,
    "relu2": squared_relu,
    "relu6": F.relu6,
    "leaky_relu": F.leaky_relu,
    "silu": F.silu,
    "swish": F.silu,
    "hardswish": F.hardswish,
    "mish": F.mish,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "laplace": laplace,
    "linear": linear,
}


def activation(name: str) -> Activation:
    """The function a config names."""
    if name not in ACTIVATIONS:
        raise ValueError(f"unknown activation {name!r}; known: {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]
