"""Attention heads: what each is worth to a loss, and how many can go."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import nn

from glassformer.blocks.attention import MultiHeadAttention

from .edits import heads as without
from .record import modules_of, record

Loss = Callable[[], float]


@dataclass(frozen=True)
class HeadImportance:
    """One head, and how much the loss rises when it is ablated."""

    attention: str  # layers.3.attention
    number: int
    delta: float


@dataclass(frozen=True)
class PruningPoint:
    """The loss when the `heads` least important heads are ablated together."""

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
    model: nn.Module, loss: Loss, on_progress: Callable[[int, int], None] | None = None
) -> tuple[float, list[HeadImportance]]:
    """The loss as it is, and every head by what it would cost to lose it, the cheapest first.

    `on_progress` is given how many heads are done, and of how many.
    """
    every = [(name, number) for name, part in attentions_of(model).items() for number in range(part.heads)]
    base, found = loss(), []
    for done, (name, number) in enumerate(every, 1):
        with record(model, edit=without({name: [number]})):
            found.append(HeadImportance(name, number, loss() - base))
        if on_progress is not None:
            on_progress(done, len(every))
    return base, sorted(found, key=lambda head: head.delta)


def pruning(
    model: nn.Module,
    loss: Loss,
    ranked: Sequence[HeadImportance],
    on_progress: Callable[[int, int], None] | None = None,
    *,
    points: int = 8,
) -> list[PruningPoint]:
    """The loss with more and more heads ablated, in the order they are ranked; about `points` measurements."""
    parts, curve = attentions_of(model), list[PruningPoint]()
    counts = sorted({round(len(ranked) * share / points) for share in range(points + 1)})
    for count in counts:
        gone: dict[str, list[int]] = {}
        for head in ranked[:count]:
            gone.setdefault(head.attention, []).append(head.number)
        size = sum(len(numbers) * _parameters(parts[name]) for name, numbers in gone.items())
        with record(model, edit=without(gone)):
            curve.append(PruningPoint(count, loss(), size))
        if on_progress is not None:
            on_progress(len(curve), len(counts))
    return curve


def _parameters(part: MultiHeadAttention) -> int:
    """Of one head: its rows of query, key and value, and its columns of the output."""
    width = part.query.out_features // part.heads
    rows = sum(linear.weight.shape[1] + (linear.bias is not None) for linear in (part.query, part.key, part.value))
    return width * (rows + part.output.out_features)
