"""Every call of every module of one forward pass, captured by forward hooks."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .record import modules_of, record


@dataclass(frozen=True)
class ModuleCall:
    """What a module was called with, positional arguments alone, and what it returned."""

    args: tuple[Any, ...]
    output: Any


Calls = dict[str, list[ModuleCall]]  # by module name, in the order of computation


class _Captured(Exception):
    """All that was asked for has been computed."""


@torch.no_grad()
def capture_calls(model: nn.Module, inputs: Mapping[str, Tensor], under: str = "") -> Calls:
    """Run a model with a hook on every module; with `under`, on that module and those inside it.

    With `under` the forward pass ends as soon as that module has returned. No hook is left behind.
    """
    calls: Calls = {}
    modules = modules_of(model)

    def keep(name: str) -> Callable[[nn.Module, tuple[Any, ...], Any], None]:
        return lambda _, args, output: calls.setdefault(name, []).append(ModuleCall(args, output))

    def stop(*_: object) -> None:
        raise _Captured

    with ExitStack() as stack:
        stack.enter_context(record(model))  # a compiled model runs eagerly, as hooks need
        for name, part in modules.items():
            if name.startswith(under):
                stack.callback(part.register_forward_hook(keep(name)).remove)
        if under:
            stack.callback(modules[under].register_forward_hook(stop).remove)
        stack.enter_context(suppress(_Captured))
        model(**inputs)
    return calls
