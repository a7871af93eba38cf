"""GPT-2 (Radford et al. 2019): a pre-norm causal Transformer whose output layer is its token embedding.

B batch, T length, D model width, V vocabulary.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from torch import Tensor, nn

from glassformer.blocks.activations import activation
from glassformer.blocks.attention import MultiHeadAttention
from glassformer.blocks.cache import DecoderState, KVCache
from glassformer.blocks.decoder import DecoderParts
from glassformer.blocks.embeddings import Embeddings, check_length
from glassformer.blocks.masks import as_keep, real_positions
from glassformer.blocks.transformer import FeedForward, Layer, Stack, embed_and_run
from glassformer.files.schema import Depth, NotNegative, Probability, Size, TokenId

from . import config as hf
from .architecture import Architecture, Head, Op
from .init import initialise
from .outputs import Hidden, Logits


@dataclass(frozen=True, kw_only=True)
class Gpt2Config(hf.BaseConfig):
    """Hugging Face's names; the defaults are gpt2."""

    model_type: str = "gpt2"
    vocab_size: Size = 50257
    n_positions: Size = 1024
    n_embd: Size = 768
    n_layer: Depth = 12
    n_head: Size = 12
    n_inner: Size | None = None
    activation_function: str = "gelu_new"
    resid_pdrop: Probability = 0.1
    embd_pdrop: Probability = 0.1
    attn_pdrop: Probability = 0.1
    layer_norm_epsilon: NotNegative = 1e-5
    initializer_range: NotNegative = 0.02
    scale_attn_weights: bool = True
    scale_attn_by_inverse_layer_idx: bool = False
    tie_word_embeddings: bool = True
    pad_token_id: TokenId | None = None
    bos_token_id: TokenId | None = 50256
    eos_token_id: TokenId | list[TokenId] | None = 50256

    @classmethod
    def from_hf(cls, raw: dict[str, Any]) -> Self:
        # reorder_and_upcast_attn changes nothing here: softmax is always at least fp32
        return hf.read(cls, raw, only={"add_cross_attention": (False,), "pruned_heads": (None, {})})

    @property
    def max_positions(self) -> int:
        return self.n_positions


class Gpt2(nn.Module):
    """Predicts the next token at every position."""

    is_causal = True

    def __init__(self, config: Gpt2Config, head: str | None = "text-generation") -> None:
        super().__init__()
        width = config.n_embd
        self.config = config
        self.head_name = head
        self.embeddings = Embeddings(
            nn.Embedding(config.vocab_size, width),
            nn.Embedding(config.n_positions, width),
            dropout=config.embd_pdrop,
        )
        self.layers = Stack(self.layer(number) for number in range(config.n_layer))
        self.final_norm = nn.LayerNorm(width, eps=config.layer_norm_epsilon)
        self.head = nn.Linear(width, config.vocab_size, bias=False) if head else None
        if self.head is not None and config.tie_word_embeddings:
            self.head.weight = self.embeddings.token.weight
        initialise(self, config.initializer_range)
        for name, weight in self.named_parameters():  # what is added to the residual shrinks with the depth
            if name.endswith(("attention.output.weight", "feed_forward.down.weight")):
                nn.init.normal_(weight, std=config.initializer_range / (2 * config.n_layer) ** 0.5)

    def layer(self, number: int) -> Layer:
        config, width = self.config, self.config.n_embd
        scale = hf.check_heads(width, config.n_head) ** -0.5 if config.scale_attn_weights else 1.0
        if config.scale_attn_by_inverse_layer_idx:
            scale /= number + 1
        return Layer(
            MultiHeadAttention(width, config.n_head, dropout=config.attn_pdrop, scale=scale),
            FeedForward(width, config.n_inner or 4 * width, activation(config.activation_function)),
            partial(nn.LayerNorm, width, eps=config.layer_norm_epsilon),
            pre_norm=True,
            dropout=config.resid_pdrop,
        )

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> Logits | Hidden:
        """Ids (B, T), a mask with 1 = keep; positions count real tokens."""
        hidden = self.hidden(input_ids, attention_mask, position_ids)
        return Hidden(hidden) if self.head is None else Logits(self.head(hidden))

    def hidden(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> Tensor:
        """The last hidden states (B, T, D), after the final norm."""
        keep = as_keep(attention_mask, input_ids, stay=True)
        if position_ids is None:
            check_length(input_ids.shape[1], self.config.n_positions)
            position_ids = real_positions(keep, input_ids.shape[1], input_ids.device)
        indices = (input_ids, position_ids)
        return embed_and_run(self.embeddings, self.layers, keep, *indices, norm=self.final_norm, causal=True)

    def start(self, input_ids: Tensor, attention_mask: Tensor | None = None, *, length: int) -> DecoderState:
        """An empty cache with capacity for `length` tokens, prompt included."""
        check_length(length, self.config.n_positions)
        config = self.config
        width = config.n_embd // config.n_head
        keep = as_keep(attention_mask, input_ids)
        like = self.embeddings.token.weight
        shape = (config.n_layer, len(input_ids), config.n_head, length, width)
        return DecoderState(KVCache.empty(*shape, keep=keep, like=like))

    def step(self, ids: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """Logits (B, T, V) after each of T new tokens."""
        hidden, state = self.hidden_step(ids, state)
        return self.logits(hidden), state

    def hidden_step(self, ids: Tensor, state: DecoderState) -> tuple[Tensor, DecoderState]:
        """As `step`, before the head: (B, T, D)."""
        return self.decoder_parts.step(ids, state)

    @property
    def decoder_parts(self) -> DecoderParts:
        return DecoderParts(self.embeddings, list(self.layers), self.final_norm)

    def logits(self, hidden: Tensor) -> Tensor:
        assert self.head is not None, "logits need the text-generation head"
        return self.head(hidden)  # type: ignore[no-any-return]

    def state_bytes(self, rows: int, length: int, _source: tuple[int, int]) -> int:
        config, like = self.config, self.embeddings.token.weight
        return KVCache.bytes(config.n_layer, rows, config.n_head, length, config.n_embd // config.n_head, like=like)


WEIGHTS = (
    ("wte", "embeddings.token"),
    ("wpe", "embeddings.position"),
    ("h.*.ln_1", "layers.*.attention_norm"),
    (
        "h.*.attn.c_attn",
        ["layers.*.attention.query", "layers.*.attention.key", "layers.*.attention.value"],
        Op.TRANSPOSE,
    ),
    ("h.*.attn.c_proj", "layers.*.attention.output", Op.TRANSPOSE),
    ("h.*.attn.bias", None),
    ("h.*.attn.masked_bias", None),
    ("h.*.ln_2", "layers.*.feed_forward_norm"),
    ("h.*.mlp.c_fc", "layers.*.feed_forward.up", Op.TRANSPOSE),
    ("h.*.mlp.c_proj", "layers.*.feed_forward.down", Op.TRANSPOSE),
    ("ln_f", "final_norm"),
)
ARCHITECTURE = Architecture(
    model_type="gpt2",
    config=Gpt2Config,
    build=Gpt2,
    prefix="transformer",
    weights=WEIGHTS,
    may_be_idle=("score", "classifier", "qa_outputs", "multiple_choice_head.summary"),
    heads={
        None: Head("GPT2Model"),
        "text-generation": Head("GPT2LMHeadModel", [("lm_head", "head")]),
    },
)
