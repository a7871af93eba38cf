"""Texts typed on the command line as a model's inputs."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn

WRITTEN = 12  # tokens that an encoder-decoder writes itself, where no target is given


@dataclass(frozen=True)
class Typed:
    """What a model is asked, and its tokens as people read them; a target is there in an encoder-decoder alone."""

    inputs: dict[str, "Tensor"]
    tokens: list[str]
    target: list[str] = field(default_factory=list)


def typed(name: str, model: "nn.Module", text: str, pair: str | None, label: str | None = None) -> Typed:
    """One text, or a text and its pair; of an encoder-decoder the pair is the target, else it writes its own."""
    import glassformer as gf

    config: Any = model.config
    tokenizer: Any = gf.load_tokenizer(name)
    seq2seq = getattr(config, "is_encoder_decoder", False)
    if getattr(getattr(model, "embeddings", None), "segment", None) is None:
        tokenizer.settings.segments = False
    encoded = tokenizer([text], None if seq2seq or pair is None else [pair], return_tensors="pt")
    device = next(model.parameters()).device
    inputs = {key: value.to(device) for key, value in encoded.items()}
    if not inputs["input_ids"].numel():
        raise ValueError(f"the text {text!r} has no token; give one that has")
    tokens = tokenizer.convert_ids_to_tokens(inputs["input_ids"][0].tolist())
    if seq2seq:
        target = _target(model, tokenizer, inputs, pair)
        inputs |= {"decoder_input_ids": target[:, :-1], "labels": target[:, 1:]}
        return Typed(inputs, tokens, tokenizer.convert_ids_to_tokens(target[0, :-1].tolist()))
    inputs |= _labels(model, tokenizer, inputs["input_ids"], label)
    return Typed(inputs, tokens)


def _target(model: Any, tokenizer: Any, inputs: dict[str, Any], pair: str | None) -> Any:
    """The ids of the target, beginning with what every target begins with."""
    import torch

    import glassformer as gf

    if pair is None:
        return gf.generate(model, None, **_prompt(inputs), max_new_tokens=WRITTEN)
    ids = tokenizer(text_target=[pair], return_tensors="pt")["input_ids"].to(inputs["input_ids"].device)
    config = model.config
    first = config.decoder_start_token_id if config.decoder_start_token_id is not None else config.bos_token_id
    if first is None:
        raise ValueError("the model's config has no decoder_start_token_id, so that no target can begin; set one")
    return torch.cat([torch.full_like(ids[:, :1], first), ids], dim=1)


def _prompt(inputs: dict[str, Any]) -> dict[str, Any]:
    return {"prompts": inputs["input_ids"], "attention_mask": inputs.get("attention_mask")}


def _labels(model: Any, tokenizer: Any, ids: "Tensor", label: str | None) -> dict[str, Any]:
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
        case "fill-mask":
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
