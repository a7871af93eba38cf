"""Attention heads: what each is worth to a loss, how many can go, and what each looks at.

B batch, T length, S source length, H heads.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.blocks.attention import MultiHeadAttention

from .edits import heads as without
from .laws import is_encoder_decoder
from .record import modules_of, record

Loss = Callable[[], float]


@dataclass(frozen=True)
class Head:
    """One head, and how much the loss rises when it is put out."""

    attention: str  # layers.3.attention
    number: int
    delta: float


@dataclass(frozen=True)
class Cut:
    """The loss after the `heads` least important heads are put out together."""

    heads: int
    loss: float
    parameters: int  # that a model without these heads would not have


def attentions_of(model: nn.Module) -> dict[str, MultiHeadAttention]:
    """Every multi-head attention by name; an error where there is none."""
    found = {name: part for name, part in modules_of(model).items() if isinstance(part, MultiHeadAttention)}
    if not found:
        raise ValueError("this model has no attention heads; an RNN has gates, which gf.record shows")
    return found


def importance(
    model: nn.Module, loss: Loss, told: Callable[[int, int], None] | None = None
) -> tuple[float, list[Head]]:
    """The loss as it is, and every head by what it would cost to lose it, the cheapest first."""
    every = [(name, number) for name, part in attentions_of(model).items() for number in range(part.heads)]
    base, found = loss(), []
    for done, (name, number) in enumerate(every, 1):
        with record(model, edit=without({name: [number]})):
            found.append(Head(name, number, loss() - base))
        if told is not None:
            told(done, len(every))
    return base, sorted(found, key=lambda head: head.delta)


def pruning(model: nn.Module, loss: Loss, ranked: Sequence[Head], points: int = 8) -> list[Cut]:
    """The loss with more and more heads put out, in the order they are ranked; about `points` measurements."""
    parts, cuts = attentions_of(model), []
    for count in sorted({round(len(ranked) * share / points) for share in range(points + 1)}):
        gone: dict[str, list[int]] = {}
        for head in ranked[:count]:
            gone.setdefault(head.attention, []).append(head.number)
        size = sum(len(numbers) * _parameters(parts[name]) for name, numbers in gone.items())
        with record(model, edit=without(gone)):  # type: ignore[arg-type]
            cuts.append(Cut(count, loss(), size))
    return cuts


def _parameters(part: MultiHeadAttention) -> int:
    """Of one head: its rows of query, key and value, and its columns of the output."""
    width = part.query.out_features // part.heads
    rows = sum(linear.weight.shape[1] + (linear.bias is not None) for linear in (part.query, part.key, part.value))
    return width * (rows + part.output.out_features)


@dataclass(frozen=True)
class Statistics:
    """What one head looks at, as means over all real queries that have a choice."""

    attention: str
    number: int
    entropy: float  # in nats; 0 is one key, log(keys) is all alike
    distance: float  # in tokens, between a query and what it looks at
    previous: float  # the weight on the token before
    next: float  # on the token after
    first: float  # on the first real token
    sink: float  # on the key that is looked at most, in each text
    induction: float | None  # on what followed the same token before; None where a model does not read left to right


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
        measured = _measured(seen[f"{name}.pattern"].double(), queries, keys, across="cross_" in name)
        for number in range(parts[name].heads):
            values = {kind: float(value[number]) for kind, value in measured.items()}
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


def _measured(pattern: Tensor, queries: Tensor, keys: Tensor, *, across: bool) -> dict[str, Tensor]:
    """(H,) each. A first token that can see only itself has no choice, and is left out."""
    batch, heads, targets, sources = pattern.shape
    queries, keys = queries.to(pattern.device), keys.to(pattern.device)
    chosen = queries & ((pattern[:, 0] > 0).sum(-1) > 1)
    weights = chosen[:, None].double().expand(batch, heads, targets)
    places, others = torch.arange(targets, device=pattern.device)[:, None], torch.arange(sources, device=pattern.device)

    def mean(values: Tensor) -> Tensor:  # (B, H, T) -> (H,)
        return (values * weights).sum((0, 2)) / weights.sum((0, 2)).clamp(min=1)

    def mass(where: Tensor) -> Tensor:  # (…, T, S) booleans
        return mean((pattern * where).sum(-1))

    first = torch.zeros_like(keys).scatter(1, keys.int().argmax(1, keepdim=True), value=True)
    received = (pattern * weights[..., None]).sum(2)  # (B, H, S)
    busiest = torch.zeros_like(received, dtype=torch.bool).scatter(2, received.argmax(2, keepdim=True), value=True)
    unknown = torch.full((heads,), float("nan"), dtype=pattern.dtype)
    return {
        "entropy": mean(torch.special.entr(pattern).sum(-1)),
        "distance": unknown if across else mean((pattern * (places - others).abs()).sum(-1)),
        "previous": unknown if across else mass(others == places - 1),
        "next": unknown if across else mass(others == places + 1),
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
