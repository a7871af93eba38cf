"""Switches: the parts of a model that can be put out, by names such as layers.3.attention:5.

B batch, T tokens, H heads, K head width, W units.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from glassformer.blocks.alignment import Alignment
from glassformer.blocks.attention import MultiHeadAttention
from glassformer.blocks.recurrent import Recurrent
from glassformer.blocks.transformer import FeedForward, Layer

from .edits import Edits, heads, neurons
from .record import modules_of, record

Kind = Literal["head", "alignment", "layer", "neuron", "unit"]
To = Literal["zero", "mean"]


@dataclass(frozen=True)
class Switch:
    """A place of a model, and how many parts of it can be put out by number; without a size it goes out whole."""

    name: str
    kind: Kind
    size: int | None


def switches(model: nn.Module) -> list[Switch]:
    """Everything in a model that can be put out: heads, alignments, layers, neurons, units of gates and states."""
    found: list[Switch] = []
    for name, part in modules_of(model).items():
        match part:
            case MultiHeadAttention():
                found.append(Switch(name, "head", part.heads))
            case Alignment():
                found.append(Switch(name, "alignment", None))
            case Layer():
                found.append(Switch(name, "layer", None))
            case FeedForward():
                found.append(Switch(f"{name}.neurons", "neuron", part.up.out_features))
            case Recurrent():
                points = (inner for inner, point in part.layers.named_modules() if not [*point.children()])
                found += [Switch(f"{name}.layers.{inner}", "unit", part.width) for inner in points]
    return found


def off(
    model: nn.Module,
    names: Iterable[str],
    to: To = "zero",
    inputs: Mapping[str, Any] | None = None,
    *,
    seen: Mapping[str, Tensor] | None = None,
) -> Edits:
    """Edits for gf.record that put some parts out: off(model, ["layers.3.attention:5", "layers.2"]).

    With "mean" a part always gives its mean over the tokens of `inputs`, of a run in which nothing is put out; `seen`
    is such a run, where there has been one.
    """
    if to not in get_args(To):
        raise ValueError(f"a part goes to 'zero' or to its 'mean', not to {to!r}")
    if to == "mean" and inputs is None:
        raise ValueError("a mean is taken over the tokens of a text: give its inputs")
    chosen = gathered(model, names)
    means = _means(model, chosen, inputs, seen or {}) if inputs is not None and to == "mean" else {}
    edits: Edits = {}
    for switch, numbers in chosen.items():
        if switch.size is None:
            for place in _inside(model, switch):
                edits[place] = _whole(means.get(place))
        elif switch.kind == "head":
            mean = means.get(f"{switch.name}.context")
            edits |= heads({switch.name: numbers}, "zero" if mean is None else mean[numbers])
        else:
            mean = means.get(switch.name)
            edits |= neurons(switch.name, numbers, "zero" if mean is None else mean[numbers])
    return edits


def gathered(model: nn.Module, names: Iterable[str]) -> dict[Switch, list[int]]:
    """Which numbers of which switch some names mean; what goes out whole has none."""
    known = {switch.name: switch for switch in switches(model)}
    chosen: dict[Switch, list[int]] = {}
    for name in dict.fromkeys(names):
        place, _, number = name.partition(":")
        switch = known.get(place)
        if switch is None:
            near = get_close_matches(place, known, n=3, cutoff=0.4)
            raise ValueError(f"nothing called {place!r} can be put out; near it: {', '.join(near) or 'nothing'}")
        if switch.size is None and number:
            raise ValueError(f"{place} goes out whole: write {place!r} without a number")
        if switch.size is not None and not (number.isdecimal() and int(number) < switch.size):
            raise ValueError(f"{name!r}: {place} has the {switch.kind}s 0 to {switch.size - 1}; write '{place}:0'")
        chosen.setdefault(switch, []).extend([int(number)] if number else [])
    return chosen


def _inside(model: nn.Module, whole: Switch) -> list[str]:
    """What a layer adds to the stream that passes it; an alignment's context."""
    if whole.kind == "alignment":
        return [whole.name]
    parts = ("attention", "cross_attention", "feed_forward")
    return [f"{whole.name}.{part}" for part in parts if f"{whole.name}.{part}" in modules_of(model)]


@torch.no_grad()
def _means(
    model: nn.Module, chosen: Iterable[Switch], inputs: Mapping[str, Any], seen: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """The mean of each value over the batch and its tokens: (H, K) of heads, (W,) of others."""
    names: list[str] = []
    for switch in chosen:
        if switch.size is None:
            names += _inside(model, switch)
        else:
            names.append(f"{switch.name}.context" if switch.kind == "head" else switch.name)
    if any(name not in seen for name in names):
        with record(model, names) as seen:
            model(**inputs)
    loops = [switch.name for switch in chosen if switch.kind == "alignment"]  # may be called token by token
    with record(model, loops, every_call=True) as steps:
        if loops:
            model(**inputs)
    values = {name: torch.cat(steps.calls(name), 1) if name in loops else seen[name] for name in names}
    return {name: value.flatten(0, 1).mean(0) for name, value in values.items()}


def _whole(mean: Tensor | None) -> Any:
    def change(value: Tensor) -> Tensor:
        return torch.zeros_like(value) if mean is None else mean.to(value).expand_as(value)

    return change


def python_of(names: Sequence[str], to: To) -> str:
    """The same in Python, for a model and its inputs."""
    listed = ", ".join(f'"{name}"' for name in names)
    more = ', "mean", inputs' if to == "mean" else ""
    return (
        "from glassformer.inspect.switches import off\n\n"
        f"with gf.record(model, edit=off(model, [{listed}]{more})):\n    edited = model(**inputs)\n"
    )
