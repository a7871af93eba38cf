"""A Transformer decoder as one step of decoding runs through it.

B batch, T new tokens, D model width.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from torch import Tensor

from .attention import AttentionMask, LayerKV
from .cache import DecoderState, TokenCache


class EmbedsTokens(Protocol):
    """Token ids and position ids (B, T) -> (B, T, D)."""

    def __call__(self, input_ids: Tensor, position_ids: Tensor, /) -> Tensor: ...


class DecodesLayer(Protocol):
    """A decoder layer, or a faster form of one."""

    def __call__(
        self,
        x: Tensor,
        mask: AttentionMask,
        /,
        *,
        cache: LayerKV | None,
        source: tuple[Tensor, Tensor] | None,
        source_mask: AttentionMask | None,
    ) -> Tensor: ...


class Norms(Protocol):
    """(…, D) -> (…, D)"""

    def __call__(self, x: Tensor, /) -> Tensor: ...


class DecoderParts(NamedTuple):
    """Embeddings, layers and the norm after the last of them."""

    embeddings: EmbedsTokens
    layers: Sequence[DecodesLayer]
    final_norm: Norms | None = None

    def step(self, ids: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """The last hidden states (B, T, D) of new tokens (B, T), and the state after them."""
        hidden = self.hidden(ids, state, state.cache)
        return hidden, replace(state, cache=state.cache.advance(ids.shape[1]))

    def hidden(self, ids: Tensor, state: DecoderState, cache: TokenCache) -> Tensor:
        """The same with a cache in place of the state's own; the caller advances it."""
        tokens = ids.shape[1]
        positions = cache.positions(tokens)
        x, mask = self.embeddings(ids, positions), cache.mask(tokens, positions)
        for layer, inputs in zip(self.layers, state.layer_inputs(cache), strict=True):
            x = layer(x, mask, cache=inputs.cache, source=inputs.source, source_mask=inputs.source_mask)
        return x if self.final_norm is None else self.final_norm(x)
