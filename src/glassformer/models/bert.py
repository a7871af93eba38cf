"""BERT (Devlin et al. 2018): token + segment + position embeddings, a post-norm encoder, a pooler, six heads."""

from dataclasses import dataclass, replace

from torch import nn

from glassformer.blocks.activations import activation
from glassformer.files.schema import Probability

from .architecture import Architecture, Head
from .encoder import Encoder, EncoderConfig, build_layers, encoder_embeddings
from .heads import (
    ClassifierHead,
    MaskedLMHead,
    NextSentenceHead,
    Pooler,
    PretrainingHead,
    SpanHead,
    TokenClassifierHead,
)
from .init import initialise

SMALL_ENCODER = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024}
NEED_POOLER = ("next-sentence-prediction", "pretraining", "text-classification")


@dataclass(frozen=True, kw_only=True)
class BertConfig(EncoderConfig):
    """Hugging Face's names; the defaults are bert-base-uncased."""

    model_type: str = "bert"
    classifier_dropout: Probability | None = None
    add_pooling_layer: bool = True


def head_dropout(config: BertConfig) -> float:
    return config.hidden_dropout_prob if config.classifier_dropout is None else config.classifier_dropout


def build_head(name: str | None, config: BertConfig, token: nn.Embedding) -> nn.Module | None:
    width, dropout, classes = config.hidden_size, head_dropout(config), len(config.id2label)

    def words() -> MaskedLMHead:
        act = activation(config.hidden_act)
        return MaskedLMHead(token, act, config.layer_norm_eps, tied=config.tie_word_embeddings)

    match name:
        case "fill-mask":
            return words()
        case "next-sentence-prediction":
            return NextSentenceHead(width)
        case "pretraining":
            return PretrainingHead(words(), NextSentenceHead(width))
        case "text-classification":
            return ClassifierHead(width, classes, dropout)
        case "token-classification":
            return TokenClassifierHead(width, classes, dropout)
        case "question-answering":
            return SpanHead(width)
        case _:
            return None


def build(config: BertConfig, head: str | None = None) -> Encoder:
    """A BERT with random weights."""
    embeddings = encoder_embeddings(config, config.hidden_size)
    pooled = head in NEED_POOLER or (head is None and config.add_pooling_layer)
    model = Encoder(
        config,
        embeddings,
        build_layers(config, config.num_hidden_layers),
        pooler=Pooler(config.hidden_size) if pooled else None,
        head=build_head(head, config, embeddings.token),
        head_name=head,
    )
    initialise(model, config.initializer_range)
    return model


def fit_config(config: BertConfig, head: str | None, names: set[str]) -> BertConfig:
    """A bare model has a pooler if its file has one."""
    has_pooler = any(name.endswith("pooler.dense.weight") for name in names)
    return config if head else replace(config, add_pooling_layer=has_pooler)


EMBEDDING_WEIGHTS = (
    ("embeddings.word_embeddings", "embeddings.token"),
    ("embeddings.position_embeddings", "embeddings.position"),
    ("embeddings.token_type_embeddings", "embeddings.segment"),
    ("embeddings.LayerNorm", "embeddings.norm"),
    ("embeddings.position_ids", None),
    ("embeddings.token_type_ids", None),
)
ENCODER_WEIGHTS = (
    *EMBEDDING_WEIGHTS,
    ("encoder.layer.*.attention.self.query", "layers.*.attention.query"),
    ("encoder.layer.*.attention.self.key", "layers.*.attention.key"),
    ("encoder.layer.*.attention.self.value", "layers.*.attention.value"),
    ("encoder.layer.*.attention.output.dense", "layers.*.attention.output"),
    ("encoder.layer.*.attention.output.LayerNorm", "layers.*.attention_norm"),
    ("encoder.layer.*.intermediate.dense", "layers.*.feed_forward.up"),
    ("encoder.layer.*.output.dense", "layers.*.feed_forward.down"),
    ("encoder.layer.*.output.LayerNorm", "layers.*.feed_forward_norm"),
    ("pooler.dense", "pooler.dense"),
)


def word_head_weights(ours: str) -> tuple[tuple[str, str], ...]:
    return (
        ("cls.predictions.transform.dense", f"{ours}.dense"),
        ("cls.predictions.transform.LayerNorm", f"{ours}.norm"),
        ("cls.predictions.bias", f"{ours}.bias"),
        ("cls.predictions.decoder", f"{ours}.decoder"),
    )


ARCHITECTURE = Architecture(
    model_type="bert",
    config=BertConfig,
    build=build,
    small=SMALL_ENCODER | {"max_position_embeddings": 512},
    prefix="bert",
    weights=ENCODER_WEIGHTS,
    may_be_idle=("pooler.dense",),
    fit_config=fit_config,
    heads={
        None: Head("BertModel"),
        "fill-mask": Head("BertForMaskedLM", word_head_weights("head")),
        "next-sentence-prediction": Head("BertForNextSentencePrediction", [("cls.seq_relationship", "head.output")]),
        "pretraining": Head(
            "BertForPreTraining",
            [*word_head_weights("head.words"), ("cls.seq_relationship", "head.sentences.output")],
        ),
        "text-classification": Head("BertForSequenceClassification", [("classifier", "head.output")]),
        "token-classification": Head("BertForTokenClassification", [("classifier", "head.output")]),
        "question-answering": Head("BertForQuestionAnswering", [("qa_outputs", "head.output")]),
    },
)
