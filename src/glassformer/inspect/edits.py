"""Edits for gf.record: zero, average or replace a head, a neuron, a layer or a position; patch; freeze attention.

B batch, T length, H heads, K head width. Each gives {module name: function}; join several with `|`.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import Any, Literal

import torch
from torch import Tensor

from .record import Edit, Seen

To = Literal["zero", "mean"] | Tensor
Edits = dict[str, Edit]


def head(attention: str, number: int, to: To = "zero", *, keep: Tensor | None = None) -> Edits:
    """What one head gathered: head("layers.3.attention", 5). `keep` (B, T): over which tokens a mean is taken."""
    return heads({attention: [number]}, to, keep=keep)


def heads(chosen: Mapping[str, Sequence[int]], to: To = "zero", *, keep: Tensor | None = None) -> Edits:
    """Several heads of several layers: heads({"layers.3.attention": [0, 5]})."""
    return {f"{name}.context": _at((..., list(numbers), slice(None)), to, keep) for name, numbers in chosen.items()}


def neuron(where: str, number: int, to: To = "zero", *, keep: Tensor | None = None) -> Edits:
    """One number of every token's vector: neuron("layers.3.feed_forward.neurons", 17), or of any other module."""
    return neurons(where, [number], to, keep=keep)


def neurons(where: str, numbers: Sequence[int], to: To = "zero", *, keep: Tensor | None = None) -> Edits:
    """Several numbers of every token's vector."""
    return {where: _at((..., list(numbers)), to, keep)}


def layer(name: str, to: To = "zero", *, keep: Tensor | None = None) -> Edits:
    """What a layer adds to the stream that passes it: its attentions' and its feed-forward's share.

    A tensor takes the place of all that the layer gives.
    """
    change = _at((...,), to, keep)
    if isinstance(to, Tensor):
        return {name: change}
    return {f"{name}.*attention": change, f"{name}.feed_forward": change}  # cross-attention as well


def position(where: str, place: int, to: To = "zero", *, keep: Tensor | None = None) -> Edits:
    """One token's vector: position("layers.3", 4), or "embeddings"."""
    return {where: _at((slice(None), [place]), to, keep)}


def patch(seen: Seen, name: str, *, places: Sequence[int] | None = None, at: str | None = None) -> Edits:
    """A value of another run, whole or at some tokens: patch(seen, "layers.3", places=[4]); `at` puts it elsewhere."""
    where = name if at is None else at
    if places is None:
        return {where: _instead(seen, name)}
    return {where: _at((slice(None), list(places)), seen[name][:, list(places)], None)}


def freeze_attention(seen: Seen) -> Edits:
    """Every attention pattern as it was in a recorded run, whatever the text is now."""
    found = [name for name in seen if name.endswith("attention.pattern")]
    if not found:
        raise ValueError('no attention was recorded to be frozen; record "*attention.pattern" first')
    return {name: _instead(seen, name) for name in found}


def _instead(seen: Seen, name: str) -> Edit:
    """The recorded value; in a time loop the recorded steps, one after another and from the start again."""
    steps = cycle(seen.calls(name))
    return lambda _: next(steps)


def _at(part: tuple[Any, ...], to: To, keep: Tensor | None) -> Callable[[Tensor], Tensor]:
    def change(value: Tensor) -> Tensor:
        changed = value.clone()
        if isinstance(to, Tensor):
            changed[part] = to.to(value)
        elif to == "zero":
            changed[part] = 0.0
        elif to == "mean":
            changed[part] = _mean(value, keep)[part]
        else:
            raise ValueError(f"an edit goes to 'zero', 'mean' or a tensor, not to {to!r}")
        return changed

    return change


def _mean(value: Tensor, keep: Tensor | None) -> Tensor:
    """The mean over all (kept) tokens of the batch, in every token's place; in a time loop, of this step's."""
    if value.dim() == 2:
        return value.mean(0).expand_as(value)
    real = torch.ones(value.shape[:2], device=value.device) if keep is None else keep.to(value.device)
    weights = real.to(value).view(*real.shape, *[1] * (value.dim() - 2))
    return ((value * weights).sum((0, 1)) / weights.sum()).expand_as(value)
