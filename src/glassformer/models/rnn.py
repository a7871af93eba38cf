"""RNN, GRU and LSTM models: a language model, a classifier or a tagger over one recurrent network.

B batch, T length, P prompt tokens to come, D embedding width, W width, N directions, V vocabulary, C classes.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self, get_args

import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.blocks.dropout import LockedDropout
from glassformer.blocks.embeddings import TokenEmbeddings
from glassformer.blocks.masks import as_keep
from glassformer.blocks.recurrent import Kind, Nonlinearity, Pooling, Recurrent, RecurrentPooling, RecurrentState
from glassformer.files.schema import Depth, NotNegative, Probability, Size, TokenId

from . import config as hf
from .architecture import Architecture, Head
from .outputs import Hidden, Logits
from .pretrained import PreTrainedModel

HEADS = (None, "text-generation", "text-classification", "token-classification")


@dataclass(frozen=True, kw_only=True)
class RnnConfig(hf.BaseConfig):
    """What an Rnn is built from."""

    model_type: str = "glassformer-rnn"
    vocab_size: Size
    kind: Kind = "lstm"
    nonlinearity: Nonlinearity = "tanh"
    embedding_size: Size = 128
    hidden_size: Size = 256
    num_layers: Depth = 1
    bidirectional: bool = False
    dropout: Probability = 0.0  # of embeddings, between layers and before the head
    layer_dropout: Probability | None = None  # between layers; None: `dropout`
    locked_dropout: bool = False  # whether all tokens of a text share their mask (variational dropout)
    weight_dropout: Probability = 0.0  # of weights from hidden state to hidden state (weight drop)
    pooling: Pooling = "last"  # what a classifier reads: the last states, or mean, maximum or weighted mean of all
    forget_bias: float | None = 1.0  # of a new LSTM's forget gates; None: torch's random biases
    initializer_range: NotNegative = 0.1
    tie_word_embeddings: bool = False
    pad_token_id: TokenId | None = 0
    bos_token_id: TokenId | None = None
    eos_token_id: TokenId | list[TokenId] | None = None
    problem_type: hf.ProblemType | None = None
    id2label: dict[int, str] = field(default_factory=lambda: {0: "LABEL_0", 1: "LABEL_1"})

    max_positions = None

    @classmethod
    def from_hf(cls, raw: dict[str, Any]) -> Self:
        kinds = ("lstm", *get_args(Kind))
        only = {"kind": kinds, "nonlinearity": get_args(Nonlinearity), "pooling": get_args(Pooling)}
        return hf.read(cls, raw, only=only)


class RnnState(NamedTuple):
    """What the language model remembers, and which of the prompt's tokens still to come are real."""

    recurrent: RecurrentState
    prompt: Tensor | None  # (B, P) bool; None: all are real

    def select(self, rows: Tensor, *, group_size: int | None = None) -> "RnnState":
        prompt = None if self.prompt is None else self.prompt[rows]
        return RnnState(self.recurrent.select(rows, group_size=group_size), prompt)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return tuple(part.transpose(0, 1) for part in self.recurrent.parts)

    def filled(self, tensors: tuple[Tensor, ...]) -> "RnnState":
        return RnnState(RecurrentState(*(part.transpose(0, 1).contiguous() for part in tensors)), None)

    def rewind(self, tokens: int) -> "RnnState | None":
        return None if tokens else self


class Rnn(PreTrainedModel):
    """Embeddings, a recurrent network and a head (None for the hidden states themselves)."""

    def __init__(self, config: RnnConfig, head: str | None = "text-generation") -> None:
        super().__init__()
        _check(config, head)
        self.config = config
        self.head_name = head
        dropout = LockedDropout if config.locked_dropout else nn.Dropout
        self.embeddings = TokenEmbeddings(
            config.vocab_size,
            config.embedding_size,
            dropout=dropout(config.dropout),
            std=config.initializer_range,
        )
        self.recurrent = Recurrent(
            config.kind,
            config.embedding_size,
            config.hidden_size,
            layers=config.num_layers,
            bidirectional=config.bidirectional,
            dropout=config.dropout if config.layer_dropout is None else config.layer_dropout,
            locked_dropout=config.locked_dropout,
            weight_dropout=config.weight_dropout,
            nonlinearity=config.nonlinearity,
            forget_bias=config.forget_bias,
        )
        whole = head == "text-classification"
        self.pooling = RecurrentPooling(config.pooling, self.recurrent) if whole else None
        self.dropout = dropout(config.dropout)
        outputs = config.vocab_size if head == "text-generation" else len(config.id2label)
        self.head = nn.Linear(self.recurrent.output_width, outputs) if head else None
        if self.head is not None and head == "text-generation" and config.tie_word_embeddings:
            self.head.weight = self.embeddings.token.weight

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Logits | Hidden:
        """attention_mask (B, T): 1 = keep; padding may stand left, right or in between."""
        keep = as_keep(attention_mask, input_ids)
        outputs, state = self._read(input_ids, keep)
        if self.head is None:
            return Hidden(outputs)
        if self.pooling is not None:
            outputs = self.pooling(outputs, state, keep)  # (B, W·N)
        return Logits(self.logits(self.dropout(outputs)))

    def hidden(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """The last hidden states (B, T, W·N), zero at padding, after the dropout before the head."""
        return self.dropout(self._read(input_ids, as_keep(attention_mask, input_ids))[0])

    @property
    def is_causal(self) -> bool:
        return not self.config.bidirectional

    def start(self, input_ids: Tensor, attention_mask: Tensor | None = None, *, length: int) -> RnnState:
        """The state before the prompt, whose padding the first steps will skip."""
        del length  # a recurrent state does not grow
        if self.head_name != "text-generation":
            raise ValueError(f"a model with head {self.head_name!r} cannot generate; build it with 'text-generation'")
        return RnnState(self.recurrent.start(len(input_ids)), as_keep(attention_mask, input_ids))

    def step(self, ids: Tensor, state: RnnState) -> tuple[Tensor, RnnState]:
        """Feed (B, T) tokens, of the prompt first; the logits (B, T, V) after each, and the state."""
        hidden, state = self.hidden_step(ids, state)
        return self.logits(hidden), state

    def logits(self, hidden: Tensor) -> Tensor:
        assert self.head is not None, "logits need a head"
        return self.head(hidden)

    def hidden_step(self, ids: Tensor, state: RnnState) -> tuple[Tensor, RnnState]:
        keep = prompt = None
        if state.prompt is not None:
            coming = ids.shape[1] - state.prompt.shape[1]
            keep = F.pad(state.prompt, (0, coming), value=True)  # (B, T): cut, or all new tokens are real
            prompt = state.prompt[:, ids.shape[1] :] if coming < 0 else None
        outputs, recurrent = self._read(ids, keep, state.recurrent)
        return self.dropout(outputs), RnnState(recurrent, prompt)

    def state_bytes(self, rows: int, _length: int, _source: tuple[int, int]) -> int:
        return self.recurrent.state_bytes(rows)

    def _read(
        self, ids: Tensor, keep: Tensor | None, state: RecurrentState | None = None
    ) -> tuple[Tensor, RecurrentState]:
        return self.recurrent(self.embeddings(ids), keep, state)


def check_tied(embedding_size: int, hidden_size: int) -> None:
    """Refuse to tie an output layer to embeddings of another width."""
    if embedding_size != hidden_size:
        raise ValueError(
            f"tie_word_embeddings needs equal sizes, not embedding_size={embedding_size} and "
            f"hidden_size={hidden_size}; make them equal or set tie_word_embeddings=False"
        )


def _check(config: RnnConfig, head: str | None) -> None:
    if head not in HEADS:
        raise ValueError(f"an Rnn has no head {head!r}; choose one of {', '.join(map(repr, HEADS))}")
    if head != "text-generation":
        return
    if config.bidirectional:
        raise ValueError(
            "bidirectional=True cannot generate, because it reads the future: set bidirectional=False, "
            "or choose head 'text-classification' or 'token-classification'"
        )
    if config.tie_word_embeddings:
        check_tied(config.embedding_size, config.hidden_size)


ARCHITECTURE = Architecture(
    model_type="glassformer-rnn",
    config=RnnConfig,
    build=Rnn,
    small={"embedding_size": 256, "hidden_size": 256, "num_layers": 1, "dropout": 0.3},
    heads={
        None: Head("RnnModel"),
        "text-generation": Head("RnnForCausalLM"),
        "text-classification": Head("RnnForSequenceClassification"),
        "token-classification": Head("RnnForTokenClassification"),
    },
)
