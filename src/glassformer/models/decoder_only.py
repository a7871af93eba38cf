"""A GPT-2 whose positions can be chosen: sinusoidal, learned, rotary, relative, or none at all.

Folders of it are read here alone.
"""

from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

from torch import nn

from glassformer.blocks.embeddings import Sinusoidal
from glassformer.blocks.relative import RelativeBias
from glassformer.blocks.rotary import Rotary
from glassformer.files.schema import Positions

from . import config as hf
from . import gpt2
from .architecture import Architecture, Head
from .decoder import CausalDecoder

PositionKind = Literal["sinusoidal", "learned", "rotary", "relative"]
BUCKETS, FARTHEST = 32, 128  # of relative positions, as T5 has them


@dataclass(frozen=True, kw_only=True)
class DecoderConfig(gpt2.Gpt2Config):
    """Those of GPT-2, and how a token's place is told."""

    model_type: str = "glassformer-decoder"
    positions: PositionKind | None = "sinusoidal"
    n_positions: Positions = 1024  # of the table; where there is none a text may have any length

    @classmethod
    def from_hf(cls, raw: dict[str, Any]) -> Self:
        return hf.read(cls, raw, only={"positions": ("sinusoidal", *get_args(PositionKind), None)})

    @property
    def max_positions(self) -> int | None:
        return self.n_positions if self.positions in ("sinusoidal", "learned") else None


def build(config: DecoderConfig, head: str | None = "text-generation") -> CausalDecoder:
    """One with random weights. As in 2017, token vectors are √D times as large where sinusoids are added to them."""
    width = config.n_embd
    match config.positions:
        case "sinusoidal":
            return gpt2.build_with(config, Sinusoidal(config.n_positions, width), head, scale=width**0.5)
        case "learned":
            return gpt2.build_with(config, nn.Embedding(config.n_positions, width), head)
        case "rotary":
            return gpt2.build_with(config, None, head, rotary=Rotary(hf.check_heads(width, config.n_head)))
        case "relative":
            bias = RelativeBias(config.n_head, BUCKETS, FARTHEST, bidirectional=False)
            return gpt2.build_with(config, None, head, position_scores=bias)
        case _:
            return gpt2.build_with(config, None, head)


ARCHITECTURE = Architecture(
    model_type="glassformer-decoder",
    config=DecoderConfig,
    build=build,
    small=gpt2.ARCHITECTURE.small,
    heads={
        None: Head("DecoderModel"),
        "text-generation": Head("DecoderForCausalLM"),
        "text-classification": Head("DecoderForSequenceClassification"),
        "token-classification": Head("DecoderForTokenClassification"),
    },
)
