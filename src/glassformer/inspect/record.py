"""Record and edit what flows through a model, by module name, with hooks that never outlive the block."""

import contextlib
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path

import torch
from torch import Tensor, nn

from glassformer.blocks.point import StepPoint

from .borders import Borders, Later
from .export import save_tensors

Edit = Callable[[Tensor], Tensor]
WITHIN = (str(Path(__file__).parents[1]), contextlib.__file__, Mapping.get.__code__.co_filename)  # no user's line


class Seen(Mapping[str, Tensor]):
    """What was recorded, by module name. A second call of the model starts afresh, unless every call is kept."""

    def __init__(self, names: Sequence[str], *, every_call: bool = False, budget: int | None = None) -> None:
        """`names` are those of all the model's modules; `budget` is in bytes."""
        self._names = names
        self._every_call = every_call
        self._budget = self._left = budget
        self._found: dict[str, list[Tensor | Later]] = {}
        self._loops: dict[
            str, bool
        ] = {}  # which of them fire once a step, and whether from the last token to the first

    def __getitem__(self, name: str) -> Tensor:
        name = current(name)
        if name in self._loops and not self._every_call:  # joined along time, in reading order
            steps = torch.stack(self.calls(name), dim=1)
            return steps.flip(1) if self._loops[name] else steps
        return self.calls(name)[-1]

    def calls(self, name: str) -> list[Tensor]:
        """Every value kept under a name, in the order of computation: of a time loop, one a step."""
        name = current(name)
        if name not in self._found:
            near = get_close_matches(name, list(self), n=3, cutoff=0.4)
            raise KeyError(f"{name!r} was not recorded; near it: {', '.join(near) or 'nothing'}")
        return [value if isinstance(value, Tensor) else value.recomputed() for value in self._found[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    @property
    def recomputed(self) -> list[str]:
        """Names of which something did not fit into the budget, and is computed again whenever it is asked for."""
        return [name for name, values in self._found.items() if any(isinstance(one, Later) for one in values)]

    def save(self, path: str | Path) -> None:
        """All values in one .npz or .safetensors file; where every call was kept, as name/0, name/1 and so on."""
        save_tensors(path, dict(self._named()))

    def _named(self) -> Iterator[tuple[str, Tensor]]:
        for name in self:
            if self._every_call:
                yield from ((f"{name}/{number}", value) for number, value in enumerate(self.calls(name)))
            else:
                yield name, self[name]

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
        if not self._every_call:
            self._found.clear()
            self._left = self._budget

    def _keep(self, name: str, module: nn.Module, value: Tensor, again: Callable[[], Later] | None) -> None:
        kept: Tensor | Later = value
        if again is not None and self._left is not None:
            later = again()  # counts this value, kept or not
            if value.nbytes <= self._left:
                self._left -= value.nbytes
            else:
                kept = later
        if isinstance(module, StepPoint):
            self._loops[name] = module.reverse
        if name in self._loops or self._every_call:
            self._found.setdefault(name, []).append(kept)
        else:
            self._found[name] = [kept]


@contextmanager
def record(
    model: nn.Module,
    patterns: str | Iterable[str] = (),
    *,
    edit: Mapping[str, Edit] | None = None,
    every_call: bool = False,
    budget: int | None = None,
) -> Iterator[Seen]:
    """Within the block, keep what every module whose name fits a pattern gives (`*` spans dots).

    `edit` maps names or patterns to functions; what a function returns takes the place of the value
    for all that follows. `every_call` keeps what every call gave, as a generation makes many: see Seen.calls.
    `budget` is a number of bytes: what does not fit is computed again when it is asked for, from what entered
    its layer. A compiled model runs eagerly inside the block, because hooks added after compilation would
    silently not fire.
    """
    wanted = [current(one) for one in ([patterns] if isinstance(patterns, str) else patterns)]
    edits = {current(one): change for one, change in (edit or {}).items()}
    if edits and budget is not None:
        raise ValueError("an edited run cannot be computed again; leave the budget or the edits out")
    modules = modules_of(model)
    _require_matches(list(modules), [*wanted, *edits])
    seen = Seen(list(modules), every_call=every_call, budget=budget)
    with ExitStack() as stack:
        if "torch._dynamo" in sys.modules:  # else nothing can have been compiled, and importing it takes a second
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        stack.callback(model.register_forward_pre_hook(lambda *_: seen._clear()).remove)
        recorded = [name for name in modules if any(fnmatchcase(name, pattern) for pattern in wanted)]
        borders = Borders(modules, recorded if budget is not None else [], stack)
        for name, part in modules.items():
            for pattern, change in edits.items():
                if fnmatchcase(name, pattern):
                    stack.callback(part.register_forward_hook(_editing(name, change)).remove)
        for name in recorded:
            hook = _keeping(name, seen, borders.later(name))
            stack.callback(modules[name].register_forward_hook(hook).remove)
        yield seen


def modules_of(model: nn.Module) -> dict[str, nn.Module]:
    """Every module below the model, by the name it has without a compiler."""
    found = {plain(name): part for name, part in model.named_modules(remove_duplicate=False)}
    found.pop("", None)
    return found


def current(name: str) -> str:
    """A name or pattern as it is now; one of before is taken for one more version, with a warning."""
    now = re.sub(r"((attention|\*)(\.head\.\d+)?)\.mixed$", r"\1.context", name)
    if now == name:
        return name
    warnings.warn(f"{name} is called {now} now", DeprecationWarning, stacklevel=_stacklevel())
    return now


def _stacklevel() -> int:
    """How far up the caller of this package is, past what enters a context and looks into a mapping."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(WITHIN):
        level, frame = level + 1, frame.f_back
    return level


def plain(name: str) -> str:
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


def _keeping(name: str, seen: Seen, again: Callable[[], Later] | None) -> Callable[[nn.Module, object, object], None]:
    def hook(module: nn.Module, _: object, output: object) -> None:
        if isinstance(output, Tensor):  # a block that returns several values has its parts recorded instead
            seen._keep(name, module, output, again)

    return hook


def _editing(name: str, change: Edit) -> Callable[[nn.Module, object, object], Tensor]:
    def hook(_module: nn.Module, _: object, output: object) -> Tensor:
        if not isinstance(output, Tensor):
            raise ValueError(f"{name} gives several values and cannot be edited; edit a part of it")
        edited = change(output)
        if not isinstance(edited, Tensor) or edited.shape != output.shape:
            got = tuple(edited.shape) if isinstance(edited, Tensor) else type(edited).__name__
            raise ValueError(f"the edit of {name} must return a tensor of shape {tuple(output.shape)}, not {got}")
        return edited

    return hook
