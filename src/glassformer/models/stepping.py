"""Decoding through the parts of a Transformer decoder: what every model with attention layers does at a step.

B batch, T new tokens, D model width, V vocabulary.
"""

from abc import ABC, abstractmethod

from torch import Tensor

from glassformer.blocks.cache import DecoderState
from glassformer.blocks.decoder import DecoderParts

from .contract import by_parts


class StepsByParts(ABC):
    """`step` and `hidden_step` of a model that has `decoder_parts` and `logits`."""

    @property
    @abstractmethod
    def decoder_parts(self) -> DecoderParts:
        """The modules that a step runs through."""

    @abstractmethod
    def logits(self, hidden: Tensor) -> Tensor:
        """(…, D) -> (…, V)"""

    @by_parts
    def step(self, ids: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Logits (B, T, V) after each of T new tokens."""
        hidden, state = self.hidden_step(ids, state)
        return self.logits(hidden), state

    @by_parts
    def hidden_step(self, ids: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """As `step`, before the head: (B, T, D)."""
        return self.decoder_parts.step(ids, state)
