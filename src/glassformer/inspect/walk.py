"""A walk: a forward pass written down as steps, block by block. Each block class has its walk, found by type.

A walk mirrors the `forward` of its block: it takes and gives names of values where `forward` takes and gives tensors,
and adds a step for every value on the way. The walks themselves are the files of `inspect/walks`.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from torch import Tensor, nn

from glassformer.blocks.lora import LoraLinear

from .calls import Calls
from .formulas import Formula, adapted
from .record import modules_of, plain
from .steps import RecomputeStep, Values

BlockWalk = Callable[..., Any]  # of (walk, name, *operands), as a module's forward is of anything
Registered = TypeVar("Registered", bound=BlockWalk)
Block = TypeVar("Block", bound=nn.Module)
WALKS: dict[type[nn.Module], BlockWalk] = {}


def walks(*blocks: type[nn.Module]) -> Callable[[Registered], Registered]:
    """Register the function below as the walk of these block classes, and of subclasses that have none of their own."""

    def register(function: Registered) -> Registered:
        WALKS.update(dict.fromkeys(blocks, function))
        return function

    return register


def registered(block: type[nn.Module]) -> BlockWalk | None:
    """The walk of a class: its own or, along its MRO, that of the nearest parent that has one."""
    return next((WALKS[kind] for kind in block.__mro__ if kind in WALKS), None)


class Walk:
    """The steps of one pass in the making. Adding one gives its name back, for the next to be made from."""

    def __init__(self, model: nn.Module, calls: Calls) -> None:
        self.model = model
        self.parts = modules_of(model)
        self.calls = calls
        self.steps: list[RecomputeStep] = []
        self.adapted: dict[str, str] = {}  # layers with an adapter -> the step that adds it to the weight
        self.given: Values = {}
        for tensors in (model.named_parameters(remove_duplicate=False), model.named_buffers(remove_duplicate=False)):
            self.given |= {plain(name): tensor.detach().cpu() for name, tensor in tensors}

    def give(self, name: str, value: Tensor) -> str:
        """Something that no formula makes: ids, masks, a state of zeros."""
        self.given[name] = value.cpu()
        return name

    def add(self, name: str, formula: Formula, operands: Mapping[str, str], seen: Tensor | None = None) -> str:
        """A step; `seen` is what the model computed there, and None where it keeps no such value."""
        kept = None if seen is None else seen.detach().cpu()
        self.steps.append(RecomputeStep(name, formula, dict(operands), kept))
        return name

    def walk_of(self, name: str) -> BlockWalk:
        """The walk of the module of this name; a class without one is refused, as nothing is known of its formulas."""
        if name not in self.parts:
            raise ValueError(
                f"this model has no {name!r}, which a pass goes through by the names that all architectures share; "
                f"register a walk for {type(self.model).__name__} itself, as glassformer/inspect/walks/models.py shows"
            )
        kind = type(self.parts[name])
        found = registered(kind)
        if found is None:
            raise ValueError(
                f"{name} is a {kind.__name__}, and how that is recomputed is not known; register a walk for it, "
                "as the files of glassformer/inspect/walks do"
            )
        return found

    def block(self, name: str, *operands: object, **more: object) -> str:
        """Walk through a block that gives one value; the name of that value."""
        found = self.walk_of(name)(self, name, *operands, **more)
        assert isinstance(found, str), f"the walk of {name} gives {type(found).__name__}, not the name of a value"
        return found

    def part(self, name: str, kind: type[Block]) -> Block:
        """The module of this name, which must be of this class."""
        found = self.parts[name]
        assert isinstance(found, kind), f"{name} is a {type(found).__name__}, not a {kind.__name__}"
        return found

    def weights(self, module: str, **symbols: str) -> dict[str, str]:
        """The weights of a module that it has: symbol -> full name."""
        had = {symbol: weight for symbol, weight in symbols.items() if f"{module}.{weight}" in self.given}
        return {symbol: self.weight(module) if one == "weight" else f"{module}.{one}" for symbol, one in had.items()}

    def weight(self, module: str) -> str:
        """The name of a module's weight; with an adapter, that of the step that adds it."""
        part, name = self.parts[module], f"{module}.weight"
        if not isinstance(part, LoraLinear):
            return name
        if module not in self.adapted:
            operands = {"W": name, "U": f"{module}.lora_up", "D": f"{module}.lora_down"}
            self.adapted[module] = self.add(f"{name}.adapted", adapted(part.scale), operands)
        return self.adapted[module]

    def out(self, name: str, call: int = -1) -> Tensor:
        """What a module returned."""
        found: Tensor = self.calls[name][call].output
        return found

    def fed(self, name: str, call: int = -1, *, argument: int = 0) -> Tensor:
        """What a module was called with."""
        found: Tensor = self.calls[name][call].args[argument]
        return found
