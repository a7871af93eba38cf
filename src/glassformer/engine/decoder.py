"""A Transformer decoder over prepared weights, step by step.

B batch, T new tokens, D model width, V vocabulary.
"""

import weakref
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from glassformer.blocks.cache import DecoderState, TokenCache
from glassformer.blocks.decoder import DecoderParts
from glassformer.models.contract import AttentionDecoder

from . import native
from .cache import PreparedCache
from .layers import PreparedLayer, prepared_head, prepared_layers, prepared_norm
from .linear import Fuse
from .search_step import SearchStep, step_eager
from .stack import StackKernel

# Not cuDNN's attention: it plans anew for every length, which takes longer than to attend.
ATTENTION = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


class PreparedDecoder:
    """Decodes as its model does, over weights that were fused once; it does not keep the model alive."""

    def __init__(self, model: AttentionDecoder, fuse: Fuse, *, vocab_multiple: int = 1) -> None:
        """`vocab_multiple`: the output layer is padded to a multiple of it."""
        self._model = weakref.ref(model)
        parts = model.decoder_parts
        norm = prepared_norm(parts.final_norm) if isinstance(parts.final_norm, nn.Module) else parts.final_norm
        self.parts = DecoderParts(parts.embeddings, prepared_layers(parts.layers, fuse), norm)
        self.stack = StackKernel.of(self.parts.layers, norm)
        self.head, self.vocab_size = prepared_head(model.head, fuse, multiple=vocab_multiple)

    @property
    def can_be_captured(self) -> bool:
        """Whether every attention is prepared: one of its own kind may not read a cache of fixed size as it must."""
        return all(isinstance(one, PreparedLayer) and one.can_be_captured for one in self.parts.layers)

    @property
    def model(self) -> AttentionDecoder:
        model = self._model()
        assert model is not None, "whoever decodes holds the model"
        return model

    def start(self, input_ids: Tensor, attention_mask: Tensor | None = None, *, length: int) -> DecoderState:
        state = self.model.start(input_ids, attention_mask, length=length)
        return replace(state, cache=PreparedCache(**vars(state.cache)))

    def state_bytes(self, rows: int, length: int, source: tuple[int, int]) -> int:
        return self.model.state_bytes(rows, length, source)

    def step(self, ids: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        hidden, state = self.hidden_step(ids, state)
        return self.logits(hidden), state

    def hidden_step(self, ids: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        hidden = self.hidden(ids, state, state.cache)
        return hidden, replace(state, cache=state.cache.advance(ids.shape[1]))

    def hidden(self, ids: Tensor, state: DecoderState, cache: TokenCache) -> Tensor:
        """As `DecoderParts.hidden`."""
        if self.stack is not None and isinstance(cache, PreparedCache) and self.stack.takes(ids, cache):
            positions = cache.positions(1)
            x = self.parts.embeddings(ids, positions)
            if native.ordinary(x):
                return self.stack(x, cache, cache.mask(1, positions))
        with sdpa_kernel(ATTENTION) if ids.is_cuda else nullcontext():
            return self.parts.hidden(ids, state, cache)

    def logits(self, hidden: Tensor) -> Tensor:
        return self.head(hidden)[..., : self.vocab_size]

    def step_search(self, ids: Tensor, state: DecoderState, search: SearchStep) -> tuple[Any, DecoderState]:
        return step_eager(self, ids, state, search)
