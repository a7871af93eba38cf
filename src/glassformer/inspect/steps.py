"""Steps: a forward pass as a list of named values, each with its formula and the names of what it is made from."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .formulas import LINEAR, Formula, as_float64, norm
from .record import modules_of, plain, record

Values = dict[str, Tensor]


@dataclass(frozen=True)
class Step:
    """One value of the pass. Operands are earlier steps, weights, or what was given: symbol -> name."""

    name: str
    formula: Formula
    operands: Mapping[str, str]
    seen: Tensor | None  # what the model computed; None where it keeps no such value


@dataclass(frozen=True)
class Call:
    """One call of a module."""

    args: tuple[Any, ...]
    output: Any


Calls = dict[str, list[Call]]


class _Heard(Exception):
    """All that was asked for has been computed."""


@torch.no_grad()
def listen(model: nn.Module, inputs: Mapping[str, Any]) -> tuple[Calls, dict[str, Tensor]]:
    """Run a model; every call of its every module, in order, and its outputs. No hook is left."""
    with _listening(model, "") as calls:
        outputs = model(**inputs)
    return calls, outputs._asdict()


@torch.no_grad()
def listen_to(model: nn.Module, inputs: Mapping[str, Any], name: str) -> Calls:
    """The calls of one module and of those below it; the model runs no further than that."""

    def stop(*_: Any) -> None:
        raise _Heard

    with _listening(model, name) as calls:
        handle = modules_of(model)[name].register_forward_hook(stop)
        try:
            with suppress(_Heard):
                model(**inputs)
        finally:
            handle.remove()
    return calls


@contextmanager
def _listening(model: nn.Module, under: str) -> Iterator[Calls]:
    calls: Calls = {}

    def keep(name: str) -> Any:
        def hook(_module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            calls.setdefault(name, []).append(Call(args, output))

        return hook

    with ExitStack() as stack:
        stack.enter_context(record(model))  # a compiled model runs eagerly, as hooks need
        for name, part in modules_of(model).items():
            if name.startswith(under):
                stack.callback(part.register_forward_hook(keep(name)).remove)
        yield calls


class Walk:
    """A list of steps in the making. Adding one gives its name back, for the next to be made from."""

    def __init__(self, model: nn.Module, calls: Calls) -> None:
        self.parts = modules_of(model)
        self.calls = calls
        self.steps: list[Step] = []
        self.given: Values = {}
        for tensors in (model.named_parameters(remove_duplicate=False), model.named_buffers(remove_duplicate=False)):
            self.given |= {plain(name): tensor.detach().cpu() for name, tensor in tensors}

    def give(self, name: str, value: Tensor) -> str:
        """Something that no formula makes: ids, masks, a state of zeros."""
        self.given[name] = value.cpu()
        return name

    def add(self, name: str, formula: Formula, operands: Mapping[str, str], seen: Tensor | None = None) -> str:
        kept = None if seen is None else seen.detach().cpu()
        self.steps.append(Step(name, formula, dict(operands), kept))
        return name

    def linear(self, name: str, x: str, *, call: int = -1) -> str:
        return self.add(name, LINEAR, {"x": x, **self.weights(name, W="weight", b="bias")}, self.out(name, call))

    def norm(self, name: str, x: str) -> str:
        part: Any = self.parts[name]
        weights = self.weights(name, γ="weight", β="bias")
        return self.add(name, norm(part.eps), {"x": x, **weights}, self.out(name))

    def weights(self, module: str, **symbols: str) -> dict[str, str]:
        """The weights of a module that it has: symbol -> full name."""
        named = {symbol: f"{module}.{weight}" for symbol, weight in symbols.items()}
        return {symbol: name for symbol, name in named.items() if name in self.given}

    def out(self, name: str, call: int = -1) -> Tensor:
        """What a module gave."""
        return self.calls[name][call].output  # type: ignore[no-any-return]

    def fed(self, name: str, call: int = -1) -> Tensor:
        """What a module was given."""
        return self.calls[name][call].args[0]  # type: ignore[no-any-return]


def evaluate(walk: Walk, on_progress: Callable[[], None] | None = None) -> tuple[Values, Values]:
    """Every step twice: from scratch, in float64 from the ids on; and alone, from what the model had before it.

    The first shows that the whole is right, the second where a fault is: it is not handed on.
    """
    given = _widened(walk)
    scratch, alone, seen = dict(given), {}, dict(given)
    for step in walk.steps:
        if on_progress is not None:
            on_progress()
        scratch[step.name] = compute(step, scratch)
        alone[step.name] = compute(step, seen)
        seen[step.name] = alone[step.name] if step.seen is None else step.seen
    return scratch, alone


def _widened(walk: Walk) -> Values:
    """What is given, in float64 once where several steps ask for it, as all heads and all time steps do."""
    uses = Counter(name for step in walk.steps for name in step.operands.values())
    return {name: as_float64(value) if uses[name] > 1 else value for name, value in walk.given.items()}


def compute(step: Step, values: Values) -> Tensor:
    return step.formula.compute(*(at(values, name) for name in step.operands.values()))


def at(values: Values, name: str) -> Tensor:
    """A value by name, in float64; `embeddings[3]` is what it is at position 3."""
    if name in values:
        return as_float64(values[name])
    whole, _, place = name.removesuffix("]").rpartition("[")
    return as_float64(values[whole][:, int(place)])


def unused(walk: Walk, model: nn.Module) -> Iterator[str]:
    """Weights that no step was made from, so that nothing is passed over in silence."""
    used = {name for step in walk.steps for name in step.operands.values()}
    tensors = {plain(name): tensor for name, tensor in model.named_parameters(remove_duplicate=False)}
    places = {tensors[name].data_ptr() for name in used if name in tensors}
    yield from (name for name, tensor in tensors.items() if tensor.data_ptr() not in places)
