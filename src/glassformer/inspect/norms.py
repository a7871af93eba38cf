"""Norms: how long the vectors of a Transformer are after every layer, and what attention and feed-forward add to them.

B batch, T tokens, S keys, L layers, H heads, F neurons.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .record import modules_of, record

PARTS = ("attention", "cross_attention", "feed_forward")
EDGE = 0.05  # how near to its end a value is called saturated


@dataclass(frozen=True)
class ResidualNorms:
    """One stack of layers, for every token of every text."""

    stack: str  # "layers", "encoder.layers" or "decoder.layers"
    names: list[str]  # L + 1: the embeddings, then every layer
    stream: Tensor  # (L + 1, B, T): the length of what passes
    added: dict[str, Tensor]  # (L, B, T) for each part of a layer: the length of what it adds, before any norm
    dead: Tensor  # (L,): the share of feed-forward neurons that are above zero at no token
    focused: Tensor  # (L,): the share of heads that look at one token only
    even: Tensor  # (L,): the share of heads that look at all tokens alike


@torch.no_grad()
def residual_norms(model: nn.Module, inputs: Mapping[str, Tensor]) -> list[ResidualNorms]:
    """Every stack of a Transformer; an RNN has none. For texts of one length: padding would be counted."""
    with record(model, needed(model)) as seen:
        model(**inputs)
    return norms_of(model, seen)


def needed(model: nn.Module) -> list[str]:
    """What has to be recorded."""
    stacks = dict(_stacks(model))
    ends = tuple(f".{part}" for part in (*PARTS, "feed_forward.neurons", "attention.pattern"))
    inside = [name for name in modules_of(model) if name.startswith(tuple(stacks)) and name.endswith(ends)]
    return [*inside, *(name for listed in stacks.values() for name in listed)]


def norms_of(model: nn.Module, seen: Mapping[str, Tensor]) -> list[ResidualNorms]:
    """Of what has been recorded already."""
    return [_norms(stack, names, seen) for stack, names in _stacks(model)]


def _stacks(model: nn.Module) -> Iterator[tuple[str, list[str]]]:
    """Each stack of Transformer layers, with the names whose values pass from layer to layer."""
    modules = modules_of(model)
    for side in ("", "encoder.", "decoder."):
        if f"{side}layers.0.attention" in modules:
            stack = f"{side}layers"
            layers = modules[stack]
            assert isinstance(layers, nn.ModuleList)
            yield stack, [f"{side}embeddings", *(f"{stack}.{number}" for number in range(len(layers)))]


def _norms(stack: str, names: list[str], seen: Mapping[str, Tensor]) -> ResidualNorms:
    layers = names[1:]
    parts = [part for part in PARTS if f"{layers[0]}.{part}" in seen]
    heads = [_evenness(seen[f"{layer}.attention.pattern"]) for layer in layers]
    return ResidualNorms(
        stack,
        names,
        stream=torch.stack([_length(seen[name]) for name in names]),
        added={part: torch.stack([_length(seen[f"{layer}.{part}"]) for layer in layers]) for part in parts},
        dead=_shares([seen[f"{layer}.feed_forward.neurons"].flatten(0, 1).amax(0) <= 0 for layer in layers]),
        focused=_shares([even < EDGE for even in heads]),
        even=_shares([even > 1 - EDGE for even in heads]),
    )


def _length(value: Tensor) -> Tensor:
    return torch.linalg.vector_norm(value, dim=-1)  # type: ignore[no-any-return]


def _shares(found: list[Tensor]) -> Tensor:
    return torch.stack([one.float().mean() for one in found])


def _evenness(pattern: Tensor) -> Tensor:
    """(H,) of weights (B, H, T, S): the entropy, from 0 (one token) to 1 (all alike), as a mean over the queries."""
    choices = (pattern > 0).sum(-1)
    entropy = torch.special.entr(pattern).sum(-1) / choices.clamp(min=2).log()
    real = (choices > 1).any(1, keepdim=True).expand_as(entropy)  # a token that sees only itself has no choice
    return (entropy * real).sum((0, 2)) / real.sum((0, 2)).clamp(min=1)  # type: ignore[no-any-return]
