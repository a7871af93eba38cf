"""A GPT without biases whose feed-forward is gated: all that somebody writes who adds an architecture and a block."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.blocks.attention import MultiHeadAttention
from glassformer.blocks.embeddings import Embeddings
from glassformer.blocks.transformer import Layer, Stack
from glassformer.files.schema import Depth, Size, TokenId
from glassformer.inspect.formulas import Formula
from glassformer.inspect.walk import Walk, walks
from glassformer.models import config as hf
from glassformer.models.architecture import Architecture, Head
from glassformer.models.decoder import CausalDecoder
from glassformer.models.init import initialise


@dataclass(frozen=True, kw_only=True)
class ToyConfig(hf.BaseConfig):
    """What a toy is built from."""

    model_type: str = "toy-gpt"
    vocab_size: Size = 1000
    n_positions: Size = 64
    width: Size = 32
    layers: Depth = 2
    heads: Size = 2
    initializer_range: float = 0.02
    pad_token_id: TokenId | None = None
    bos_token_id: TokenId | None = None
    eos_token_id: TokenId | None = None

    @classmethod
    def from_hf(cls, raw: dict[str, Any]) -> Self:
        return hf.read(cls, raw)

    @property
    def max_positions(self) -> int:
        return self.n_positions


class GatedFeedForward(nn.Module):
    """down(silu(gate(x)) · up(x))"""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


GATED = Formula("silu(g) · u", r"\mathrm{silu}(g) \odot u", lambda g, u: g * g.sigmoid() * u)


@walks(GatedFeedForward)
def walk_gated(walk: Walk, name: str, x: str) -> str:
    operands = {"g": walk.block(f"{name}.gate", x), "u": walk.block(f"{name}.up", x)}
    return walk.block(f"{name}.down", walk.add(f"{name}.neurons", GATED, operands, walk.fed(f"{name}.down")))


def build(config: ToyConfig, head: str | None = None) -> CausalDecoder:
    width, norm = config.width, partial(nn.LayerNorm, config.width, bias=False)
    embeddings = Embeddings(nn.Embedding(config.vocab_size, width), nn.Embedding(config.n_positions, width))
    layers = Stack(
        Layer(
            MultiHeadAttention(width, config.heads, bias=False), GatedFeedForward(width, 2 * width), norm, pre_norm=True
        )
        for _ in range(config.layers)
    )
    output = nn.Linear(width, config.vocab_size, bias=False) if head else None
    model = CausalDecoder(config, embeddings, layers, norm(), head=output, head_name=head)
    initialise(model, config.initializer_range)
    return model


ARCHITECTURE = Architecture(
    model_type="toy-gpt",
    config=ToyConfig,
    build=build,
    small={"width": 32, "layers": 2, "heads": 2},
    heads={None: Head("ToyModel"), "text-generation": Head("ToyLMHeadModel")},
)
