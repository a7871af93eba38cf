"""Lenses: what a model would say if it stopped after each layer.

B batch, T places asked, L layers, D model width, V vocabulary.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from glassformer.models.contract import Model, as_model, can_generate, has_summary, scores_words

from .edits import patch
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


@dataclass(frozen=True)
class Layers:
    """A lens that speaks for one layer at a time, since the scores of all may not fit into memory."""

    names: list[str]
    places: Tensor  # (B, T)
    logits_of: Callable[[str], Tensor]  # of a name, (B, T, V)

    def together(self) -> Lens:
        return Lens(self.names, torch.stack([self.logits_of(name) for name in self.names]), self.places)


def logit_lens(model: nn.Module, inputs: Mapping[str, Tensor], *, mask_id: int | None = None) -> Lens:
    """The output layer on what every layer gives (nostalgebraist 2020), after the final norm where there is one.

    A masked language model is asked at its masks alone: `mask_id` is their id. In an encoder-decoder it is the
    decoder that is looked at.
    """
    return logit_layers(model, inputs, mask_id=mask_id).together()


@torch.no_grad()
def logit_layers(model: nn.Module, inputs: Mapping[str, Tensor], *, mask_id: int | None = None) -> Layers:
    """The logit lens, layer by layer."""
    side = "decoder." if as_model(model).config.is_encoder_decoder else ""
    logits, norm = _output_layer(model, side)
    names = [f"{side}embeddings", *_layers(model, f"{side}layers")]
    with record(model, names) as seen:
        model(**inputs)
    ids = inputs["decoder_input_ids" if side else "input_ids"]
    places = _places(ids, inputs.get("attention_mask"), mask_id, masked=not can_generate(as_model(model)))
    index = places[..., None].expand(-1, -1, seen[names[0]].shape[-1])
    return Layers(names, places, torch.no_grad()(lambda name: logits(norm(seen[name].gather(1, index)))))


@torch.no_grad()
def head_layers(model: nn.Module, inputs: Mapping[str, Tensor]) -> Layers:
    """The model's own head on what every layer gives: a classifier's classes, a tagger's tags, an answer's two ends."""
    head, encoder = modules_of(model).get("head"), as_model(model)
    if not _layers(model, "layers") or not has_summary(encoder) or head is None or can_generate(encoder):
        raise ValueError("a head lens needs an encoder with a head; use logit_lens for a model that writes")
    names, norm = ["embeddings", *_layers(model, "layers")], modules_of(model).get("final_norm", nn.Identity())
    with record(model, names) as seen:
        last = scores(encoder, model(**inputs))

    @torch.no_grad()
    def logits_of(name: str) -> Tensor:
        hidden = norm(seen[name])
        return scores(encoder, head(hidden, encoder.summary(hidden, inputs.get("attention_mask"))))

    return Layers(names, torch.arange(last.shape[1]).expand(last.shape[:2]), logits_of)


@torch.no_grad()
def prefix_lens(
    model: nn.Module, inputs: Mapping[str, Tensor], lengths: Sequence[int] | None = None, *, rows: int = 64
) -> Tensor:
    """(T, C): what a classifier says of every beginning of one text, or of some, `rows` of them at a time."""
    (ids,) = inputs["input_ids"]
    found = []
    for ends in torch.tensor(range(1, len(ids) + 1) if lengths is None else lengths).split(rows):
        keep = torch.arange(int(ends[-1])) < ends[:, None]  # (rows, T): a shorter one is padded, which is invisible
        read = ids[: int(ends[-1])].expand(len(ends), -1)
        found.append(model(input_ids=read, attention_mask=keep.long().to(ids.device)).logits)
    return torch.cat(found)


def scores(model: Model, outputs: Sequence[Tensor]) -> Tensor:
    """(B, T, V) of what a head gives: one row a token, one a text (T = 1), or one for each end of an answer (T = 2).

    A detector's one score a token is that of "replaced"; that of "original" is 0, so that softmax gives its sigmoid.
    """
    first = outputs[0]
    if model.head_name == "replaced-token-detection":
        return torch.stack([torch.zeros_like(first), first], dim=-1)
    return first if first.dim() == 3 else torch.stack([one for one in outputs if one.dim() == 2], dim=1)


def decoder_lens(model: nn.Module, inputs: Mapping[str, Tensor]) -> Lens:
    """The decoder reads what each layer of the encoder gives, in place of the last one (Langedijk et al. 2023)."""
    return decoder_layers(model, inputs).together()


@torch.no_grad()
def decoder_layers(model: nn.Module, inputs: Mapping[str, Tensor]) -> Layers:
    """The decoder lens, layer by layer: each is a run of its own."""
    if not as_model(model).config.is_encoder_decoder or not _layers(model, "encoder.layers"):
        raise ValueError("a decoder lens needs a Transformer with encoder and decoder; use logit_lens for this model")
    names = ["encoder.embeddings", *_layers(model, "encoder.layers")]
    with record(model, names) as seen:
        model(**inputs)

    @torch.no_grad()
    def logits_of(name: str) -> Tensor:
        with record(model, edit=patch(seen, name, at="encoder.layers")):
            logits: Tensor = model(**inputs).logits
        return logits

    targets = inputs["decoder_input_ids"]
    return Layers(names, torch.arange(targets.shape[1]).expand_as(targets), logits_of)


def _layers(model: nn.Module, stack: str) -> list[str]:
    part = modules_of(model).get(stack)
    return [f"{stack}.{number}" for number in range(len(part))] if isinstance(part, nn.ModuleList) else []


def _output_layer(module: nn.Module, side: str) -> tuple[Callable[[Tensor], Tensor], nn.Module]:
    """Hidden states to scores of words, and the norm before it; models without either are refused."""
    model, parts = as_model(module), modules_of(module)
    if not _layers(module, f"{side}layers") or "head" not in parts:
        raise ValueError(
            "a lens needs a Transformer with an output layer over words; load one for text generation or fill-mask"
        )
    if not scores_words(model):
        raise ValueError(f"the head {model.head_name!r} says no words; load the model with head='fill-mask'")
    return model.logits, parts.get(f"{side}final_norm", nn.Identity())


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
