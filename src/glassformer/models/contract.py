"""The model contract: what every model tells the rest of the code about itself, with one meaning for each name.

B batch, T tokens (of the target, in an encoder-decoder), S source length, D model width, V vocabulary.
"""

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import Field
from typing import Any, ClassVar, Protocol, Self, TypeGuard, TypeVar

import torch
from torch import Tensor, nn

from glassformer.blocks.cache import DecoderState
from glassformer.blocks.decoder import DecoderParts
from glassformer.blocks.state import FixedState, S

from .config import ProblemType as ProblemType

SCORES_TOKENS = ("fill-mask", "token-classification")  # heads that look at each token by itself, and below
GENERATES = ("text-generation", "text2text-generation")
BY_PARTS = ("step", "hidden_step", "logits")
Method = TypeVar("Method", bound=Callable[..., Any])


class ModelConfig(Protocol):
    """A frozen dataclass of an architecture's settings, under Hugging Face's names."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def model_type(self) -> str: ...

    @property
    def is_encoder_decoder(self) -> bool: ...

    @property
    def vocab_size(self) -> int:
        """Rows of the embedding that reads the inputs."""
        ...

    @property
    def target_vocab_size(self) -> int:
        """Tokens that are predicted; `vocab_size` unless an encoder-decoder has two vocabularies."""
        ...

    @property
    def max_positions(self) -> int | None:
        """Tokens of a text, special ones included, whose positions the model knows; None: any number.

        Tasks, prompts and what is written keep to them. A model refuses a longer text where a table of positions ends;
        rotary positions go on, to distances that training did not have.
        """
        ...

    @property
    def has_segments(self) -> bool:
        """Whether token_type_ids mean something to the model."""
        ...

    @property
    def mask_rate(self) -> float:
        """The share of the tokens that is hidden when the model learns to fill masks, as its paper has it."""
        ...

    @property
    def initializer_range(self) -> float:
        """The standard deviation of what is put on a trained model anew: a head, rows of new tokens."""
        ...

    @property
    def problem_type(self) -> ProblemType | None:
        """What a text classifier's scores mean; None where nothing says."""
        ...

    @property
    def id2label(self) -> Mapping[int, str]:
        """The names of a classifier's labels by their numbers; none where a config has no labels."""
        ...

    @property
    def pad_token_id(self) -> int | None: ...

    @property
    def bos_token_id(self) -> int | None: ...

    @property
    def eos_token_id(self) -> int | list[int] | None: ...

    @classmethod
    def from_hf(cls, raw: dict[str, Any]) -> Self:
        """Of a config.json; refused where it asks for what is not built here."""
        ...

    def to_hf(self) -> dict[str, Any]:
        """The dict of a config.json."""
        ...


class Model(Protocol):
    """Any model: an `nn.Module` with a config and, unless it is bare, a head."""

    training: bool

    @property
    def config(self) -> ModelConfig: ...

    @property
    def head_name(self) -> str | None:
        """Hugging Face's name of the task that the head is for; None for a bare model."""
        ...

    @property
    def is_causal(self) -> bool:
        """Whether a later token (of the target, in an encoder-decoder) never changes an earlier position."""
        ...

    def hidden(self, input_ids: Tensor, attention_mask: Tensor | None = None, **inputs: Any) -> Tensor:
        """The last hidden states (B, T, D) that a head reads at each token, zero at padding."""
        ...

    # What it is as an nn.Module

    def __call__(self, *inputs: Any, **named: Any) -> Any: ...

    def train(self, mode: bool = True) -> Self: ...

    def eval(self) -> Self: ...

    def modules(self) -> Iterator[nn.Module]: ...

    def named_modules(self) -> Iterator[tuple[str, nn.Module]]: ...

    def parameters(self) -> Iterator[nn.Parameter]: ...

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]: ...

    def get_submodule(self, target: str) -> nn.Module: ...

    def state_dict(self) -> dict[str, Any]: ...


class ScoresTokens(Model, Protocol):
    """A model whose head gives scores at each token: of words (language models, masked ones too) or of tags."""

    def logits(self, hidden: Tensor) -> Tensor:
        """(…, D) -> (…, V), of hidden states as `hidden` gives them."""
        ...


class Summarises(Model, Protocol):
    """A model that has one vector for a whole text."""

    def summary(self, hidden: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """(B, D), of hidden states (B, S, D) as `hidden` gives them."""
        ...


class Stepper(Protocol[S]):
    """What can be decoded with: start once, then step as often as you like."""

    def start(self, input_ids: Tensor, attention_mask: Tensor | None = None, *, length: int) -> S:
        """An empty state with capacity for `length` decoder tokens.

        A decoder-only model reads only the shape and the padding of its prompt here (the prompt itself is the first
        step: the prefill); an encoder-decoder encodes its source.
        """
        ...

    def step(self, ids: Tensor, state: S) -> tuple[Tensor, S]:
        """Feed (B, T) new tokens; return the logits (B, T, V) after each of them, and the state."""
        ...

    def hidden_step(self, ids: Tensor, state: S) -> tuple[Tensor, S]:
        """As `step`, with the last hidden states (B, T, D) instead of the logits that `logits` makes of them."""
        ...

    def logits(self, hidden: Tensor) -> Tensor:
        """A score for every token of the vocabulary, (…, D) -> (…, V)."""
        ...

    def state_bytes(self, rows: int, length: int, source: tuple[int, int]) -> int:
        """The size of a state of `rows` sequences of this length, over a source (B, S) where there is one."""
        ...


class GenerativeModel(ScoresTokens, Stepper[S], Protocol[S]):
    """A model that writes: a language model, or an encoder-decoder."""


class AttentionDecoder(GenerativeModel[DecoderState], Protocol):
    """A generative model whose steps run through the layers of a Transformer, which an engine may prepare."""

    @property
    def decoder_parts(self) -> DecoderParts:
        """The modules that `hidden_step` runs through."""
        ...

    @property
    def head(self) -> nn.Module: ...


def as_generative(module: nn.Module) -> "GenerativeModel[Any]":
    """A module that writes, as its type; refused where it does not."""
    model = as_model(module)
    if not can_generate(model):
        raise ValueError(f"a model with head {model.head_name!r} does not generate; load one that does")
    return model


def as_recurrent(model: Model) -> "GenerativeModel[FixedState]":
    """A language model whose state can be carried on from text to text, as its type; refused where it cannot."""
    if can_generate(model) and not model.config.is_encoder_decoder:
        state = model.start(torch.zeros(1, 1, dtype=torch.long), length=1)
        if isinstance(state, FixedState):
            return model
    raise ValueError(f"a {model.config.model_type} has no state of one size to carry on: take an rnn, gru or lstm")


def as_token_scorer(model: Model) -> ScoresTokens:
    """A model with a head that scores each token by itself, as its type; refused where it has another or none."""
    if not (model.head_name in SCORES_TOKENS or can_generate(model)):
        raise ValueError(f"a model with head {model.head_name!r} does not score each token; load it with another head")
    return model  # type: ignore[return-value]


def as_summariser(model: Model) -> Summarises:
    """A model with one vector for a text, as its type; refused where it has none."""
    if not has_summary(model):
        raise ValueError(f"a {model.config.model_type} has no vector for a whole text")
    return model


def as_model(module: nn.Module) -> Model:
    """A module that keeps the contract, as its type; refused where it does not."""
    if not hasattr(module, "config") or not hasattr(module, "head_name"):
        raise ValueError(f"a {type(module).__name__} is no model of gf.load or gf.build: it has no config")
    return module  # type: ignore[return-value]


def as_module(model: Model) -> nn.Module:
    """A model as the nn.Module that it is."""
    return model  # type: ignore[return-value]


def has_attention_decoder(model: Model) -> TypeGuard[AttentionDecoder]:
    """Whether a model's steps run through the layers of a Transformer, and through nothing that was put over them."""
    kind, own = type(model), vars(model)
    return all(name not in own and getattr(getattr(kind, name, None), "by_parts", False) for name in BY_PARTS)


def by_parts(method: Method) -> Method:
    """Mark a model's step, hidden_step or logits as no more than `decoder_parts.step` and `head`, one after the other.

    What an engine prepares are the parts, so that it takes only models whose three methods have the mark; one that is
    written over another has none.
    """
    method.by_parts = True  # type: ignore[attr-defined]
    return method


def can_generate(model: Model) -> TypeGuard[GenerativeModel[Any]]:
    """Whether a model writes: whether it has one of the heads that do."""
    return model.head_name in GENERATES


def scores_words(model: Model) -> TypeGuard[ScoresTokens]:
    """Whether a model has a head that scores every word of its vocabulary at each token."""
    return can_generate(model) or model.head_name == "fill-mask"


def has_summary(model: Model) -> TypeGuard[Summarises]:
    """Whether a model has one vector for a whole text, as encoders do."""
    return hasattr(model, "summary")


def generation_config(model: Model) -> dict[str, Any]:
    """What a model's folder says of how it is to write (generation_config.json), as a copy; empty where silent."""
    return copy(getattr(model, "generation_config", None) or {})


def set_generation_config(model: Model, settings: Mapping[str, object]) -> None:
    """What `generation_config` will say, and gf.save write."""
    model.generation_config = dict(settings)  # type: ignore[attr-defined]


def label_names(config: ModelConfig) -> list[str]:
    """The names of a classifier's labels in order; none where a config has no labels."""
    return [str(label) for label in config.id2label.values()]
