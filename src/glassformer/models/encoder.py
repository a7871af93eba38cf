"""The encoder that the BERT family shares: embeddings, layers, a pooler and a head, all built outside.

B batch, S length, D model width.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

from torch import Tensor, nn

from glassformer.blocks.activations import activation
from glassformer.blocks.attention import MultiHeadAttention
from glassformer.blocks.embeddings import Embeddings
from glassformer.blocks.masks import as_keep, first_kept, positions, send, token_at
from glassformer.blocks.transformer import FeedForward, Layer, Stack, embed_and_run
from glassformer.files.schema import Depth, NotNegative, Probability, Size, TokenId

from . import config as hf
from .config import check_heads
from .contract import ModelConfig
from .outputs import HeadOutput, Hidden, PooledHidden
from .pretrained import PreTrainedModel


@dataclass(frozen=True, kw_only=True)
class EncoderConfig(hf.BaseConfig):
    """What BERT, RoBERTa, ALBERT and ELECTRA are all told, under Hugging Face's names."""

    model_type: str = "bert"
    vocab_size: Size = 30522
    hidden_size: Size = 768
    num_hidden_layers: Depth = 12
    num_attention_heads: Size = 12
    intermediate_size: Size = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: Probability = 0.1
    attention_probs_dropout_prob: Probability = 0.1
    max_position_embeddings: Size = 512
    type_vocab_size: Size = 2
    initializer_range: NotNegative = 0.02
    layer_norm_eps: NotNegative = 1e-12
    tie_word_embeddings: bool = True
    pad_token_id: TokenId | None = 0
    bos_token_id: TokenId | None = None
    eos_token_id: TokenId | list[TokenId] | None = None
    problem_type: hf.ProblemType | None = None
    id2label: dict[int, str] = field(default_factory=lambda: {0: "LABEL_0", 1: "LABEL_1"})

    has_segments = True

    @classmethod
    def from_hf(cls, raw: dict[str, Any]) -> Self:
        only: dict[str, tuple[Any, ...]] = {
            "position_embedding_type": ("absolute", None),
            "is_decoder": (False,),
            "add_cross_attention": (False,),
            "pruned_heads": (None, {}),
        }
        return hf.read(cls, raw, only=only)

    @property
    def max_positions(self) -> int | None:
        return self.max_position_embeddings


class Encoder(PreTrainedModel):
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
    ) -> Hidden | PooledHidden | HeadOutput:
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
        return self.head(hidden).logits

    def summary(self, hidden: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """One vector a text (B, D): its pooling, or the first token's vector, through the pooler where there is one."""
        if self.pooling is not None:
            keep = None if attention_mask is None else send(attention_mask.bool(), hidden.device)
            return self.pooling(hidden, keep)
        if attention_mask is None:
            first = hidden[:, 0]
        else:  # with left padding the first token is not at 0
            first = token_at(hidden, first_kept(attention_mask.bool()))
        return first if self.pooler is None else self.pooler(first)

    def default_positions(self, input_ids: Tensor, keep: Tensor | None) -> Tensor:
        self.embeddings.check_length(input_ids.shape[1], self.config.max_positions)
        if self.padding_idx is None:
            return positions(keep, input_ids.shape[1], input_ids.device)
        real = input_ids.ne(self.padding_idx).long()
        return real.cumsum(1) * real + self.padding_idx


def encoder_embeddings(config: EncoderConfig, width: int, projection: nn.Module | None = None) -> Embeddings:
    """The embeddings of the BERT family; `projection`: to the width of the layers, where it is another."""
    return Embeddings(
        nn.Embedding(config.vocab_size, width),
        nn.Embedding(config.max_position_embeddings, width),
        segment=nn.Embedding(config.type_vocab_size, width),
        norm=nn.LayerNorm(width, eps=config.layer_norm_eps),
        dropout=config.hidden_dropout_prob,
        projection=projection,
    )


def build_layers(config: EncoderConfig, number: int) -> Stack:
    """So many layers, as a config says."""
    return encoder_layers(
        number,
        config.hidden_size,
        config.num_attention_heads,
        config.intermediate_size,
        act=config.hidden_act,
        eps=config.layer_norm_eps,
        dropout=config.hidden_dropout_prob,
        attention_dropout=config.attention_probs_dropout_prob,
    )


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
