"""ALBERT (Lan et al. 2019): BERT with narrow embeddings, and layers that share their parameters.

Each layer is a module of its own, so that recording tells layer 0 from layer 11; the tensors are those of its group.
"""

from dataclasses import dataclass, replace

from torch import nn

from glassformer.blocks.activations import activation
from glassformer.blocks.tied import tied_copy
from glassformer.blocks.transformer import Stack
from glassformer.files.schema import Depth, Probability, Size, TokenId

from .architecture import Architecture, Head
from .bert import EMBEDDING_WEIGHTS, SMALL_ENCODER
from .encoder import Encoder, EncoderConfig, build_layers, encoder_embeddings
from .heads import ClassifierHead, MaskedLMHead, Pooler, PretrainingHead, SpanHead, TokenClassifierHead
from .init import initialise
from .outputs import SentenceOrderLogits

MOST_LAYERS = 1000  # each is built as modules


@dataclass(frozen=True, kw_only=True)
class AlbertConfig(EncoderConfig):
    """Hugging Face's names; the defaults are albert-xxlarge-v2, as in `transformers`."""

    model_type: str = "albert"
    vocab_size: Size = 30000
    embedding_size: Size = 128
    hidden_size: Size = 4096
    num_hidden_groups: Depth = 1
    inner_group_num: Depth = 1
    num_attention_heads: Size = 64
    intermediate_size: Size = 16384
    hidden_act: str = "gelu_new"
    hidden_dropout_prob: Probability = 0.0
    attention_probs_dropout_prob: Probability = 0.0
    classifier_dropout_prob: Probability = 0.1
    add_pooling_layer: bool = True
    bos_token_id: TokenId | None = 2
    eos_token_id: TokenId | list[TokenId] | None = 3

    def __post_init__(self) -> None:
        layers, groups, inner = self.num_hidden_layers, self.num_hidden_groups, self.inner_group_num
        if groups > layers:
            raise ValueError(f"num_hidden_groups is {groups}, more than the {layers} num_hidden_layers that share them")
        if layers * inner > MOST_LAYERS:
            raise ValueError(
                f"num_hidden_layers x inner_group_num is {layers * inner}; at most {MOST_LAYERS} are built"
            )

    @property
    def places(self) -> list[tuple[int, int]]:
        """For each layer its group, and its place within the group."""
        share = self.num_hidden_layers / self.num_hidden_groups
        groups = [int(number / share) for number in range(self.num_hidden_layers)]  # as `transformers` rounds
        return [(group, inner) for group in groups for inner in range(self.inner_group_num)]


def shared_layers(config: AlbertConfig) -> Stack:
    """A module for each layer, parameters for each place of a group."""
    inner = config.inner_group_num
    unlike = build_layers(config, config.num_hidden_groups * inner)
    return Stack(tied_copy(unlike[group * inner + place]) for group, place in config.places)


def build_head(name: str | None, config: AlbertConfig, token: nn.Embedding) -> nn.Module | None:
    width, dropout, classes = config.hidden_size, config.classifier_dropout_prob, len(config.id2label)

    def words() -> MaskedLMHead:
        act, tied = activation(config.hidden_act), config.tie_word_embeddings
        return MaskedLMHead(token, act, config.layer_norm_eps, tied=tied, hidden_width=width)

    match name:
        case "fill-mask":
            return words()
        case "pretraining":
            return PretrainingHead(words(), ClassifierHead(width, 2, dropout), SentenceOrderLogits)
        case "text-classification":
            return ClassifierHead(width, classes, dropout)
        case "token-classification":
            return TokenClassifierHead(width, classes, dropout)
        case "question-answering":
            return SpanHead(width)
        case _:
            return None


def build(config: AlbertConfig, head: str | None = None) -> Encoder:
    """An ALBERT with random weights."""
    width = config.embedding_size
    embeddings = encoder_embeddings(config, width, nn.Linear(width, config.hidden_size))
    pooled = head in ("pretraining", "text-classification") or (head is None and config.add_pooling_layer)
    model = Encoder(
        config,
        embeddings,
        shared_layers(config),
        pooler=Pooler(config.hidden_size) if pooled else None,
        head=build_head(head, config, embeddings.token),
        head_name=head,
    )
    initialise(model, config.initializer_range)
    return model


def fit_config(config: AlbertConfig, head: str | None, names: set[str]) -> AlbertConfig:
    """A bare model has a pooler if its file has one."""
    has_pooler = any(name.endswith("pooler.weight") for name in names)
    return config if head else replace(config, add_pooling_layer=has_pooler)


LAYER_WEIGHTS = (
    ("full_layer_layer_norm", "feed_forward_norm"),
    ("attention.query", "attention.query"),
    ("attention.key", "attention.key"),
    ("attention.value", "attention.value"),
    ("attention.dense", "attention.output"),
    ("attention.LayerNorm", "attention_norm"),
    ("ffn", "feed_forward.up"),
    ("ffn_output", "feed_forward.down"),
)


def weights(config: AlbertConfig) -> list[tuple[str, str | None]]:
    """A group's tensors are those of each of its layers."""
    rows: list[tuple[str, str | None]] = [
        *EMBEDDING_WEIGHTS,
        ("encoder.embedding_hidden_mapping_in", "embeddings.projection"),
        ("pooler", "pooler.dense"),
    ]
    for number, (group, place) in enumerate(config.places):
        theirs = f"encoder.albert_layer_groups.{group}.albert_layers.{place}"
        rows += [(f"{theirs}.{one}", f"layers.{number}.{ours}") for one, ours in LAYER_WEIGHTS]
    return rows


def word_head_weights(ours: str) -> tuple[tuple[str, str], ...]:
    return (
        ("predictions.dense", f"{ours}.dense"),
        ("predictions.LayerNorm", f"{ours}.norm"),
        ("predictions.bias", f"{ours}.bias"),
        ("predictions.decoder", f"{ours}.decoder"),
    )


ARCHITECTURE = Architecture(
    model_type="albert",
    config=AlbertConfig,
    build=build,
    small=SMALL_ENCODER | {"embedding_size": 128, "max_position_embeddings": 512},
    prefix="albert",
    weights=weights,
    may_be_idle=("pooler",),
    fit_config=fit_config,
    heads={
        None: Head("AlbertModel"),
        "fill-mask": Head("AlbertForMaskedLM", word_head_weights("head")),
        "pretraining": Head(
            "AlbertForPreTraining",
            [*word_head_weights("head.words"), ("sop_classifier.classifier", "head.sentences.output")],
        ),
        "text-classification": Head("AlbertForSequenceClassification", [("classifier", "head.output")]),
        "token-classification": Head("AlbertForTokenClassification", [("classifier", "head.output")]),
        "question-answering": Head("AlbertForQuestionAnswering", [("qa_outputs", "head.output")]),
    },
)
