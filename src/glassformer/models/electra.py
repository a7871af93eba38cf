"""ELECTRA (Clark et al. 2020): BERT's encoder, trained to tell which tokens a small generator has replaced.

Discriminator and generator are the same architecture with another head; embeddings may be narrower than the layers.
"""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import nn

from glassformer.blocks.activations import activation
from glassformer.files.schema import Probability, Size

from .architecture import Architecture, Head
from .bert import ENCODER_WEIGHTS, SMALL_ENCODER
from .encoder import Encoder, EncoderConfig, build_layers, encoder_embeddings
from .heads import ClassifierHead, MaskedLMHead, ReplacedTokenHead, SpanHead, TokenClassifierHead
from .init import initialise


@dataclass(frozen=True, kw_only=True)
class ElectraConfig(EncoderConfig):
    """Hugging Face's names; the defaults are electra-small-discriminator."""

    model_type: str = "electra"
    embedding_size: Size = 128
    hidden_size: Size = 256
    num_attention_heads: Size = 4
    intermediate_size: Size = 1024
    classifier_dropout: Probability | None = None


def build_head(name: str | None, config: ElectraConfig, token: nn.Embedding) -> nn.Module | None:
    width, classes = config.hidden_size, len(config.id2label)
    dropout = config.hidden_dropout_prob if config.classifier_dropout is None else config.classifier_dropout
    match name:
        case "fill-mask":
            eps, tied = config.layer_norm_eps, config.tie_word_embeddings
            return MaskedLMHead(token, F.gelu, eps, tied=tied, own_bias=False, hidden_width=width)
        case "replaced-token-detection":
            return ReplacedTokenHead(width, activation(config.hidden_act))
        case "text-classification":
            return ClassifierHead(width, classes, dropout, dense=F.gelu)
        case "token-classification":
            return TokenClassifierHead(width, classes, dropout)
        case "question-answering":
            return SpanHead(width)
        case _:
            return None


def build(config: ElectraConfig, head: str | None = None) -> Encoder:
    """An ELECTRA with random weights."""
    narrow, width = config.embedding_size, config.hidden_size
    embeddings = encoder_embeddings(config, narrow, None if narrow == width else nn.Linear(narrow, width))
    layers = build_layers(config, config.num_hidden_layers)
    model = Encoder(config, embeddings, layers, head=build_head(head, config, embeddings.token), head_name=head)
    initialise(model, config.initializer_range)
    return model


ARCHITECTURE = Architecture(
    model_type="electra",
    config=ElectraConfig,
    build=build,
    small=SMALL_ENCODER | {"embedding_size": 128, "max_position_embeddings": 512},
    prefix="electra",
    weights=(*ENCODER_WEIGHTS, ("embeddings_project", "embeddings.projection")),
    heads={
        None: Head("ElectraModel"),
        "fill-mask": Head(
            "ElectraForMaskedLM",
            [
                ("generator_predictions.dense", "head.dense"),
                ("generator_predictions.LayerNorm", "head.norm"),
                ("generator_lm_head", "head.decoder"),
            ],
        ),
        "replaced-token-detection": Head(
            "ElectraForPreTraining",
            [
                ("discriminator_predictions.dense", "head.dense"),
                ("discriminator_predictions.dense_prediction", "head.output"),
            ],
        ),
        "text-classification": Head(
            "ElectraForSequenceClassification",
            [("classifier.dense", "head.dense"), ("classifier.out_proj", "head.output")],
        ),
        "token-classification": Head("ElectraForTokenClassification", [("classifier", "head.output")]),
        "question-answering": Head("ElectraForQuestionAnswering", [("qa_outputs", "head.output")]),
    },
)
