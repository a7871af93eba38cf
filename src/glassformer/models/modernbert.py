"""ModernBERT (Warner et al. 2024): a pre-norm encoder with rotary positions, gated feed-forwards and local layers.

Every third layer looks at the whole text, the others at a window; the two kinds turn by angles of their own.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal, Self

from torch import nn

from glassformer.blocks.activations import activation
from glassformer.blocks.attention import MultiHeadAttention
from glassformer.blocks.embeddings import Embeddings
from glassformer.blocks.masks import Window
from glassformer.blocks.pooling import MeanPooling
from glassformer.blocks.rotary import Rotary
from glassformer.blocks.transformer import GatedFeedForward, Layer, Stack
from glassformer.files.schema import Depth, NotNegative, Probability, Size, TokenId, conform

from . import config as hf
from .architecture import Architecture, Head
from .encoder import Encoder
from .heads import ClassifierHead, PredictionTransform, SpanHead, TokenClassifierHead
from .init import initialise
from .rope import RopeParameters, build_rotary, rope_parameters

LayerKind = Literal["full_attention", "sliding_attention"]
THETAS: dict[LayerKind, float] = {"full_attention": 160_000.0, "sliding_attention": 10_000.0}


def read_rope(raw: dict[str, Any]) -> dict[LayerKind, RopeParameters]:
    """The `rope_parameters` of both kinds of layers, or what the keys of before 5 say; a local θ of null is global."""
    given, scaling = raw.get("rope_parameters") or {}, raw.get("rope_scaling") or {}
    conform(given, dict[LayerKind, dict[str, Any] | None], hf.PLACE, "rope_parameters")
    conform(scaling, dict[str, Any], hf.PLACE, "rope_scaling")
    thetas = dict(THETAS)
    thetas["full_attention"] = raw.get("global_rope_theta") or THETAS["full_attention"]
    if "local_rope_theta" in raw:
        thetas["sliding_attention"] = raw["local_rope_theta"] or thetas["full_attention"]
    return {
        kind: rope_parameters({"rope_parameters": {**(given.get(kind) or {}), **scaling}, "rope_theta": theta})
        for kind, theta in thetas.items()
    }


@dataclass(frozen=True, kw_only=True)
class ModernBertConfig(hf.BaseConfig):
    """Hugging Face's names; the defaults are ModernBERT-base."""

    mask_rate: ClassVar[float] = 0.3
    model_type: str = "modernbert"
    vocab_size: Size = 50368
    hidden_size: Size = 768
    intermediate_size: Size = 1152
    num_hidden_layers: Depth = 22
    num_attention_heads: Size = 12
    hidden_activation: str = "gelu"
    max_position_embeddings: Size = 8192
    initializer_range: NotNegative = 0.02
    norm_eps: NotNegative = 1e-5
    norm_bias: bool = False
    attention_bias: bool = False
    attention_dropout: Probability = 0.0
    embedding_dropout: Probability = 0.0
    mlp_bias: bool = False
    mlp_dropout: Probability = 0.0
    decoder_bias: bool = True
    classifier_pooling: Literal["cls", "mean"] = "cls"
    classifier_dropout: Probability = 0.0
    classifier_bias: bool = False
    classifier_activation: str = "gelu"
    local_attention: Size = 128
    global_attn_every_n_layers: Size = 3  # unless layer_types says which
    layer_types: list[LayerKind] | None = None
    rope_parameters: dict[LayerKind, RopeParameters] = field(default_factory=lambda: read_rope({}))
    tie_word_embeddings: bool = True
    pad_token_id: TokenId | None = 50283
    bos_token_id: TokenId | None = 50281
    eos_token_id: TokenId | list[TokenId] | None = 50282
    problem_type: hf.ProblemType | None = None
    id2label: dict[int, str] = field(default_factory=lambda: {0: "LABEL_0", 1: "LABEL_1"})

    def __post_init__(self) -> None:
        hf.check_layer_types(self.layer_types, self.num_hidden_layers)

    @classmethod
    def from_hf(cls, raw: dict[str, Any]) -> Self:
        raw = {**raw, "rope_parameters": read_rope(raw)}
        return hf.read(cls, raw, only={"position_embedding_type": ("absolute", None, "rope", "sans_pos")})

    def to_hf(self) -> dict[str, Any]:
        """As 4 and 5 read it; a choice of layers that is not every so many is 5's alone."""
        raw = {**hf.write(self), "layer_types": self.kinds}
        every = range(1, self.num_hidden_layers + 1)
        raw["global_attn_every_n_layers"] = next(
            (number for number in (self.global_attn_every_n_layers, *every) if self.one_in(number) == self.kinds),
            self.global_attn_every_n_layers,
        )
        rope = self.rope_parameters
        raw["global_rope_theta"] = rope["full_attention"]["rope_theta"]
        raw["local_rope_theta"] = rope["sliding_attention"]["rope_theta"]
        return raw

    @property
    def max_positions(self) -> int:
        return self.max_position_embeddings

    @property
    def kinds(self) -> list[LayerKind]:
        """What each layer looks at."""
        return self.layer_types or self.one_in(self.global_attn_every_n_layers)

    def one_in(self, number: int) -> list[LayerKind]:
        """The first of every so many layers looks at the whole text."""
        return ["sliding_attention" if layer % number else "full_attention" for layer in range(self.num_hidden_layers)]


def build(config: ModernBertConfig, head: str | None = None) -> Encoder:
    """A ModernBERT with random weights."""
    width = config.hidden_size
    norm = partial(nn.LayerNorm, width, eps=config.norm_eps, bias=config.norm_bias)
    token = nn.Embedding(config.vocab_size, width)
    head_width = hf.check_heads(width, config.num_attention_heads)
    rotary = {
        kind: build_rotary(rope, head_width, config.max_position_embeddings)
        for kind, rope in config.rope_parameters.items()
    }
    layers = Stack(build_layer(config, kind, rotary[kind]) for kind in config.kinds)
    layers[0].attention_norm = nn.Identity()  # the embeddings have just been normed
    model = Encoder(
        config,
        Embeddings(token, None, norm=norm(), dropout=config.embedding_dropout),
        layers,
        final_norm=norm(),
        pooling=MeanPooling() if head == "text-classification" and config.classifier_pooling == "mean" else None,
        head=build_head(head, config, token),
        head_name=head,
    )
    start_weights(model, config)
    return model


def build_layer(config: ModernBertConfig, kind: LayerKind, rotary: Rotary) -> Layer:
    """`attention_dropout` is that of the patterns; here it does not fall on the attention's output as well."""
    width, reach = config.hidden_size, config.local_attention // 2
    attention = MultiHeadAttention(
        width,
        config.num_attention_heads,
        dropout=config.attention_dropout,
        bias=config.attention_bias,
        rotary=rotary,
        window=Window(reach, reach) if kind == "sliding_attention" else None,
    )
    act = activation(config.hidden_activation)
    feed_forward = GatedFeedForward(
        width, config.intermediate_size, act, dropout=config.mlp_dropout, bias=config.mlp_bias
    )
    norm = partial(nn.LayerNorm, width, eps=config.norm_eps, bias=config.norm_bias)
    return Layer(attention, feed_forward, norm, pre_norm=True)


def build_head(name: str | None, config: ModernBertConfig, token: nn.Embedding) -> nn.Module | None:
    width, dropout, classes = config.hidden_size, config.classifier_dropout, len(config.id2label)
    transform = PredictionTransform(
        width,
        activation(config.classifier_activation),
        eps=config.norm_eps,
        bias=config.classifier_bias,
        norm_bias=config.norm_bias,
    )
    match name:
        case "fill-mask":
            words = TokenClassifierHead(width, config.vocab_size, 0.0, transform=transform, bias=config.decoder_bias)
            if config.tie_word_embeddings:
                words.output.weight = token.weight
            return words
        case "text-classification":
            return ClassifierHead(width, classes, dropout, transform=transform)
        case "token-classification":
            return TokenClassifierHead(width, classes, dropout, transform=transform)
        case "question-answering":
            return SpanHead(width, dropout, transform=transform)
        case _:
            return None


def start_weights(model: nn.Module, config: ModernBertConfig) -> None:
    """What is added to the residual stream starts small, the more so the more layers add to it."""
    initialise(model, config.initializer_range)
    small = config.initializer_range / (2.0 * config.num_hidden_layers) ** 0.5
    for name, weight in model.named_parameters():
        if name.endswith(("attention.output.weight", "feed_forward.down.weight")):
            nn.init.normal_(weight, std=small)


WEIGHTS = (
    ("embeddings.tok_embeddings", "embeddings.token"),
    ("embeddings.norm", "embeddings.norm"),
    ("layers.*.attn_norm", "layers.*.attention_norm"),
    ("layers.*.attn.Wqkv", ["layers.*.attention.query", "layers.*.attention.key", "layers.*.attention.value"]),
    ("layers.*.attn.Wo", "layers.*.attention.output"),
    ("layers.*.mlp_norm", "layers.*.feed_forward_norm"),
    ("layers.*.mlp.Wi", ["layers.*.feed_forward.gate", "layers.*.feed_forward.up"]),
    ("layers.*.mlp.Wo", "layers.*.feed_forward.down"),
    ("final_norm", "final_norm"),
)
TRANSFORM = (("head.dense", "head.transform.dense"), ("head.norm", "head.transform.norm"))
CLASSIFIER = (*TRANSFORM, ("classifier", "head.output"))
ARCHITECTURE = Architecture(
    model_type="modernbert",
    config=ModernBertConfig,
    build=build,
    small={"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 384}
    | {"max_position_embeddings": 512, "local_attention": 64},
    prefix="model",
    weights=WEIGHTS,
    heads={
        None: Head("ModernBertModel"),
        "fill-mask": Head("ModernBertForMaskedLM", (*TRANSFORM, ("decoder", "head.output"))),
        "text-classification": Head("ModernBertForSequenceClassification", CLASSIFIER),
        "token-classification": Head("ModernBertForTokenClassification", CLASSIFIER),
        "question-answering": Head("ModernBertForQuestionAnswering", CLASSIFIER),
    },
)
