"""DeBERTa v2 and v3 (He et al. 2020, 2021): a BERT whose scores add content-to-position and position-to-content.

v2 has a convolution beside its first layer; v3 shares the projections of content and position.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Self

from torch import nn

from glassformer.blocks.activations import activation
from glassformer.blocks.attention import MultiHeadAttention
from glassformer.blocks.convolved import ConvolvedLayer, TextConvolution
from glassformer.blocks.disentangled import DisentangledScores, RelativePositions
from glassformer.blocks.embeddings import Embeddings, ProjectedNorm
from glassformer.blocks.tied import tied_copy
from glassformer.blocks.transformer import FeedForward, Layer, Stack
from glassformer.files.schema import Count, Depth, NotNegative, Probability, Size

from . import config as hf
from .architecture import Architecture, Head
from .bert import SMALL_ENCODER
from .encoder import Encoder, EncoderConfig
from .heads import ClassifierHead, MaskedLMHead, PredictionTransform, SpanHead, TokenClassifierHead
from .init import initialise

OLDER_HEAD, NEWER_HEAD = "cls.predictions", "lm_predictions.lm_head"


@dataclass(frozen=True, kw_only=True)
class DebertaConfig(EncoderConfig):
    """Hugging Face's names; the defaults are those of `transformers`, near deberta-v2-xlarge."""

    model_type: str = "deberta-v2"
    vocab_size: Size = 128100
    hidden_size: Size = 1536
    embedding_size: Size | None = None
    num_hidden_layers: Depth = 24
    num_attention_heads: Size = 24
    intermediate_size: Size = 6144
    type_vocab_size: Count = 0
    layer_norm_eps: NotNegative = 1e-7
    relative_attention: bool = False
    max_relative_positions: int = -1  # below 1: max_position_embeddings
    position_buckets: int = -1  # below 1: none
    pos_att_type: list[Literal["c2p", "p2c", "none"]] | None = None
    share_att_key: bool = False
    norm_rel_ebd: Literal["none", "layer_norm"] = "none"
    position_biased_input: bool = True
    conv_kernel_size: Count = 0
    conv_groups: Size = 1
    conv_act: str = "tanh"
    pooler_dropout: Probability = 0.0
    pooler_hidden_act: str = "gelu"
    cls_dropout: Probability | None = None
    legacy: bool = True  # whether fill-mask has the older head

    @classmethod
    def from_hf(cls, raw: dict[str, Any]) -> Self:
        raw = dict(raw)
        if isinstance(kinds := raw.get("pos_att_type"), str):
            raw["pos_att_type"] = [kind.strip() for kind in kinds.lower().split("|") if kind.strip()]
        if isinstance(norm := raw.get("norm_rel_ebd"), str):
            raw["norm_rel_ebd"] = norm.strip().lower()
        width, heads = raw.get("hidden_size", cls.hidden_size), raw.get("num_attention_heads", cls.num_attention_heads)
        only: dict[str, tuple[Any, ...]] = {"pooler_hidden_size": (width, None), "z_steps": (0, 1, None)}
        if isinstance(width, int) and isinstance(heads, int) and heads > 0:
            only["attention_head_size"] = (width // heads, None)
        return hf.read(cls, raw, only=only)

    def to_hf(self) -> dict[str, Any]:
        return {**hf.write(self), "embedding_size": self.embedding_width, "pooler_hidden_size": self.hidden_size}

    @property
    def has_segments(self) -> bool:  # type: ignore[override]
        return self.type_vocab_size > 0

    @property
    def max_positions(self) -> int | None:
        """Without a table of positions, distances alone count, and the farthest are one."""
        return self.max_position_embeddings if self.position_biased_input else None

    @property
    def embedding_width(self) -> int:
        return self.embedding_size or self.hidden_size

    @property
    def terms(self) -> list[str]:
        """What is counted in the scale of scores, whether or not there are relative positions."""
        return [term for term in ("c2p", "p2c") if term in (self.pos_att_type or [])]


def build(config: DebertaConfig, head: str | None = None) -> Encoder:
    """A DeBERTa with random weights."""
    embeddings = build_embeddings(config)
    model = Encoder(
        config,
        embeddings,
        build_layers(config),
        head=build_head(head, config, embeddings.token),
        head_name=head,
    )
    initialise(model, config.initializer_range)
    return model


def build_embeddings(config: DebertaConfig) -> Embeddings:
    narrow, width = config.embedding_width, config.hidden_size
    norm: nn.Module = nn.LayerNorm(width, eps=config.layer_norm_eps)
    if narrow != width:
        norm = ProjectedNorm(nn.Linear(narrow, width, bias=False), norm)
    return Embeddings(
        nn.Embedding(config.vocab_size, narrow),
        nn.Embedding(config.max_position_embeddings, narrow) if config.position_biased_input else None,
        segment=nn.Embedding(config.type_vocab_size, narrow) if config.type_vocab_size else None,
        norm=norm,
        dropout=config.hidden_dropout_prob,
    )


def build_layers(config: DebertaConfig) -> Stack:
    width, norm = config.hidden_size, partial(nn.LayerNorm, config.hidden_size, eps=config.layer_norm_eps)
    positions = None
    if config.relative_attention and config.terms:
        positions = RelativePositions(
            width,
            config.max_relative_positions if config.max_relative_positions > 0 else config.max_position_embeddings,
            buckets=config.position_buckets if config.position_buckets > 0 else None,
            norm=norm() if config.norm_rel_ebd == "layer_norm" else None,
            dropout=config.hidden_dropout_prob,
        )
    dropout = config.hidden_dropout_prob
    layers = Stack()
    for number in range(config.num_hidden_layers):
        parts = (build_attention(config, positions), build_feed_forward(config), norm)
        if number == 0 and config.conv_kernel_size:
            act, groups = activation(config.conv_act), config.conv_groups
            beside = TextConvolution(width, config.conv_kernel_size, act, groups=groups, dropout=dropout)
            layers.append(ConvolvedLayer(*parts, beside, dropout=dropout))
        else:
            layers.append(Layer(*parts, dropout=dropout))
    return layers


def build_feed_forward(config: DebertaConfig) -> FeedForward:
    return FeedForward(config.hidden_size, config.intermediate_size, activation(config.hidden_act))


def build_attention(config: DebertaConfig, positions: RelativePositions | None) -> MultiHeadAttention:
    """Products are divided by how many are summed, too; v3 projects positions as it does content."""
    width, heads, terms = config.hidden_size, config.num_attention_heads, config.terms
    scale = (hf.check_heads(width, heads) * (1 + len(terms))) ** -0.5
    attention = MultiHeadAttention(width, heads, dropout=config.attention_probs_dropout_prob, scale=scale)
    if positions is not None:
        shared = config.share_att_key
        key = tied_copy(attention.key) if shared else nn.Linear(width, width)
        query = tied_copy(attention.query) if shared else nn.Linear(width, width)
        attention.position_scores = DisentangledScores(
            positions,
            heads,
            key=key if "c2p" in terms else None,
            query=query if "p2c" in terms else None,
            scale=scale,
        )
    return attention


def build_head(name: str | None, config: DebertaConfig, token: nn.Embedding) -> nn.Module | None:
    width, dropout, classes = config.hidden_size, config.hidden_dropout_prob, len(config.id2label)
    match name:
        case "fill-mask":
            return build_word_head(config, token)
        case "text-classification":
            chance = dropout if config.cls_dropout is None else config.cls_dropout
            first = nn.Dropout(config.pooler_dropout)
            return ClassifierHead(width, classes, chance, dense=activation(config.pooler_hidden_act), transform=first)
        case "token-classification":
            return TokenClassifierHead(width, classes, dropout)
        case "question-answering":
            return SpanHead(width)
        case _:
            return None


def build_word_head(config: DebertaConfig, token: nn.Embedding) -> nn.Module:
    """The older head is BERT's; the newer one reads the embeddings themselves, tied or not."""
    width, act, eps = config.hidden_size, activation(config.hidden_act), config.layer_norm_eps
    if config.legacy:
        return MaskedLMHead(token, act, eps, tied=config.tie_word_embeddings, hidden_width=width)
    if config.embedding_width != width:
        raise ValueError(
            f"legacy = false needs embeddings as wide as the model, {width}, and embedding_size is "
            f"{config.embedding_size}; set legacy to true"
        )
    transform = PredictionTransform(width, act, eps=eps, bias=True, norm_bias=True)
    words = TokenClassifierHead(width, config.vocab_size, 0.0, transform=transform)
    words.output.weight = token.weight
    return words


def fit_config(config: DebertaConfig, head: str | None, names: set[str]) -> DebertaConfig:
    """A file with the newer head alone is no legacy, whatever config.json says: Microsoft's own are silent."""
    if head != "fill-mask" or not any(name.startswith(NEWER_HEAD) for name in names):
        return config
    return replace(config, legacy=any(name.startswith(OLDER_HEAD) for name in names))


LAYER, ATTENTION, SCORES = "encoder.layer.*", "layers.*.attention", "layers.*.attention.position_scores"
WEIGHTS = (
    ("embeddings.word_embeddings", "embeddings.token"),
    ("embeddings.position_embeddings", "embeddings.position"),
    ("embeddings.token_type_embeddings", "embeddings.segment"),
    ("embeddings.embed_proj", "embeddings.norm.projection"),
    ("embeddings.LayerNorm", "embeddings.norm"),
    ("embeddings.LayerNorm", "embeddings.norm.norm"),
    ("embeddings.position_ids", None),
    (f"{LAYER}.attention.self.query_proj", f"{ATTENTION}.query"),
    (f"{LAYER}.attention.self.key_proj", f"{ATTENTION}.key"),
    (f"{LAYER}.attention.self.value_proj", f"{ATTENTION}.value"),
    (f"{LAYER}.attention.self.pos_key_proj", f"{SCORES}.key"),
    (f"{LAYER}.attention.self.pos_query_proj", f"{SCORES}.query"),
    (f"{LAYER}.attention.output.dense", f"{ATTENTION}.output"),
    (f"{LAYER}.attention.output.LayerNorm", "layers.*.attention_norm"),
    (f"{LAYER}.intermediate.dense", "layers.*.feed_forward.up"),
    (f"{LAYER}.output.dense", "layers.*.feed_forward.down"),
    (f"{LAYER}.output.LayerNorm", "layers.*.feed_forward_norm"),
    ("encoder.rel_embeddings", "layers.0.attention.position_scores.positions.table"),
    ("encoder.LayerNorm", "layers.0.attention.position_scores.positions.norm"),
    ("encoder.conv.conv", "layers.0.convolution.conv"),
    ("encoder.conv.LayerNorm", "layers.0.convolution_norm"),
)
WORDS = (
    (f"{OLDER_HEAD}.transform.dense", "head.dense"),
    (f"{OLDER_HEAD}.transform.LayerNorm", "head.norm"),
    (f"{OLDER_HEAD}.bias", "head.bias"),
    (f"{OLDER_HEAD}.decoder", "head.decoder"),
    (f"{NEWER_HEAD}.dense", "head.transform.dense"),
    (f"{NEWER_HEAD}.LayerNorm", "head.transform.norm"),
    (f"{NEWER_HEAD}.bias", "head.output.bias"),
)
IDLE = (
    *("embeddings.position_embeddings", "encoder.rel_embeddings", "encoder.LayerNorm"),  # where they are not used
    *(f"mask_predictions.{name}" for name in ("dense", "LayerNorm", "classifier")),  # of v3's pretraining
)
ARCHITECTURE = Architecture(
    model_type="deberta-v2",
    config=DebertaConfig,
    build=build,
    small=SMALL_ENCODER
    | {"relative_attention": True, "position_buckets": 128, "pos_att_type": ["c2p", "p2c"], "share_att_key": True}
    | {"norm_rel_ebd": "layer_norm", "position_biased_input": False, "legacy": False},
    prefix="deberta",
    weights=WEIGHTS,
    may_be_idle=IDLE,
    fit_config=fit_config,
    heads={
        None: Head("DebertaV2Model"),
        "fill-mask": Head("DebertaV2ForMaskedLM", WORDS),
        "text-classification": Head(
            "DebertaV2ForSequenceClassification", [("pooler.dense", "head.dense"), ("classifier", "head.output")]
        ),
        "token-classification": Head("DebertaV2ForTokenClassification", [("classifier", "head.output")]),
        "question-answering": Head("DebertaV2ForQuestionAnswering", [("qa_outputs", "head.output")]),
    },
)
