"""What can be asked of generation: Hugging Face's parameter names, checked in one place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from typing import Annotated, Any, Literal, Self, get_args

from torch import nn

from glassformer.files import JsonFile, conform
from glassformer.files.schema import Bounds, Positive, TokenId, hints_of

from .constraints import DisjunctiveConstraint, PhrasalConstraint

Ids = Sequence[TokenId]
Some = Annotated[int, Bounds(1, 10**15)]
Whole = Annotated[int, Bounds(0, 10**15)]  # 0: off
Beams = Annotated[int, Bounds(1, 2**14)]  # more is far beyond any use, and every step would take seconds
Seed = Annotated[int, Bounds(-(2**63), 2**64 - 1)]  # what torch takes
FLOATS = (float, float | None, Positive | None)  # settings that are floats, however they are written
Strategy = Literal["greedy", "sample", "beam", "diverse", "constrained", "contrastive", "speculative"]
ELSEWHERE = {  # what transformers' generate takes, and what it is here
    "output_attentions": 'with gf.record(model, "*attention.pattern", every_call=True) as seen, then seen.calls(name)',
    "output_hidden_states": 'with gf.record(model, "layers.*", every_call=True) as seen, then seen.calls(name)',
    "output_scores": "return_dict_in_generate=True gives logprobs, and those of others with top_logprobs=5",
    "output_logits": "return_dict_in_generate=True gives logprobs, and those of others with top_logprobs=5",
    "streamer": "for piece in gf.stream(model, tok, prompt) gives the text as it is written",
    "generation_config": "give its settings by name, or keep them in the folder's generation_config.json",
    "logits_processor": "scores are changed by settings: sequence_bias, bad_words_ids, repetition_penalty …",
    "stopping_criteria": "a text is ended by settings: stop_strings, stop_token_ids, max_time …",
}
SAMPLING = ("temperature", "top_k", "top_p", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff")


@dataclass(frozen=True, kw_only=True)
class GenerationSettings:
    """One request. None means off, or as the model says."""

    max_new_tokens: Some | None = None
    """New tokens at most; by default 50, or what fits behind the prompt."""
    max_length: Some | None = None
    """Tokens at most, the prompt included; max_new_tokens goes before it."""
    min_new_tokens: Whole | None = None
    """New tokens before the text may end."""
    min_length: Whole | None = None
    """Tokens before the text may end, the prompt included."""
    max_time: Positive | None = None
    """Seconds at most; what is written by then is given."""
    truncation: bool = False
    """Cut a prompt that is too long at its beginning, a source at its end; else it is an error."""
    add_special_tokens: bool = True
    """Put BOS before a prompt where the tokenizer does so, and around a source what it has there."""
    do_sample: bool | None = None
    """Draw each token by its probability; by default where a sampling setting (temperature, top_k …) is given."""
    num_beams: Beams = 1
    """Beginnings that beam search keeps; 4 is usual for translation. 1 for no beams."""
    num_return_sequences: Some = 1
    """Texts for each prompt; more than one needs as many beams, or do_sample."""
    length_penalty: float = 1.0
    """Power of the length that a beam's score is divided by: above 0 favours longer texts."""
    early_stopping: bool | Literal["never"] = False
    """End beam search when num_beams texts are found; 'never' waits until none could be better."""
    num_beam_groups: Beams = 1
    """Groups of beams that avoid each other's words (diverse beam search)."""
    diversity_penalty: float = 0.0
    """What a group pays for a word that a group before it took at the same step."""
    force_words_ids: Sequence[Ids | Sequence[Ids]] | None = None
    """Phrases that must be written, as ids; a list of phrases means one of them. Needs beams."""
    constraints: Sequence[PhrasalConstraint | DisjunctiveConstraint] | None = None
    """The same as objects: PhrasalConstraint, DisjunctiveConstraint."""
    penalty_alpha: float | None = None
    """Weight of the penalty on what the text already means (contrastive search); 0.6, with top_k=4."""
    assistant_model: nn.Module | None = None
    """A smaller model with the same vocabulary that guesses ahead (speculative decoding)."""
    num_assistant_tokens: Some = 5
    """Tokens the assistant guesses at a time."""
    prompt_lookup_num_tokens: Some | None = None
    """Tokens guessed at a time from the text itself, without an assistant; 10 for copied text."""
    max_matching_ngram_size: Some = 2
    """Longest run of last tokens that is looked up for such a guess."""
    temperature: float | None = None
    """What scores are divided by: below 1 safer, above 1 bolder."""
    top_k: Whole | None = None
    """Choose among the k likeliest tokens."""
    top_p: float | None = None
    """Draw from the fewest likeliest tokens that make up this probability (nucleus); 0.9 to 0.95."""
    min_p: float | None = None
    """Draw from tokens at least this share as likely as the likeliest; 0.05 to 0.1."""
    typical_p: float | None = None
    """Draw from the tokens nearest to the expected surprise, up to this probability."""
    epsilon_cutoff: float | None = None
    """Draw from tokens of at least this probability, as 0.0003."""
    eta_cutoff: float | None = None
    """The same with a threshold that falls where the distribution is flat."""
    repetition_penalty: float | None = None
    """Above 1: tokens of the text so far, prompt included, score less; 1.2 is much."""
    presence_penalty: float | None = None
    """Taken from the score of each token written so far, once."""
    frequency_penalty: float | None = None
    """Taken from the score of each token for each time it was written."""
    no_repeat_ngram_size: Whole | None = None
    """No run of so many tokens is written twice; 3 is usual."""
    encoder_no_repeat_ngram_size: Whole | None = None
    """No run of so many tokens is copied from the source."""
    encoder_repetition_penalty: float | None = None
    """Above 1: tokens of the source score more, so that it is kept to."""
    bad_words_ids: Sequence[Ids] | None = None
    """Sequences of ids that are never written."""
    sequence_bias: Mapping[tuple[TokenId, ...], float] | Sequence[tuple[Ids, float]] | None = None
    """What is added to the score of a sequence's last id, after the ids before it."""
    suppress_tokens: Ids | None = None
    """Ids that are never written."""
    begin_suppress_tokens: Ids | None = None
    """Ids that are not written first."""
    forced_bos_token_id: TokenId | None = None
    """Id that is written first: of a multilingual model, the language."""
    forced_eos_token_id: TokenId | Ids | None = None
    """Id that is written last where the length limit is reached."""
    eos_token_id: TokenId | Ids | None = None
    """Ids that end a text; by default the model's."""
    stop_token_ids: Ids | None = None
    """Ids that end a text as well."""
    stop_strings: str | Sequence[str] | None = None
    """Strings that end a text, found across token borders."""
    pad_token_id: TokenId | None = None
    """Id that fills up shorter texts of a batch; by default the model's."""
    bos_token_id: TokenId | None = None
    """Id that begins a text without a prompt; by default the model's."""
    decoder_start_token_id: TokenId | None = None
    """Id that an encoder-decoder's decoder reads first; by default the model's."""
    seed: Seed | None = None
    """Seed of what is drawn: the same seed gives the same texts."""
    return_dict_in_generate: bool = False
    """Give a Generated, with scores and log-probabilities, in the place of texts or ids."""
    top_logprobs: Whole = 0
    """Likeliest alternatives to tell for each token, with return_dict_in_generate."""

    @classmethod
    def of(cls, given: Mapping[str, object], *defaults: Mapping[str, object]) -> Self:
        """The request, with what the model's own folder says where the request is silent."""
        names = [field.name for field in fields(cls)]
        for name, value in given.items():
            if name in ELSEWHERE and value is not None and value is not False:
                raise ValueError(f"generation takes no {name}: {ELSEWHERE[name]}")
            if name not in (*names, *ELSEWHERE):
                near = get_close_matches(name, names, n=3)
                listed = f"near it: {', '.join(near)}" if near else f"it has: {', '.join(names)}"
                raise ValueError(f"generation has no setting {name!r}; {listed}")
        known: dict[str, Any] = {}
        for source in (*reversed(defaults), given):
            for name in names:
                if source.get(name) is not None:
                    place = (name,) if source is given else _place(source, name)
                    known[name] = _conformed(source[name], hints_of(cls)[name], place, lenient=source is not given)
        if given.get("max_new_tokens") is not None and given.get("max_length") is None:
            known.pop("max_length", None)
        one_by_one = any(given.get(name) for name in ("penalty_alpha", "assistant_model", "prompt_lookup_num_tokens"))
        if one_by_one and given.get("num_beams") is None:  # a folder's own wish for beams is not in the way
            known["num_beams"] = 1
        settings = cls(**known)
        if settings.do_sample is None:
            drawn = [name for name in SAMPLING if not (name == "top_k" and settings.penalty_alpha)]
            settings = replace(settings, do_sample=any(given.get(name) is not None for name in drawn))
        return settings._checked()

    def _checked(self) -> Self:
        if "" in self.stops:
            raise ValueError("a stop string is empty, which every text holds; leave it out")
        if self.num_return_sequences > self.num_beams and (self.num_beams > 1 or not self.do_sample):
            raise ValueError(
                f"{self.num_return_sequences} different answers need num_beams={self.num_return_sequences} or more, "
                "or do_sample=True without beams"
            )
        self._check_strategy()
        return self

    def _check_strategy(self) -> None:
        """One strategy at a time, with what it needs."""
        strategies = {
            "num_beam_groups": self.num_beam_groups > 1,
            "force_words_ids or constraints": bool(self.phrases),
            "penalty_alpha": bool(self.penalty_alpha),
            "assistant_model": self.assistant_model is not None,
            "prompt_lookup_num_tokens": self.prompt_lookup_num_tokens is not None,
        }
        if len(both := [name for name, value in strategies.items() if value]) > 1:
            raise ValueError(f"{both[0]} and {both[1]} are two strategies; choose one")
        name, strategy = (both or [""])[0], self.strategy
        if strategy in ("diverse", "constrained", "contrastive") and self.do_sample:
            raise ValueError(f"{name} draws nothing; leave out do_sample and the sampling settings")
        if strategy in ("contrastive", "speculative") and self.num_beams > 1:
            raise ValueError(f"{name} follows one text, not {self.num_beams} beams; leave num_beams out")
        if strategy == "constrained" and self.num_beams < 2:
            raise ValueError(f"{name} need beams; give num_beams=4, or any number above 1")
        if any(not phrase for options in self.phrases for phrase in options) or not all(self.phrases):
            raise ValueError("a phrase that must be written has no ids; leave it out")
        if self.num_beams % self.num_beam_groups:
            raise ValueError(f"{self.num_beams} beams do not make {self.num_beam_groups} equal groups; change one")
        if self.diversity_penalty < 0 or (strategy == "diverse") != (self.diversity_penalty > 0):
            raise ValueError(
                f"diversity_penalty={self.diversity_penalty} with num_beam_groups={self.num_beam_groups}: "
                "give a penalty above 0 and 2 groups or more, or neither"
            )
        if self.penalty_alpha and (not 0 < self.penalty_alpha < 1 or (self.top_k or 0) < 2):
            raise ValueError(
                f"contrastive search needs penalty_alpha above 0 and below 1 and top_k of 2 or more, "
                f"not {self.penalty_alpha} and {self.top_k}"
            )

    @property
    def strategy(self) -> Strategy:
        """How the next token is taken."""
        if self.assistant_model is not None or self.prompt_lookup_num_tokens is not None:
            return "speculative"
        if self.penalty_alpha:
            return "contrastive"
        if self.phrases:
            return "constrained"
        if self.num_beam_groups > 1:
            return "diverse"
        return "beam" if self.num_beams > 1 else "sample" if self.do_sample else "greedy"

    @property
    def unread(self) -> int:
        """How many of the last tokens the model never reads: one, unless it looks ahead."""
        return 0 if self.strategy == "contrastive" else 1

    @property
    def phrases(self) -> list[Sequence[Ids]]:
        """What must be written: for each constraint the phrases of which one is enough."""
        words: list[Any] = [
            word if word and not isinstance(word[0], int) else [word] for word in self.force_words_ids or ()
        ]
        return [*words, *(constraint.options for constraint in self.constraints or ())]

    @property
    def ends(self) -> list[int]:
        """The ids that end a text."""
        eos = [] if self.eos_token_id is None else self.eos_token_id
        return [*([eos] if isinstance(eos, int) else eos), *(self.stop_token_ids or ())]

    @property
    def stops(self) -> tuple[str, ...]:
        """The strings that end a text."""
        return (self.stop_strings,) if isinstance(self.stop_strings, str) else tuple(self.stop_strings or ())

    @property
    def padding(self) -> int:
        """The id that fills up shorter texts."""
        if self.pad_token_id is not None:
            return self.pad_token_id
        return self.ends[0] if self.ends else 0

    def with_max_new(self, new_tokens: int) -> Self:
        return replace(self, max_new_tokens=new_tokens, max_length=None)

    def max_new(self, prompt: int) -> int:
        """How many tokens may follow a prompt of this length."""
        if self.max_new_tokens is not None:
            return self.max_new_tokens
        if self.max_length is None:
            return 50
        if self.max_length <= prompt:
            raise ValueError(f"the prompt has {prompt} tokens and max_length is {self.max_length}; raise it")
        return self.max_length - prompt


def _place(source: Mapping[str, object], name: str) -> tuple[str, ...]:
    """A default as an error names it: with the file that it stands in, if that is known."""
    return (source.path, name) if isinstance(source, JsonFile) else (f"{name} of the model's own settings",)


def _conformed(value: object, hint: object, place: tuple[str, ...], *, lenient: bool) -> Any:
    """A value that fits its hint; with `lenient` 0 and 1 are flags, as transformers takes them from a folder."""
    value = _plain(value)
    if lenient and type(value) is int and value in (0, 1) and bool in (hint, *get_args(hint)):
        value = bool(value)
    conform(value, hint, *place)
    return float(value) if isinstance(value, int) and hint in FLOATS else value


def _plain(value: object) -> Any:
    """Ids may be a tensor, an array or a set."""
    if isinstance(value, set | frozenset):
        return sorted(value)
    return value.tolist() if hasattr(value, "tolist") else value
