"""What every encoder-decoder does with a source and a target, whatever its two sides are.

B batch, T target length, S source length, D model width, E memory width, V target vocabulary.
"""

from abc import ABC, abstractmethod

from torch import Tensor, nn

from .contract import by_parts
from .outputs import Seq2SeqHidden, Seq2SeqLogits


class EncoderDecoder(nn.Module, ABC):
    """Reads a source, writes a target; without a head it returns the hidden states of both."""

    is_causal = True
    head: nn.Module | None

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
    ) -> Seq2SeqLogits | Seq2SeqHidden:
        """The scores (B, T, V) of each next target token, given the source and the target so far. Masks: 1 = keep."""
        target = _target(decoder_input_ids)
        hidden, memory = self.read_both(input_ids, attention_mask, target, decoder_attention_mask)
        return Seq2SeqHidden(hidden, memory) if self.head is None else Seq2SeqLogits(self.logits(hidden), memory)

    def hidden(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
    ) -> Tensor:
        """The decoder's last hidden states (B, T, D) that the head reads."""
        return self.read_both(input_ids, attention_mask, _target(decoder_input_ids), decoder_attention_mask)[0]

    @by_parts
    def logits(self, hidden: Tensor) -> Tensor:
        assert self.head is not None, "logits need the text2text-generation head"
        return self.head(hidden)  # type: ignore[no-any-return]

    @abstractmethod
    def read_both(
        self, input_ids: Tensor, attention_mask: Tensor | None, target: Tensor, target_mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The decoder's (B, T, D) and the encoder's (B, S, E) last hidden states."""


def _target(decoder_input_ids: Tensor | None) -> Tensor:
    if decoder_input_ids is None:
        raise ValueError(
            "decoder_input_ids is missing: give the target shifted right, beginning with "
            "decoder_start_token_id; to write without a target, use start and step, or generate"
        )
    return decoder_input_ids
