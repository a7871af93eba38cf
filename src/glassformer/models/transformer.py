"""The Transformer of 2017 (Vaswani et al.): encoder, decoder, cross-attention.

Folders of Marian, BART, mBART, Pegasus and M2M-100 (NLLB) differ from it in their norms and positions alone.

B batch, T target length, S source length, D model width, V vocabulary.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Self

import torch
from torch import nn

from glassformer.blocks.activations import activation
from glassformer.blocks.attention import MultiHeadAttention
from glassformer.blocks.embeddings import Embeddings, FairseqSinusoidal, OffsetPositions, Sinusoidal
from glassformer.blocks.output import LMHead
from glassformer.blocks.transformer import FeedForward, Layer, Stack
from glassformer.files.schema import Count, Depth, NotNegative, Positions, Probability, Size, TokenId

from . import config as hf
from .architecture import Architecture, Head
from .encoder_decoder import DecoderSide, EncoderSide, Transformer
from .heads import ClassifierHead
from .init import initialise

PLAIN = {"positions": "sinusoidal", "position_offset": 0, "norm_embedding": False, "pre_norm": False}
BART = {"positions": "learned", "position_offset": 2, "norm_embedding": True, "pre_norm": False}
FAMILIES: dict[str, dict[str, Any]] = {  # what tells those apart that `transformers` knows
    "marian": PLAIN,
    "bart": BART,
    "mbart": {**BART, "pre_norm": True},
    "pegasus": {**PLAIN, "pre_norm": True},
    "m2m_100": {**PLAIN, "pre_norm": True, "positions": "fairseq"},
}
LARGE: dict[str, Any] = {
    "encoder_layers": 12,
    "decoder_layers": 12,
    "encoder_attention_heads": 16,
    "decoder_attention_heads": 16,
}
LARGE |= {"d_model": 1024, "encoder_ffn_dim": 4096, "decoder_ffn_dim": 4096}
LARGE |= {"activation_function": "gelu", "scale_embedding": False}
NEVER = ("is_decoder", "add_bias_logits")
POST_NORM = ("add_final_layer_norm", "normalize_before")
DEFAULTS: dict[str, dict[str, Any]] = {  # what `transformers` takes where a config.json is silent
    "marian": {**LARGE, "vocab_size": 58101, "pad_token_id": 58100, "eos_token_id": 0, "forced_eos_token_id": 0}
    | {"decoder_start_token_id": 58100},
    "bart": {**LARGE, "vocab_size": 50265, "pad_token_id": 1, "bos_token_id": 0, "forced_eos_token_id": 2}
    | {"decoder_start_token_id": 2},
    "mbart": {**LARGE, "vocab_size": 50265, "pad_token_id": 1, "bos_token_id": 0, "forced_eos_token_id": 2}
    | {"decoder_start_token_id": None},
    "pegasus": {**LARGE, "vocab_size": 50265, "eos_token_id": 1, "forced_eos_token_id": 1, "decoder_start_token_id": 0},
    "m2m_100": {**LARGE, "vocab_size": 128112, "activation_function": "relu", "scale_embedding": True}
    | {"attention_dropout": 0.1, "pad_token_id": 1, "bos_token_id": 0, "decoder_start_token_id": 2}
    | {"encoder_layerdrop": 0.05, "decoder_layerdrop": 0.05},
}


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(hf.BaseConfig):
    """Hugging Face's names where they exist; the defaults are the paper's base model.

    Folders of the families that `transformers` knows take its own defaults. `positions`: "fairseq" ones are sinusoidal
    too, of other rates, and counted from pad_token_id + 1, as M2M-100's.
    """

    vocab_size: Size = 32000
    decoder_vocab_size: Size | None = None
    d_model: Size = 512
    encoder_layers: Depth = 6
    decoder_layers: Depth = 6
    encoder_attention_heads: Size = 8
    decoder_attention_heads: Size = 8
    encoder_ffn_dim: Size = 2048
    decoder_ffn_dim: Size = 2048
    activation_function: str = "relu"
    dropout: Probability = 0.1
    attention_dropout: Probability = 0.0
    activation_dropout: Probability = 0.0
    encoder_layerdrop: Probability | None = 0.0
    decoder_layerdrop: Probability | None = 0.0
    max_position_embeddings: Positions = 1024
    init_std: NotNegative = 0.02
    scale_embedding: bool = True
    share_encoder_decoder_embeddings: bool = True
    tie_word_embeddings: bool = True
    pad_token_id: TokenId | None = 0
    bos_token_id: TokenId | None = None
    eos_token_id: TokenId | list[TokenId] | None = 2
    decoder_start_token_id: TokenId | None = 1
    forced_eos_token_id: TokenId | None = None
    classifier_dropout: Probability = 0.0
    problem_type: hf.ProblemType | None = None
    id2label: dict[int, str] = field(default_factory=lambda: {0: "LABEL_0", 1: "LABEL_1"})
    positions: Literal["sinusoidal", "learned", "fairseq"] = "sinusoidal"
    position_offset: Count = 0
    norm_embedding: bool = False
    pre_norm: bool = False
    task_specific_params: hf.TaskParams | None = None

    is_encoder_decoder = True

    def __post_init__(self) -> None:
        if self.position_offset and self.positions != "learned":
            raise ValueError("position_offset is for learned positions; leave it out with sinusoidal ones")
        if self.positions == "fairseq" and (self.pad_token_id is None or self.d_model < 4):
            raise ValueError("fairseq positions are counted from pad_token_id + 1 and need a d_model of 4; set both")
        if self.one_embedding and self.target_vocab_size != self.vocab_size:
            raise ValueError(
                f"a shared embedding has one vocabulary, not {self.vocab_size} and {self.target_vocab_size}; "
                "set share_encoder_decoder_embeddings to False"
            )

    @property
    def one_embedding(self) -> bool:
        """As in `transformers` 5, a free output layer frees the two input embeddings from each other as well."""
        return self.share_encoder_decoder_embeddings and self.tie_word_embeddings

    @property
    def target_vocab_size(self) -> int:
        return self.decoder_vocab_size or self.vocab_size

    @property
    def max_positions(self) -> int:
        return self.max_position_embeddings

    @property
    def model_type(self) -> str:
        """The family whose folder can hold this model: where `transformers` knows none, only we do."""
        plain = self.share_encoder_decoder_embeddings and self.target_vocab_size == self.vocab_size
        for family, traits in FAMILIES.items():
            fits = all(getattr(self, name) == value for name, value in traits.items())
            if fits and (plain or family == "marian"):
                return family
        return "glassformer-transformer"

    @classmethod
    def from_hf(cls, raw: dict[str, Any]) -> Self:
        kind = raw.get("model_type", "glassformer-transformer")
        raw = {**DEFAULTS.get(kind, {}), **raw}
        raw |= FAMILIES.get(kind, {})
        if kind in FAMILIES and kind != "marian":
            raw |= {"share_encoder_decoder_embeddings": True, "decoder_vocab_size": None}
        only: dict[str, tuple[Any, ...]] = dict.fromkeys(NEVER, (False, None))
        if kind not in ("mbart", "pegasus", "m2m_100"):  # which never were otherwise, whatever their folders say
            only |= dict.fromkeys(POST_NORM, (False, None))
        if kind in ("marian", "bart"):
            only |= {
                "normalize_embedding": (kind == "bart", None),
                "static_position_embeddings": (kind != "bart", None),
            }
            only |= {"extra_pos_embeddings": (2 if kind == "bart" else 0, None)}
        return hf.read(cls, raw, only=only)

    def to_hf(self) -> dict[str, Any]:
        return {**hf.write(self), "decoder_vocab_size": self.target_vocab_size, "is_encoder_decoder": True}


def build(config: TransformerConfig, head: str | None = "text2text-generation") -> Transformer:
    """One with random weights."""
    source = nn.Embedding(config.vocab_size, config.d_model)
    target, shared = nn.Embedding(config.target_vocab_size, config.d_model), None
    if config.one_embedding:
        shared = nn.Embedding(config.vocab_size, config.d_model)
        source.weight = target.weight = shared.weight
    heads = config.decoder_attention_heads
    own, across = (config.encoder_attention_heads, config.encoder_ffn_dim), (heads, config.decoder_ffn_dim)
    encoder = Stack(build_layer(config, *own) for _ in range(config.encoder_layers))
    decoder = Stack(build_layer(config, *across, cross=True) for _ in range(config.decoder_layers))
    encoder.layerdrop, decoder.layerdrop = config.encoder_layerdrop or 0.0, config.decoder_layerdrop or 0.0
    norms = [nn.LayerNorm(config.d_model) if config.pre_norm else None for _ in range(2)]
    model = Transformer(
        config,
        EncoderSide(build_embeddings(config, source), encoder, norms[0]),
        DecoderSide(build_embeddings(config, target), decoder, norms[1]),
        cache=(heads, config.d_model // heads),
        head=build_head(head, config, target),
        head_name=head,
        shared=shared,
    )
    initialise(model, config.init_std)
    return model


def build_head(name: str | None, config: TransformerConfig, token: nn.Embedding) -> nn.Module | None:
    if name is None:
        return None
    if name == "text-classification":
        return ClassifierHead(config.d_model, len(config.id2label), config.classifier_dropout, dense=torch.tanh)
    if config.model_type != "m2m_100":
        return LMHead(token, tied=config.tie_word_embeddings)
    output = nn.Linear(token.embedding_dim, token.num_embeddings, bias=False)  # whose folders have no bias
    if config.tie_word_embeddings:
        output.weight = token.weight
    return output


def build_embeddings(config: TransformerConfig, token: nn.Embedding) -> Embeddings:
    width, length = config.d_model, config.max_position_embeddings
    position: nn.Module = Sinusoidal(length, width)
    if config.positions == "learned":
        position = OffsetPositions(length, width, offset=config.position_offset)
    elif config.positions == "fairseq":
        position = FairseqSinusoidal(length, width, offset=(config.pad_token_id or 0) + 1)
    return Embeddings(
        token,
        position,
        norm=nn.LayerNorm(width) if config.norm_embedding else None,
        dropout=config.dropout,
        scale=width**0.5 if config.scale_embedding else 1.0,
    )


def build_layer(config: TransformerConfig, heads: int, inner: int, *, cross: bool = False) -> Layer:
    width = config.d_model
    hf.check_heads(width, heads)
    attend = partial(MultiHeadAttention, width, heads, dropout=config.attention_dropout)
    return Layer(
        attend(),
        FeedForward(width, inner, activation(config.activation_function), dropout=config.activation_dropout),
        partial(nn.LayerNorm, width),
        cross_attention=attend() if cross else None,
        pre_norm=config.pre_norm,
        dropout=config.dropout,
    )


SIDES = [
    row
    for side in ("encoder", "decoder")
    for row in (
        (f"{side}.embed_tokens", f"{side}.embeddings.token"),
        (f"{side}.embed_positions", f"{side}.embeddings.position"),
        (f"{side}.embed_positions", None),  # older files hold the sinusoidal table
        (f"{side}.layernorm_embedding", f"{side}.embeddings.norm"),
        (f"{side}.layer_norm", f"{side}.final_norm"),
        (f"{side}.layers.*.self_attn.q_proj", f"{side}.layers.*.attention.query"),
        (f"{side}.layers.*.self_attn.k_proj", f"{side}.layers.*.attention.key"),
        (f"{side}.layers.*.self_attn.v_proj", f"{side}.layers.*.attention.value"),
        (f"{side}.layers.*.self_attn.out_proj", f"{side}.layers.*.attention.output"),
        (f"{side}.layers.*.self_attn_layer_norm", f"{side}.layers.*.attention_norm"),
        (f"{side}.layers.*.encoder_attn.q_proj", f"{side}.layers.*.cross_attention.query"),
        (f"{side}.layers.*.encoder_attn.k_proj", f"{side}.layers.*.cross_attention.key"),
        (f"{side}.layers.*.encoder_attn.v_proj", f"{side}.layers.*.cross_attention.value"),
        (f"{side}.layers.*.encoder_attn.out_proj", f"{side}.layers.*.cross_attention.output"),
        (f"{side}.layers.*.encoder_attn_layer_norm", f"{side}.layers.*.cross_attention_norm"),
        (f"{side}.layers.*.fc1", f"{side}.layers.*.feed_forward.up"),
        (f"{side}.layers.*.fc2", f"{side}.layers.*.feed_forward.down"),
        (f"{side}.layers.*.final_layer_norm", f"{side}.layers.*.feed_forward_norm"),
    )
]
OUTPUT = [("lm_head", "head.output"), ("final_logits_bias", "head.bias")]
MARIAN = Architecture(
    model_type="marian",
    config=TransformerConfig,
    build=build,
    prefix="model",
    weights=[("shared", "shared"), *SIDES],
    may_be_idle=("shared", "classification_head.dense", "classification_head.out_proj", "qa_outputs"),
    zero_if_absent=("head.bias",),
    heads={None: Head("MarianModel"), "text2text-generation": Head("MarianMTModel", OUTPUT)},
)
BART_ARCHITECTURE, MBART, PEGASUS, M2M_100 = (
    replace(
        MARIAN,
        model_type=kind,
        heads={None: Head(f"{name}Model"), "text2text-generation": Head(f"{name}ForConditionalGeneration", output)},
    )
    for kind, name, output in (
        ("bart", "Bart", OUTPUT),
        ("mbart", "MBart", OUTPUT),
        ("pegasus", "Pegasus", OUTPUT),
        ("m2m_100", "M2M100", [("lm_head", "head")]),
    )
)
CLASSIFIER = [("classification_head.dense", "head.dense"), ("classification_head.out_proj", "head.output")]
BART_ARCHITECTURE = replace(
    BART_ARCHITECTURE,
    heads={**BART_ARCHITECTURE.heads, "text-classification": Head("BartForSequenceClassification", CLASSIFIER)},
)
OURS = replace(
    MARIAN,
    model_type="glassformer-transformer",
    small={"d_model": 256, "encoder_layers": 3, "decoder_layers": 3, "dropout": 0.1}
    | {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 1024, "decoder_ffn_dim": 1024},
    heads={None: Head("TransformerModel"), "text2text-generation": Head("TransformerForGeneration", OUTPUT)},
)
