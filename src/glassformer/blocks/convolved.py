"""A Transformer layer with a convolution beside it (DeBERTa v2): what stands next to a token counts once more.

B batch, T length, D model width.
"""

from collections.abc import Callable

from torch import Tensor, nn

from .activations import Activation
from .attention import AttentionMask, LayerKV, MultiHeadAttention
from .batch_masks import DenseMask
from .packing import PackedBatch
from .transformer import Layer


class TextConvolution(nn.Module):
    """activation(W [x_{t-r}; …; x_{t+r}] + b) over each text alone: beyond its ends, and at padding, stand zeros."""

    def __init__(
        self, width: int, kernel_size: int, activation: Activation, *, groups: int = 1, dropout: float = 0.0
    ) -> None:
        super().__init__()
        if kernel_size % 2 == 0:
            raise ValueError(f"a convolution over {kernel_size} tokens has none in its middle; give an odd number")
        if width % groups:
            raise ValueError(f"a width of {width} cannot be shared by {groups} groups; choose a divisor of {width}")
        self.reach = kernel_size // 2
        self.conv = nn.Conv1d(width, width, kernel_size, padding=self.reach, groups=groups)
        self.activation = activation
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: DenseMask | PackedBatch) -> Tensor:
        """(…, T, D) -> (…, T, D)"""
        found = mask.convolved(x, lambda whole: self.conv(whole.mT).mT, self.reach)
        return self.activation(self.dropout(found))


class ConvolvedLayer(Layer):
    """norm(layer(x) + convolution(x)), of a post-norm layer"""

    def __init__(
        self,
        attention: MultiHeadAttention,
        feed_forward: nn.Module,
        norm: Callable[[], nn.Module],
        convolution: TextConvolution,
        *,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(attention, feed_forward, norm, dropout=dropout)
        self.convolution, self.convolution_norm = convolution, norm()

    @property
    def uses_relative_positions(self) -> bool:
        return True

    def forward(
        self,
        x: Tensor,
        mask: AttentionMask,
        *,
        cache: LayerKV | None = None,
        source: Tensor | tuple[Tensor, Tensor] | None = None,
        source_mask: AttentionMask | None = None,
    ) -> Tensor:
        """As a layer's; it looks ahead, and so only an encoder has it."""
        assert isinstance(mask, DenseMask | PackedBatch), "a convolution is over whole texts"
        y = super().forward(x, mask, cache=cache, source=source, source_mask=source_mask)
        return self.convolution_norm(y + self.convolution(x, mask))
