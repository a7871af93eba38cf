"""Averages of weights: a moving one over the steps of a run, and the mean of several checkpoints."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


class Ema:
    """The exponential moving average of the weights that are trained, in at least float32.

    It begins with the weights at its first update. Each later one moves it by a share 1 - decay towards the weights.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        if not 0 <= decay < 1:
            raise ValueError(f"the decay of a moving average is at least 0 and below 1, not {decay}; 0.999 is usual")
        self.decay = decay
        self.updates = 0
        self.weights = {name: _wide(tensor).clone() for name, tensor in _learning(model).items()}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Take in the weights after a step."""
        learning = _learning(model)
        if self.updates:
            theirs = [_wide(learning[name]) for name in self.weights]
            torch._foreach_lerp_(list(self.weights.values()), theirs, 1 - self.decay)
        else:
            _copy(learning, self.weights)
        self.updates += 1

    @contextmanager
    def swapped(self, model: nn.Module) -> Iterator[None]:
        """Within the block the model has the averaged weights; after it, its own again, to the bit.

        Values are copied and tensors stay, because optimisers, graphs and flat buffers hold on to them.
        """
        learning = {name: tensor for name, tensor in _learning(model).items() if name in self.weights}
        own = {name: tensor.clone() for name, tensor in learning.items()}
        try:
            _copy(self.weights, learning)
            yield
        finally:
            _copy(own, learning)

    def state(self) -> dict[str, Any]:
        """All that the next update depends on."""
        return {"updates": self.updates, "weights": self.weights}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.updates = state["updates"]
        _copy(state["weights"], self.weights)


def average_states(states: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of several state dicts, summed in float64; what is not a float is taken from the last."""
    sums: dict[str, Tensor] = {}
    last: Mapping[str, Tensor] = {}
    count = 0
    for count, state in enumerate(states, start=1):  # they may come one at a time, from files
        if count > 1:
            _check_alike(last, state)
        last = state
        for name, tensor in state.items():
            if tensor.is_floating_point():
                sums[name] = tensor.double() + sums.get(name, 0.0)
    if not count:
        raise ValueError("there is no checkpoint to average; give at least one state dict")
    return {name: (sums[name] / count).to(tensor.dtype) if name in sums else tensor for name, tensor in last.items()}


def _learning(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach() for name, tensor in model.named_parameters() if tensor.requires_grad}


def _wide(tensor: Tensor) -> Tensor:
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def _copy(source: Mapping[str, Tensor], target: Mapping[str, Tensor]) -> None:
    for name, tensor in target.items():
        tensor.copy_(source[name])


def _check_alike(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> None:
    shapes, others = ({name: tuple(tensor.shape) for name, tensor in state.items()} for state in (one, other))
    for name in {**shapes, **others}:
        if shapes.get(name) != others.get(name):
            found = f"{shapes.get(name, 'absent')} in one and {others.get(name, 'absent')} in the other"
            raise ValueError(f"checkpoints of different models cannot be averaged: {name} is {found}")
