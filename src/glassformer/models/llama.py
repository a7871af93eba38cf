"""Llama, Mistral, Qwen2 and Qwen3: pre-norm decoders with rotary positions, gated feed-forwards and RMS norms.

What tells them apart is in their configs: grouped queries, biases, norms of queries and keys, windows.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Self

from torch import nn

from glassformer.blocks.activations import activation
from glassformer.blocks.attention import MultiHeadAttention
from glassformer.blocks.embeddings import Embeddings
from glassformer.blocks.masks import Window
from glassformer.blocks.rotary import Rotary
from glassformer.blocks.transformer import GatedFeedForward, Layer, Stack
from glassformer.files.schema import Count, Depth, NotNegative, Probability, Size, TokenId

from . import config as hf
from .architecture import Architecture, Head
from .decoder import CausalDecoder, decoder_head
from .init import initialise
from .rope import RopeParameters, build_rotary, older_keys, rope_parameters

LayerType = Literal["full_attention", "sliding_attention"]
QWEN: dict[str, Any] = {"vocab_size": 151936, "intermediate_size": 22016, "max_position_embeddings": 32768}
QWEN |= {"bos_token_id": None, "eos_token_id": None}
DEFAULTS: dict[str, dict[str, Any]] = {  # what `transformers` takes where a config.json is silent
    "llama": {},
    "mistral": {"intermediate_size": 14336, "num_key_value_heads": 8, "max_position_embeddings": 131072}
    | {"sliding_window": 4096},
    "qwen2": {**QWEN, "num_key_value_heads": 32, "sliding_window": 4096},
    "qwen3": {**QWEN, "num_key_value_heads": 32, "sliding_window": 4096, "head_dim": 128},
}


@dataclass(frozen=True, kw_only=True)
class LlamaConfig(hf.BaseConfig):
    """Hugging Face's names; the defaults are those of `transformers` for a Llama."""

    model_type: str = "llama"
    vocab_size: Size = 32000
    hidden_size: Size = 4096
    intermediate_size: Size = 11008
    num_hidden_layers: Depth = 32
    num_attention_heads: Size = 32
    num_key_value_heads: Size | None = None
    head_dim: Size | None = None
    hidden_act: str = "silu"
    max_position_embeddings: Size = 2048
    initializer_range: NotNegative = 0.02
    rms_norm_eps: NotNegative = 1e-6
    tie_word_embeddings: bool = False
    rope_parameters: RopeParameters = field(default_factory=lambda: rope_parameters({}))
    attention_bias: bool = False
    mlp_bias: bool = False
    attention_dropout: Probability = 0.0
    classifier_dropout: Probability | None = None
    sliding_window: Size | None = None
    use_sliding_window: bool = False  # Qwen's; Mistral always slides where it has a window
    max_window_layers: Count = 28
    layer_types: list[LayerType] | None = None
    pad_token_id: TokenId | None = None
    bos_token_id: TokenId | None = 1
    eos_token_id: TokenId | list[TokenId] | None = 2
    problem_type: hf.ProblemType | None = None
    id2label: dict[int, str] = field(default_factory=lambda: {0: "LABEL_0", 1: "LABEL_1"})

    def __post_init__(self) -> None:
        hf.check_layer_types(self.layer_types, self.num_hidden_layers)

    @classmethod
    def from_hf(cls, raw: dict[str, Any]) -> Self:
        raw = {**DEFAULTS.get(raw.get("model_type", "llama"), {}), **raw}
        raw["rope_parameters"] = rope_parameters(raw)
        return hf.read(cls, raw, only={"pretraining_tp": (1, None), "pruned_heads": (None, {})})

    def to_hf(self) -> dict[str, Any]:
        raw = {**hf.write(self), **older_keys(self.rope_parameters)}
        raw |= {"head_dim": self.head_width, "num_key_value_heads": self.key_heads}
        return raw

    @property
    def max_positions(self) -> int:
        """Dynamic scaling begins where the trained positions end."""
        rope = self.rope_parameters
        return int(self.max_position_embeddings * (rope["factor"] if rope["rope_type"] == "dynamic" else 1))

    @property
    def key_heads(self) -> int:
        return self.num_key_value_heads or self.num_attention_heads

    @property
    def head_width(self) -> int:
        return self.head_dim or hf.check_heads(self.hidden_size, self.num_attention_heads)

    def window(self, layer: int) -> Window | None:
        """How far back a layer looks."""
        if self.sliding_window is None or self.model_type == "llama":
            return None
        slides = self.model_type == "mistral"
        if not slides and self.use_sliding_window:
            types = self.layer_types
            slides = types[layer] == "sliding_attention" if types else layer >= self.max_window_layers
        return Window(self.sliding_window - 1) if slides else None


def build(config: LlamaConfig, head: str | None = "text-generation") -> CausalDecoder:
    """One with random weights."""
    width, tied, dropout = config.hidden_size, config.tie_word_embeddings, config.classifier_dropout
    embeddings = Embeddings(nn.Embedding(config.vocab_size, width), None)
    rotary = build_rotary(config.rope_parameters, config.head_width, config.max_position_embeddings)
    model = CausalDecoder(
        config,
        embeddings,
        Stack(build_layer(config, number, rotary) for number in range(config.num_hidden_layers)),
        nn.RMSNorm(width, eps=config.rms_norm_eps),
        cache=(config.key_heads, config.head_width),
        head=decoder_head(head, embeddings.token, tied=tied, classes=len(config.id2label), dropout=dropout),
        head_name=head,
    )
    initialise(model, config.initializer_range)
    return model


def build_layer(config: LlamaConfig, number: int, rotary: Rotary) -> Layer:
    width, kind = config.hidden_size, config.model_type
    attention = MultiHeadAttention(
        width,
        config.num_attention_heads,
        key_heads=config.key_heads,
        head_width=config.head_width,
        dropout=config.attention_dropout,
        bias=kind == "qwen2" or (config.attention_bias and kind != "mistral"),
        output_bias=config.attention_bias and kind not in ("mistral", "qwen2"),
        head_norm=partial(nn.RMSNorm, config.head_width, eps=config.rms_norm_eps) if kind == "qwen3" else None,
        rotary=rotary,
        window=config.window(number),
    )
    bias = config.mlp_bias and kind == "llama"
    feed_forward = GatedFeedForward(width, config.intermediate_size, activation(config.hidden_act), bias=bias)
    return Layer(attention, feed_forward, partial(nn.RMSNorm, width, eps=config.rms_norm_eps), pre_norm=True)


WEIGHTS = (
    ("embed_tokens", "embeddings.token"),
    ("layers.*.input_layernorm", "layers.*.attention_norm"),
    ("layers.*.self_attn.q_proj", "layers.*.attention.query"),
    ("layers.*.self_attn.k_proj", "layers.*.attention.key"),
    ("layers.*.self_attn.v_proj", "layers.*.attention.value"),
    ("layers.*.self_attn.o_proj", "layers.*.attention.output"),
    ("layers.*.self_attn.q_norm", "layers.*.attention.query_norm"),
    ("layers.*.self_attn.k_norm", "layers.*.attention.key_norm"),
    ("layers.*.self_attn.rotary_emb.inv_freq", None),
    ("layers.*.post_attention_layernorm", "layers.*.feed_forward_norm"),
    ("layers.*.mlp.gate_proj", "layers.*.feed_forward.gate"),
    ("layers.*.mlp.up_proj", "layers.*.feed_forward.up"),
    ("layers.*.mlp.down_proj", "layers.*.feed_forward.down"),
    ("norm", "final_norm"),
)
SMALL = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2}
SMALL |= {"intermediate_size": 704, "max_position_embeddings": 512}


def family(model_type: str, name: str) -> Architecture:
    return Architecture(
        model_type=model_type,
        config=LlamaConfig,
        build=build,
        prefix="model",
        weights=WEIGHTS,
        may_be_idle=("qa_outputs",),
        heads={
            None: Head(f"{name}Model"),
            "text-generation": Head(f"{name}ForCausalLM", [("lm_head", "head")]),
            "text-classification": Head(f"{name}ForSequenceClassification", [("score", "head.output")]),
            "token-classification": Head(f"{name}ForTokenClassification", [("score", "head.output")]),
        },
    )


LLAMA = replace(family("llama", "Llama"), small=SMALL)
MISTRAL, QWEN2, QWEN3 = family("mistral", "Mistral"), family("qwen2", "Qwen2"), family("qwen3", "Qwen3")
