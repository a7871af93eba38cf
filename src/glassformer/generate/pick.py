"""Picking the next token: what changes its scores (warpers, penalties, limits), and the draw itself.

B rows, L tokens so far (the prompt and what was written), V vocabulary, S source length, W words, n an n-gram's length.

A filter is called as `(ids (B, L), scores (B, V)) -> (B, V)` and leaves both as they are. Padding in ids is negative
(`hide` makes it so), which is no token to any filter: a row gets what it would get alone. A ban that would leave a
row no token at all is passed over for that row.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

Filter = Callable[[Tensor, Tensor], Tensor]

COUNT = (0, lambda n: isinstance(n, int) and n > 0, "a whole number above 0")
# What may be set, by transformers' names: what means off (beside None and an empty list), and what is allowed.
SETTINGS: dict[str, tuple[float | None, Callable[[Any], bool], str]] = {
    name: (off, allowed, rule)
    for names, off, allowed, rule in (
        ("temperature", 1, lambda x: 0 < x < math.inf, "above 0 (for the likeliest token give do_sample=False)"),
        ("top_p typical_p", 1, lambda x: 0 < x <= 1, "above 0 and at most 1"),
        ("min_p", 0, lambda x: 0 <= x <= 1, "at least 0 and at most 1"),
        ("epsilon_cutoff eta_cutoff", 0, lambda x: 0 < x < 1, "above 0 and below 1"),
        ("top_k no_repeat_ngram_size encoder_no_repeat_ngram_size min_length min_new_tokens", *COUNT),
        ("repetition_penalty encoder_repetition_penalty", 1, lambda x: 0 < x < math.inf, "above 0"),
        ("presence_penalty frequency_penalty", 0, math.isfinite, "a finite number"),
        ("sequence_bias bad_words_ids suppress_tokens begin_suppress_tokens", None, lambda _: True, ""),
        ("forced_bos_token_id forced_eos_token_id", None, lambda _: True, ""),
    )
    for name in names.split()
}


def hide(ids: Tensor, keep: Tensor | None) -> Tensor:
    """The ids with -1 for padding, where `keep` is 0; columns beyond `keep` are real, so the prompt's mask will do."""
    if keep is None:
        return ids
    return ids.masked_fill(~pad(keep.bool(), (0, ids.shape[1] - keep.shape[1]), value=True), -1)


def apply(filters: Sequence[Filter], ids: Tensor, scores: Tensor, keep: Tensor | None = None) -> Tensor:
    """All filters, one after the other."""
    ids = hide(ids, keep) if filters else ids
    for each in filters:
        scores = each(ids, scores)
    return scores


def draw(scores: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """(B,): one id a row, with the probabilities softmax(scores); torch.multinomial would wait for the GPU."""
    chances = scores.float().softmax(-1)
    noise = torch.empty_like(chances).exponential_(generator=generator)  # never 0
    return (chances / noise).argmax(-1)


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


class _Checked:
    """A filter whose fields obey SETTINGS."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            _check(name, value)


@dataclass(frozen=True)
class Temperature(_Checked):
    """Below 1 sharpens the distribution, above 1 flattens it."""

    temperature: float

    def __call__(self, _ids: Tensor, scores: Tensor) -> Tensor:
        return scores / self.temperature


@dataclass(frozen=True)
class TopK(_Checked):
    """The k likeliest tokens, and those that equal the last of them."""

    top_k: int

    def __call__(self, _ids: Tensor, scores: Tensor) -> Tensor:
        return scores.masked_fill(scores < _nth_best(scores, self.top_k), -math.inf)


@dataclass(frozen=True)
class TopP(_Checked):
    """The nucleus: the likeliest tokens that together reach the probability top_p."""

    top_p: float
    min_tokens_to_keep: int = 1

    def __call__(self, _ids: Tensor, scores: Tensor) -> Tensor:
        rising, order = scores.sort()
        out = rising.softmax(-1).cumsum(-1) <= 1 - self.top_p
        out[:, -self.min_tokens_to_keep :] = False
        return scores.masked_fill(out.scatter(1, order, out), -math.inf)


@dataclass(frozen=True)
class MinP(_Checked):
    """The tokens at least min_p times as likely as the likeliest."""

    min_p: float
    min_tokens_to_keep: int = 1

    def __call__(self, _ids: Tensor, scores: Tensor) -> Tensor:
        chances = scores.softmax(-1)
        out = chances < self.min_p * chances.amax(-1, keepdim=True)
        best = chances.topk(min(self.min_tokens_to_keep, scores.shape[-1])).indices
        return scores.masked_fill(out.scatter(1, best, False), -math.inf)


@dataclass(frozen=True)
class Typical(_Checked):
    """The tokens whose surprise is nearest to the expected one, up to the probability typical_p."""

    typical_p: float
    min_tokens_to_keep: int = 1

    def __call__(self, _ids: Tensor, scores: Tensor) -> Tensor:
        logs = scores.log_softmax(-1)
        distance, order = (-logs - _entropy(logs)).abs().sort()
        before = (scores.gather(1, order).softmax(-1).cumsum(-1) < self.typical_p).sum(-1, keepdim=True)
        out = distance > distance.gather(1, before.clamp(max=scores.shape[-1] - 1))
        out[:, : self.min_tokens_to_keep] = False
        return scores.masked_fill(out.scatter(1, order, out), -math.inf)


@dataclass(frozen=True)
class Epsilon(_Checked):
    """The tokens with at least the probability epsilon_cutoff."""

    epsilon_cutoff: float
    min_tokens_to_keep: int = 1

    def __call__(self, _ids: Tensor, scores: Tensor) -> Tensor:
        out = scores.softmax(-1) < self.epsilon_cutoff
        return scores.masked_fill(out & (scores < _nth_best(scores, self.min_tokens_to_keep)), -math.inf)


@dataclass(frozen=True)
class Eta(_Checked):
    """As Epsilon, with a threshold that falls where the distribution is flat."""

    eta_cutoff: float
    min_tokens_to_keep: int = 1

    def __call__(self, _ids: Tensor, scores: Tensor) -> Tensor:
        eta = math.sqrt(self.eta_cutoff) * (-_entropy(scores.log_softmax(-1))).exp()
        out = scores.softmax(-1) < eta.clamp(max=self.eta_cutoff)
        return scores.masked_fill(out & (scores < _nth_best(scores, self.min_tokens_to_keep)), -math.inf)


@dataclass(frozen=True)
class RepetitionPenalty(_Checked):
    """Divides the positive scores of tokens in the text so far (or in a source), multiplies the negative ones."""

    repetition_penalty: float
    source: Tensor | None = None

    def __call__(self, ids: Tensor, scores: Tensor) -> Tensor:
        penalised = torch.where(scores < 0, scores * self.repetition_penalty, scores / self.repetition_penalty)
        return torch.where(_standing(_beside(ids, self.source), scores), penalised, scores)


@dataclass(frozen=True)
class PresenceFrequency(_Checked):
    """Takes a constant from each token written so far, and another for each time it was; the prompt is free."""

    presence_penalty: float
    frequency_penalty: float
    prompt_length: int

    def __call__(self, ids: Tensor, scores: Tensor) -> Tensor:
        size, new = scores.shape[-1], ids[:, self.prompt_length :]
        new = new.masked_fill(new < 0, size).clamp(max=size)
        counts = torch.zeros(len(ids), size + 1, device=ids.device)  # the last column: ids that have no score
        counts = counts.scatter_add(1, new, torch.ones_like(new, dtype=counts.dtype))[:, :size]
        return (scores - self.frequency_penalty * counts - self.presence_penalty * (counts > 0)).to(scores.dtype)


@dataclass(frozen=True)
class NoRepeatNgram(_Checked):
    """No n tokens in a row may be written that stand in the text so far, or in a source."""

    no_repeat_ngram_size: int
    source: Tensor | None = None

    def __call__(self, ids: Tensor, scores: Tensor) -> Tensor:
        n, text = self.no_repeat_ngram_size, _beside(ids, self.source)
        if ids.shape[1] < n - 1 or text.shape[1] < n:
            return scores
        ngrams = text.unfold(1, n, 1)  # (B, S - n + 1, n)
        found = (ngrams[..., :-1] == ids[:, None, ids.shape[1] - n + 1 :]).all(-1)
        return _ban(scores, _standing(ngrams[..., -1].masked_fill(~found, -1), scores))


@dataclass(frozen=True)
class SequenceBias:
    """Adds a bias to the last id of a sequence where the ids before it have just been written."""

    sequence_bias: Mapping[tuple[int, ...], float]

    def __post_init__(self) -> None:
        for word, bias in self.sequence_bias.items():
            if not word or not bias < math.inf:
                raise ValueError(f"each word needs at least one id and a bias below infinity, not {list(word)}: {bias}")

    def __call__(self, ids: Tensor, scores: Tensor) -> Tensor:
        total = torch.zeros_like(scores)
        for begins, last, bias in _by_length(tuple(self.sequence_bias.items()), scores.shape[-1], scores.device):
            if (start := ids.shape[1] - begins.shape[1]) >= 0:
                found = (ids[:, None, start:] == begins).all(-1)  # (B, W)
                total.index_add_(1, last, torch.where(found, bias, 0).to(scores.dtype))
        return _unless_empty(scores + total, scores)


class BadWords(SequenceBias):
    """Sequences of ids that may not be written: the last id of one is banned where the others just were."""

    def __init__(self, bad_words_ids: Iterable[Sequence[int]]) -> None:
        super().__init__({tuple(word): -math.inf for word in bad_words_ids})


@dataclass(frozen=True)
class MinLength(_Checked):
    """No end of text before a row has min_length tokens from the column `start` on."""

    min_length: int
    eos_token_id: Sequence[int]
    start: int = 0

    def __call__(self, ids: Tensor, scores: Tensor) -> Tensor:
        short = (ids[:, self.start :] >= 0).sum(1, keepdim=True) < self.min_length  # (B, 1)
        size = scores.shape[-1]  # an end beyond it, as many a tiny model has, cannot be written anyway
        return _ban(scores, short & _these([id_ for id_ in self.eos_token_id if id_ < size], scores))


@dataclass(frozen=True)
class Forced:
    """One of these tokens, and no other, once there are `at` columns."""

    token_ids: Sequence[int]
    at: int

    def __call__(self, ids: Tensor, scores: Tensor) -> Tensor:
        return scores if ids.shape[1] != self.at else _ban(torch.zeros_like(scores), ~_these(self.token_ids, scores))


@dataclass(frozen=True)
class Suppress:
    """None of these tokens, always or once there are `at` columns."""

    token_ids: Sequence[int]
    at: int | None = None

    def __call__(self, ids: Tensor, scores: Tensor) -> Tensor:
        return _ban(scores, _these(self.token_ids, scores)) if self.at in (None, ids.shape[1]) else scores


def _check(name: str, value: object) -> None:
    if name in SETTINGS and not SETTINGS[name][1](value):
        raise ValueError(f"{name} must be {SETTINGS[name][2]}, not {value!r}")


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
        _check(name, value)
        return [make(value)]

    return made


def _needed(value: Any, what: str) -> Any:
    if value is None:
        raise ValueError(f"these settings need {what}, and there is none: give it, or leave them out")
    return value


def _as_tuple(ids: int | Sequence[int] | None) -> tuple[int, ...]:
    return () if ids is None else (ids,) if isinstance(ids, int) else tuple(ids)


def _nth_best(scores: Tensor, n: int) -> Tensor:
    return scores.topk(min(n, scores.shape[-1])).values[:, -1:]  # (B, 1)


def _entropy(logs: Tensor) -> Tensor:
    return -(logs * logs.exp()).nansum(-1, keepdim=True)  # (B, 1); 0 · -inf counts nothing


def _beside(ids: Tensor, source: Tensor | None) -> Tensor:
    """(B, S): the text a filter looks at; one source serves all beams of its text."""
    return ids if source is None else source.repeat_interleave(len(ids) // len(source), 0)


def _standing(ids: Tensor, scores: Tensor) -> Tensor:
    """(B, V): which tokens stand among these ids; a last column takes those without a score, and is cut off."""
    size = scores.shape[-1]
    marks = scores.new_zeros(len(scores), size + 1, dtype=torch.bool)
    return marks.scatter(1, torch.where((ids < 0) | (ids > size), size, ids), True)[:, :size]


def _unless_empty(changed: Tensor, scores: Tensor) -> Tensor:
    """The changed scores; a row left without a token keeps those it had."""
    return torch.where(changed.amax(-1, keepdim=True) == -math.inf, scores, changed)


def _ban(scores: Tensor, banned: Tensor) -> Tensor:
    return _unless_empty(scores.masked_fill(banned, -math.inf), scores)


def _these(ids: Sequence[int], scores: Tensor) -> Tensor:
    return _mask(tuple(ids), scores.shape[-1], scores.device)


@lru_cache(maxsize=64)
def _mask(ids: tuple[int, ...], size: int, device: torch.device) -> Tensor:
    """(V,): True at these ids; made once, since sending it to a GPU at every step would wait."""
    for wrong in (id_ for id_ in ids if not 0 <= id_ < size):
        raise ValueError(f"the id {wrong} is not in the vocabulary; give one from 0 to {size - 1}")
    with torch.inference_mode(False):  # so that it serves outside of it as well
        return torch.zeros(size, dtype=torch.bool).index_fill(0, torch.tensor(ids, dtype=torch.long), True).to(device)


@lru_cache(maxsize=64)
def _by_length(words: tuple[tuple[tuple[int, ...], float], ...], size: int, device: torch.device) -> list[list[Tensor]]:
    """The words of each length: their ids but the last (W, n - 1), the last (W,), and their biases (W,)."""
    _mask(tuple({id_ for ids, _ in words for id_ in ids}), size, device)  # all are in the vocabulary
    groups = [[word for word in words if len(word[0]) == n] for n in {len(ids) for ids, _ in words}]
    with torch.inference_mode(False):
        tables = [[torch.tensor(column) for column in zip(*group, strict=True)] for group in groups]
        return [[x.to(device) for x in (ids[:, :-1], ids[:, -1], bias)] for ids, bias in tables]
