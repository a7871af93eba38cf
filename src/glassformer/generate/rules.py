"""The settings that change scores: their names, what means off, and what is allowed."""

import math
from collections.abc import Callable
from typing import Any

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


class Checked:
    """A filter whose fields obey SETTINGS."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            check(name, value)


def check(name: str, value: object) -> None:
    if name in SETTINGS and not SETTINGS[name][1](value):
        raise ValueError(f"{name} must be {SETTINGS[name][2]}, not {value!r}")
