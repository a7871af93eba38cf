"""The causal Transformer that every GPT is: embeddings, layers, a norm and an output layer, all built outside.

B batch, T length, D model width, V vocabulary.
"""

from torch import Tensor, nn

from glassformer.blocks.cache import DecoderState, KVCache
from glassformer.blocks.decoder import DecoderParts
from glassformer.blocks.embeddings import Embeddings
from glassformer.blocks.masks import as_keep, last_token, real_positions
from glassformer.blocks.transformer import Stack, embed_and_run

from .contract import ModelConfig, by_parts
from .heads import ClassifierHead, TokenClassifierHead
from .outputs import Hidden, Logits
from .pretrained import PreTrainedModel
from .stepping import StepsByParts


def decoder_head(
    name: str | None, token: nn.Embedding, *, tied: bool, classes: int, dropout: float | None
) -> nn.Module | None:
    """The head of a decoder whose tokens are embedded so; `dropout` is of a token classifier, 0.1 where silent."""
    match name:
        case "text-generation":
            output = nn.Linear(token.embedding_dim, token.num_embeddings, bias=False)
            if tied:
                output.weight = token.weight
            return output
        case "text-classification":
            return ClassifierHead(token.embedding_dim, classes, 0.0, bias=False)
        case "token-classification":
            return TokenClassifierHead(token.embedding_dim, classes, 0.1 if dropout is None else dropout)
        case _:
            return None


class CausalDecoder(PreTrainedModel, StepsByParts):
    """Predicts the next token at every position, or labels texts by their last token as GPT-1 did, or each token.

    Without a head it returns its hidden states.
    """

    is_causal = True

    def __init__(
        self,
        config: ModelConfig,
        embeddings: Embeddings,
        layers: Stack,
        final_norm: nn.Module,
        *,
        cache: tuple[int, int],
        head: nn.Module | None,
        head_name: str | None,
    ) -> None:
        """`cache`: how many heads of which width each layer keeps keys and values of."""
        super().__init__()
        self.config = config
        self.cache = cache
        self.head_name = head_name
        self.embeddings = embeddings
        self.layers = layers
        self.final_norm = final_norm
        self.head = head

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> Logits | Hidden:
        """Ids (B, T), a mask with 1 = keep; positions count real tokens."""
        hidden = self.hidden(input_ids, attention_mask, position_ids)
        if self.head is None:
            return Hidden(hidden)
        if self.head_name == "text-generation":
            return Logits(self.head(hidden))
        return self.head(hidden, self.summary(hidden, attention_mask))

    def hidden(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> Tensor:
        """The last hidden states (B, T, D), after the final norm."""
        keep = as_keep(attention_mask, input_ids, stay=True)
        if position_ids is None:
            self.embeddings.check_length(input_ids.shape[1], self.config.max_positions)
            position_ids = real_positions(keep, input_ids.shape[1], input_ids.device)
        indices = (input_ids, position_ids)
        return embed_and_run(self.embeddings, self.layers, keep, *indices, norm=self.final_norm, causal=True)

    def summary(self, hidden: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """The last token's vector (B, D), which has seen all others."""
        return last_token(hidden, attention_mask)

    @by_parts
    def logits(self, hidden: Tensor) -> Tensor:
        assert self.head is not None, "logits need a head"
        found: Tensor | Logits = self.head(hidden)
        return found.logits if isinstance(found, Logits) else found

    def start(self, input_ids: Tensor, attention_mask: Tensor | None = None, *, length: int) -> DecoderState:
        """An empty cache with capacity for `length` tokens, prompt included."""
        self.embeddings.check_length(length, self.config.max_positions)
        keep, like = as_keep(attention_mask, input_ids), self.embeddings.token.weight
        return DecoderState(KVCache.empty(*self._cache_shape(len(input_ids), length), keep=keep, like=like))

    @property
    def decoder_parts(self) -> DecoderParts:
        return DecoderParts(self.embeddings, list(self.layers), self.final_norm)

    def state_bytes(self, rows: int, length: int, _source: tuple[int, int]) -> int:
        return KVCache.bytes(*self._cache_shape(rows, length), like=self.embeddings.token.weight)

    def _cache_shape(self, rows: int, length: int) -> tuple[int, int, int, int, int]:
        heads, width = self.cache
        return len(self.layers), rows, heads, length, width
