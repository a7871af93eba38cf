"""T5 and mT5 (Raffel et al. 2020): an encoder-decoder whose places are told by distances, added to the scores.

Version 1.0 has plain feed-forwards and reads its output layer from the embeddings, scaled; 1.1, Flan and mT5 have gated
ones and an output layer of their own.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

from torch import nn

from glassformer.blocks.activations import activation
from glassformer.blocks.attention import MultiHeadAttention
from glassformer.blocks.embeddings import Embeddings
from glassformer.blocks.output import ScaledHead
from glassformer.blocks.relative import RelativeBias
from glassformer.blocks.transformer import FeedForward, GatedFeedForward, Layer, Stack
from glassformer.files.schema import Count, Depth, NotNegative, Probability, Size, TokenId

from . import config as hf
from .architecture import Architecture, Head, Row
from .encoder_decoder import DecoderSide, EncoderAlone, EncoderSide, Transformer
from .init import initialise

DEFAULTS: dict[str, dict[str, Any]] = {  # what `transformers` takes where a config.json is silent
    "t5": {},
    "mt5": {"vocab_size": 250112, "d_ff": 1024, "num_layers": 8, "num_heads": 6, "feed_forward_proj": "gated-gelu"}
    | {"scale_decoder_outputs": False},
}


@dataclass(frozen=True, kw_only=True)
class T5Config(hf.BaseConfig):
    """Hugging Face's names; the defaults are those of `transformers`, near t5-small."""

    model_type: str = "t5"
    vocab_size: Size = 32128
    d_model: Size = 512
    d_kv: Size = 64
    d_ff: Size = 2048
    num_layers: Depth = 6
    num_decoder_layers: Depth | None = None
    num_heads: Size = 8
    relative_attention_num_buckets: Count = 32
    relative_attention_max_distance: Size = 128
    dropout_rate: Probability = 0.1
    layer_norm_epsilon: NotNegative = 1e-6
    initializer_factor: NotNegative = 1.0
    feed_forward_proj: str = "relu"
    tie_word_embeddings: bool = True
    scale_decoder_outputs: bool = True
    pad_token_id: TokenId | None = 0
    bos_token_id: TokenId | None = None
    eos_token_id: TokenId | list[TokenId] | None = 1
    decoder_start_token_id: TokenId | None = 0
    task_specific_params: hf.TaskParams | None = None

    is_encoder_decoder = True

    def __post_init__(self) -> None:
        buckets, most = self.relative_attention_num_buckets, self.relative_attention_max_distance
        if buckets < 4:
            raise ValueError(f"relative_attention_num_buckets is {buckets}; it must be at least 4")
        if most <= buckets // 2:
            raise ValueError(f"relative_attention_max_distance is {most}; with {buckets} buckets it must be more")

    @classmethod
    def from_hf(cls, raw: dict[str, Any]) -> Self:
        kind = raw.get("model_type", "t5")
        raw = {**DEFAULTS.get(kind, {}), **raw}
        if kind == "t5" and "scale_decoder_outputs" not in raw:  # 1.1 says so by its output layer
            raw["scale_decoder_outputs"] = raw.get("tie_word_embeddings") is not False
        return hf.read(cls, raw, only={"is_decoder": (False, None)})

    def to_hf(self) -> dict[str, Any]:
        """As 4 and 5 read it: 4 scales the outputs where they are tied, and so does 5 unless told."""
        return {**hf.write(self), "num_decoder_layers": self.decoder_layers} | {
            "is_encoder_decoder": self.is_encoder_decoder
        }

    @property
    def max_positions(self) -> None:
        return None

    @property
    def decoder_layers(self) -> int:
        return self.num_layers if self.num_decoder_layers is None else self.num_decoder_layers


@dataclass(frozen=True, kw_only=True)
class T5EncoderConfig(T5Config):
    """T5's, of its encoder alone."""

    is_encoder_decoder = False


def build(config: T5Config, head: str | None = "text2text-generation") -> Transformer | EncoderAlone:
    """One with random weights."""
    if head == "feature-extraction":
        return build_encoder(T5EncoderConfig(**vars(config)))
    shared = nn.Embedding(config.vocab_size, config.d_model)
    tables = [nn.Embedding(config.vocab_size, config.d_model) for _ in range(2)]
    tables[0].weight = tables[1].weight = shared.weight
    sides = [Embeddings(table, None, dropout=config.dropout_rate) for table in tables]
    norms = [nn.RMSNorm(config.d_model, eps=config.layer_norm_epsilon) for _ in range(2)]
    model = Transformer(
        config,
        EncoderSide(sides[0], build_stack(config, config.num_layers, cross=False), norms[0], config.dropout_rate),
        DecoderSide(sides[1], build_stack(config, config.decoder_layers, cross=True), norms[1], config.dropout_rate),
        cache=(config.num_heads, config.d_kv),
        head=build_head(config, shared) if head else None,
        head_name=head,
        shared=shared,
    )
    start_weights(model, config)
    return model


def build_encoder(config: T5EncoderConfig) -> EncoderAlone:
    model = EncoderAlone(
        config,
        Embeddings(nn.Embedding(config.vocab_size, config.d_model), None, dropout=config.dropout_rate),
        build_stack(config, config.num_layers, cross=False),
        final_norm=nn.RMSNorm(config.d_model, eps=config.layer_norm_epsilon),
        dropout=config.dropout_rate,
    )
    start_weights(model, config)
    return model


def build_head(config: T5Config, shared: nn.Embedding) -> nn.Module:
    output = nn.Linear(config.d_model, config.vocab_size, bias=False)
    if config.tie_word_embeddings:
        output.weight = shared.weight
    return ScaledHead(output, config.d_model**-0.5 if config.scale_decoder_outputs else 1.0)


def build_stack(config: T5Config, number: int, *, cross: bool) -> Stack:
    """Layers that share one table of distances."""
    buckets, most = config.relative_attention_num_buckets, config.relative_attention_max_distance
    bias = RelativeBias(config.num_heads, buckets, most, bidirectional=not cross)
    return Stack(build_layer(config, bias, cross=cross) for _ in range(number))


def build_layer(config: T5Config, bias: RelativeBias, *, cross: bool) -> Layer:
    width, dropout = config.d_model, config.dropout_rate
    attend = partial(
        MultiHeadAttention,
        width,
        config.num_heads,
        head_width=config.d_kv,
        scale=1.0,
        bias=False,
        dropout=dropout,
    )
    gated, act = feed_forward_kind(config.feed_forward_proj)
    block = GatedFeedForward if gated else FeedForward
    return Layer(
        attend(position_scores=bias),
        block(width, config.d_ff, activation(act), dropout=dropout, bias=False),
        partial(nn.RMSNorm, width, eps=config.layer_norm_epsilon),
        cross_attention=attend() if cross else None,
        pre_norm=True,
        dropout=dropout,
    )


def feed_forward_kind(name: str) -> tuple[bool, str]:
    """Whether "gated-gelu" and the like are gated, and by which activation."""
    *kind, act = name.split("-")
    if kind not in ([], ["gated"]):
        raise ValueError(f"feed_forward_proj is {name!r}; it must be an activation, or gated- and an activation")
    return bool(kind), "gelu_new" if name == "gated-gelu" else act


def start_weights(model: nn.Module, config: T5Config) -> None:
    """T5's own start: scores are not divided by √K, so the queries are small instead."""
    initialise(model, config.initializer_factor)
    inner = config.num_heads * config.d_kv
    widths = {
        "query": config.d_model * config.d_kv,
        "key": config.d_model,
        "value": config.d_model,
        "attention.output": inner,
        "table": config.d_model,
        "gate": config.d_model,
        "up": config.d_model,
        "down": config.d_ff,
        "head.output": config.d_model,  # one of its own, which no scale makes small
    }
    for name, weight in model.named_parameters():
        for part, width in widths.items():
            if name.endswith(f"{part}.weight"):
                nn.init.normal_(weight, std=config.initializer_factor * width**-0.5)


def fit_config(config: T5Config, _head: str | None, names: set[str]) -> T5Config:
    """Without an output layer in the file, it is the embedding, whatever config.json says: Flan's says both."""
    return config if "lm_head.weight" in names else replace(config, tie_word_embeddings=True)


def _side(side: str, feed_forward: int) -> list[tuple[str, str]]:
    theirs, ours = f"{side}.block.*.layer", f"{side}.layers.*"
    blocks = [("SelfAttention", "attention", 0), *([("EncDecAttention", "cross_attention", 1)] * (feed_forward == 2))]
    rows = [(f"{side}.embed_tokens", f"{side}.embeddings.token"), (f"{side}.final_layer_norm", f"{side}.final_norm")]
    bias = "relative_attention_bias"
    rows += [(f"{side}.block.0.layer.0.SelfAttention.{bias}", f"{side}.layers.0.attention.position_scores.table")]
    for their_name, name, place in blocks:
        letters = {"q": "query", "k": "key", "v": "value", "o": "output"}
        rows += [(f"{theirs}.{place}.{their_name}.{a}", f"{ours}.{name}.{b}") for a, b in letters.items()]
        rows += [(f"{theirs}.{place}.layer_norm", f"{ours}.{name}_norm")]
    words = {"wi": "up", "wi_0": "gate", "wi_1": "up", "wo": "down"}
    dense = f"{theirs}.{feed_forward}.DenseReluDense"
    rows += [(f"{dense}.{a}", f"{ours}.feed_forward.{b}") for a, b in words.items()]
    return [*rows, (f"{theirs}.{feed_forward}.layer_norm", f"{ours}.feed_forward_norm")]


def weights(config: T5Config) -> list[Row]:
    """The two kinds of feed-forwards have names of their own; an encoder alone leaves the decoder in its file."""
    encoder, decoder = _side("encoder", 1), _side("decoder", 2)
    rows: list[Row] = [("shared", "shared"), *encoder, *decoder]
    if not config.is_encoder_decoder:
        rows = [("shared", "embeddings.token"), *((theirs, ours.removeprefix("encoder.")) for theirs, ours in encoder)]
        rows += [(theirs, None) for theirs, _ in decoder]
    other = ("wi",) if feed_forward_kind(config.feed_forward_proj)[0] else ("wi_0", "wi_1")
    return [row for row in rows if not row[0].endswith(tuple(f".{name}" for name in other))]


OUTPUT = [("lm_head", "head.output")]


def heads(name: str) -> dict[str | None, Head]:
    return {
        None: Head(f"{name}Model"),
        "text2text-generation": Head(f"{name}ForConditionalGeneration", OUTPUT),
        "feature-extraction": Head(f"{name}EncoderModel"),
    }


T5 = Architecture(
    model_type="t5",
    config=T5Config,
    build=build,
    weights=weights,
    may_be_idle=("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias",),
    fit_config=fit_config,
    small={"d_model": 256, "d_kv": 64, "d_ff": 704, "num_layers": 3, "num_heads": 4, "dropout_rate": 0.1}
    | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "scale_decoder_outputs": False},
    heads=heads("T5"),
)
MT5 = replace(
    T5,
    model_type="mt5",
    small={},
    heads=heads("MT5"),
)
