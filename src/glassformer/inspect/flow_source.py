"""The lines of Python that compute a value: the method of its class, or of the module around it, that makes it."""

import ast
import inspect
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from torch import nn

HOME = Path(__file__).parents[2]


@dataclass(frozen=True)
class SourceLines:
    """Lines `first` to `last` of a file; `marked` are those that name the value."""

    file: str
    first: int
    last: int
    marked: tuple[int, ...]
    text: str


def source_of(model: nn.Module, parts: Mapping[str, nn.Module], name: str, parent: str | None) -> SourceLines | None:
    """A module of ours with parts: its own forward. All else: where the module around it makes it."""
    part, around = parts.get(name), model if parent is None else parts[parent]
    own = part is not None and _is_ours(type(part)) and next(part.children(), None) is not None
    if own:
        assert part is not None
        return _lines(type(part), "")
    inner = name if parent is None else name.removeprefix(f"{parent}.")
    return _lines(type(around), inner.split(".")[0])


def _is_ours(kind: type) -> bool:
    return not kind.__module__.startswith("torch.")


def _lines(kind: type, attribute: str) -> SourceLines | None:
    """The method of a class that uses an attribute, or else its forward."""
    found = [one for one in kind.__mro__ if one.__module__ != "builtins" and _is_ours(one)]
    for owner in found:
        if attribute and (lines := _using(owner, attribute)):
            return lines
    for owner in found:
        if methods := _methods(owner):
            return _method(owner, methods[0], "")
    return None


def _methods(owner: type) -> list[str]:
    """The methods that a class defines, `forward` first where it has one: gates, and scores of positions, have not."""
    found = [name for name, value in vars(owner).items() if inspect.isfunction(value) and name != "__init__"]
    return sorted(found, key=lambda name: (name != "forward", name.startswith("_")))


def _using(owner: type, attribute: str) -> SourceLines | None:
    return next(
        (found for name in _methods(owner) if (found := _method(owner, name, attribute)) and found.marked), None
    )


@cache
def _method(owner: type, name: str, attribute: str) -> SourceLines | None:
    method = inspect.unwrap(vars(owner)[name])
    try:
        lines, first = inspect.getsourcelines(method)
        file = Path(inspect.getsourcefile(method) or "")
    except (OSError, TypeError):  # of a class made in a console
        return None
    marked = _statements(lines, first, attribute) if attribute else ()
    shown = str(file.relative_to(HOME)) if file.is_relative_to(HOME) else file.name
    return SourceLines(shown, first, first + len(lines) - 1, marked, textwrap.dedent("".join(lines)).rstrip())


def _statements(lines: list[str], first: int, attribute: str) -> tuple[int, ...]:
    """The lines of the simple statements that use self.attribute."""
    used, found = re.compile(rf"\bself\.{re.escape(attribute)}\b"), set[int]()
    tree = ast.parse(textwrap.dedent("".join(lines)))
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and not isinstance(node, ast.FunctionDef | ast.For | ast.If | ast.With):
            assert node.end_lineno is not None
            inside = range(node.lineno, node.end_lineno + 1)
            if any(used.search(lines[number - 1]) for number in inside):
                found.update(first + number - 1 for number in inside)
    return tuple(sorted(found))
