"""Attention statistics: what every head looks at.

B batch, T length, S source length, H heads.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .heads import attentions_of
from .laws import is_encoder_decoder
from .record import record


@dataclass(frozen=True)
class Statistics:
    """What one head looks at, as means over all real queries that have a choice."""

    attention: str
    number: int
    entropy: float  # in nats; 0 is one key, log(keys) is all alike
    first: float  # the weight on the first real token
    sink: float  # on the key that is looked at most, in each text
    distance: float | None = None  # in tokens, between a query and what it looks at; None from one text to another
    previous: float | None = None  # on the token before
    next: float | None = None  # on the token after
    induction: float | None = None  # on what followed the same token before; None unless a model reads left to right


def attention_statistics(model: nn.Module, inputs: Mapping[str, Any], *, seed: int = 0) -> list[Statistics]:
    """Every head of every layer: entropy, distance, and how much of a previous-, next-, first-token or sink head it is.

    Induction heads are told on a text of their own: random tokens, and the same tokens again (Olsson et al. 2022).
    """
    parts = attentions_of(model)
    patterns = [f"{name}.pattern" for name in parts]
    with torch.no_grad(), record(model, patterns) as seen:
        model(**inputs)
    induced = _induction(model, inputs, seed) if hasattr(model, "step") and not is_encoder_decoder(model) else {}
    found = []
    for name in parts:
        queries, keys = _sides(name, inputs)
        habits = measured(seen[f"{name}.pattern"].double(), queries, keys, across="cross_" in name)
        for number in range(parts[name].heads):
            values = {kind: float(value[number]) for kind, value in habits.items()}
            found.append(Statistics(name, number, induction=induced.get((name, number)), **values))
    return found


def _sides(name: str, inputs: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
    """Which queries and which keys of an attention are real tokens, (B, T) and (B, S)."""

    def real(mask: str, ids: str) -> Tensor:
        given = inputs.get(mask)
        return torch.ones_like(inputs[ids], dtype=torch.bool) if given is None else given.bool()

    source = real("attention_mask", "input_ids")
    if not name.startswith("decoder."):
        return source, source
    target = real("decoder_attention_mask", "decoder_input_ids")
    return target, source if "cross_attention" in name else target


def measured(pattern: Tensor, queries: Tensor, keys: Tensor, *, across: bool) -> dict[str, Tensor]:
    """Of weights (B, H, T, S) what can be measured, (H,) each; `across` looks from one text to another.

    A first token that can see only itself has no choice, and is left out.
    """
    batch, heads, targets, sources = pattern.shape
    queries, keys = queries.to(pattern.device), keys.to(pattern.device)
    chosen = queries & ((pattern > 0).any(1).sum(-1) > 1)
    weights = chosen[:, None].double().expand(batch, heads, targets)
    places, others = torch.arange(targets, device=pattern.device)[:, None], torch.arange(sources, device=pattern.device)

    def mean(values: Tensor) -> Tensor:  # (B, H, T) -> (H,)
        return (values * weights).sum((0, 2)) / weights.sum((0, 2)).clamp(min=1)

    def mass(where: Tensor) -> Tensor:  # (…, T, S) booleans
        return mean((pattern * where).sum(-1))

    first = torch.zeros_like(keys).scatter(1, keys.int().argmax(1, keepdim=True), value=True)
    received = (pattern * weights[..., None]).sum(2)  # (B, H, S)
    busiest = torch.zeros_like(received, dtype=torch.bool).scatter(2, received.argmax(2, keepdim=True), value=True)
    near = {
        "distance": mean((pattern * (places - others).abs()).sum(-1)),
        "previous": mass(others == places - 1),
        "next": mass(others == places + 1),
    }
    return {
        "entropy": mean(torch.special.entr(pattern).sum(-1)),
        **({} if across else near),
        "first": mass(first[:, None, None]),
        "sink": mass(busiest[:, :, None]),
    }


@torch.no_grad()
def _induction(model: nn.Module, inputs: Mapping[str, Any], seed: int) -> dict[tuple[str, int], float]:
    """The weight that the second copy of a random text puts on what came next in the first."""
    config: Any = model.config
    room = getattr(config, "n_positions", None) or getattr(config, "max_position_embeddings", None) or 128
    half = min(25, room // 2)
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(config.vocab_size, (4, half), generator=generator).to(inputs["input_ids"].device)
    with record(model, "*attention.pattern") as seen:
        model(input_ids=torch.cat([ids, ids], dim=1))
    found = {}
    for name in attentions_of(model):
        along = seen[f"{name}.pattern"].diagonal(1 - half, dim1=2, dim2=3)  # (B, H, ·): from i to i − half + 1
        for number, value in enumerate(along[..., 1:].mean((0, 2)).tolist()):
            found[name, number] = value
    return found
