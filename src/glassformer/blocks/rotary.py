"""Rotary positions (Su et al. 2021): queries and keys are turned by their place, so that scores see distances.

K head width, T tokens. The pairs that turn together are the halves of a head, as Hugging Face's folders have them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Self

import torch
from torch import Tensor, nn

Rotation = tuple[Tensor, Tensor]
"""Cosines and sines (…, T, 1, K/2) of the angles that tokens are turned by."""


class RopeScaling(Protocol):
    """How a model that was trained on short texts is stretched over long ones."""

    @property
    def attention_factor(self) -> float:
        """What cosines and sines are multiplied by."""
        ...

    def frequencies(self, theta: float, width: int) -> Tensor:
        """(K/2,): the angle from one place to the next, of each pair."""
        ...


@dataclass(frozen=True)
class Unscaled:
    """As in the paper: θ^(−2i/K)."""

    attention_factor = 1.0

    def frequencies(self, theta: float, width: int) -> Tensor:
        return 1.0 / (theta ** (torch.arange(0, width, 2, dtype=torch.float32) / width))


@dataclass(frozen=True)
class LinearScaling(Unscaled):
    """Places are divided by a factor."""

    factor: float

    def frequencies(self, theta: float, width: int) -> Tensor:
        return super().frequencies(theta, width) / self.factor


@dataclass(frozen=True)
class DynamicScaling(Unscaled):
    """θ grows with the length of a text, once that is beyond what was trained.

    Beyond it the frequencies follow the length of each text in each call, as they do in `transformers`: more tokens
    then change what earlier ones are turned by.
    """

    factor: float
    trained: int  # tokens

    def frequencies_at(self, lengths: Tensor, theta: float, width: int) -> Tensor:
        """(…,) lengths of texts -> (…, K/2)"""
        beyond = self.factor * lengths.clamp(min=self.trained) / self.trained - (self.factor - 1)
        grown = theta * beyond ** (width / (width - 2))
        places = torch.arange(0, width, 2, dtype=torch.float32, device=lengths.device) / width
        return 1.0 / grown[..., None] ** places


@dataclass(frozen=True)
class Llama3Scaling(Unscaled):
    """Slow turns are slowed by a factor, quick ones stay, and those between are interpolated (Llama 3.1)."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    trained: int

    def frequencies(self, theta: float, width: int) -> Tensor:
        plain = super().frequencies(theta, width)
        wavelength = 2 * math.pi / plain
        share = (self.trained / wavelength - self.low_freq_factor) / (self.high_freq_factor - self.low_freq_factor)
        between = (1 - share) * plain / self.factor + share * plain
        slow = wavelength > self.trained / self.low_freq_factor
        quick = wavelength < self.trained / self.high_freq_factor
        return torch.where(quick, plain, torch.where(slow, plain / self.factor, between))


@dataclass(frozen=True)
class YarnScaling:
    """As Llama 3.1's, with a linear ramp between and a temperature of the scores (Peng et al. 2023)."""

    factor: float
    trained: int
    attention_factor: float
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True

    def frequencies(self, theta: float, width: int) -> Tensor:
        powers = theta ** (torch.arange(0, width, 2, dtype=torch.float32) / width)
        low, high = (self._pair(turns, theta, width) for turns in (self.beta_fast, self.beta_slow))
        if self.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, width - 1)
        ramp = (torch.arange(width // 2, dtype=torch.float32) - low) / (high - low or 0.001)
        keep = 1 - ramp.clamp(0, 1)
        return 1.0 / (self.factor * powers) * (1 - keep) + 1.0 / powers * keep

    def _pair(self, turns: float, theta: float, width: int) -> float:
        """Which pair turns so many times within the trained length."""
        return width * math.log(self.trained / (turns * 2 * math.pi)) / (2 * math.log(theta))


def yarn_attention_factor(factor: float, mscale: float | None, mscale_all_dim: float | None) -> float:
    """What a folder that is silent on attention_factor means."""

    def grown(by: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * by * math.log(factor) + 1.0

    return grown(mscale) / grown(mscale_all_dim) if mscale and mscale_all_dim else grown(1.0)


class Rotary(nn.Module):
    """The angles of places; one module that all layers of a stack share."""

    frequencies: Tensor

    def __init__(self, width: int, *, theta: float = 10000.0, scaling: RopeScaling | None = None) -> None:
        super().__init__()
        if width % 2:
            raise ValueError(f"rotary positions turn pairs, and a head of width {width} has an odd number")
        self.width, self.theta, self.scaling = width, theta, scaling or Unscaled()
        self.register_buffer("frequencies", torch.empty(width // 2), persistent=False)
        self.reset_buffers()

    @property
    def is_dynamic(self) -> bool:
        """Whether a text's length changes what its tokens are turned by."""
        return isinstance(self.scaling, DynamicScaling)

    def reset_buffers(self, device: torch.device | None = None, _dtype: torch.dtype | None = None) -> None:
        """Fill the frequencies, which no checkpoint holds; in fp32 whatever the model is in, as its folders assume."""
        device = device or self.frequencies.device
        with torch.device("cpu"):
            self.frequencies = self.scaling.frequencies(self.theta, self.width).to(device)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.reset_buffers()
        return self

    def forward(self, positions: Tensor, lengths: Tensor | None = None) -> Rotation:
        """The rotation of tokens at `positions` (…, T), of texts of `lengths` (…, T or 1), which dynamic scaling asks.

        In fp32.
        """
        frequencies = self.frequencies
        if isinstance(self.scaling, DynamicScaling) and lengths is not None:
            frequencies = self.scaling.frequencies_at(lengths, self.theta, self.width)
        angles = (positions[..., None].float() * frequencies)[..., None, :]  # (…, T, 1, K/2)
        factor = self.scaling.attention_factor
        return angles.cos() * factor, angles.sin() * factor


def rotate(x: Tensor, rotation: Rotation) -> Tensor:
    """(…, T, H, K), each pair (i, i + K/2) turned by its angle."""
    cos, sin = (part.to(x.dtype) for part in rotation)
    first, second = x.chunk(2, -1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)
