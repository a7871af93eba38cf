"""The RNN encoder-decoder, alone or with one of the attentions of its time.

B batch, T target length, S source length, D embedding width, W width, L layers, N encoder directions,
E = W·N memory width, V target vocabulary.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, Self, get_args

import torch
from torch import Tensor, nn

from glassformer.blocks.alignment import AlignmentName, alignment
from glassformer.blocks.embeddings import TokenEmbeddings
from glassformer.blocks.masks import as_keep
from glassformer.blocks.recurrent import Kind, Recurrent, RecurrentState
from glassformer.files.schema import Depth, NotNegative, Probability, Size, TokenId

from . import config as hf
from .architecture import Architecture, Head
from .encoder_decoder import EncoderDecoder
from .rnn import check_tied

HEAD = "text2text-generation"


@dataclass(frozen=True, kw_only=True)
class Seq2SeqConfig(hf.BaseConfig):
    """What a Seq2Seq is built from; `vocab_size` is the source's, and the target's unless that is said."""

    model_type: str = "glassformer-seq2seq"
    vocab_size: Size
    decoder_vocab_size: Size | None = None
    kind: Kind = "gru"
    attention: AlignmentName | None = "additive"
    embedding_size: Size = 128
    hidden_size: Size = 256
    num_layers: Depth = 1
    bidirectional: bool = False
    dropout: Probability = 0.0
    initializer_range: NotNegative = 0.1
    share_embeddings: bool = False
    tie_word_embeddings: bool = False
    pad_token_id: TokenId | None = 0
    bos_token_id: TokenId | None = None
    eos_token_id: TokenId | list[TokenId] | None = None
    decoder_start_token_id: TokenId | None = None
    task_specific_params: hf.TaskParams | None = None

    is_encoder_decoder = True
    max_positions = None

    @classmethod
    def from_hf(cls, raw: dict[str, Any]) -> Self:
        attentions = (*get_args(AlignmentName), None)
        return hf.read(cls, raw, only={"kind": ("gru", *get_args(Kind)), "attention": attentions})

    @property
    def target_vocab_size(self) -> int:
        return self.vocab_size if self.decoder_vocab_size is None else self.decoder_vocab_size


class Seq2SeqState(NamedTuple):
    """The encoded source and what the decoder remembers; one row a sequence."""

    recurrent: RecurrentState
    memory: Tensor  # (B, S, E)
    keys: Tensor | None  # (B, S, ·): what the attention compares with; None without attention
    keep: Tensor | None  # (B, S): which source tokens are real; None: all
    owners: Tensor  # (B,): which of the sources each row has

    def select(self, rows: Tensor, *, group_size: int | None = None) -> "Seq2SeqState":
        recurrent, owners = self.recurrent.select(rows, group_size=group_size), self.owners[rows]
        if group_size is not None or torch.equal(owners, self.owners):  # each row has the source it had
            return self._replace(recurrent=recurrent)
        keys, keep = (None if part is None else part[rows] for part in (self.keys, self.keep))
        return Seq2SeqState(recurrent, self.memory[rows], keys, keep, owners)

    def rewind(self, tokens: int) -> "Seq2SeqState | None":
        return None if tokens else self


class RecurrentEncoder(nn.Module):
    """Source ids -> memory (B, S, E) and the final state."""

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.embeddings = _embeddings(config, config.vocab_size)
        self.recurrent = Recurrent(
            config.kind,
            config.embedding_size,
            config.hidden_size,
            layers=config.num_layers,
            bidirectional=config.bidirectional,
            dropout=config.dropout,
        )

    def forward(self, ids: Tensor, keep: Tensor | None) -> tuple[Tensor, RecurrentState]:
        return self.recurrent(self.embeddings(ids), keep)


class Bridge(nn.Module):
    """Encoder state -> decoder state: passed on as it is, or both directions joined by a layer each."""

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        count = config.num_layers if config.bidirectional else 0
        width = config.hidden_size
        self.hidden = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(count))
        self.cell = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(count if config.kind == "lstm" else 0))

    def forward(self, state: RecurrentState) -> RecurrentState:
        if not self.hidden:
            return state
        cell = None if state.cell is None else _join(self.cell, state.cell)
        return RecurrentState(_join(self.hidden, state.hidden).tanh(), cell)  # a cell is not bounded by 1


class RecurrentDecoder(nn.Module):
    """Target ids and the state -> what the output layer reads (B, T, W), and the state after them.

    Bahdanau's ("additive") attends with the previous state and feeds [embedding; context] to the cell, in a
    loop over time. Luong's (all others) runs the whole target through the cell, then attends with every state
    at once; there is no input feeding, which is what makes training parallel over time.
    """

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        width, memory = config.hidden_size, config.hidden_size * (2 if config.bidirectional else 1)
        self.attends_first = config.attention == "additive"
        self.embeddings = _embeddings(config, config.target_vocab_size)
        self.recurrent = Recurrent(
            config.kind,
            config.embedding_size + (memory if self.attends_first else 0),
            width,
            layers=config.num_layers,
            dropout=config.dropout,
        )
        self.attention = (
            alignment(config.attention, width, memory, stepwise=self.attends_first) if config.attention else None
        )
        self.combine = nn.Linear(memory + width, width) if config.attention else None

    def forward(self, ids: Tensor, state: Seq2SeqState, keep: Tensor | None) -> tuple[Tensor, Seq2SeqState]:
        embedded = self.embeddings(ids)  # (B, T, D)
        if self.attends_first:
            return self._attend_first(embedded, state, keep)
        hidden, recurrent = self.recurrent(embedded, keep, state.recurrent)
        if self.attention is not None and self.combine is not None:
            context = self.attention(hidden, state.memory, state.keep, state.keys)  # (B, T, E)
            hidden = self.combine(torch.cat([context, hidden], dim=-1)).tanh()
        return hidden, state._replace(recurrent=recurrent)

    def _attend_first(self, embedded: Tensor, state: Seq2SeqState, keep: Tensor | None) -> tuple[Tensor, Seq2SeqState]:
        assert self.attention is not None
        assert self.combine is not None
        recurrent, steps = state.recurrent, []
        for time in range(embedded.shape[1]):
            query = recurrent.hidden[-1][:, None]  # (B, 1, W): the top layer before this token
            context = self.attention(query, state.memory, state.keep, state.keys)  # (B, 1, E)
            given = torch.cat([embedded[:, time, None], context], dim=-1)
            hidden, new = self.recurrent(given, None, recurrent)
            recurrent = new if keep is None else new.unless(keep[:, time], recurrent)
            steps.append(torch.cat([context, hidden], dim=-1))
        return self.combine(torch.cat(steps, dim=1)).tanh(), state._replace(recurrent=recurrent)


class Seq2Seq(EncoderDecoder):
    """Encoder, bridge, decoder and output layer."""

    config: Seq2SeqConfig
    head: nn.Linear

    def __init__(self, config: Seq2SeqConfig, head: str | None = HEAD) -> None:
        super().__init__()
        if head != HEAD:
            raise ValueError(f"a Seq2Seq has no head {head!r}; its one head is {HEAD!r}")
        self.config = config
        self.head_name = head
        self.encoder = RecurrentEncoder(config)
        self.bridge = Bridge(config)
        self.decoder = RecurrentDecoder(config)
        self.dropout = nn.Dropout(config.dropout)
        self.head = nn.Linear(config.hidden_size, config.target_vocab_size)
        self._share()

    def read_both(
        self, input_ids: Tensor, attention_mask: Tensor | None, target: Tensor, target_mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The decoder's last hidden states (B, T, W), after the dropout, and the encoder's (B, S, E)."""
        state = self.start(input_ids, attention_mask, length=target.shape[1])
        keep = as_keep(target_mask, target)
        hidden, _ = self.decoder(target, state, keep)
        hidden = hidden if keep is None else hidden.masked_fill(~keep[..., None], 0.0)
        return self.dropout(hidden), state.memory

    def start(self, input_ids: Tensor, attention_mask: Tensor | None = None, *, length: int) -> Seq2SeqState:
        """Encode the source; the decoder has read nothing yet."""
        del length  # a recurrent state does not grow
        keep = as_keep(attention_mask, input_ids)
        memory, final = self.encoder(input_ids, keep)
        keys = None if self.decoder.attention is None else self.decoder.attention.keys(memory)
        owners = torch.arange(len(input_ids), device=input_ids.device)
        return Seq2SeqState(self.bridge(final), memory, keys, keep, owners)

    def step(self, ids: Tensor, state: Seq2SeqState) -> tuple[Tensor, Seq2SeqState]:
        """Feed (B, T) target tokens; the logits (B, T, V) after each, and the state."""
        hidden, state = self.hidden_step(ids, state)
        return self.logits(hidden), state

    def hidden_step(self, ids: Tensor, state: Seq2SeqState) -> tuple[Tensor, Seq2SeqState]:
        hidden, state = self.decoder(ids, state, None)
        return self.dropout(hidden), state

    def state_bytes(self, rows: int, _length: int, source: tuple[int, int]) -> int:
        memory = self.encoder.recurrent.output_width + (
            0 if self.decoder.attention is None else self.config.hidden_size
        )
        return self.decoder.recurrent.state_bytes(rows) + rows * source[1] * memory * self.head.weight.element_size()

    def _share(self) -> None:
        """Let embeddings and output layer be one tensor where the config says so."""
        config, target = self.config, self.decoder.embeddings.token
        if config.share_embeddings:
            if config.vocab_size != config.target_vocab_size:
                raise ValueError(
                    f"share_embeddings needs one vocabulary, not {config.vocab_size} source and "
                    f"{config.target_vocab_size} target tokens; leave decoder_vocab_size out or do not share"
                )
            target.weight = self.encoder.embeddings.token.weight
        if config.tie_word_embeddings:
            check_tied(config.embedding_size, config.hidden_size)
            self.head.weight = target.weight


def _embeddings(config: Seq2SeqConfig, vocab_size: int) -> TokenEmbeddings:
    dropout = nn.Dropout(config.dropout)
    return TokenEmbeddings(vocab_size, config.embedding_size, dropout=dropout, std=config.initializer_range)


def _join(layers: nn.ModuleList, part: Tensor) -> Tensor:
    """Both directions (2·L, B, W) of every layer through a layer of their own: (L, B, W)."""
    pairs = torch.cat([part[0::2], part[1::2]], dim=-1)  # (L, B, 2·W)
    return torch.stack([join(pair) for join, pair in zip(layers, pairs, strict=True)])


ARCHITECTURE = Architecture(
    model_type="glassformer-seq2seq",
    config=Seq2SeqConfig,
    build=Seq2Seq,
    small={"embedding_size": 256, "hidden_size": 256, "dropout": 0.2, "bidirectional": True},
    heads={HEAD: Head("Seq2SeqForConditionalGeneration")},
)
