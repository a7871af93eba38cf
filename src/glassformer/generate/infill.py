"""Infilling: the masks of a text filled one after another, each in view of those before.

S length, V vocabulary, M masks.
"""

from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from glassformer.models.contract import as_model
from glassformer.text.tokenizer import Tokenizer

from . import pick
from .fill import mask_scores, masked_ids
from .token_masks import ban, these

Order = Literal["left-to-right", "most-confident"]


@torch.inference_mode()
def infill(
    model: nn.Module,
    tokenizer: Tokenizer,
    texts: str | Sequence[str],
    *,
    order: Order = "most-confident",
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int | None = None,
) -> str | list[str]:
    """A text, or texts, with a word for every mask; the likeliest, or drawn if any sampling setting is given.

    With "most-confident" the mask comes next whose best word is the surest; special tokens are never written.
    """
    if order not in get_args(Order):
        raise ValueError(f"there is no order {order!r}; choose one of {', '.join(get_args(Order))}")
    reader = as_model(model)
    sampling = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    filters = pick.warpers(sampling)
    draws = any(value is not None for value in sampling.values())
    generator = torch.Generator(next(reader.parameters()).device)
    generator.manual_seed(int(torch.randint(2**31, (1,))) if seed is None else seed)

    def filled(text: str) -> str:
        ids, masked = masked_ids(reader, tokenizer, text)
        while bool(masked.any()):
            places = masked.nonzero()[:, 0]
            scores = mask_scores(reader, ids[None])[0, places].float()  # (M, V)
            scores = ban(scores, these(tokenizer.all_special_ids, scores))
            place, own = _next(places, scores, order)
            own = pick.apply(filters, ids[None], own[None])
            ids[place] = (pick.draw(own, generator) if draws else own.argmax(-1))[0]
            masked[place] = False
        return str(tokenizer.decode(ids, skip_special_tokens=True))

    return filled(texts) if isinstance(texts, str) else [filled(text) for text in texts]


def _next(places: Tensor, scores: Tensor, order: Order) -> tuple[Tensor, Tensor]:
    """Which mask comes next, and its scores (V,)."""
    at = 0 if order == "left-to-right" else int(scores.softmax(-1).amax(-1).argmax())
    return places[at], scores[at]
