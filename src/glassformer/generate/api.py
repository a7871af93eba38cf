"""generate and stream: from prompts to texts, or from ids to ids."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from . import pick
from .search import Adjust, Choose, Found, Prompt, beams, one_by_one, tokens
from .settings import Settings


@torch.inference_mode()
def generate(
    model: Any,
    tokenizer: Any | None,
    prompts: str | Sequence[str] | Tensor,
    *,
    attention_mask: Tensor | None = None,
    **settings: Any,
) -> Any:
    """Go on from prompts, or answer sources, with Hugging Face's parameter names.

    With a tokenizer: a text gives a text, texts give texts (lists of them with num_return_sequences). Without one:
    ids (B, P) give ids (B·R, P + N), laid out as transformers' generate does. Sampling is on if do_sample says so or
    if any sampling setting is given.
    """
    many = [prompts] if isinstance(prompts, str) else prompts
    prompt, request = _prepare(model, tokenizer, many, attention_mask, settings)
    found = _search(model, prompt, request)
    if tokenizer is None:
        return found.sequences
    texts = [tokenizer.decode(row, skip_special_tokens=True) for row in found.sequences.tolist()]
    share = request.num_return_sequences
    grouped = [texts[start : start + share] for start in range(0, len(texts), share)] if share > 1 else texts
    return grouped[0] if isinstance(prompts, str) else grouped


def stream(model: Any, tokenizer: Any, prompt: str, **settings: Any) -> Iterator[str]:
    """The new text piece by piece, as it is written; characters of several tokens come whole."""
    read, request = _prepare(model, tokenizer, [prompt], None, settings)
    if request.num_beams > 1 or request.num_return_sequences > 1:
        raise ValueError("a stream is one text: leave num_beams and num_return_sequences at 1, or use generate")
    steps = tokens(model, read, request, *_rules(read, request))
    ids: list[int] = []
    sent = ""
    while True:
        with torch.inference_mode():  # left at every piece, so that the caller's own work is not in it
            step = next(steps, None)
        if step is None:
            break
        ids.append(int(step[0]))
        text = tokenizer.decode(ids, skip_special_tokens=True)
        if not text.endswith("\ufffd") and len(text) > len(sent):  # else in the middle of a character
            yield text[len(sent) :]
            sent = text
    text = tokenizer.decode(ids, skip_special_tokens=True) if ids else ""
    if len(text) > len(sent):
        yield text[len(sent) :]


def _prepare(
    model: Any, tokenizer: Any | None, prompts: Any, mask: Tensor | None, given: dict[str, Any]
) -> tuple[Prompt, Settings]:
    """The prompt on the model's device, and the request with the model's own defaults."""
    if not hasattr(model, "step") or not str(model.head_name).endswith("generation"):
        raise ValueError(f"a model with head {model.head_name!r} does not generate; load one that does")
    config = {name: getattr(model.config, name, None) for name in Settings.__dataclass_fields__}
    size = getattr(model.config, "decoder_vocab_size", None) or model.config.vocab_size
    for name, value in config.items():  # many a small model has kept the special ids of a large one
        config[name] = None if name.endswith("_token_id") and isinstance(value, int) and value >= size else value
    request = Settings.of(given, getattr(model, "generation_config", None) or {}, config)
    seq2seq = model.config.is_encoder_decoder
    device = next(model.parameters()).device
    if tokenizer is not None:
        prompts, mask = _encode(tokenizer, prompts, request, seq2seq=seq2seq)
    elif not isinstance(prompts, Tensor) or prompts.dim() != 2:
        raise ValueError("without a tokenizer, give a tensor of ids (texts, tokens)")
    prompts, mask = prompts.to(device), None if mask is None else mask.to(device)
    if not seq2seq:
        if mask is not None:
            prompts, mask = left_padded(prompts, mask)
        return Prompt(prompts, mask), _within(request, prompts.shape[1], model.config)
    first = request.decoder_start_token_id if request.decoder_start_token_id is not None else request.bos_token_id
    if first is None:
        raise ValueError("the model's config has no decoder_start_token_id; give one")
    return Prompt(prompts, mask, torch.full((len(prompts), 1), first, device=device)), _within(request, 1, model.config)


def _within(request: Settings, prompt: int, config: Any) -> Settings:
    """Where no length was asked for, as much as fits into the model's positions, at most 50 tokens."""
    limit = getattr(config, "n_positions", None) or getattr(config, "max_position_embeddings", None)
    if limit is None:
        return request
    room = limit - prompt + 1  # the last token is never read
    if room < 1:
        raise ValueError(f"the prompt has {prompt} tokens and the model {limit} positions; shorten the prompt")
    if request.max_new_tokens is None and request.max_length is None:
        return request.with_room(min(50, room))
    if request.room(prompt) > room:
        raise ValueError(
            f"{request.room(prompt)} new tokens after a prompt of {prompt} do not fit into the model's {limit} "
            f"positions; ask for max_new_tokens={room} at most"
        )
    return request


def _encode(tokenizer: Any, texts: Any, request: Settings, *, seq2seq: bool) -> tuple[Tensor, Tensor]:
    """Ids and mask, padded on the left; an empty prompt begins with the model's first token."""
    rows = tokenizer(list(texts), add_special_tokens=seq2seq)["input_ids"]
    first = request.ends[:1] if request.bos_token_id is None else [request.bos_token_id]
    rows = [row or first for row in rows]
    if not rows or not all(rows):
        raise ValueError("there is nothing to go on from: give a prompt that is not empty")
    width = max(map(len, rows))
    ids = torch.tensor([[request.padding] * (width - len(row)) + row for row in rows])
    return ids, torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])


def left_padded(ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Real tokens moved to the right end, so that every text goes on at its last one."""
    if bool(mask[:, -1].all()):
        return ids, mask
    order = mask.bool().int().argsort(dim=1, stable=True)
    return ids.gather(1, order), mask.gather(1, order)


def _rules(prompt: Prompt, request: Settings) -> tuple[Adjust, Choose]:
    """How scores are changed, and how a token is taken by them."""
    length = prompt.written.shape[1]
    source = None if prompt.start_ids is None else pick.hide(prompt.input_ids, prompt.attention_mask)
    room = length + request.room(length)
    changes = pick.processors(request, prompt_length=length, max_length=room, eos_token_id=request.ends, source=source)
    if request.do_sample:  # beams must have a way to go on beside the end
        changes += pick.warpers(request, min_tokens_to_keep=1 if request.num_beams == 1 else 1 + len(request.ends))
    generator = _generator(request, prompt.written.device)
    choose = partial(pick.draw, generator=generator) if request.do_sample else partial(torch.argmax, dim=-1)
    return partial(pick.apply, changes), choose


def _search(model: Any, prompt: Prompt, request: Settings) -> Found:
    if request.num_beams > 1:
        adjust, _ = _rules(prompt, request)
        return beams(model, prompt, request, adjust, _generator(request, prompt.written.device))
    if request.num_return_sequences > 1:
        prompt = prompt.repeated(request.num_return_sequences)
    return one_by_one(model, prompt, request, *_rules(prompt, request))


def _generator(request: Settings, device: torch.device) -> torch.Generator:
    """Seeded by the request, or by torch's own seed."""
    seed = int(torch.randint(2**31, (1,))) if request.seed is None else request.seed
    return torch.Generator(device).manual_seed(seed)
