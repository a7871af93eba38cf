"""Record and edit what flows through a model, by module name, with hooks that never outlive the block."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.blocks.point import StepPoint

Edit = Callable[[Tensor], Tensor]


class Seen(Mapping[str, Tensor]):
    """What was recorded, by module name. A second call of the model starts afresh: the last call is kept."""

    def __init__(self, names: Sequence[str]) -> None:
        """`names` are those of all the model's modules."""
        self._names = names
        self._values: dict[str, Tensor] = {}
        self._steps: dict[str, list[Tensor]] = {}
        self._reversed: set[str] = set()

    def __getitem__(self, name: str) -> Tensor:
        if name in self._steps:  # joined along time, in reading order
            steps = torch.stack(self._steps[name], dim=1)
            return steps.flip(1) if name in self._reversed else steps
        try:
            return self._values[name]
        except KeyError:
            near = get_close_matches(name, list(self), n=3, cutoff=0.4)
            raise KeyError(f"{name!r} was not recorded; near it: {', '.join(near) or 'nothing'}") from None

    def __iter__(self) -> Iterator[str]:
        yield from self._values
        yield from self._steps

    def __len__(self) -> int:
        return len(self._values) + len(self._steps)

    @property
    def hidden_states(self) -> list[Tensor]:
        """The embedding output, then what every layer gave; the last one is `last_hidden_state`.

        In an encoder-decoder these are the encoder's; the decoder's are under `decoder.layers.*`.
        """
        stack = next((name for name in self._names if name in ("layers", "encoder.layers")), None)
        if stack is None:
            raise ValueError("this model has no stack of layers; record its parts by name")
        side = stack.removesuffix("layers")
        inner = [name for name in self._names if name.removeprefix(f"{stack}.").isdigit()]
        last = f"{side}final_norm" if f"{side}final_norm" in self._names else stack
        wanted = [f"{side}embeddings", *inner[:-1], last]
        if missing := [name for name in wanted if name not in self]:
            raise ValueError(f"hidden_states needs these recorded as well: {', '.join(missing)} (or '*')")
        return [self[name] for name in wanted]

    @property
    def attentions(self) -> list[Tensor]:
        """The attention pattern of every layer recorded, in the order of computation."""
        return [self[name] for name in self if name.endswith("attention.pattern")]

    def _clear(self) -> None:
        self._values.clear()
        self._steps.clear()

    def _keep(self, name: str, module: nn.Module, value: Tensor) -> None:
        if isinstance(module, StepPoint):
            self._steps.setdefault(name, []).append(value)
            if module.reverse:
                self._reversed.add(name)
        else:
            self._values[name] = value


@contextmanager
def record(
    model: nn.Module, patterns: str | Iterable[str] = (), *, edit: Mapping[str, Edit] | None = None
) -> Iterator[Seen]:
    """Within the block, keep what every module whose name fits a pattern gives (`*` spans dots).

    `edit` maps names or patterns to functions; what a function returns takes the place of the value
    for all that follows. A compiled model runs eagerly inside the block, because hooks added after
    compilation would silently not fire.
    """
    wanted = [patterns] if isinstance(patterns, str) else list(patterns)
    edits = dict(edit or {})
    modules = {_plain(name): part for name, part in model.named_modules(remove_duplicate=False)}
    modules.pop("", None)
    _require_matches(list(modules), [*wanted, *edits])
    seen = Seen(list(modules))
    with ExitStack() as stack:
        if "torch._dynamo" in sys.modules:  # else nothing can have been compiled, and importing it takes a second
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        stack.callback(model.register_forward_pre_hook(lambda *_: seen._clear()).remove)
        for name, part in modules.items():
            for pattern, change in edits.items():
                if fnmatchcase(name, pattern):
                    stack.callback(part.register_forward_hook(_editing(name, change)).remove)
            if any(fnmatchcase(name, pattern) for pattern in wanted):
                stack.callback(part.register_forward_hook(_keeping(name, seen)).remove)
        yield seen


def _plain(name: str) -> str:
    """The module's name without what torch.compile wraps around it."""
    return ".".join(part for part in name.split(".") if part != "_orig_mod")


def _require_matches(names: list[str], patterns: list[str]) -> None:
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            near = get_close_matches(pattern, names, n=3, cutoff=0.4)
            raise ValueError(
                f"no module is called {pattern!r}; near it: {', '.join(near) or 'nothing'} "
                "(model.named_modules() lists all; '*' stands for any part of a name)"
            )


def _keeping(name: str, seen: Seen) -> Callable[[nn.Module, Any, Any], None]:
    def hook(module: nn.Module, _: Any, output: Any) -> None:
        if isinstance(output, Tensor):  # a block that returns several values has its parts recorded instead
            seen._keep(name, module, output)

    return hook


def _editing(name: str, change: Edit) -> Callable[[nn.Module, Any, Any], Tensor]:
    def hook(_module: nn.Module, _: Any, output: Any) -> Tensor:
        if not isinstance(output, Tensor):
            raise ValueError(f"{name} gives several values and cannot be edited; edit a part of it")
        edited = change(output)
        if not isinstance(edited, Tensor) or edited.shape != output.shape:
            got = tuple(edited.shape) if isinstance(edited, Tensor) else type(edited).__name__
            raise ValueError(f"the edit of {name} must return a tensor of shape {tuple(output.shape)}, not {got}")
        return edited

    return hook
