"""The spec: what a tokenizer, a model and a task must agree on, worked out so that each of them is built once."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from tokenizers import AddedToken

from glassformer.models.contract import Model, ProblemType, generation_config
from glassformer.text.tokenizer import Tokenizer

SPECIAL_IDS = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id")


@dataclass(frozen=True)
class SpecialIds:
    """Ids that are no text, of a model that reads one text and writes another."""

    start: int  # what the decoder reads first
    ends: tuple[int, ...]  # the first is what it is taught to end with
    pad: int
    first: int  # what stands for a source without any token
    forced: int | None = None  # what the decoder must write first: the language, where a tokenizer marks several

    @classmethod
    def of(cls, tokenizer: Tokenizer, stated: Mapping[str, object]) -> Self:
        """What a model's config states, else the tokenizer's own: BERT's begin with [CLS] and end with [SEP]."""
        listed = stated.get("eos_token_id")
        end = _some(None if listed == [] else listed, tokenizer.eos_token_id, tokenizer.sep_token_id)
        if end is None:
            raise ValueError("the tokenizer has no end token, so no model could learn to stop: set tok.eos_token")
        ends = (end,) if isinstance(end, int) else tuple(end)
        bos = stated.get("bos_token_id") if stated else _some(tokenizer.bos_token_id, tokenizer.cls_token_id)
        start = _some(stated.get("decoder_start_token_id"), bos, ends[0])
        pad = _some(stated.get("pad_token_id"), tokenizer.pad_token_id, ends[0])
        return cls(start, ends, pad, _some(bos, ends[0]))

    @classmethod
    def of_model(cls, tokenizer: Tokenizer, model: Model) -> Self:
        """As a model's generation config and config state them, in this order."""
        generation, config = generation_config(model), model.config.to_hf()
        stated = {name: _some(generation.get(name), config.get(name)) for name in SPECIAL_IDS}
        for name, value in stated.items():  # many a small model has kept the special ids of a large one
            stated[name] = None if isinstance(value, int) and value >= model.config.target_vocab_size else value
        return cls.of(tokenizer, stated)

    def speaking(self, tokenizer: Tokenizer) -> Self:
        """The same, to write in a multilingual tokenizer's tgt_lang: a decoder that begins with a language (mBART)
        begins with that one, any other writes it first."""
        languages = tokenizer.settings.languages
        if languages is None or tokenizer.tgt_lang is None:
            return self
        code = tokenizer.convert_tokens_to_ids(languages.token(tokenizer.tgt_lang))
        if tokenizer.convert_ids_to_tokens(self.start) in languages.tokens.values():
            return replace(self, start=code)
        return replace(self, forced=code)

    def config(self) -> dict[str, int]:
        """The same in the words of a config."""
        return dict(zip(SPECIAL_IDS, (self.pad, self.first, self.ends[0], self.start), strict=True))


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What the data and the options of a task say, and what a model says once there is one.

    From it come a model's config, the tokenizer that belongs to the model, and the task; none of them rewrites another.
    """

    head: str | None
    labels: tuple[str, ...] = ()  # the classes, in the order of the model's outputs
    problem_type: ProblemType | None = None
    special_tokens: tuple[str | AddedToken, ...] = ()  # that the vocabulary must have beside its own
    special_ids: SpecialIds | None = None
    max_length: int | None = None  # tokens of an example at most
    segments: bool = True  # whether the model has a use for token_type_ids
    generation: Mapping[str, Any] = field(default_factory=dict)  # settings that a model is to generate with
    options: Mapping[str, Any] = field(default_factory=dict)  # further arguments of the task's constructor


def _some(*values: object) -> Any:
    """The first that is not None."""
    return next((value for value in values if value is not None), None)
