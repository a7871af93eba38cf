"""Ablation: the parts of a model that can be ablated, by names such as layers.3.attention:5.

B batch, T tokens, H heads, K head width, W units.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from glassformer.blocks.alignment import Alignment
from glassformer.blocks.attention import MultiHeadAttention
from glassformer.blocks.point import FeaturePoint
from glassformer.blocks.recurrent import Recurrent
from glassformer.blocks.transformer import FeedForward, GatedFeedForward, Layer

from .edits import Edits, heads, neurons
from .record import Edit, modules_of, record

TargetKind = Literal["head", "alignment", "layer", "neuron", "unit"]
Replacement = Literal["zero", "mean"]


@dataclass(frozen=True)
class AblationTarget:
    """A module, and how many parts of it can be ablated by number; without a size it is ablated whole."""

    name: str
    kind: TargetKind
    size: int | None


def ablation_targets(model: nn.Module) -> list[AblationTarget]:
    """Everything in a model that can be ablated: heads, alignments, layers, neurons, units of states and features."""
    found: list[AblationTarget] = []
    for name, part in modules_of(model).items():
        match part:
            case MultiHeadAttention():
                found.append(AblationTarget(name, "head", part.heads))
            case Alignment():
                found.append(AblationTarget(name, "alignment", None))
            case Layer():
                found.append(AblationTarget(name, "layer", None))
            case FeedForward() | GatedFeedForward():
                found.append(AblationTarget(f"{name}.neurons", "neuron", part.up.out_features))
            case FeaturePoint():
                found.append(AblationTarget(name, "unit", part.width))
            case Recurrent():
                points = (inner for inner, point in part.layers.named_modules() if not [*point.children()])
                found += [AblationTarget(f"{name}.layers.{inner}", "unit", part.width) for inner in points]
    return found


def ablate(
    model: nn.Module,
    names: Iterable[str],
    to: Replacement = "zero",
    inputs: Mapping[str, Tensor] | None = None,
    *,
    seen: Mapping[str, Tensor] | None = None,
) -> Edits:
    """Edits for gf.record that ablate some parts: ablate(model, ["layers.3.attention:5", "layers.2"]).

    With "zero" a part gives zeros. With "mean" it always gives its mean over the tokens of `inputs`, of a run in which
    nothing is ablated; `seen` is such a run, where there has been one. A name that is no target is refused.
    """
    if to not in get_args(Replacement):
        raise ValueError(f"a part goes to 'zero' or to its 'mean', not to {to!r}")
    if to == "mean" and inputs is None:
        raise ValueError("a mean is taken over the tokens of a text: give its inputs")
    chosen = select_targets(model, names)
    means = _means(model, chosen, inputs, seen or {}) if inputs is not None and to == "mean" else {}
    edits: Edits = {}
    for target, numbers in chosen.items():
        if target.size is None:
            for place in _inside(model, target):
                edits[place] = _whole(means.get(place))
        elif target.kind == "head":
            mean = means.get(f"{target.name}.context")
            edits |= heads({target.name: numbers}, "zero" if mean is None else mean[numbers])
        else:
            mean = means.get(target.name)
            edits |= neurons(target.name, numbers, "zero" if mean is None else mean[numbers])
    return edits


def select_targets(model: nn.Module, names: Iterable[str]) -> dict[AblationTarget, list[int]]:
    """Which numbers of which target some names mean; what is ablated whole has none."""
    known = {target.name: target for target in ablation_targets(model)}
    chosen: dict[AblationTarget, list[int]] = {}
    for name in dict.fromkeys(names):
        place, _, number = name.partition(":")
        target = known.get(place)
        if target is None:
            near = get_close_matches(place, known, n=3, cutoff=0.4)
            raise ValueError(f"nothing called {place!r} can be put out; near it: {', '.join(near) or 'nothing'}")
        if target.size is None and number:
            raise ValueError(f"{place} goes out whole: write {place!r} without a number")
        if target.size is not None and not (number.isdecimal() and int(number) < target.size):
            raise ValueError(f"{name!r}: {place} has the {target.kind}s 0 to {target.size - 1}; write '{place}:0'")
        chosen.setdefault(target, []).extend([int(number)] if number else [])
    return chosen


def _inside(model: nn.Module, whole: AblationTarget) -> list[str]:
    """What a layer adds to the stream that passes it; an alignment's context."""
    if whole.kind == "alignment":
        return [whole.name]
    parts = ("attention", "cross_attention", "feed_forward")
    return [f"{whole.name}.{part}" for part in parts if f"{whole.name}.{part}" in modules_of(model)]


@torch.no_grad()
def _means(
    model: nn.Module, chosen: Iterable[AblationTarget], inputs: Mapping[str, Tensor], seen: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """The mean of each value over the batch and its tokens: (H, K) of heads, (W,) of others."""
    names: list[str] = []
    for target in chosen:
        if target.size is None:
            names += _inside(model, target)
        else:
            names.append(f"{target.name}.context" if target.kind == "head" else target.name)
    if any(name not in seen for name in names):
        with record(model, names) as seen:
            model(**inputs)
    loops = [target.name for target in chosen if target.kind == "alignment"]  # may be called token by token
    with record(model, loops, every_call=True) as steps:
        if loops:
            model(**inputs)
    values = {name: torch.cat(steps.calls(name), 1) if name in loops else seen[name] for name in names}
    return {name: value.flatten(0, 1).mean(0) for name, value in values.items()}


def _whole(mean: Tensor | None) -> Edit:
    def change(value: Tensor) -> Tensor:
        return torch.zeros_like(value) if mean is None else mean.to(value).expand_as(value)

    return change


def python_of(names: Sequence[str], to: Replacement) -> str:
    """The same in Python, for a model and its inputs."""
    listed = ", ".join(f'"{name}"' for name in names)
    more = ', "mean", inputs' if to == "mean" else ""
    return (
        "from glassformer.inspect.ablation import ablate\n\n"
        f"with gf.record(model, edit=ablate(model, [{listed}]{more})):\n    edited = model(**inputs)\n"
    )
