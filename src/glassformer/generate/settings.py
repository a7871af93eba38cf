"""What can be asked of generation: Hugging Face's parameter names, checked in one place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from typing import Any, Literal, Self

Ids = Sequence[int]
SAMPLING = ("temperature", "top_k", "top_p", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One request. None means off, or as the model says."""

    max_new_tokens: int | None = None
    max_length: int | None = None  # prompt included
    min_new_tokens: int | None = None
    min_length: int | None = None
    do_sample: bool | None = None  # None: if any of the sampling settings is given
    num_beams: int = 1
    num_return_sequences: int = 1
    length_penalty: float = 1.0
    early_stopping: bool | Literal["never"] = False
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    typical_p: float | None = None
    epsilon_cutoff: float | None = None
    eta_cutoff: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    no_repeat_ngram_size: int | None = None
    encoder_no_repeat_ngram_size: int | None = None
    encoder_repetition_penalty: float | None = None
    bad_words_ids: Sequence[Ids] | None = None
    sequence_bias: Any = None
    suppress_tokens: Ids | None = None
    begin_suppress_tokens: Ids | None = None
    forced_bos_token_id: int | None = None
    forced_eos_token_id: int | Ids | None = None
    eos_token_id: int | Ids | None = None
    pad_token_id: int | None = None
    bos_token_id: int | None = None
    decoder_start_token_id: int | None = None
    seed: int | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any], *defaults: Mapping[str, Any]) -> Self:
        """The request, with what the model's own folder says where the request is silent."""
        names = [field.name for field in fields(cls)]
        for name in given:
            if name not in names:
                near = get_close_matches(name, names, n=3)
                raise ValueError(f"generation has no setting {name!r}; near it: {', '.join(near) or 'nothing'}")
        known: dict[str, Any] = {}
        for source in (*reversed(defaults), given):
            known |= {name: source[name] for name in names if source.get(name) is not None}
        if given.get("max_new_tokens") is not None and given.get("max_length") is None:
            known.pop("max_length", None)
        settings = cls(**known)
        if settings.do_sample is None:
            settings = replace(settings, do_sample=any(given.get(name) is not None for name in SAMPLING))
        return settings._checked()

    def _checked(self) -> Self:
        for name in ("max_new_tokens", "max_length", "num_beams", "num_return_sequences"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
        if self.early_stopping not in (True, False, "never"):
            raise ValueError(f"early_stopping must be True, False or 'never', not {self.early_stopping!r}")
        if self.num_return_sequences > self.num_beams and not self.do_sample:
            raise ValueError(
                f"{self.num_return_sequences} different answers need num_beams={self.num_return_sequences} or more, "
                "or do_sample=True"
            )
        return self

    @property
    def ends(self) -> list[int]:
        """The ids that end a text."""
        if self.eos_token_id is None:
            return []
        return [self.eos_token_id] if isinstance(self.eos_token_id, int) else list(self.eos_token_id)

    @property
    def padding(self) -> int:
        """The id that fills up shorter texts."""
        if self.pad_token_id is not None:
            return self.pad_token_id
        return self.ends[0] if self.ends else 0

    def with_room(self, new_tokens: int) -> Self:
        return replace(self, max_new_tokens=new_tokens, max_length=None)

    def room(self, prompt: int) -> int:
        """How many tokens may follow a prompt of this length."""
        if self.max_new_tokens is not None:
            return self.max_new_tokens
        if self.max_length is None:
            return 50
        if self.max_length <= prompt:
            raise ValueError(f"the prompt has {prompt} tokens and max_length is {self.max_length}; raise it")
        return self.max_length - prompt
