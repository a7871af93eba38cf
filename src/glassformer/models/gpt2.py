"""GPT-2 (Radford et al. 2019): a pre-norm causal Transformer whose output layer is its token embedding."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

from torch import nn

from glassformer.blocks.activations import activation
from glassformer.blocks.attention import MultiHeadAttention
from glassformer.blocks.embeddings import Embeddings
from glassformer.blocks.relative import PositionScores
from glassformer.blocks.rotary import Rotary
from glassformer.blocks.transformer import FeedForward, Layer, Stack
from glassformer.files.schema import Depth, NotNegative, Probability, Size, TokenId

from . import config as hf
from .architecture import Architecture, Head, Op
from .decoder import CausalDecoder, decoder_head
from .init import initialise


@dataclass(frozen=True, kw_only=True)
class Gpt2Config(hf.BaseConfig):
    """Hugging Face's names; the defaults are gpt2."""

    model_type: str = "gpt2"
    vocab_size: Size = 50257
    n_positions: Size = 1024
    n_embd: Size = 768
    n_layer: Depth = 12
    n_head: Size = 12
    n_inner: Size | None = None
    activation_function: str = "gelu_new"
    resid_pdrop: Probability = 0.1
    embd_pdrop: Probability = 0.1
    attn_pdrop: Probability = 0.1
    layer_norm_epsilon: NotNegative = 1e-5
    initializer_range: NotNegative = 0.02
    scale_attn_weights: bool = True
    scale_attn_by_inverse_layer_idx: bool = False
    classifier_dropout: Probability | None = None
    hidden_dropout: Probability | None = None
    tie_word_embeddings: bool = True
    pad_token_id: TokenId | None = None
    bos_token_id: TokenId | None = 50256
    eos_token_id: TokenId | list[TokenId] | None = 50256
    problem_type: hf.ProblemType | None = None
    id2label: dict[int, str] = field(default_factory=lambda: {0: "LABEL_0", 1: "LABEL_1"})

    @classmethod
    def from_hf(cls, raw: dict[str, Any]) -> Self:
        # reorder_and_upcast_attn changes nothing here: softmax is always at least fp32
        return hf.read(cls, raw, only={"add_cross_attention": (False,), "pruned_heads": (None, {})})

    @property
    def max_positions(self) -> int | None:
        return self.n_positions


def build(config: Gpt2Config, head: str | None = "text-generation") -> CausalDecoder:
    """A GPT-2 with random weights."""
    return build_with(config, nn.Embedding(config.n_positions, config.n_embd), head)


def build_with(
    config: Gpt2Config,
    position: nn.Module | None,
    head: str | None,
    *,
    scale: float = 1.0,
    rotary: Rotary | None = None,
    position_scores: PositionScores | None = None,
) -> CausalDecoder:
    """The same with any kind of positions, in the embeddings or the attention; `scale` makes token vectors larger."""
    width = config.n_embd
    token = nn.Embedding(config.vocab_size, width)
    embeddings = Embeddings(token, position, dropout=config.embd_pdrop, scale=scale)
    layers = Stack(
        build_layer(config, number, rotary=rotary, position_scores=position_scores) for number in range(config.n_layer)
    )
    norm = nn.LayerNorm(width, eps=config.layer_norm_epsilon)
    cache = (config.n_head, width // config.n_head)
    dropout = config.hidden_dropout if config.classifier_dropout is None else config.classifier_dropout
    tied, classes = config.tie_word_embeddings, len(config.id2label)
    output = decoder_head(head, token, tied=tied, classes=classes, dropout=dropout)
    model = CausalDecoder(config, embeddings, layers, norm, cache=cache, head=output, head_name=head)
    initialise(model, config.initializer_range)
    for name, weight in model.named_parameters():  # what is added to the residual shrinks with the depth
        if name.endswith(("attention.output.weight", "feed_forward.down.weight")):
            nn.init.normal_(weight, std=config.initializer_range / (2 * config.n_layer) ** 0.5)
    return model


def build_layer(
    config: Gpt2Config, number: int, *, rotary: Rotary | None = None, position_scores: PositionScores | None = None
) -> Layer:
    width = config.n_embd
    scale = hf.check_heads(width, config.n_head) ** -0.5 if config.scale_attn_weights else 1.0
    if config.scale_attn_by_inverse_layer_idx:
        scale /= number + 1
    return Layer(
        MultiHeadAttention(
            width,
            config.n_head,
            dropout=config.attn_pdrop,
            scale=scale,
            rotary=rotary,
            position_scores=position_scores,
        ),
        FeedForward(width, config.n_inner or 4 * width, activation(config.activation_function)),
        partial(nn.LayerNorm, width, eps=config.layer_norm_epsilon),
        pre_norm=True,
        dropout=config.resid_pdrop,
    )


WEIGHTS = (
    ("wte", "embeddings.token"),
    ("wpe", "embeddings.position"),
    ("h.*.ln_1", "layers.*.attention_norm"),
    (
        "h.*.attn.c_attn",
        ["layers.*.attention.query", "layers.*.attention.key", "layers.*.attention.value"],
        Op.TRANSPOSE,
    ),
    ("h.*.attn.c_proj", "layers.*.attention.output", Op.TRANSPOSE),
    ("h.*.attn.bias", None),
    ("h.*.attn.masked_bias", None),
    ("h.*.ln_2", "layers.*.feed_forward_norm"),
    ("h.*.mlp.c_fc", "layers.*.feed_forward.up", Op.TRANSPOSE),
    ("h.*.mlp.c_proj", "layers.*.feed_forward.down", Op.TRANSPOSE),
    ("ln_f", "final_norm"),
)
ARCHITECTURE = Architecture(
    model_type="gpt2",
    config=Gpt2Config,
    build=build,
    small={"n_embd": 256, "n_layer": 4, "n_head": 4, "n_positions": 512},
    prefix="transformer",
    weights=WEIGHTS,
    may_be_idle=("qa_outputs", "multiple_choice_head.summary"),
    heads={
        None: Head("GPT2Model"),
        "text-generation": Head("GPT2LMHeadModel", [("lm_head", "head")]),
        "text-classification": Head("GPT2ForSequenceClassification", [("score", "head.output")]),
        "token-classification": Head("GPT2ForTokenClassification", [("classifier", "head.output")]),
    },
)
