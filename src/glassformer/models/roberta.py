"""RoBERTa and XLM-R (Liu et al. 2019): BERT's encoder, positions counted after the padding id, its own heads."""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import nn

from glassformer.files.schema import Size, TokenId

from . import bert
from .architecture import Architecture, Head, Row
from .bert import ENCODER_WEIGHTS, SMALL_ENCODER, BertConfig, fit_config, head_dropout
from .encoder import Encoder, build_layers, encoder_embeddings
from .heads import ClassifierHead, MaskedLMHead, Pooler
from .init import initialise


@dataclass(frozen=True, kw_only=True)
class RobertaConfig(BertConfig):
    """BERT's settings, with the defaults of `transformers`."""

    model_type: str = "roberta"  # or "xlm-roberta"
    vocab_size: Size = 50265
    pad_token_id: TokenId | None = 1
    bos_token_id: TokenId | None = 0
    eos_token_id: TokenId | list[TokenId] | None = 2

    has_segments = False

    @property
    def max_positions(self) -> int:
        return self.max_position_embeddings - (self.pad_token_id or 0) - 1  # they are counted from there


def build_head(name: str | None, config: RobertaConfig, token: nn.Embedding) -> nn.Module | None:
    match name:
        case "fill-mask":
            return MaskedLMHead(token, F.gelu, config.layer_norm_eps, tied=config.tie_word_embeddings)
        case "text-classification":
            classes = len(config.id2label)
            return ClassifierHead(config.hidden_size, classes, head_dropout(config), dense=torch.tanh)
        case _:
            return bert.build_head(name, config, token)


def build(config: RobertaConfig, head: str | None = None) -> Encoder:
    """A RoBERTa with random weights."""
    if config.pad_token_id is None:
        raise ValueError("RoBERTa counts its positions from pad_token_id; set it in config.json (1 in roberta-base)")
    embeddings = encoder_embeddings(config, config.hidden_size)
    model = Encoder(
        config,
        embeddings,
        build_layers(config, config.num_hidden_layers),
        pooler=Pooler(config.hidden_size) if head is None and config.add_pooling_layer else None,
        head=build_head(head, config, embeddings.token),
        head_name=head,
        padding_idx=config.pad_token_id,
    )
    initialise(model, config.initializer_range)
    return model


HEADS: dict[str | None, tuple[str, tuple[Row, ...]]] = {
    None: ("Model", ()),
    "fill-mask": (
        "ForMaskedLM",
        (
            ("lm_head.dense", "head.dense"),
            ("lm_head.layer_norm", "head.norm"),
            ("lm_head.bias", "head.bias"),
            ("lm_head.decoder", "head.decoder"),
        ),
    ),
    "text-classification": (
        "ForSequenceClassification",
        (("classifier.dense", "head.dense"), ("classifier.out_proj", "head.output")),
    ),
    "token-classification": ("ForTokenClassification", (("classifier", "head.output"),)),
    "question-answering": ("ForQuestionAnswering", (("qa_outputs", "head.output"),)),
}


ARCHITECTURE = Architecture(
    model_type="roberta",
    config=RobertaConfig,
    build=build,
    small=SMALL_ENCODER | {"max_position_embeddings": 514},
    prefix="roberta",
    weights=ENCODER_WEIGHTS,
    may_be_idle=("pooler.dense",),
    fit_config=fit_config,
    heads={head: Head("Roberta" + name, rows) for head, (name, rows) in HEADS.items()},
)
XLM_ROBERTA = replace(
    ARCHITECTURE,
    model_type="xlm-roberta",
    small={},
    heads={head: Head("XLMRoberta" + name, rows) for head, (name, rows) in HEADS.items()},
)
