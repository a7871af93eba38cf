"""A text, or ids, as a model reads it: its inputs, and the tokens on every side."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.generate.api import generate
from glassformer.models.contract import as_model, can_generate
from glassformer.text.tokenizer import Tokenizer
from glassformer.view.board import AxisTokens

EMPTY = "there is nothing to read: give a text that is not empty"


@dataclass(frozen=True)
class TokenizedInputs:
    """What a model is asked, and its tokens: "read" and, in an encoder-decoder, "fed" and "written"."""

    inputs: dict[str, Tensor]
    tokens: dict[str, AxisTokens]


def reading(
    model: nn.Module,
    tokenizer: Tokenizer | None,
    text: str | Sequence[int],
    pair: str | None = None,
    *,
    target: str | Sequence[int] | None = None,
    check: Callable[[int], None] | None = None,
    **settings: Any,
) -> TokenizedInputs:
    """One text, or a pair; without a tokenizer, a list of ids.

    An encoder-decoder writes `target`, or else what it wants to itself, by `settings` of generation. `check` is told
    the tokens of each side before the model reads them, and may refuse them.
    """
    writes = as_model(model).config.is_encoder_decoder
    if target is not None and not writes:
        raise ValueError("a target is for an encoder-decoder; this model only reads: leave it out")
    if pair is not None and writes:
        raise ValueError("a pair is for a model that only reads; an encoder-decoder has a target: leave the pair out")
    inputs, sides = _read(model, tokenizer, text, pair)
    if check is not None:
        check(inputs["input_ids"].shape[1])
    tokens = {"read": _tokens(tokenizer, inputs["input_ids"], sides)}
    if writes:
        written = _written(model, tokenizer, inputs, target, settings)  # (1, T + 1), from the start token on
        if check is not None:
            check(written.shape[1] - 1)
        inputs["decoder_input_ids"] = written[:, :-1]
        tokens |= {"fed": _tokens(tokenizer, written[:, :-1]), "written": _tokens(tokenizer, written[:, 1:])}
    return TokenizedInputs(inputs, tokens)


def _read(
    model: nn.Module, tokenizer: Tokenizer | None, text: str | Sequence[int], pair: str | None
) -> tuple[dict[str, Tensor], list[int | None]]:
    """The inputs, and which text of a pair each token is from."""
    device = next(model.parameters()).device
    if tokenizer is None:
        if isinstance(text, str) or pair is not None:
            raise ValueError("without a tokenizer, give one list of ids instead of texts")
        return {"input_ids": checked_ids(model, text, device)}, []
    if not isinstance(text, str):
        raise ValueError("this model has a tokenizer: give a text instead of ids")
    if not text.strip():  # though special tokens alone would be some
        raise ValueError(EMPTY)
    segments = None if as_model(model).config.has_segments else False
    if pair is None and reads_prompts(model):
        ids = checked_ids(model, tokenizer.encode_prompts([text])[0], device)
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}, []
    encoding = tokenizer(text, pair, return_token_type_ids=segments, return_tensors="pt")
    checked_ids(model, encoding["input_ids"][0].tolist(), device)
    inputs = {part: value.to(device) for part, value in encoding.items()}
    return inputs, encoding.sequence_ids() if pair is not None else []


def reads_prompts(model: nn.Module) -> bool:
    """Whether a model reads a text to go on from it: as `Tokenizer.encode_prompts` makes it."""
    read = as_model(model)
    return can_generate(read) and not read.config.is_encoder_decoder


def checked_ids(model: nn.Module, ids: Sequence[int], device: torch.device, *, size: int | None = None) -> Tensor:
    """(1, T) ids that the model knows."""
    known = size or as_model(model).config.vocab_size
    if not len(ids):
        raise ValueError(EMPTY)
    if wrong := [token for token in ids if not 0 <= int(token) < known]:
        raise ValueError(f"id {wrong[0]} is not in the vocabulary, whose ids go from 0 to {known - 1}")
    return torch.tensor([list(ids)], device=device)


def _written(
    model: nn.Module,
    tokenizer: Tokenizer | None,
    inputs: dict[str, Tensor],
    target: str | Sequence[int] | None,
    settings: dict[str, Any],
) -> Tensor:
    """What the decoder writes, behind its first token."""
    ids = inputs["input_ids"]
    if target is None:
        try:
            return generate(model, None, ids, attention_mask=inputs.get("attention_mask"), **settings)  # type: ignore[no-any-return]
        except ValueError as error:
            raise ValueError(f"{error}; to look inside all the same, give a target that it is to write") from None
    if (tokenizer is None) is isinstance(target, str):
        raise ValueError("give the target as a text where there is a tokenizer, and as ids where there is none")
    listed: Any = target if tokenizer is None else tokenizer(text_target=target)["input_ids"]
    config = as_model(model).config
    stated = config.to_hf().get("decoder_start_token_id")
    first = config.bos_token_id if stated is None else stated
    if first is None:
        raise ValueError("the model's config has no decoder_start_token_id, so its decoder cannot begin; set one")
    written = checked_ids(model, listed, ids.device, size=config.target_vocab_size)
    return torch.cat([torch.tensor([[first]], device=ids.device), written], dim=1)


def _tokens(tokenizer: Tokenizer | None, ids: Tensor, sides: Sequence[int | None] = ()) -> AxisTokens:
    listed = ids[0].tolist()
    return AxisTokens(texts=[token_text(tokenizer, token) for token in listed], ids=listed, sides=list(sides))


def token_text(tokenizer: Tokenizer | None, token: int) -> str:
    """A token as a person reads it: its text, or its name where it is only a part of a character."""
    if tokenizer is None:
        return str(token)
    name = str(tokenizer.convert_ids_to_tokens(token))
    if name.startswith("▁"):
        return " " + name[1:]
    text = str(tokenizer.decode([token]))
    return name if not text or "\ufffd" in text else text
