"""The keyword arguments of generate and stream as editors and type checkers see them."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

from torch import nn

from .constraints import DisjunctiveConstraint, PhrasalConstraint

Ids = Sequence[int]


class GenerationOptions(TypedDict, total=False):
    """What can be asked of generation; what each means stands in settings.py, and a test holds these to that."""

    max_new_tokens: int | None
    max_length: int | None
    min_new_tokens: int | None
    min_length: int | None
    max_time: float | None
    truncation: bool
    add_special_tokens: bool
    do_sample: bool | None
    num_beams: int
    num_return_sequences: int
    length_penalty: float
    early_stopping: bool | Literal["never"]
    num_beam_groups: int
    diversity_penalty: float
    force_words_ids: Sequence[Ids | Sequence[Ids]] | None
    constraints: Sequence[PhrasalConstraint | DisjunctiveConstraint] | None
    penalty_alpha: float | None
    assistant_model: nn.Module | None
    num_assistant_tokens: int
    prompt_lookup_num_tokens: int | None
    max_matching_ngram_size: int
    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    typical_p: float | None
    epsilon_cutoff: float | None
    eta_cutoff: float | None
    repetition_penalty: float | None
    presence_penalty: float | None
    frequency_penalty: float | None
    no_repeat_ngram_size: int | None
    encoder_no_repeat_ngram_size: int | None
    encoder_repetition_penalty: float | None
    bad_words_ids: Sequence[Ids] | None
    sequence_bias: Mapping[tuple[int, ...], float] | Sequence[tuple[Ids, float]] | None
    suppress_tokens: Ids | None
    begin_suppress_tokens: Ids | None
    forced_bos_token_id: int | None
    forced_eos_token_id: int | Ids | None
    eos_token_id: int | Ids | None
    stop_token_ids: Ids | None
    stop_strings: str | Sequence[str] | None
    pad_token_id: int | None
    bos_token_id: int | None
    decoder_start_token_id: int | None
    seed: int | None
    return_dict_in_generate: bool
    top_logprobs: int
