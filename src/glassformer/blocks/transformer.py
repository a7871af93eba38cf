"""Transformer layers, and the stacks that run them with or without padding.

B batch, T target length, S source length, N real tokens, D model width.
"""

from collections.abc import Callable

from torch import Tensor, nn

from .activations import Activation
from .attention import Cache, MultiHeadAttention, Scope
from .masks import send
from .packing import Causal, Dense, Packed
from .point import Point, anyone_listens


class FeedForward(nn.Module):
    """down(activation(up(x)))"""

    def __init__(self, width: int, inner: int, activation: Activation, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.up = nn.Linear(width, inner)
        self.neurons = Point()  # (…, inner), after the activation
        self.down = nn.Linear(inner, width)
        self.activation = activation
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.dropout(self.neurons(self.activation(self.up(x)))))  # type: ignore[no-any-return]


class Layer(nn.Module):
    """Attention, cross-attention in a decoder, and a feed-forward, each with its residual and norm."""

    def __init__(
        self,
        attention: MultiHeadAttention,
        feed_forward: FeedForward,
        norm: Callable[[], nn.Module],
        *,
        cross_attention: MultiHeadAttention | None = None,
        pre_norm: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.attention, self.attention_norm = attention, norm()
        if cross_attention is not None:
            self.cross_attention, self.cross_attention_norm = cross_attention, norm()
        self.feed_forward, self.feed_forward_norm = feed_forward, norm()
        self.dropout = nn.Dropout(dropout)
        self.pre_norm = pre_norm

    def forward(
        self,
        x: Tensor,
        scope: Scope,
        *,
        cache: Cache | None = None,
        source: tuple[Tensor, Tensor] | None = None,
        source_scope: Scope | None = None,
    ) -> Tensor:
        """`source` and `source_scope`, for a decoder: the encoder's keys and values, and its padding."""
        x = self.around(self.attention_norm, lambda y: self.attention(y, scope, cache=cache), x)
        if source is not None:
            x = self.around(
                self.cross_attention_norm, lambda y: self.cross_attention(y, source_scope, source=source), x
            )
        return self.around(self.feed_forward_norm, self.feed_forward, x)

    def around(self, norm: nn.Module, block: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """The residual: before the norm as in 2017, or after it as in GPT-2."""
        if self.pre_norm:
            return x + self.dropout(block(norm(x)))  # type: ignore[no-any-return]
        return norm(x + self.dropout(block(x)))  # type: ignore[no-any-return]


class Stack(nn.ModuleList):
    """Layers one after another; what they give at padding, where there still is any, is set to zero."""

    def forward(self, x: Tensor, scope: Scope, keep: Tensor | None = None) -> Tensor:
        for layer in self:
            x = layer(x, scope)
        return x if keep is None else x.masked_fill(~keep[..., None], 0.0)


def embed_and_run(
    embeddings: nn.Module,
    layers: Stack,
    keep: Tensor | None,
    *indices: Tensor | None,
    norm: nn.Module | None = None,
    causal: bool = False,
) -> Tensor:
    """norm(layers(embeddings(*indices))), (B, S) -> (B, S, D), zero at padding.

    Padding costs nothing: it is dropped before the first look-up and restored after the last layer. Only while
    someone listens does it stay, so that they see (B, S, …) everywhere.
    """
    norm = nn.Identity() if norm is None else norm
    device = next(index.device for index in indices if index is not None)
    if keep is not None and not (anyone_listens(layers) or anyone_listens(embeddings) or anyone_listens(norm)):
        packed = Packed.over(keep, causal=causal, device=device)
        real = (None if index is None else packed.pack(index.expand_as(keep)) for index in indices)
        return packed.unpack(norm(layers(embeddings(*real), packed)))
    x, order = embeddings(*indices), Causal(indices[0].shape[1], device)  # type: ignore[union-attr]
    if keep is None:
        return norm(layers(x, order if causal else Dense()))  # type: ignore[no-any-return]
    keep = send(keep, device)
    x = norm(layers(x, Dense.over(keep, order.mask if causal else None), keep))
    return x.masked_fill(~keep[..., None], 0.0)  # type: ignore[no-any-return]
