"""Filling masks: which words a masked language model puts in each masked place.

B texts, S length, V vocabulary, M masks.
"""

import logging
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.models.contract import Model, as_model
from glassformer.text.tokenizer import Tokenizer

LOG = logging.getLogger("glassformer")


def mask_scores(model: Model, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
    """(B, S, V): the logits of a masked language model, whichever of its heads it has."""
    if model.head_name not in ("fill-mask", "pretraining"):
        raise ValueError(f"a model with head {model.head_name!r} fills no masks; load it with head='fill-mask'")
    out = model(input_ids=ids, attention_mask=attention_mask)
    scores: Tensor = out.logits if model.head_name == "fill-mask" else out.prediction_logits
    return scores


@torch.inference_mode()
def fill_mask(
    model: nn.Module,
    tokenizer: Tokenizer,
    texts: str | Sequence[str],
    *,
    top_k: int = 5,
    targets: str | Sequence[str] | None = None,
) -> Any:
    """The top_k words for each mask, likeliest first, as {score, token, token_str, sequence}.

    A text with one mask gives a list of words, one with several a list of such lists; texts give a list of what each
    gives. With targets only these words compete; their scores stay their probabilities among all words.
    """
    if top_k < 1:
        raise ValueError(f"top_k must be at least 1, not {top_k}")
    wanted = None if targets is None else target_ids(tokenizer, [targets] if isinstance(targets, str) else targets)
    many = [texts] if isinstance(texts, str) else texts
    found = [_filled(as_model(model), tokenizer, text, top_k, wanted) for text in many]
    return found[0] if isinstance(texts, str) else found


def masked_ids(model: Model, tokenizer: Tokenizer, text: str) -> tuple[Tensor, Tensor]:
    """(S,) and (S,): the ids of a text that holds a mask, and which of them are masks."""
    if (mask := tokenizer.mask_token_id) is None:
        raise ValueError("this tokenizer has no mask token; take the one that belongs to a masked language model")
    ids = torch.tensor(tokenizer(text)["input_ids"], device=next(model.parameters()).device)
    masked = ids == mask
    if not bool(masked.any()):
        raise ValueError(f"there is no {tokenizer.mask_token} in {text!r}; write it where a word is missing")
    return ids, masked


def target_ids(tokenizer: Tokenizer, targets: Sequence[str]) -> list[int]:
    """The id of each word; of a word of several tokens the first, and that is said."""
    vocabulary, found = tokenizer.get_vocab(), []
    for word in targets:
        ids = [vocabulary[word]] if word in vocabulary else tokenizer(word, add_special_tokens=False)["input_ids"]
        if not ids:
            raise ValueError(f"the target {word!r} has no token; give a word")
        if word not in vocabulary:
            LOG.warning("the target %r is no single token: %r stands for it", word, tokenizer.decode(ids[:1]))
        found.append(ids[0])
    if not found:
        raise ValueError("targets is empty; give some words, or leave it out")
    return sorted(set(found))


def _filled(model: Model, tokenizer: Tokenizer, text: str, top_k: int, wanted: list[int] | None) -> Any:
    ids, masked = masked_ids(model, tokenizer, text)
    places = masked.nonzero()[:, 0]
    chances = mask_scores(model, ids[None])[0, places].float().softmax(-1)  # (M, V)
    words = torch.arange(chances.shape[1], device=ids.device) if wanted is None else torch.tensor(wanted).to(ids.device)
    best = chances[:, words].topk(min(top_k, len(words)))
    rows = []
    for place, scores, picked in zip(places, best.values.tolist(), words[best.indices].tolist(), strict=True):
        sequences = ids.repeat(len(picked), 1)
        sequences[:, place] = torch.tensor(picked, device=ids.device)
        rows.append(
            [
                {
                    "score": score,
                    "token": token,
                    "token_str": tokenizer.decode([token]),
                    "sequence": tokenizer.decode(sequence, skip_special_tokens=len(places) == 1),
                }
                for score, token, sequence in zip(scores, picked, sequences, strict=True)
            ]
        )
    return rows[0] if len(rows) == 1 else rows
