"""Decoding fast: a decoder's layers as plain lines of tensor operations, over weights made ready once.

The modules stay what is read, trained and looked into; these are the same sums for a model at rest to which nobody
listens, and a law holds them to it. B batch, T new tokens, D model width, H heads, K head width.
"""

import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .activations import tanh_gelu
from .attention import MultiHeadAttention, Scope
from .linear import Project, rounded_up
from .state import S
from .transformer import FeedForward, Layer

FUSED = {tanh_gelu: True, F.relu: False}  # activations that a GPU's matrix product takes along; whether it is GELU
Prepare = Callable[[Sequence[nn.Module]], Project]


def is_plain(layer: nn.Module) -> bool:
    """Whether a layer computes what `LayerStep` does, and nothing else."""
    kinds: dict[str, type] = {"attention": MultiHeadAttention, "feed_forward": FeedForward}
    if hasattr(layer, "cross_attention"):
        kinds["cross_attention"] = MultiHeadAttention
    parts = [(layer, Layer), *((getattr(layer, name, None), kind) for name, kind in kinds.items())]
    return all(type(part) is kind and "forward" not in vars(part) for part, kind in parts)


class LayerStep:
    """A Layer, for new tokens."""

    def __init__(self, layer: Layer, prepare: Prepare) -> None:
        self.pre_norm = layer.pre_norm
        self.attend = self_attention(layer.attention, prepare)
        self.attention_norm = norm(layer.attention_norm)
        self.feed = feed_forward(layer.feed_forward, prepare)
        self.feed_forward_norm = norm(layer.feed_forward_norm)
        if hasattr(layer, "cross_attention"):
            self.look = cross_attention(layer.cross_attention, prepare)
            self.cross_attention_norm = norm(layer.cross_attention_norm)

    def __call__(
        self,
        x: Tensor,
        scope: Scope,
        *,
        cache: Any,
        source: tuple[Tensor, Tensor] | None = None,
        source_scope: Scope | None = None,
    ) -> Tensor:
        if self.pre_norm:
            x = x + self.attend(self.attention_norm(x), scope, cache)
            if source is not None:
                x = x + self.look(self.cross_attention_norm(x), source_scope, source)
            return x + self.feed(self.feed_forward_norm(x))
        x = self.attention_norm(x + self.attend(x, scope, cache))
        if source is not None:
            x = self.cross_attention_norm(x + self.look(x, source_scope, source))
        return self.feed_forward_norm(x + self.feed(x))


def self_attention(attention: MultiHeadAttention, prepare: Prepare) -> Callable[[Tensor, Scope, Any], Tensor]:
    project, output = prepare([attention.query, attention.key, attention.value]), prepare([attention.output])
    shape, scale = (3, attention.heads, -1), attention.scale

    def attend(x: Tensor, scope: Scope, cache: Any) -> Tensor:
        query, key, value = project(x).unflatten(-1, shape).unbind(-3)  # (B, T, H, K)
        return output(cache.attend(query, key, value, scope, scale=scale).flatten(-2))

    return attend


def cross_attention(attention: MultiHeadAttention, prepare: Prepare) -> Callable[[Tensor, Any, Any], Tensor]:
    project, output = prepare([attention.query]), prepare([attention.output])

    def look(x: Tensor, scope: Scope, source: tuple[Tensor, Tensor]) -> Tensor:
        query = attention.split(project(x))
        return output(scope.attend(query, *source, scale=attention.scale, dropout=0.0).flatten(-2))

    return look


def feed_forward(block: FeedForward, prepare: Prepare) -> Project:
    down, activation = prepare([block.down]), block.activation
    if type(block.up) is nn.Linear and block.up.weight.is_cuda and activation in FUSED:
        weight, bias = block.up.weight.t(), block.up.bias
        fused = partial(torch._addmm_activation, bias, mat2=weight, use_gelu=FUSED[activation])
        return lambda x: down(fused(mat1=x.flatten(0, -2))).view_as(x)
    up = prepare([block.up])
    return lambda x: down(activation(up(x)))


def norm(module: nn.Module) -> Project:
    if type(module) is not nn.LayerNorm:
        return module
    shape, weight, bias, eps = module.normalized_shape, module.weight, module.bias, module.eps
    return partial(torch.layer_norm, normalized_shape=shape, weight=weight, bias=bias, eps=eps)


class Decoder(Generic[S]):
    """A model that steps, with its decoder's layers and its output layer made ready.

    It does not keep its model alive, so that it can be kept beside it.
    """

    multiple = 1  # of which the size of the vocabulary is made one

    def __init__(self, model: Any, prepare: Prepare) -> None:
        self._model = weakref.ref(model)
        self.layers = [LayerStep(layer, prepare) for layer in model.decoder_layers]
        output = model.output_layer
        self.output = prepare([rounded_up(output, self.multiple)])
        self.words: int | None = getattr(output, "out_features", None)

    @property
    def model(self) -> Any:
        model = self._model()
        assert model is not None, "whoever decodes holds the model"
        return model

    def start(self, input_ids: Tensor, attention_mask: Tensor | None = None, *, length: int) -> Any:
        return self.model.start(input_ids, attention_mask, length=length)

    def state_bytes(self, rows: int, length: int, source: tuple[int, int]) -> int:
        return self.model.state_bytes(rows, length, source)  # type: ignore[no-any-return]

    def step(self, ids: Tensor, state: S) -> tuple[Tensor, S]:
        hidden, state = self.hidden_step(ids, state)
        return self.logits(hidden), state

    def hidden_step(self, ids: Tensor, state: S) -> tuple[Tensor, S]:
        return self.model.hidden_step(ids, state, layers=self.layers)  # type: ignore[no-any-return]

    def logits(self, hidden: Tensor) -> Tensor:
        return self.output(hidden)[..., : self.words]
