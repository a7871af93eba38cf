"""Decoding fast: a decoder's layers as plain lines of tensor operations, over weights made ready once.

The modules stay what is read, trained and looked into; these are the same sums for a model at rest to which nobody
listens, and a law holds them to it. B batch, T new tokens, D model width, H heads, K head width.
"""

import weakref
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from . import kernels, native
from .activations import tanh_gelu
from .attention import MultiHeadAttention, Scope
from .linear import Eight, Packed, Plain, Project, rounded_up
from .state import S
from .transformer import FeedForward, Layer

NAMED = {tanh_gelu: "tanh_gelu", F.relu: "relu"}  # activations that a GPU's matrix product takes along
# Not cuDNN's attention: it plans anew for every length, which takes longer than to attend.
ATTENTION = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
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
        self.attention_norm = Norm.of(layer.attention_norm)
        self.feed = feed_forward(layer.feed_forward, prepare)
        self.feed_forward_norm = Norm.of(layer.feed_forward_norm)
        if hasattr(layer, "cross_attention"):
            self.look = cross_attention(layer.cross_attention, prepare)
            self.cross_attention_norm = Norm.of(layer.cross_attention_norm)

    def __call__(
        self,
        x: Tensor,
        scope: Scope,
        *,
        cache: Any,
        source: tuple[Tensor, Tensor] | None = None,
        source_scope: Scope | None = None,
    ) -> Tensor:
        x = self.around(self.attention_norm, self.attend, x, scope, cache)
        if source is not None:
            x = self.around(self.cross_attention_norm, self.look, x, source_scope, source)
        return self.around(self.feed_forward_norm, self.feed, x)

    def around(self, norm: Project, block: Callable[..., Tensor], x: Tensor, *seen: Any) -> Tensor:
        """As a Layer does it; what lies next to a product is left to it."""
        return block(x, *seen, norm=norm, added=x) if self.pre_norm else norm(block(x, *seen, added=x))


@dataclass(frozen=True)
class Norm:
    """A LayerNorm without its module."""

    weight: Tensor
    bias: Tensor
    eps: float

    @staticmethod
    def of(module: nn.Module) -> Project:
        """Or the module itself, if it is of another kind."""
        if type(module) is not nn.LayerNorm or module.bias is None:
            return module
        return Norm(module.weight.detach().contiguous(), module.bias.detach().contiguous(), module.eps)

    def __call__(self, x: Tensor) -> Tensor:
        return torch.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)

    @cached_property
    def struct(self) -> native.Norm | None:
        """For the kernels on a CPU, which read ordinary numbers."""
        if not native.ordinary(self.weight, self.bias):
            return None
        return native.Norm(self.weight.data_ptr(), self.bias.data_ptr(), self.eps)


class Line:
    """added + activation(linear(norm(x))), the norm before and what is added after where they are given."""

    def __init__(self, project: Project, activation: Callable[[Tensor], Tensor] | None = None) -> None:
        self.project, self.activation = project, activation
        self.name = None if activation is None else NAMED.get(activation)
        named = activation is None or self.name is not None
        self.plain = project if isinstance(project, Plain) and project.weight.is_cuda and named else None
        self.few = few_of(project)

    def __call__(self, x: Tensor, *, norm: Project | None = None, added: Tensor | None = None) -> Tensor:
        if self.plain is not None and kernels.takes(x, self.plain.weight):
            return self.in_one(x, self.plain, norm, added)
        if self.few is not None and x.numel() <= native.FEW * x.shape[-1] and native.takes(x, added):
            return self.in_few(x, self.few, norm, added)
        x = x if norm is None else norm(x)
        if isinstance(self.project, Packed) and (self.activation is None or (self.name and added is None)):
            return self.project(x, self.name, added)
        y = self.activated(x)
        return y if added is None else added + y

    def in_few(self, x: Tensor, few: native.Few, norm: Project | None, added: Tensor | None) -> Tensor:
        around = norm.struct if isinstance(norm, Norm) else None
        x = x if norm is None or around else norm(x)
        if self.activation is None:
            return few(x, norm=around, added=added)
        y = self.activation(few(x, norm=around, added=None))
        return y if added is None else added + y

    def in_one(self, x: Tensor, plain: Plain, norm: Project | None, added: Tensor | None) -> Tensor:
        parts = (norm.weight, norm.bias, norm.eps) if isinstance(norm, Norm) else None
        x = x if norm is None or parts else norm(x)
        return kernels.linear(x, plain.weight, plain.bias, norm=parts, activation=self.name, added=added)

    def activated(self, x: Tensor) -> Tensor:
        if self.activation is None:
            return self.project(x)
        if self.plain is None or self.plain.bias is None:
            return self.activation(self.project(x))
        weight, bias = self.plain.weight, self.plain.bias
        y: Tensor = torch._addmm_activation(bias, x.flatten(0, -2), weight.t(), use_gelu=self.name == "tanh_gelu")
        return y.unflatten(0, x.shape[:-1])  # type: ignore[no-any-return]


def few_of(project: Project) -> native.Few | None:
    """The same for few rows on a CPU, where there is a kernel for it."""
    project = project.plain if isinstance(project, Packed) else project
    if native.kernels() is None:
        return None
    if isinstance(project, Eight) and native.ordinary(project.linear.scale, project.linear.bias):
        return native.Few(project.linear.weight, project.linear.bias, project.linear.scale)
    if isinstance(project, Plain) and native.ordinary(project.weight, project.bias):
        return native.Few(project.weight, project.bias)
    return None


def self_attention(attention: MultiHeadAttention, prepare: Prepare) -> Callable[..., Tensor]:
    project, output = (
        Line(prepare(part)) for part in ([attention.query, attention.key, attention.value], [attention.output])
    )
    shape, scale = (3, attention.heads, -1), attention.scale

    def attend(x: Tensor, scope: Scope, cache: Any, *, added: Tensor, norm: Project | None = None) -> Tensor:
        query, key, value = project(x, norm=norm).unflatten(-1, shape).unbind(-3)  # (B, T, H, K)
        return output(cache.attend(query, key, value, scope, scale=scale).flatten(-2), added=added)

    return attend


def cross_attention(attention: MultiHeadAttention, prepare: Prepare) -> Callable[..., Tensor]:
    project, output = Line(prepare([attention.query])), Line(prepare([attention.output]))

    def look(
        x: Tensor, scope: Scope, source: tuple[Tensor, Tensor], *, added: Tensor, norm: Project | None = None
    ) -> Tensor:
        query = attention.split(project(x, norm=norm))
        return output(scope.attend(query, *source, scale=attention.scale, dropout=0.0).flatten(-2), added=added)

    return look


def feed_forward(block: FeedForward, prepare: Prepare) -> Callable[..., Tensor]:
    up, down = Line(prepare([block.up]), block.activation), Line(prepare([block.down]))
    return lambda x, *, added, norm=None: down(up(x, norm=norm), added=added)


class Decoder(Generic[S]):
    """A model that steps, with its decoder's layers and its output layer made ready.

    It does not keep its model alive, so that it can be kept beside it.
    """

    multiple = 1  # of which the size of the vocabulary is made one
    fresh = True  # what `logits` gives is nobody else's

    def __init__(self, model: Any, prepare: Prepare) -> None:
        self._model = weakref.ref(model)
        self.layers = [LayerStep(layer, prepare) for layer in model.decoder_layers]
        output = model.output_layer
        self.output = Line(prepare([rounded_up(output, self.multiple)]))
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
        with sdpa_kernel(ATTENTION) if ids.is_cuda else nullcontext():
            return self.model.hidden_step(ids, state, layers=self.layers)  # type: ignore[no-any-return]

    def logits(self, hidden: Tensor) -> Tensor:
        return self.output(hidden)[..., : self.words]
