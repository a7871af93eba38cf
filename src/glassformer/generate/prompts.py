"""Prompts: texts or ids as a search reads them, padded on the left, within what the model can hold.

B texts, P prompt length.
"""

import logging
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.models.contract import GenerativeModel, Model, as_generative, generation_config
from glassformer.text.tokenizer import Tokenizer

from .job import Prompt
from .settings import GenerationSettings
from .strategies import DEFAULT_NEW

LOG = logging.getLogger("glassformer")
LONGEST_PROMPT = 10_000_000  # characters: more takes minutes and gigabytes to tokenise, and fits into no model


def request_of(model: GenerativeModel[Any], given: dict[str, Any]) -> GenerationSettings:
    """The request with the model's own defaults."""
    config = {name: getattr(model.config, name, None) for name in GenerationSettings.__dataclass_fields__}
    size = model.config.target_vocab_size
    for name, value in config.items():  # many a small model has kept the special ids of a large one, or says -1
        if name.endswith("_token_id") and isinstance(value, int) and not 0 <= value < size:
            config[name] = None
    stated = generation_config(model)
    stated.update({name: None for name, value in stated.items() if name.endswith("_token_id") and value == -1})
    request = GenerationSettings.of(given, stated, config)
    _check_draft(model, request.assistant_model)
    return request


def prompt_of(
    model: Model,
    tokenizer: Tokenizer | None,
    prompts: Sequence[str] | Tensor,
    mask: Tensor | None,
    request: GenerationSettings,
    *,
    row_length: int | None = None,
) -> tuple[Prompt, GenerationSettings]:
    """The prompt on the model's device, and the request with a length that fits; ids (B, P) are taken as they are.

    What fits are the model's positions, or the `row_length` of a batch that has less room.
    """
    limit, size = row_length or model.config.max_positions, model.config.target_vocab_size
    holder = "the model" if limit == model.config.max_positions else "a row"
    device = next(model.parameters()).device
    seq2seq = model.config.is_encoder_decoder
    if request.stops and tokenizer is None:
        raise ValueError("stop_strings need a tokenizer to read what is written; give one, or use stop_token_ids")
    if tokenizer is not None and not isinstance(prompts, Tensor):
        prompts, mask = _encoded(tokenizer, prompts, request, source_limit=limit if seq2seq else None, seq2seq=seq2seq)
    elif not isinstance(prompts, Tensor) or prompts.dim() != 2:
        raise ValueError("without a tokenizer, give a tensor of ids (texts, tokens)")
    prompts, mask = prompts.to(device), None if mask is None else mask.to(device)
    if not seq2seq:
        if mask is not None:
            prompts, mask = left_padded(prompts, mask)
        prompts, mask = _cut(prompts, mask, _prompt_capacity(request, limit), request, last=True)
        return Prompt(prompts, mask), _within(request, prompts.shape[1], limit, holder)
    first = request.decoder_start_token_id if request.decoder_start_token_id is not None else request.bos_token_id
    if first is None:
        raise ValueError("the model's config has no decoder_start_token_id; give one")
    if not 0 <= first < size:
        raise ValueError(f"decoder_start_token_id={first} is not in the vocabulary of {size}; change it")
    prompts, mask = _cut(prompts, mask, limit, request, last=False)
    start = torch.full((len(prompts), 1), first, device=device)
    return Prompt(prompts, mask, start), _within(request, 1, limit, holder)


def left_padded(ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Real tokens moved to the right end, so that every text goes on at its last one."""
    if bool((mask.bool().int().diff(dim=1) >= 0).all()):
        return ids, mask
    order = mask.bool().int().argsort(dim=1, stable=True)
    return ids.gather(1, order), mask.gather(1, order)


def _encoded(
    tokenizer: Tokenizer, texts: Sequence[str], request: GenerationSettings, *, source_limit: int | None, seq2seq: bool
) -> tuple[Tensor, Tensor]:
    """Ids and mask, padded on the left; an empty prompt begins with the model's first token."""
    if (longest := max(map(len, texts), default=0)) > LONGEST_PROMPT:
        raise ValueError(f"a prompt has {longest:,} characters; {LONGEST_PROMPT:,} are the most that is read")
    if seq2seq or not request.add_special_tokens:
        limit = source_limit if request.truncation else None  # a max_length alone truncates
        rows = tokenizer(list(texts), add_special_tokens=request.add_special_tokens, max_length=limit)["input_ids"]
    else:
        rows = tokenizer.encode_prompts(texts)
    first = request.ends[:1] if request.bos_token_id is None else [request.bos_token_id]
    rows = [row or first for row in rows]
    if not rows or not all(rows):
        raise ValueError("there is nothing to go on from: give a prompt that is not empty")
    width = max(map(len, rows))
    ids = torch.tensor([[request.padding] * (width - len(row)) + row for row in rows])
    return ids, torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])


def _prompt_capacity(request: GenerationSettings, limit: int | None) -> int | None:
    """How long a prompt may be, beside the tokens that are to follow it."""
    if limit is None:
        return None
    new = request.max_new_tokens or (1 if request.max_length else min(DEFAULT_NEW, limit // 2))
    return limit + request.unread - new


def _cut(
    ids: Tensor, mask: Tensor | None, most: int | None, request: GenerationSettings, *, last: bool
) -> tuple[Tensor, Tensor | None]:
    """Where truncation is asked for, only as many columns as fit, and a word about it."""
    if most is None or ids.shape[1] <= most or most < 1 or not request.truncation:
        return ids, mask
    LOG.warning(
        "a prompt has %s tokens and only %s fit: its %s are left out",
        *(ids.shape[1], most, "first ones" if last else "last ones"),
    )
    part = slice(-most, None) if last else slice(most)
    return ids[:, part], None if mask is None else mask[:, part]


def _within(request: GenerationSettings, prompt: int, limit: int | None, holder: str) -> GenerationSettings:
    """Where no length was asked for, as much as fits into the positions that the holder has, at most 50 tokens."""
    if limit is None:
        return request
    space = limit - prompt + request.unread
    if space < 1:
        raise ValueError(
            f"the prompt has {prompt} tokens and {holder} {limit} positions; shorten the prompt, "
            "or give truncation=True to keep its end"
        )
    if request.max_new_tokens is None and request.max_length is None:
        return request.with_max_new(min(DEFAULT_NEW, space))
    if request.max_new(prompt) > space:
        raise ValueError(
            f"{request.max_new(prompt)} new tokens after a prompt of {prompt} do not fit into {holder}'s {limit} "
            f"positions; ask for max_new_tokens={space} at most, or give truncation=True"
        )
    return request


def _check_draft(model: Model, draft: nn.Module | None) -> None:
    if draft is None:
        return
    theirs, ours = as_generative(draft).config.target_vocab_size, model.config.target_vocab_size
    if theirs != ours:
        raise ValueError(
            f"the assistant_model writes {theirs} ids and the model {ours}; they must share one vocabulary"
        )
