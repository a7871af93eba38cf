"""The encoder that BERT, RoBERTa and DistilBERT share: embeddings, layers, a pooler and a head, all built outside.

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
from .outputs import Hidden, PooledHidden


class Encoder(nn.Module):
    """Bidirectional Transformer encoder; without a head it returns its hidden states."""

    def __init__(
        self,
        config: Any,
        embeddings: Embeddings,
        layers: Stack,
        *,
        pooler: nn.Module | None = None,
        head: nn.Module | None = None,
        head_name: str | None = None,
        padding_idx: int | None = None,
    ) -> None:
        """`padding_idx`: positions are counted over ids that differ from it, and start after it (RoBERTa)."""
        super().__init__()
        self.config = config
        self.head_name = head_name
        self.padding_idx = padding_idx
        self.embeddings = embeddings
        self.layers = layers
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
        hidden, summary = self.encode(input_ids, attention_mask, token_type_ids, position_ids)
        if self.head is not None:
            return self.head(hidden, summary)
        return Hidden(hidden) if self.pooler is None else PooledHidden(hidden, summary)

    def encode(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The hidden states (B, S, D), zero at padding, and the summary (B, D) of each text."""
        keep = as_keep(attention_mask, input_ids, stay=True)
        if position_ids is None:
            position_ids = self.default_positions(input_ids, keep)
        hidden = embed_and_run(self.embeddings, self.layers, keep, input_ids, position_ids, token_type_ids)
        return hidden, self.summary(hidden, keep)

    def summary(self, hidden: Tensor, keep: Tensor | None) -> Tensor:
        """The first token's vector (B, D), through the pooler where there is one."""
        if keep is None:
            first = hidden[:, 0]
        else:  # with left padding the first token is not at 0
            first = hidden.take_along_dim(send(first_kept(keep), hidden.device)[:, None, None], dim=1)[:, 0]
        return first if self.pooler is None else self.pooler(first)

    def default_positions(self, input_ids: Tensor, keep: Tensor | None) -> Tensor:
        limit = self.config.max_position_embeddings
        if self.padding_idx is None:
            check_length(input_ids.shape[1], limit)
            return positions(keep, input_ids.shape[1], input_ids.device)
        check_length(input_ids.shape[1], limit - self.padding_idx - 1)
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
