"""ELECTRA (Clark et al. 2020): BERT's encoder, trained to tell which tokens a small generator has replaced.

Discriminator and generator are the same architecture with another head; embeddings may be narrower than the layers.
"""

from dataclasses import dataclass, replace

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


def build_generator(discriminator: Encoder, share: float) -> Encoder:
    """A new generator for a discriminator: as deep, of this share of its heads and width, over the same embeddings."""
    config = discriminator.config
    assert isinstance(config, ElectraConfig)
    heads = max(1, round(share * config.num_attention_heads))
    small = replace(
        config,
        num_attention_heads=heads,
        hidden_size=heads * (config.hidden_size // config.num_attention_heads),
        intermediate_size=max(1, round(share * config.intermediate_size)),
    )
    return share_embeddings(build(small, "fill-mask"), discriminator)


def share_embeddings(generator: Encoder, discriminator: Encoder) -> Encoder:
    """The generator, with the discriminator's tables and norm as its own; each keeps its projection."""
    for name, parameter in discriminator.embeddings.named_parameters():
        part, _, attribute = name.rpartition(".")
        if part != "projection":
            setattr(generator.embeddings.get_submodule(part), attribute, parameter)
    if isinstance(generator.head, MaskedLMHead) and discriminator.config.to_hf()["tie_word_embeddings"]:
        generator.head.decoder.weight = discriminator.embeddings.token.weight
    return generator


def with_generator(discriminator: Encoder, generator: Encoder | None) -> Encoder:
    """The same discriminator, its modules shared, with this generator as a child beside them, or without any."""
    parts = discriminator
    found = Encoder(parts.config, parts.embeddings, parts.layers, head=parts.head, head_name=parts.head_name)
    if generator is not None:
        found.generator = generator
    return found.train(parts.training)


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
