"""Prepared forms of blocks: the same function over fused weights, for a model at rest without hooks.

A block is prepared only if it is exactly what its prepared form was written for: of that very class, with no attribute
beyond those named here. Whatever else stands in a model runs by its own forward, at its own place.
B batch, T new tokens, D model width, H heads, K head width.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from glassformer.blocks.attention import AttentionMask, LayerKV, MultiHeadAttention
from glassformer.blocks.batch_masks import AttentionOptions
from glassformer.blocks.decoder import DecodesLayer, Norms
from glassformer.blocks.output import LMHead
from glassformer.blocks.point import Point
from glassformer.blocks.relative import RelativeBias
from glassformer.blocks.rotary import Rotary
from glassformer.blocks.transformer import FeedForward, GatedFeedForward, Layer

from .cache import AttendingKV, HeadTransform
from .linear import Fuse, FusedLinear, PreparedNorm, Projection, is_linear, is_plain, pad_vocab, with_bias
from .sequences import attend

LINEAR, ANY = nn.Module, object  # a linear layer of any kind is fused, or called; numbers and functions are read
KNOWN: dict[type[nn.Module], dict[str, type[Any]]] = {
    MultiHeadAttention: {"heads": int, "key_heads": int, "head_width": int, "scale": float, "dropout": float}
    | dict.fromkeys(("query_norm", "key_norm", "rotary", "position_scores", "window"), ANY)
    | {"query": LINEAR, "key": LINEAR, "value": LINEAR, "output": LINEAR}
    | {"scores": Point, "pattern": Point, "context": Point},
    FeedForward: {"up": LINEAR, "neurons": Point, "down": LINEAR, "activation": ANY, "dropout": nn.Dropout},
    GatedFeedForward: {"gate": LINEAR, "up": LINEAR, "neurons": Point, "down": LINEAR}
    | {"activation": ANY, "dropout": nn.Dropout},
    Layer: {"attention": ANY, "attention_norm": ANY, "feed_forward": ANY, "feed_forward_norm": ANY}
    | {"cross_attention": ANY, "cross_attention_norm": ANY, "dropout": nn.Dropout, "pre_norm": bool},
    LMHead: {"output": LINEAR, "bias": Tensor},
    nn.LayerNorm: {"normalized_shape": tuple, "eps": float, "elementwise_affine": bool, "weight": nn.Parameter}
    | {"bias": nn.Parameter},
    nn.RMSNorm: {"normalized_shape": tuple, "eps": float, "elementwise_affine": bool, "weight": nn.Parameter},
}
EXACT: tuple[type[nn.Module], ...] = (Point, nn.Dropout)  # a subclass in their place may do anything
MODULE_ATTRIBUTES = frozenset(vars(nn.Module()))  # what every module has
FORWARDS: dict[type[nn.Module], object] = {kind: kind.forward for kind in (*KNOWN, *EXACT)}  # as they were written


def is_known(module: nn.Module) -> bool:
    """Whether a module is of a class in KNOWN, its forward as written and no other attribute."""
    known = KNOWN.get(type(module))
    return (
        known is not None
        and type(module).forward is FORWARDS[type(module)]
        and all(name in known and _fits(value, known[name]) for name, value in attributes(module).items())
    )


def _fits(value: object, kind: type[Any]) -> bool:
    if kind in EXACT:
        return isinstance(value, nn.Module) and is_plain(value, kind) and kind.forward is FORWARDS[kind]
    return isinstance(value, kind)


def attributes(module: nn.Module) -> Mapping[str, Any]:
    """All that was set on a module: a forward of its own too, and hooks aside."""
    own = {name: value for name, value in vars(module).items() if name not in MODULE_ATTRIBUTES}
    return {**own, **module._modules, **module._parameters, **module._buffers}


def prepared_layers(layers: Sequence[DecodesLayer], fuse: Fuse) -> list[DecodesLayer]:
    """The prepared forms of layers that follow on one another, or the layers themselves."""
    found: list[DecodesLayer] = []
    for layer in layers:
        made = PreparedLayer(layer, fuse) if isinstance(layer, Layer) and is_known(layer) else layer
        if isinstance(made, PreparedLayer):
            made.owns_input = bool(found) and isinstance(found[-1], PreparedLayer)
        found.append(made)
    return found


class PreparedLayer:
    """A Layer, for new tokens. On a GPU its sums may be written over its input, unless that is somebody else's."""

    owns_input = False

    def __init__(self, layer: Layer, fuse: Fuse) -> None:
        self.pre_norm = layer.pre_norm
        self.attention = prepared_attention(layer.attention, fuse)
        self.can_be_captured = isinstance(self.attention, PreparedSelfAttention) and self.attention.can_be_captured
        self.attention_norm = prepared_norm(layer.attention_norm)
        self.feed_forward = prepared_feed_forward(layer.feed_forward, fuse)
        self.feed_forward_norm = prepared_norm(layer.feed_forward_norm)
        if layer.cross_attention is not None and layer.cross_attention_norm is not None:
            self.cross_attention = prepared_attention(layer.cross_attention, fuse, cross=True)
            self.cross_attention_norm = prepared_norm(layer.cross_attention_norm)
        self.reads_source = layer.cross_attention is not None

    def __call__(
        self,
        x: Tensor,
        mask: AttentionMask,
        /,
        *,
        cache: LayerKV | None,
        source: tuple[Tensor, Tensor] | None,
        source_mask: AttentionMask | None,
    ) -> Tensor:
        x = x if self.owns_input or not x.is_cuda else x.clone()
        x = self.residual(self.attention_norm, self.attention, x, mask, cache=cache)
        if source is not None:
            x = self.residual(self.cross_attention_norm, self.cross_attention, x, source_mask, source=source)
        return self.residual(self.feed_forward_norm, self.feed_forward, x)

    def residual(self, norm: Norms, block: Callable[..., Tensor], x: Tensor, *mask: object, **seen: object) -> Tensor:
        """As `Layer.residual`, with the norm before and the sum after left to the products beside them."""
        if self.pre_norm:
            return block(x, *mask, **seen, norm=norm, added=x)
        return norm(block(x, *mask, **seen, added=x))


def prepared_norm(norm: nn.Module) -> Norms:
    """The parameters of a LayerNorm or an RMSNorm, or the module itself."""
    if not is_known(norm):
        return norm
    if isinstance(norm, nn.RMSNorm) and norm.eps is not None:
        return PreparedNorm(norm.weight.detach().contiguous(), None, norm.eps, centred=False)
    assert isinstance(norm, nn.LayerNorm)
    return PreparedNorm(norm.weight.detach().contiguous(), norm.bias.detach().contiguous(), norm.eps)


def prepared_attention(attention: nn.Module, fuse: Fuse, *, cross: bool = False) -> Callable[..., Tensor]:
    """added + attention(norm(x)), over the layer's cache or a source."""
    if not isinstance(attention, MultiHeadAttention) or not is_known(attention):
        return unprepared(attention)
    if cross and any((attention.rotary, attention.window, attention.position_scores)):  # which look at one sequence
        return unprepared(attention)
    return PreparedCrossAttention(attention, fuse) if cross else PreparedSelfAttention(attention, fuse)


class PreparedSelfAttention:
    """Query, key and value in one product."""

    def __init__(self, attention: MultiHeadAttention, fuse: Fuse) -> None:
        self.project = FusedLinear(fuse([attention.query, attention.key, attention.value]))
        self.output = FusedLinear(fuse([attention.output]))
        self.sizes, self.head_width = (attention.heads, attention.key_heads, attention.key_heads), attention.head_width
        self.options = AttentionOptions(attention.scale, window=attention.window, bias=attention.position_scores)
        norms = [None if one is None else prepared_norm(one) for one in (attention.query_norm, attention.key_norm)]
        self.transform = HeadTransform(norms[0], norms[1], attention.rotary)

    @property
    def can_be_captured(self) -> bool:
        """Whether its positions are of kinds that ask for no number of a GPU; those of other kinds may."""
        rotary, bias = self.transform.rotary, self.options.bias
        return (rotary is None or is_plain(rotary, Rotary)) and (bias is None or type(bias) is RelativeBias)

    def __call__(
        self, x: Tensor, mask: AttentionMask, *, cache: AttendingKV | None, added: Tensor, norm: Norms | None = None
    ) -> Tensor:
        """Of new tokens over a cache, or of a whole batch over itself."""
        projected = self.project(x, norm=norm).unflatten(-1, (-1, self.head_width))  # (B, T, H + 2 G, K)
        query, key, value = projected.split(self.sizes, -2)
        if cache is None:
            context = attend(*self.transform(query, key, mask), value, mask, self.options)
        else:
            context = cache.attend(query, key, value, mask, self.options, self.transform)
        return self.output(context.flatten(-2), added=added)


class PreparedCrossAttention:
    """The keys and values of the source are there already."""

    def __init__(self, attention: MultiHeadAttention, fuse: Fuse) -> None:
        self.project, self.output = FusedLinear(fuse([attention.query])), FusedLinear(fuse([attention.output]))
        self.shape, self.options = (attention.heads, -1), AttentionOptions(attention.scale)
        self.norm = None if attention.query_norm is None else prepared_norm(attention.query_norm)

    def __call__(
        self,
        x: Tensor,
        mask: AttentionMask,
        *,
        source: tuple[Tensor, Tensor],
        added: Tensor,
        norm: Norms | None = None,
    ) -> Tensor:
        query = self.project(x, norm=norm).unflatten(-1, self.shape)
        query = query if self.norm is None else self.norm(query)
        return self.output(mask.attend(query, *source, self.options).flatten(-2), added=added)


def prepared_feed_forward(block: nn.Module, fuse: Fuse) -> Callable[..., Tensor]:
    """added + feed_forward(norm(x))"""
    if not is_known(block):
        return unprepared(block)
    if not isinstance(block, (FeedForward, GatedFeedForward)):
        return unprepared(block)
    gated = isinstance(block, GatedFeedForward)
    first = [block.gate, block.up] if isinstance(block, GatedFeedForward) else [block.up]
    return PreparedFeedForward(FusedLinear(fuse(first), block.activation, gated=gated), FusedLinear(fuse([block.down])))


@dataclass(frozen=True)
class PreparedFeedForward:
    """`up` activates, and gates where the block does."""

    up: FusedLinear
    down: FusedLinear

    def __call__(self, x: Tensor, *, added: Tensor, norm: Norms | None = None) -> Tensor:
        return self.down(self.up(x, norm=norm), added=added)


def unprepared(block: nn.Module) -> Callable[..., Tensor]:
    """added + block(norm(x)), by the block's own forward."""

    def run(x: Tensor, *mask: object, added: Tensor, norm: Norms | None = None, **seen: object) -> Tensor:
        return added + block(x if norm is None else norm(x), *mask, **seen)  # type: ignore[no-any-return]

    return run


def prepared_head(head: nn.Module, fuse: Fuse, *, multiple: int) -> tuple[Projection, int | None]:
    """What gives the logits, padded to a multiple of some number, and how many of them are real (None: all)."""
    linear = head
    if isinstance(head, LMHead) and is_known(head) and is_linear(head.output) and head.output.bias is None:
        linear = with_bias(head.output, head.bias[0])  # both in one product
    size = linear.out_features if is_linear(linear) else None
    return FusedLinear(fuse([pad_vocab(linear, multiple)])), size
