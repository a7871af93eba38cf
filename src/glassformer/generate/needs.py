"""What a search needs of memory, worked out before it starts: states, scores of all words, and the texts themselves.

B texts, K rows a text (beams, candidates or results), V vocabulary, N new tokens, L tokens of a text at the end.
"""

from typing import Any

from glassformer.blocks.memory import check_memory
from glassformer.models.contract import GenerativeModel

from .job import Prompt, filters_of
from .settings import GenerationSettings

PLAIN, CHANGED, KNOWN = 16, 40, 40  # bytes a score: taken as it is, filtered or drawn by, kept with its word and sorted
ID, PAIR = 8, 12  # bytes: of an id, and of two ways to go on that are compared
PASSING = 16  # times what a state holds of one token: the sums within a step
STEP = 1024  # bytes that each new token takes beside its id: two small tensors, and what Python needs to hold them
AT_ONCE = 8  # texts that are read again together, to be explained
SOON = 4096  # new tokens: room beyond them is not taken before they are written, which may never be


def check_needs(model: GenerativeModel[Any], prompt: Prompt, settings: GenerationSettings) -> None:
    """Refuse a search that cannot fit, by all that it will take, and name the numbers that made it so large."""
    texts, tokens = prompt.input_ids.shape
    parts = [f"{texts} prompts"] if texts > 1 else []
    for name, counts in {
        "num_beams": settings.num_beams > 1,
        "top_k": settings.strategy == "contrastive",
        "num_return_sequences": settings.num_return_sequences > 1,
        "top_logprobs": settings.top_logprobs > 0,
        "no_repeat_ngram_size": settings.no_repeat_ngram_size,
    }.items():
        parts += [f"{name}={getattr(settings, name)}"] if counts else []
    parts += [f"max_new_tokens={settings.max_new(prompt.written.shape[1])}"]
    what = f"{', '.join(parts)} after {tokens} tokens: the search"
    check_memory(search_bytes(model, prompt, settings), prompt.input_ids.device, what)


def search_bytes(model: GenerativeModel[Any], prompt: Prompt, settings: GenerationSettings) -> int:
    """About what a search takes at its largest, generously; the model's weights are there already."""
    size, changed = model.config.target_vocab_size, bool(filters_of(prompt, settings).each)
    (texts, source), begun = prompt.input_ids.shape, prompt.written.shape[1]
    length, soon = begun + settings.max_new(begun), min(settings.max_new(begun), SOON)
    rows, spread = texts * _rows(settings, size), settings.num_beams > 1 or settings.strategy == "contrastive"
    needed = int(model.state_bytes(rows, length, (texts if spread else rows, source)))
    needed += needed + int(model.state_bytes(texts, length, (texts, source))) if spread else 0  # rows on the move
    needed += rows * PASSING * int(model.state_bytes(1, 1, (1, 1)))
    needed += rows * (begun + source + soon) * ID * 4 + soon * STEP
    plain = settings.strategy in ("greedy", "beam") and not changed
    scored = texts if settings.strategy == "contrastive" else rows
    needed += scored * size * (PLAIN if plain else CHANGED)
    ngrams = ((settings.no_repeat_ngram_size, begun + soon), (settings.encoder_no_repeat_ngram_size, source))
    needed += sum(2 * rows * max(0, looked_at - (n or 0) + 1) * (n or 0) for n, looked_at in ngrams)
    if settings.num_beams > 1:
        needed += texts * _beam_bytes(settings, size, length, changed=changed)
    if settings.strategy == "contrastive":  # how each token is meant: never wider than a state
        needed += 2 * texts * (begun + soon) * int(model.state_bytes(1, 1, (1, 1)))
    if settings.strategy == "speculative":
        needed += (begun + min(soon, settings.prompt_lookup_num_tokens or settings.num_assistant_tokens)) * size * PLAIN
    if settings.return_dict_in_generate:
        alternatives = texts * settings.num_return_sequences * soon * min(settings.top_logprobs, size)
        needed += AT_ONCE * soon * size * PLAIN + alternatives * 2 * (ID + 4)
    return needed


def _rows(settings: GenerationSettings, size: int) -> int:
    """How many rows of a batch each text has."""
    if settings.num_beams > 1:
        return settings.num_beams
    if settings.strategy == "contrastive":
        return min(settings.top_k or 1, size)
    return settings.num_return_sequences


def _beam_bytes(settings: GenerationSettings, size: int, length: int, *, changed: bool) -> int:
    """For one text: the ways to go on, what stands in each of them, and how they are compared."""
    ways = settings.num_beams * min(size, max(2, 1 + len(settings.ends)))
    known = size if changed or settings.strategy != "beam" else min(size, ways)
    needs = 1 + sum(min(map(len, options)) for options in settings.phrases)  # of which each has its own best ways
    phrases = sum(map(len, settings.phrases))
    pairs = PAIR * (needs * ways) ** 2 if phrases else 0
    histories = (4 * settings.num_beams + 3 * needs * ways) * (length + phrases) * ID
    return settings.num_beams * known * KNOWN + pairs + histories
