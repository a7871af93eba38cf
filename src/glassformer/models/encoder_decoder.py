"""What every encoder-decoder does with a source and a target, whatever its two sides are.

B batch, T target length, S source length, D model width, E memory width, V target vocabulary.
"""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from glassformer.blocks.cache import DecoderState, KVCache
from glassformer.blocks.decoder import DecoderParts
from glassformer.blocks.embeddings import Embeddings, check_length
from glassformer.blocks.masks import as_keep, first_kept, last_token, positions, send
from glassformer.blocks.transformer import Source, Stack, embed_and_run

from .contract import ModelConfig, by_parts
from .outputs import Hidden, Seq2SeqHidden, Seq2SeqLogits
from .pretrained import PreTrainedModel
from .stepping import StepsByParts


class EncoderDecoder(PreTrainedModel, ABC):
    """Reads a source, writes a target; without a head it returns the hidden states of both."""

    is_causal = True
    config: ModelConfig
    head: nn.Module | None
    head_name: str | None

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
    ) -> Seq2SeqLogits | Seq2SeqHidden:
        """The scores (B, T, V) of each next target token, given the source and the target so far. Masks: 1 = keep."""
        target = self.target(input_ids, attention_mask, decoder_input_ids, decoder_attention_mask)
        hidden, memory = self.read_both(input_ids, attention_mask, *target)
        if self.head is None:
            return Seq2SeqHidden(hidden, memory)
        if self.head_name == "text-classification":
            return Seq2SeqLogits(self.head(hidden, self.summary(hidden, target[1])).logits, memory)
        return Seq2SeqLogits(self.logits(hidden), memory)

    def hidden(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
    ) -> Tensor:
        """The decoder's last hidden states (B, T, D) that the head reads."""
        target = self.target(input_ids, attention_mask, decoder_input_ids, decoder_attention_mask)
        return self.read_both(input_ids, attention_mask, *target)[0]

    def target(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None,
        decoder_input_ids: Tensor | None,
        decoder_attention_mask: Tensor | None,
    ) -> tuple[Tensor, Tensor | None]:
        """What the decoder reads, (B, T), and its mask. A classifier's reads the source once more, shifted right."""
        if decoder_input_ids is not None:
            return decoder_input_ids, decoder_attention_mask
        if self.head_name != "text-classification":
            raise ValueError(
                "decoder_input_ids is missing: give the target shifted right, beginning with "
                "decoder_start_token_id; to write without a target, use start and step, or generate"
            )
        start = input_ids.new_full((input_ids.shape[0], 1), self.config.to_hf()["decoder_start_token_id"])
        keep = None if attention_mask is None else send(attention_mask.bool(), input_ids.device)
        if keep is None:
            return torch.cat([start, input_ids[:, :-1]], 1), None
        before = first_kept(keep)[:, None] == torch.arange(input_ids.shape[1], device=input_ids.device)
        return torch.where(before, start, input_ids.roll(1, 1)), attention_mask

    def summary(self, hidden: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """The decoder's state (B, D) at the last token that it reads, which has seen all others."""
        return last_token(hidden, attention_mask)

    @by_parts
    def logits(self, hidden: Tensor) -> Tensor:
        assert self.head is not None, "logits need the text2text-generation head"
        return self.head(hidden)

    @abstractmethod
    def read_both(
        self, input_ids: Tensor, attention_mask: Tensor | None, target: Tensor, target_mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The decoder's (B, T, D) and the encoder's (B, S, E) last hidden states."""


class EncoderSide(nn.Module):
    """Embeddings and self-attention layers."""

    def __init__(
        self, embeddings: Embeddings, layers: Stack, final_norm: nn.Module | None, dropout: float = 0.0
    ) -> None:
        """`dropout`: of what leaves the side, after its norm."""
        super().__init__()
        self.embeddings, self.layers, self.final_norm = embeddings, layers, final_norm
        self.dropout = nn.Dropout(dropout)

    def forward(self, input_ids: Tensor, keep: Tensor | None) -> Tensor:
        """Source ids (B, S), and which of them are real -> (B, S, D), zero at padding."""
        places = positions(keep, input_ids.shape[1], input_ids.device)
        hidden = embed_and_run(self.embeddings, self.layers, keep, input_ids, places, norm=self.final_norm)
        return self.dropout(hidden)


class EncoderAlone(PreTrainedModel, EncoderSide):
    """The encoder of an encoder-decoder as a model of its own, which reads and does not write."""

    is_causal = False

    def __init__(
        self, config: ModelConfig, embeddings: Embeddings, layers: Stack, *, final_norm: nn.Module, dropout: float
    ) -> None:
        super().__init__(embeddings, layers, final_norm, dropout)
        self.config, self.head_name = config, "feature-extraction"

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Hidden:  # type: ignore[override]
        """Ids (B, S) and a mask with 1 = keep -> the last hidden states (B, S, D), zero at padding."""
        return Hidden(self.hidden(input_ids, attention_mask))

    def hidden(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        check_length(input_ids.shape[1], self.config.max_positions)
        return super().forward(input_ids, as_keep(attention_mask, input_ids, stay=True))


class DecoderSide(EncoderSide):
    """Embeddings, and layers that look back at themselves and across at the source."""

    def forward(self, input_ids: Tensor, keep: Tensor | None, source: Source | None = None) -> Tensor:
        """Target ids (B, T), which of them are real, and the source -> (B, T, D), zero at padding."""
        places, norm = positions(keep, input_ids.shape[1], input_ids.device), self.final_norm
        indices = (input_ids, places)
        hidden = embed_and_run(self.embeddings, self.layers, keep, *indices, norm=norm, causal=True, source=source)
        return self.dropout(hidden)


class Transformer(EncoderDecoder, StepsByParts):
    """Both sides of attention layers, built outside."""

    def __init__(
        self,
        config: ModelConfig,
        encoder: EncoderSide,
        decoder: DecoderSide,
        *,
        cache: tuple[int, int],
        head: nn.Module | None,
        head_name: str | None,
        shared: nn.Embedding | None = None,
    ) -> None:
        """`cache`: how many heads of which width each decoder layer keeps keys and values of.

        `shared`: one table in two modules, the embeddings of both sides, so that what passes each has its own name.
        """
        super().__init__()
        self.config, self.cache, self.head_name = config, cache, head_name
        if shared is not None:
            self.shared = shared
        self.encoder, self.decoder, self.head = encoder, decoder, head

    def read_both(
        self, input_ids: Tensor, attention_mask: Tensor | None, target: Tensor, target_mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The decoder's (B, T, D) and the encoder's (B, S, D) last hidden states, zero at padding."""
        keep = as_keep(attention_mask, input_ids, stay=True)
        memory = self.read(input_ids, keep)
        check_length(target.shape[1], self.config.max_positions)
        target_keep = as_keep(target_mask, target, stay=True)
        return self.decoder(target, target_keep, Source(memory, keep)), memory

    def read(self, input_ids: Tensor, keep: Tensor | None) -> Tensor:
        """The source as the encoder sees it, (B, S, D)."""
        check_length(input_ids.shape[1], self.config.max_positions)
        return self.encoder(input_ids, keep)

    def start(self, input_ids: Tensor, attention_mask: Tensor | None = None, *, length: int) -> DecoderState:
        """Encode the source; capacity for `length` target tokens."""
        keep = as_keep(attention_mask, input_ids)
        check_length(length, self.config.max_positions)
        memory = self.read(input_ids, keep)
        cache = KVCache.empty(*self._cache_shape(len(input_ids), length), keep=None, like=memory)
        return DecoderState(cache, self.decoder.layers.keys_and_values(memory), keep)

    @property
    def decoder_parts(self) -> DecoderParts:
        return DecoderParts(self.decoder.embeddings, list(self.decoder.layers), self.decoder.final_norm)

    def state_bytes(self, rows: int, length: int, source: tuple[int, int]) -> int:
        like = self.encoder.embeddings.token.weight
        own = KVCache.bytes(*self._cache_shape(rows, length), like=like)
        return own + KVCache.bytes(*self._cache_shape(*source), like=like)

    def _cache_shape(self, rows: int, length: int) -> tuple[int, int, int, int, int]:
        heads, width = self.cache
        return len(self.decoder.layers), rows, heads, length, width
