"""Texts typed on the command line as a model's inputs."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn

WRITTEN = 12  # tokens that an encoder-decoder writes itself, where no target is given


@dataclass(frozen=True)
class Asked:
    """What was typed: a text and, where they are wanted, its pair, what is to be written, and a label."""

    text: str
    pair: str | None = None
    target: str | None = None
    label: str | None = None


@dataclass(frozen=True)
class Typed:
    """What a model is asked, and its tokens as people read them; a target is there in an encoder-decoder alone."""

    inputs: dict[str, "Tensor"]
    tokens: list[str]
    target: list[str] = field(default_factory=list)


def typed(name: str, model: "nn.Module", asked: Asked) -> Typed:
    """One text, or a text and its pair. A folder without a tokenizer reads ids; an encoder-decoder writes a target."""
    import torch

    tokenizer, writes = _tokenizer(name, model), bool(getattr(model.config, "is_encoder_decoder", False))
    for option, given, fits in (("pair", asked.pair, not writes), ("target", asked.target, writes)):
        if given is not None and not (fits and (tokenizer or option == "target")):
            other = "--target" if writes else "--pair"
            raise ValueError(
                f"--{option} is not for this model; leave it out{f', or use {other}' if tokenizer else ''}"
            )
    inputs = {part: torch.tensor(rows) for part, rows in _encoded(name, tokenizer, asked.text, asked.pair).items()}
    inputs = {part: rows.to(next(model.parameters()).device) for part, rows in inputs.items()}
    if not inputs["input_ids"].numel():
        raise ValueError(f"the text {asked.text!r} has no token; give one that has")
    check_ids(model, inputs["input_ids"])
    tokens = _words(tokenizer, inputs["input_ids"])
    if not writes:
        return Typed({**inputs, **_labels(model, tokenizer, inputs["input_ids"], asked.label)}, tokens)
    target = _target(name, model, tokenizer, inputs, asked.target)
    inputs |= {"decoder_input_ids": target[:, :-1], "labels": target[:, 1:]}
    return Typed(inputs, tokens, _words(tokenizer, target[:, :-1]))


def check_ids(model: Any, ids: "Tensor") -> None:
    if int(ids.max()) >= model.config.vocab_size or int(ids.min()) < 0:
        wrong = int(ids.max()) if int(ids.min()) >= 0 else int(ids.min())
        raise ValueError(f"the id {wrong} is outside the model's vocabulary, 0 to {model.config.vocab_size - 1}")


def _tokenizer(name: str, model: Any) -> Any | None:
    """The folder's tokenizer, with segments only where the model has a use for them; None where it has none."""
    import glassformer as gf
    from glassformer.hub.fetch import TOKENIZER_FILES, tokenizer_folder

    if not any((tokenizer_folder(name) / file).is_file() for file in TOKENIZER_FILES):
        return None
    tokenizer: Any = gf.load_tokenizer(name)
    if getattr(getattr(model, "embeddings", None), "segment", None) is None:
        tokenizer.settings.segments = False
    return tokenizer


def _encoded(name: str, tokenizer: Any | None, text: str, pair: str | None) -> dict[str, list[list[int]]]:
    if tokenizer is None:
        return {"input_ids": [_ids(name, text)]}
    return dict(tokenizer([text], None if pair is None else [pair]))


def _ids(name: str, text: str) -> list[int]:
    try:
        return [int(word) for word in text.replace(",", " ").split()]
    except ValueError:
        raise ValueError(f"{name} has no tokenizer: give ids, such as '5 17 3', not {text!r}") from None


def _words(tokenizer: Any | None, ids: "Tensor") -> list[str]:
    row = ids[0].tolist()
    return [str(token) for token in row] if tokenizer is None else tokenizer.convert_ids_to_tokens(row)


def _target(name: str, model: Any, tokenizer: Any | None, inputs: dict[str, Any], target: str | None) -> Any:
    """The ids of the target, beginning with what every target begins with."""
    import torch

    import glassformer as gf

    if target is None:
        mask = inputs.get("attention_mask")
        return gf.generate(model, None, inputs["input_ids"], attention_mask=mask, num_beams=1, max_new_tokens=WRITTEN)
    ids = _ids(name, target) if tokenizer is None else tokenizer(text_target=target)["input_ids"]
    config = model.config
    first = config.decoder_start_token_id if config.decoder_start_token_id is not None else config.bos_token_id
    if first is None:
        raise ValueError("the model's config has no decoder_start_token_id, so that no target can begin; set one")
    if not ids:
        raise ValueError(f"the target {target!r} has no token; give one that has")
    return torch.tensor([[first, *ids]], device=inputs["input_ids"].device)


def _labels(model: Any, tokenizer: Any | None, ids: "Tensor", label: str | None) -> dict[str, Any]:
    """What the loss is measured against: a class, the masked word, an answer's ends; a language model needs nothing."""
    import torch

    if model.head_name == "text-generation":
        return {"labels": ids} if ids.shape[1] > 1 else {}
    if label is None:
        return {}
    match model.head_name:
        case "text-classification":
            names = list(model.config.id2label.values())
            if label not in names:
                raise ValueError(f"the model has no label {label!r}; it has: {', '.join(names)}")
            return {"labels": torch.tensor([names.index(label)], device=ids.device)}
        case "fill-mask" if tokenizer is not None:
            word = tokenizer(label, add_special_tokens=False)["input_ids"]
            masked = ids == tokenizer.mask_token_id
            if len(word) != 1 or not bool(masked.any()):
                raise ValueError(f"--label {label!r} must be one token, and the text must hold {tokenizer.mask_token}")
            return {"labels": torch.where(masked, word[0], -100)}
        case "question-answering":
            ends = [int(part) for part in label.split(",") if part.strip().isdigit()]
            if len(ends) != 2 or max(ends) >= ids.shape[1]:
                raise ValueError(f"--label {label!r} must be an answer's first and last token, e.g. 5,7")
            first, last = (torch.tensor([end], device=ids.device) for end in ends)
            return {"start_positions": first, "end_positions": last}
        case head:
            raise ValueError(f"--label is for classifiers, masked words and answers, not for the head {head!r}")
