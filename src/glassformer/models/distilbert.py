"""DistilBERT (Sanh et al. 2019): BERT's encoder without segments and pooler."""

from dataclasses import dataclass, field
from typing import Any, Self

import torch.nn.functional as F
from torch import nn

from glassformer.blocks.activations import activation
from glassformer.blocks.embeddings import Embeddings
from glassformer.files.schema import Depth, NotNegative, Probability, Size, TokenId

from . import config as hf
from .architecture import Architecture, Head
from .encoder import Encoder, encoder_layers
from .heads import ClassifierHead, MaskedLMHead, SpanHead, TokenClassifierHead
from .init import initialise

EPS = 1e-12  # not in its config


@dataclass(frozen=True, kw_only=True)
class DistilBertConfig(hf.BaseConfig):
    """Hugging Face's names; the defaults are distilbert-base-uncased."""

    model_type: str = "distilbert"
    vocab_size: Size = 30522
    dim: Size = 768
    n_layers: Depth = 6
    n_heads: Size = 12
    hidden_dim: Size = 3072
    activation: str = "gelu"
    dropout: Probability = 0.1
    attention_dropout: Probability = 0.1
    qa_dropout: Probability = 0.1
    seq_classif_dropout: Probability = 0.2
    max_position_embeddings: Size = 512
    initializer_range: NotNegative = 0.02
    tie_word_embeddings: bool = True
    pad_token_id: TokenId | None = 0
    bos_token_id: TokenId | None = None
    eos_token_id: TokenId | list[TokenId] | None = None
    problem_type: hf.ProblemType | None = None
    id2label: dict[int, str] = field(default_factory=lambda: {0: "LABEL_0", 1: "LABEL_1"})

    @classmethod
    def from_hf(cls, raw: dict[str, Any]) -> Self:
        # sinusoidal_pos_embds only says how the positions began; the file holds them like learned ones
        return hf.read(cls, raw, only={"pruned_heads": (None, {})})

    @property
    def max_positions(self) -> int:
        return self.max_position_embeddings


def build_head(name: str | None, config: DistilBertConfig, token: nn.Embedding) -> nn.Module | None:
    width, classes = config.dim, len(config.id2label)
    match name:
        case "fill-mask":
            act, tied = activation(config.activation), config.tie_word_embeddings
            return MaskedLMHead(token, act, EPS, tied=tied, own_bias=False)
        case "text-classification":
            return ClassifierHead(width, classes, config.seq_classif_dropout, dense=F.relu)
        case "token-classification":
            return TokenClassifierHead(width, classes, config.dropout)
        case "question-answering":
            return SpanHead(width, config.qa_dropout)
        case _:
            return None


def build(config: DistilBertConfig, head: str | None = None) -> Encoder:
    """A DistilBERT with random weights."""
    embeddings = Embeddings(
        nn.Embedding(config.vocab_size, config.dim),
        nn.Embedding(config.max_position_embeddings, config.dim),
        norm=nn.LayerNorm(config.dim, eps=EPS),
        dropout=config.dropout,
    )
    layers = encoder_layers(
        config.n_layers,
        config.dim,
        config.n_heads,
        config.hidden_dim,
        act=config.activation,
        eps=EPS,
        dropout=config.dropout,
        attention_dropout=config.attention_dropout,
    )
    model = Encoder(config, embeddings, layers, head=build_head(head, config, embeddings.token), head_name=head)
    initialise(model, config.initializer_range)
    return model


WEIGHTS = (
    ("embeddings.word_embeddings", "embeddings.token"),
    ("embeddings.position_embeddings", "embeddings.position"),
    ("embeddings.LayerNorm", "embeddings.norm"),
    ("embeddings.position_ids", None),
    ("transformer.layer.*.attention.q_lin", "layers.*.attention.query"),
    ("transformer.layer.*.attention.k_lin", "layers.*.attention.key"),
    ("transformer.layer.*.attention.v_lin", "layers.*.attention.value"),
    ("transformer.layer.*.attention.out_lin", "layers.*.attention.output"),
    ("transformer.layer.*.sa_layer_norm", "layers.*.attention_norm"),
    ("transformer.layer.*.ffn.lin1", "layers.*.feed_forward.up"),
    ("transformer.layer.*.ffn.lin2", "layers.*.feed_forward.down"),
    ("transformer.layer.*.output_layer_norm", "layers.*.feed_forward_norm"),
)
ARCHITECTURE = Architecture(
    model_type="distilbert",
    config=DistilBertConfig,
    build=build,
    small={"dim": 256, "n_layers": 3, "n_heads": 4, "hidden_dim": 1024, "max_position_embeddings": 512},
    prefix="distilbert",
    weights=WEIGHTS,
    heads={
        None: Head("DistilBertModel"),
        "fill-mask": Head(
            "DistilBertForMaskedLM",
            [
                ("vocab_transform", "head.dense"),
                ("vocab_layer_norm", "head.norm"),
                ("vocab_projector", "head.decoder"),
            ],
        ),
        "text-classification": Head(
            "DistilBertForSequenceClassification",
            [("pre_classifier", "head.dense"), ("classifier", "head.output")],
        ),
        "token-classification": Head("DistilBertForTokenClassification", [("classifier", "head.output")]),
        "question-answering": Head("DistilBertForQuestionAnswering", [("qa_outputs", "head.output")]),
    },
)
