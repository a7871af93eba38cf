"""Picking the next token: the filters that the settings ask for, in transformers' order, and the draw itself.

B rows, L tokens so far (the prompt and what was written), V vocabulary, S source length.

A filter is called as `(ids (B, L), scores (B, V)) -> (B, V)` and leaves both as they are. Padding in ids is negative
(`hide` makes it so), which is no token to any filter: a row gets what it would get alone. A ban that would leave a
row no token at all is passed over for that row.
"""

from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, TypeVar

import torch
from torch import Tensor

from glassformer.engine import kernels

from .limits import Forced, MinLength, Suppress
from .penalties import BadWords, NoRepeatNgram, PresenceFrequency, RepetitionPenalty, SequenceBias
from .rules import SETTINGS, check
from .token_masks import hide
from .warpers import Epsilon, Eta, MinP, Temperature, TopK, TopP, Typical

Filter = Callable[[Tensor, Tensor], Tensor]
T = TypeVar("T")
WARPERS = (Temperature, TopK, TopP, MinP, Typical, Epsilon, Eta)  # which look at the scores alone


@dataclass(frozen=True)
class Filters:
    """All that changes the scores of one request."""

    each: Sequence[Filter] = ()

    def __call__(self, ids: Tensor, scores: Tensor) -> Tensor:
        return apply(self.each, ids, scores)

    def select(self, texts: Tensor) -> "Filters":
        """For some of the texts: a filter that looks at their sources keeps only theirs."""
        return Filters([_for_texts(each, texts) for each in self.each])


def apply(filters: Sequence[Filter], ids: Tensor, scores: Tensor, keep: Tensor | None = None) -> Tensor:
    """All filters, one after the other."""
    ids = hide(ids, keep) if filters else ids
    for each in filters:
        scores = each(ids, scores)
    return scores


def draw(scores: Tensor, generator: torch.Generator | None = None, number: int | None = None) -> Tensor:
    """(B,): one id a row, with the probabilities softmax(scores); or (B, number) different ones.

    The sums are torch.multinomial's, which would wait for a GPU and refuses more than 2²⁴ ids.
    """
    lots = _lots(scores, exponential(scores, generator))
    return lots.argmax(-1) if number is None else lots.topk(number).indices


def exponential(scores: Tensor, generator: torch.Generator | None) -> Tensor:
    """(B, V): the luck of a draw, in fp32."""
    return torch.empty_like(scores, dtype=torch.float32).exponential_(generator=generator)  # never 0


def _lots(scores: Tensor, noise: Tensor) -> Tensor:
    return scores.float().softmax(-1) / noise


def sample(logits: Tensor, filters: Sequence[Filter], noise: Tensor) -> tuple[Tensor, Tensor]:
    """(B,) ids drawn from logits (B, V) after warpers, by exponential noise (B, V); and each row's highest score."""
    known = kernel_options(filters)
    if known is not None and _by_kernels(logits):
        return kernels.sample(logits, noise, **known)
    no_text = torch.empty(len(logits), 0, dtype=torch.long, device=logits.device)
    return _lots(apply(filters, no_text, logits.float()), noise).argmax(-1), logits.amax(-1)


def best(logits: Tensor) -> tuple[Tensor, Tensor]:
    """(B,) ids of the highest of logits (B, V), the first of equals; and each row's highest score."""
    if _by_kernels(logits):
        return kernels.best(logits)
    highest, ids = logits.max(-1)
    return ids, highest


def _by_kernels(logits: Tensor) -> bool:
    return kernels.on_current_gpu(logits) and logits.dtype != torch.float64 and kernels.available()


def kernel_options(filters: Sequence[Filter]) -> dict[str, Any] | None:
    """What the kernel that draws is asked for; None for filters, or an order of them, that it does not know."""
    kinds = [type(each) for each in filters]
    if kinds != [kind for kind in (Temperature, TopK, TopP, MinP) if kind in kinds]:
        return None
    values = [(name, value) for each in filters for name, value in vars(each).items()]
    least = {value for name, value in values if name == "min_tokens_to_keep"}
    return {name: value for name, value in values if name in SETTINGS} if least <= {1} else None


def warpers(settings: object, *, min_tokens_to_keep: int = 1) -> list[Filter]:
    """The filters for sampling that the settings ask for (see `processors`), in transformers' order."""
    least, made = min_tokens_to_keep, _maker(settings)
    return [
        *made("temperature", Temperature),
        *made("top_k", lambda k: TopK(max(k, least))),
        *made("top_p", lambda p: TopP(p, least)),
        *made("min_p", lambda p: MinP(p, least)),
        *made("typical_p", lambda p: Typical(p, least)),
        *made("epsilon_cutoff", lambda cutoff: Epsilon(cutoff, least)),
        *made("eta_cutoff", lambda cutoff: Eta(cutoff, least)),
    ]


def processors(
    settings: object,
    *,
    prompt_length: int,
    max_length: int | None = None,
    eos_token_id: int | Sequence[int] | None = None,
    source: Tensor | None = None,
) -> list[Filter]:
    """The penalties and limits that the settings ask for, in transformers' order.

    Settings are a mapping, or an object with attributes, by transformers' names (SETTINGS). The lengths count the
    columns of ids, `max_length` all there will be; `source` (B, S) is an encoder's input, its padding hidden.
    """
    made, eos = _maker(settings), _as_tuple(eos_token_id)
    forced = made("forced_bos_token_id", lambda bos: Forced((bos,), prompt_length))
    return [
        *made(
            "sequence_bias",
            lambda bias: SequenceBias({tuple(w): x for w, x in (bias.items() if isinstance(bias, Mapping) else bias)}),
        ),
        *made("encoder_repetition_penalty", lambda x: RepetitionPenalty(1 / x, _needed(source, "a source"))),
        *made("repetition_penalty", RepetitionPenalty),
        *made("presence_penalty", lambda x: PresenceFrequency(x, 0, prompt_length)),
        *made("frequency_penalty", lambda x: PresenceFrequency(0, x, prompt_length)),
        *made("no_repeat_ngram_size", NoRepeatNgram),
        *made("encoder_no_repeat_ngram_size", lambda n: NoRepeatNgram(n, _needed(source, "a source"))),
        *made("bad_words_ids", lambda words: BadWords(w for w in words if len(w) != 1 or w[0] not in eos)),
        *made("min_length", lambda n: MinLength(n, eos)),
        *made("min_new_tokens", lambda n: MinLength(n, eos, prompt_length)),
        *forced,
        *made("forced_eos_token_id", lambda ids: Forced(_as_tuple(ids), _needed(max_length, "max_length") - 1)),
        *made("suppress_tokens", Suppress),
        *made("begin_suppress_tokens", lambda ids: Suppress(ids, prompt_length + len(forced))),
    ]


def _maker(settings: object) -> Callable[[str, Callable[[Any], Filter]], list[Filter]]:
    """A function that makes the filter of one setting, or none where that is off."""
    given = settings if isinstance(settings, Mapping) else {name: getattr(settings, name, None) for name in SETTINGS}
    for name in set(given) - set(SETTINGS):
        near = ", ".join(get_close_matches(name, SETTINGS) or SETTINGS)
        raise ValueError(f"{name!r} is no setting that changes scores; there is {near}")

    def made(name: str, make: Callable[[Any], Filter]) -> list[Filter]:
        value = given.get(name)
        if value is None or value == SETTINGS[name][0] or (isinstance(value, Sized) and len(value) == 0):
            return []
        check(name, value)
        return [make(value)]

    return made


def _for_texts(each: Any, texts: Tensor) -> Filter:
    source = getattr(each, "source", None)
    return each if source is None else replace(each, source=source[texts])  # type: ignore[no-any-return]


def _needed(value: T | None, what: str) -> T:
    if value is None:
        raise ValueError(f"these settings need {what}, and there is none: give it, or leave them out")
    return value


def _as_tuple(ids: int | Sequence[int] | None) -> tuple[int, ...]:
    return () if ids is None else (ids,) if isinstance(ids, int) else tuple(ids)
