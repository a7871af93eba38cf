"""The keyword arguments of generate and stream as editors and type checkers see them."""

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

from torch import nn

from .constraints import DisjunctiveConstraint, PhrasalConstraint

Ids = Sequence[int]


class GenerationOptions(TypedDict, total=False):
    """What can be asked of generation: meanings by `make docs` from settings.py, to which a test holds the types."""

    max_new_tokens: int | None
    """New tokens at most; by default 50, or what fits behind the prompt."""
    max_length: int | None
    """Tokens at most, the prompt included; max_new_tokens goes before it."""
    min_new_tokens: int | None
    """New tokens before the text may end."""
    min_length: int | None
    """Tokens before the text may end, the prompt included."""
    max_time: float | None
    """Seconds at most; what is written by then is given."""
    truncation: bool
    """Cut a prompt that is too long at its beginning, a source at its end; else it is an error."""
    add_special_tokens: bool
    """Put BOS before a prompt where the tokenizer does so, and around a source what it has there."""
    do_sample: bool | None
    """Draw each token by its probability; by default where a sampling setting (temperature, top_k …) is given."""
    num_beams: int
    """Beginnings that beam search keeps; 4 is usual for translation. 1 for no beams."""
    num_return_sequences: int
    """Texts for each prompt; more than one needs as many beams, or do_sample."""
    length_penalty: float
    """Power of the length that a beam's score is divided by: above 0 favours longer texts."""
    early_stopping: bool | Literal["never"]
    """End beam search when num_beams texts are found; 'never' waits until none could be better."""
    num_beam_groups: int
    """Groups of beams that avoid each other's words (diverse beam search)."""
    diversity_penalty: float
    """What a group pays for a word that a group before it took at the same step."""
    force_words_ids: Sequence[Ids | Sequence[Ids]] | None
    """Phrases that must be written, as ids; a list of phrases means one of them. Needs beams."""
    constraints: Sequence[PhrasalConstraint | DisjunctiveConstraint] | None
    """The same as objects: PhrasalConstraint, DisjunctiveConstraint."""
    penalty_alpha: float | None
    """Weight of the penalty on what the text already means (contrastive search); 0.6, with top_k=4."""
    assistant_model: nn.Module | None
    """A smaller model with the same vocabulary that guesses ahead (speculative decoding)."""
    num_assistant_tokens: int
    """Tokens the assistant guesses at a time."""
    prompt_lookup_num_tokens: int | None
    """Tokens guessed at a time from the text itself, without an assistant; 10 for copied text."""
    max_matching_ngram_size: int
    """Longest run of last tokens that is looked up for such a guess."""
    temperature: float | None
    """What scores are divided by: below 1 safer, above 1 bolder."""
    top_k: int | None
    """Choose among the k likeliest tokens."""
    top_p: float | None
    """Draw from the fewest likeliest tokens that make up this probability (nucleus); 0.9 to 0.95."""
    min_p: float | None
    """Draw from tokens at least this share as likely as the likeliest; 0.05 to 0.1."""
    typical_p: float | None
    """Draw from the tokens nearest to the expected surprise, up to this probability."""
    epsilon_cutoff: float | None
    """Draw from tokens of at least this probability, as 0.0003."""
    eta_cutoff: float | None
    """The same with a threshold that falls where the distribution is flat."""
    repetition_penalty: float | None
    """Above 1: tokens of the text so far, prompt included, score less; 1.2 is much."""
    presence_penalty: float | None
    """Taken from the score of each token written so far, once."""
    frequency_penalty: float | None
    """Taken from the score of each token for each time it was written."""
    no_repeat_ngram_size: int | None
    """No run of so many tokens is written twice; 3 is usual."""
    encoder_no_repeat_ngram_size: int | None
    """No run of so many tokens is copied from the source."""
    encoder_repetition_penalty: float | None
    """Above 1: tokens of the source score more, so that it is kept to."""
    bad_words_ids: Sequence[Ids] | None
    """Sequences of ids that are never written."""
    sequence_bias: Mapping[tuple[int, ...], float] | Sequence[tuple[Ids, float]] | None
    """What is added to the score of a sequence's last id, after the ids before it."""
    suppress_tokens: Ids | None
    """Ids that are never written."""
    begin_suppress_tokens: Ids | None
    """Ids that are not written first."""
    forced_bos_token_id: int | None
    """Id that is written first: of a multilingual model, the language."""
    forced_eos_token_id: int | Ids | None
    """Id that is written last where the length limit is reached."""
    eos_token_id: int | Ids | None
    """Ids that end a text; by default the model's."""
    stop_token_ids: Ids | None
    """Ids that end a text as well."""
    stop_strings: str | Sequence[str] | None
    """Strings that end a text, found across token borders."""
    pad_token_id: int | None
    """Id that fills up shorter texts of a batch; by default the model's."""
    bos_token_id: int | None
    """Id that begins a text without a prompt; by default the model's."""
    decoder_start_token_id: int | None
    """Id that an encoder-decoder's decoder reads first; by default the model's."""
    seed: int | None
    """Seed of what is drawn: the same seed gives the same texts."""
    return_dict_in_generate: bool
    """Give a Generated, with scores and log-probabilities, in the place of texts or ids."""
    top_logprobs: int
    """Likeliest alternatives to tell for each token, with return_dict_in_generate."""
