"""Lenses: what a model would say if it stopped after each layer.

B batch, T places asked, L layers, D model width, V vocabulary.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .edits import patch
from .laws import is_encoder_decoder
from .record import modules_of, record


@dataclass(frozen=True)
class Lens:
    """Scores of every word after every layer; the first is what the embeddings alone would say."""

    names: list[str]  # of the L values looked at
    logits: Tensor  # (L, B, T, V)
    places: Tensor  # (B, T): which tokens were asked

    def top(self, count: int = 5) -> tuple[Tensor, Tensor]:
        """Probabilities and ids of the likeliest words, (L, B, T, count) each."""
        best = self.logits.softmax(-1).topk(count, dim=-1)
        return best.values, best.indices

    def rank(self, words: Tensor) -> Tensor:
        """(L, B, T): how many words each of `words` (B, T) comes after; 0 is the likeliest."""
        wanted = self.logits.gather(-1, words.expand(len(self.names), *words.shape)[..., None])
        return (self.logits > wanted).sum(-1)


@torch.no_grad()
def logit_lens(model: nn.Module, inputs: Mapping[str, Any], *, mask_id: int | None = None) -> Lens:
    """The output layer on what every layer gives (nostalgebraist 2020), after the final norm where there is one.

    A masked language model is asked at its masks alone: `mask_id` is their id. In an encoder-decoder it is the
    decoder that is looked at.
    """
    side = "decoder." if is_encoder_decoder(model) else ""
    speak, last = _speaker(model, side)
    names = [f"{side}embeddings", *_layers(model, f"{side}layers")]
    with record(model, names) as seen:
        model(**inputs)
    ids = inputs["decoder_input_ids" if side else "input_ids"]
    places = _places(ids, inputs.get("attention_mask"), mask_id, masked=not hasattr(model, "step"))
    index = places[..., None].expand(-1, -1, seen[names[0]].shape[-1])
    states = [seen[name].gather(1, index) for name in names]
    return Lens(names, torch.stack([speak(last(state)) for state in states]), places)


@torch.no_grad()
def decoder_lens(model: nn.Module, inputs: Mapping[str, Any]) -> Lens:
    """The decoder reads what each layer of the encoder gives, in place of the last one (Langedijk et al. 2023)."""
    if not is_encoder_decoder(model) or not _layers(model, "encoder.layers"):
        raise ValueError("a decoder lens needs a Transformer with encoder and decoder; use logit_lens for this model")
    names = ["encoder.embeddings", *_layers(model, "encoder.layers")]
    with record(model, names) as seen:
        model(**inputs)
    found = []
    for name in names:
        with record(model, edit=patch(seen, name, at="encoder.layers")):
            found.append(model(**inputs).logits)
    targets = inputs["decoder_input_ids"]
    return Lens(names, torch.stack(found), torch.arange(targets.shape[1]).expand_as(targets))


def _layers(model: nn.Module, stack: str) -> list[str]:
    part: Any = modules_of(model).get(stack, ())
    return [f"{stack}.{number}" for number in range(len(part))]


def _speaker(model: Any, side: str) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
    """The output layer, and the norm before it."""
    if not _layers(model, f"{side}layers") or getattr(model, "head", None) is None:
        raise ValueError(
            "a lens needs a Transformer with an output layer over words; load one for text generation or fill-mask"
        )
    if hasattr(model, "logits"):
        part = model.decoder if side else model
        return model.logits, getattr(part, "final_norm", None) or nn.Identity()
    if model.head_name != "fill-mask":
        raise ValueError(f"the head {model.head_name!r} says no words; load the model with head='fill-mask'")
    return lambda hidden: model.head(hidden).logits, nn.Identity()


def _places(ids: Tensor, keep: Tensor | None, mask_id: int | None, *, masked: bool) -> Tensor:
    """(B, T): the masks of a masked language model, as many in every row; else every token."""
    if not masked:
        return torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
    if mask_id is None:
        raise ValueError("a masked language model is asked at its masks; give mask_id=tokenizer.mask_token_id")
    found = ids == mask_id if keep is None else (ids == mask_id) & keep.bool()
    counts = found.sum(1)
    if int(counts.min()) == 0 or int(counts.min()) != int(counts.max()):
        raise ValueError(f"every text must hold the same number of masks, at least one; they hold {counts.tolist()}")
    return found.nonzero()[:, 1].view(len(ids), -1)
