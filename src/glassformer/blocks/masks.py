"""Masks: 1 or True means keep, everywhere.

`attention_mask` (B, S) is the user's, of ones and zeros; `keep` (B, S) is the same in booleans, None where nothing is
padding; a `mask` says what each token may look at, (T, S) or (B, H, T, S).

B batch, T target length, S source length.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Window(NamedTuple):
    """How far a token may look: so many tokens back, and so many ahead (None: as far as the mask lets it)."""

    before: int
    after: int | None = None

    def spans(self, targets: int, sources: int) -> bool:
        """Whether nothing is out of reach when the last of the targets is aligned with the last of the sources."""
        return sources - 1 <= self.before and (self.after is None or targets - 1 <= self.after)


def send(x: Tensor, device: torch.device) -> Tensor:
    """To another device, in the background where that is possible."""
    if x.device == device:
        return x
    return (x.pin_memory() if device.type == "cuda" else x).to(device, non_blocking=True)


def as_keep(attention_mask: Tensor | None, ids: Tensor, *, stay: bool = False) -> Tensor | None:
    """A user's (B, S) mask of ones and zeros as booleans, beside the ids; None where it hides nothing.

    `stay` leaves it where it is: a mask on the CPU can be looked at without waiting for a GPU.
    """
    if ids.dim() != 2:
        raise ValueError(f"ids must have the shape (texts, tokens), not {tuple(ids.shape)}")
    if attention_mask is None:
        return None
    if attention_mask.is_floating_point() and bool((attention_mask < 0).any()):
        raise ValueError("the attention mask has negative values; give 1 for keep and 0 for padding, not scores to add")
    if attention_mask.shape != ids.shape:
        raise ValueError(
            f"the attention mask has shape {tuple(attention_mask.shape)} but the ids have {tuple(ids.shape)}; "
            "give one 1 (keep) or 0 (padding) for each token"
        )
    keep = attention_mask.bool()
    if bool(keep.all()):
        return None
    return keep if stay else send(keep, ids.device)


def causal(targets: int, sources: int, device: torch.device | None = None) -> Tensor:
    """(T, S): a token sees itself and what came before; the last target is aligned with the last source."""
    return torch.ones(targets, sources, dtype=torch.bool, device=device).tril(sources - targets)


def combine(keep: Tensor | None, order: Tensor | None) -> Tensor | None:
    """A (B, S) padding mask and a (T, S) order mask as one (B, 1, T, S) mask for all heads."""
    if keep is None:
        return None if order is None else order[None, None]
    wide = keep[:, None, None, :]
    return wide if order is None else wide & order


def both(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """What two masks keep; None keeps all."""
    if a is None or b is None:
        return b if a is None else a
    return a & b


def distances(targets: int, sources: int, device: torch.device) -> Tensor:
    """(T, S): key less query, in tokens; the last target is aligned with the last source."""
    places = torch.arange(sources, device=device)
    return places - places[sources - targets :, None]


def within(distance: Tensor, window: Window) -> Tensor:
    """Which distances a window spans."""
    near = distance >= -window.before
    return near if window.after is None else near & (distance <= window.after)


def first_kept(keep: Tensor) -> Tensor:
    """(B,): where each row's first real token stands."""
    return keep.int().argmax(1)


def last_kept(keep: Tensor) -> Tensor:
    """(B,): where each row's last real token stands."""
    return keep.shape[1] - 1 - keep.flip(1).int().argmax(1)


def last_token(hidden: Tensor, attention_mask: Tensor | None) -> Tensor:
    """(B, D): what hidden states (B, T, D) are at each row's last real token."""
    if attention_mask is None:
        return hidden[:, -1]
    return token_at(hidden, last_kept(attention_mask.bool()))


def token_at(hidden: Tensor, places: Tensor) -> Tensor:
    """(B, D): what hidden states (B, T, D) are at one place (B,) of each row."""
    index = send(places, hidden.device)[:, None, None].expand(-1, 1, hidden.shape[2])
    return hidden.gather(1, index)[:, 0]


def has_gaps(keep: Tensor) -> bool:
    """Whether padding stands between real tokens of a row."""
    return bool(((last_kept(keep) - first_kept(keep) + 1 > keep.sum(1)) & keep.any(1)).any())


def kept_first(keep: Tensor) -> Tensor:
    """(B, T): the places of each row's real tokens, in reading order, and after them those of its padding."""
    return (~keep).byte().argsort(dim=1, stable=True)


def positions(keep: Tensor | None, length: int, device: torch.device) -> Tensor:
    """(B or 1, T): places counted from each row's first real token, so that left padding changes nothing."""
    places = torch.arange(length, device=device)[None]
    return places if keep is None else (places - send(first_kept(keep), device)[:, None]).clamp(min=0)


def real_positions(keep: Tensor | None, length: int, device: torch.device, *, start: int = 0) -> Tensor:
    """(B or 1, T): places counted over real tokens alone, for a text that goes on after its padding."""
    if keep is None:
        return torch.arange(start, start + length, device=device)[None]
    counted = (keep.cumsum(1) - 1).clamp(min=0)
    return send(counted[:, start : start + length], device)
