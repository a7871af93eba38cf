"""Attention statistics: what every head looks at.

B batch, T length, S source length, H heads.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.models.contract import as_model

from .heads import attentions_of
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


def attention_statistics(model: nn.Module, inputs: Mapping[str, Tensor], *, seed: int = 0) -> list[Statistics]:
    """Every head of every layer: entropy, distance, and how much of a previous-, next-, first-token or sink head it is.

    Induction is measured on a text of its own: random tokens, and the same tokens again (Olsson et al. 2022).
    """
    parts = attentions_of(model)
    patterns = [f"{name}.pattern" for name in parts]
    with torch.no_grad(), record(model, patterns) as seen:
        model(**inputs)
    reads_back = as_model(model).is_causal and not as_model(model).config.is_encoder_decoder
    induced = _induction(model, inputs, seed) if reads_back else {}
    found = []
    for name in parts:
        queries, keys = _sides(name, inputs)
        habits = measured(seen[f"{name}.pattern"].double(), queries, keys, across="cross_" in name)
        for number in range(parts[name].heads):
            values = {kind: float(value[number]) for kind, value in habits.items()}
            found.append(Statistics(name, number, induction=induced.get((name, number)), **values))
    return found


def _sides(name: str, inputs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
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
    batch, heads, targets, _ = pattern.shape
    queries, keys = queries.to(pattern.device), keys.to(pattern.device)
    chosen = queries & ((pattern > 0).any(1).sum(-1) > 1)
    weights = chosen[:, None].to(pattern).expand(batch, heads, targets)

    def mean(values: Tensor) -> Tensor:  # (B, H, T) -> (H,)
        return (values * weights).sum((0, 2)) / weights.sum((0, 2)).clamp(min=1)

    def on(key: Tensor) -> Tensor:  # (B, H): the weight that every query puts on one key of its text
        return mean(pattern.gather(3, key[:, :, None, None].expand(batch, heads, targets, 1))[..., 0])

    def beside(step: int) -> Tensor:
        along = pattern.diagonal(step, dim1=2, dim2=3)
        return mean(F.pad(along, (max(-step, 0), max(step, 0))))

    received = torch.einsum("bhts,bht->bhs", pattern, weights)
    first = keys.int().argmax(1, keepdim=True).expand(batch, heads)
    found = {"entropy": mean(torch.special.entr(pattern).sum(-1))}
    if not across:
        places = torch.arange(targets, device=pattern.device)
        apart = (places[:, None] - places).abs().to(pattern)
        found["distance"] = mean(torch.einsum("bhts,ts->bht", pattern, apart))
        found |= {"previous": beside(-1), "next": beside(1)}
    return found | {"first": on(first), "sink": on(received.argmax(2))}


@torch.no_grad()
def _induction(model: nn.Module, inputs: Mapping[str, Tensor], seed: int) -> dict[tuple[str, int], float]:
    """The weight that the second copy of a random text puts on what came next in the first."""
    config = as_model(model).config
    half = min(25, (config.max_positions or 128) // 2)
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
