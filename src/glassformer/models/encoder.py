"""The encoder that the BERT family shares: embeddings, layers, a pooler and a head, all built outside.

B batch, S length, D model width.
"""

from functools import partial
from typing import Any

from torch import Tensor, nn

from glassformer.blocks.activations import activation
from glassformer.blocks.attention import MultiHeadAttention
from glassformer.blocks.embeddings import Embeddings, check_length
from glassformer.blocks.masks import as_keep, first_kept, positions, send
from glassformer.blocks.transformer import FeedForward, Layer, Stack, embed_and_run

from .config import check_heads
from .contract import ModelConfig
from .outputs import Hidden, PooledHidden


class Encoder(nn.Module):
    """Bidirectional Transformer encoder; without a head it returns its hidden states."""

    is_causal = False

    def __init__(
        self,
        config: ModelConfig,
        embeddings: Embeddings,
        layers: Stack,
        *,
        final_norm: nn.Module | None = None,
        pooling: nn.Module | None = None,
        pooler: nn.Module | None = None,
        head: nn.Module | None = None,
        head_name: str | None = None,
        padding_idx: int | None = None,
    ) -> None:
        """`pooling` makes one vector a text of its tokens; without one, the first token's goes through `pooler`.

        `padding_idx`: positions are counted over ids that differ from it, and start after it (RoBERTa).
        """
        super().__init__()
        self.config = config
        self.head_name = head_name
        self.padding_idx = padding_idx
        self.embeddings = embeddings
        self.layers = layers
        self.final_norm = final_norm
        self.pooling = pooling
        self.pooler = pooler
        self.head = head

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> Any:
        """Ids (B, S), a mask with 1 = keep, segments and positions as in Hugging Face."""
        hidden = self.hidden(input_ids, attention_mask, token_type_ids, position_ids)
        summary = self.summary(hidden, attention_mask)
        if self.head is not None:
            return self.head(hidden, summary)
        return Hidden(hidden) if self.pooler is None else PooledHidden(hidden, summary)

    def hidden(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> Tensor:
        """The last hidden states (B, S, D), zero at padding."""
        keep = as_keep(attention_mask, input_ids, stay=True)
        if position_ids is None:
            position_ids = self.default_positions(input_ids, keep)
        indices = (input_ids, position_ids, token_type_ids)
        return embed_and_run(self.embeddings, self.layers, keep, *indices, norm=self.final_norm)

    def logits(self, hidden: Tensor) -> Tensor:
        """The scores of a head that looks at each token by itself, (…, D) -> (…, V or C)."""
        assert self.head is not None, "a bare encoder has hidden states alone"
        return self.head(hidden).logits  # type: ignore[no-any-return]

    def summary(self, hidden: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """One vector a text (B, D): its pooling, or the first token's vector, through the pooler where there is one."""
        if self.pooling is not None:
            keep = None if attention_mask is None else send(attention_mask.bool(), hidden.device)
            return self.pooling(hidden, keep)  # type: ignore[no-any-return]
        if attention_mask is None:
            first = hidden[:, 0]
        else:  # with left padding the first token is not at 0
            first = hidden.take_along_dim(send(first_kept(attention_mask.bool()), hidden.device)[:, None, None], dim=1)[
                :, 0
            ]
        return first if self.pooler is None else self.pooler(first)

    def default_positions(self, input_ids: Tensor, keep: Tensor | None) -> Tensor:
        check_length(input_ids.shape[1], self.config.max_positions)
        if self.padding_idx is None:
            return positions(keep, input_ids.shape[1], input_ids.device)
        real = input_ids.ne(self.padding_idx).long()
        return real.cumsum(1) * real + self.padding_idx


def encoder_layers(
    number: int, width: int, heads: int, inner: int, *, act: str, eps: float, dropout: float, attention_dropout: float
) -> Stack:
    """The post-norm layers of the BERT family."""
    check_heads(width, heads)
    return Stack(
        Layer(
            MultiHeadAttention(width, heads, dropout=attention_dropout),
            FeedForward(width, inner, activation(act)),
            partial(nn.LayerNorm, width, eps=eps),
            dropout=dropout,
        )
        for _ in range(number)
    )
