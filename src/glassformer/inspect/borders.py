"""Borders: what entered a block is kept, so that everything inside can be computed again instead of being kept."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from glassformer.blocks.alignment import Alignment
from glassformer.blocks.recurrent import Recurrent
from glassformer.blocks.transformer import Layer


@dataclass
class BlockCall:
    """One call of a block: what entered it, and what came out."""

    block: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    fired: Counter[str] = field(default_factory=Counter)  # how often each module inside was called so far
    output: Any = None


@dataclass(frozen=True)
class Later:
    """A value that is not kept: the `number`th that module `name` gave in one call of its block."""

    entry: BlockCall
    name: str  # within the block; empty for the block itself
    number: int

    @torch.no_grad()
    def recomputed(self) -> Tensor:
        """Run the block again. A cache is copied first, because a layer writes into it."""
        from .record import record

        entry, names = self.entry, [self.name] if self.name else []
        args, kwargs = deepcopy((entry.args, entry.kwargs))
        with record(entry.block, names, every_call=True) as seen:
            output = entry.block(*args, **kwargs)
        before, after = _first(entry.output), _first(output)
        if not torch.allclose(before, after, atol=1e-4, rtol=1e-4):
            raise ValueError(
                f"{self.name or 'this value'} cannot be computed again, because the cache it read has changed since "
                "(beams move its rows); record with a larger budget"
            )
        return seen.calls(self.name)[self.number] if self.name else after


class Borders:
    """Watches the modules to be recorded and the blocks that they lie in."""

    def __init__(self, modules: Mapping[str, nn.Module], recorded: Sequence[str], hooks: ExitStack) -> None:
        self.homes = {name: _home(name, modules) for name in recorded}
        self.current: dict[str, BlockCall] = {}
        for name in dict.fromkeys([*self.homes, *self.homes.values()]):
            block = modules[name]
            hooks.callback(block.register_forward_pre_hook(self._enter(name), with_kwargs=True).remove)
            hooks.callback(block.register_forward_hook(self._leave(name)).remove)

    def later(self, name: str) -> Callable[[], Later] | None:
        """What stands for the value that a module gives now."""
        if name not in self.homes:
            return None

        def again() -> Later:
            home = self.homes[name]
            around = self.current.get(home)
            if around is None or around.output is not None:  # called from outside its block, as a decoder's sources are
                home, around = name, self.current[name]
            inner = name.removeprefix(home).removeprefix(".")
            around.fired[inner] += 1
            return Later(around, inner, around.fired[inner] - 1)

        return again

    def _enter(self, home: str) -> Callable[..., None]:
        def hook(block: nn.Module, args: tuple[object, ...], kwargs: dict[str, Any]) -> None:
            self.current[home] = BlockCall(block, *tree_map_only(Tensor, Tensor.detach, (args, kwargs)))

        return hook

    def _leave(self, home: str) -> Callable[..., None]:
        def hook(_block: nn.Module, _args: object, output: object) -> None:
            self.current[home].output = output

        return hook


def _home(name: str, modules: Mapping[str, nn.Module]) -> str:
    """The Layer, recurrent network or alignment that a module lies in; else the module itself."""
    parts = name.split(".")
    around = (".".join(parts[:end]) for end in range(1, len(parts)))
    return next((one for one in around if isinstance(modules[one], (Layer, Recurrent, Alignment))), name)


def _first(output: Any) -> Tensor:
    return output if isinstance(output, Tensor) else output[0]
