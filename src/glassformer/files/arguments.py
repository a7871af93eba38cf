"""Keyword arguments that a function does not have, refused in one line: with near ones, or with what to do instead."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def unknown_argument(place: str, name: str, known: Iterable[str]) -> str:
    """What is said of an argument that there is not."""
    listed = list(known)
    near = get_close_matches(name, listed, n=3)
    hint = f"near it: {', '.join(near)}" if near else f"it takes: {', '.join(listed)}"
    return f"{place} takes no {name!r}; {hint}"


def answers(elsewhere: Mapping[str, str]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function answer to arguments that it does not have. `elsewhere` says of some what to do instead.

    Of those, None and False ask for nothing, and are taken.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        known = list(inspect.signature(function).parameters)
        method = known[:1] == ["self"]

        @wraps(function)
        def call(*given: P.args, **named: P.kwargs) -> R:
            for name in [one for one in named if one not in known]:
                place = f"{type(given[0]).__name__}.{function.__name__}" if method else function.__name__
                if name not in elsewhere:
                    raise TypeError(unknown_argument(place, name, known[method:]))
                if (value := named.pop(name)) is not None and value is not False:
                    raise TypeError(f"{place} takes no {name}: {elsewhere[name]}")
            return function(*given, **named)

        return call

    return decorate
