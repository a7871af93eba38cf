"""Schemas: a type hint says what a value from outside may be, and a value that does not fit is refused in one line.

A schema is made of int, float, str, bool, None, Literal, unions, list, dict, TypedDict, and Annotated with Bounds. As
in JSON a whole number is also a number, true is neither, and no number is NaN or infinite. A TypedDict names the keys
that are looked at: others may stand beside them, and null counts as left out unless the key is required.
"""

import math
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import repeat
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

LONGEST_SHOWN = 60  # characters of a wrong value
LARGEST = sys.float_info.max  # an integer of JSON may be larger, and is then no float
SEQUENCES = (list, tuple, Sequence)
Place = tuple[str, ...]
"""Where a value stands: the file or the thing it belongs to, then keys down to it."""


@dataclass(frozen=True)
class Bounds:
    """The least and the most that a number may be; with `above` or `below` that number itself is not allowed."""

    least: float
    most: float = math.inf
    above: bool = False
    below: bool = False

    def __contains__(self, value: Any) -> bool:
        enough = value > self.least if self.above else value >= self.least
        return bool(enough and (value < self.most if self.below else value <= self.most))

    def __str__(self) -> str:
        least = f" above {self.least}" if self.above else f" of at least {self.least}"
        if self.most == math.inf:
            return least
        if not self.above and not self.below:
            return f" from {self.least} to {self.most}"
        return f"{least} and {'below' if self.below else 'at most'} {self.most}"


Count = Annotated[int, Bounds(0)]
Depth = Annotated[int, Bounds(1, 1000)]  # layers: each is built as modules, so that many more would never end
Positions = Annotated[int, Bounds(1, 2**17)]  # of a table that is computed, not read
TokenId = Annotated[int, Bounds(-1, 2**31 - 1)]  # some folders write -1 for none
Size = Annotated[int, Bounds(1, 2**28)]  # of a tensor's dimension: a product of two does not overflow
Probability = Annotated[float, Bounds(0, 1)]
Positive = Annotated[float, Bounds(0, above=True)]
NotNegative = Annotated[float, Bounds(0)]


def conform(value: object, hint: Any, *place: str) -> None:
    """Raise a ValueError that names the place, the value and what may stand there, unless the value fits the hint."""
    for problem in _problems(value, hint, place):
        raise ValueError(problem)


def hints_of(cls: type) -> Mapping[str, Any]:
    """The hints of a TypedDict's keys or of a dataclass's fields, bounds included."""
    return _hints_of(cls)


@cache
def _hints_of(cls: type) -> Mapping[str, Any]:
    hints = get_type_hints(cls, include_extras=True)
    bare = {
        name: get_args(hint)[0] if get_origin(hint) in (Required, NotRequired) else hint for name, hint in hints.items()
    }
    return types.MappingProxyType(bare)


def _problems(value: object, hint: Any, place: Place) -> Iterator[str]:
    """What is wrong, the first thing first."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        whole = list(_problems(value, args[0], place))
        if whole or not all(value in bounds for bounds in args[1:] if isinstance(bounds, Bounds)):
            yield _problem(value, hint, place)
    elif origin in (Union, types.UnionType):
        yield from _union_problems(value, args, hint, place)
    elif is_typeddict(hint):
        yield from _key_problems(value, hint, place)
    elif origin in (dict, Mapping) and isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _problems(key, args[0], (*place, "a key"))
            yield from _problems(inner, args[1], (*place, str(key)))
    elif origin in SEQUENCES and isinstance(value, Sequence) and not isinstance(value, str | bytes):
        fixed = origin is tuple and args[-1] is not ...
        if fixed and len(args) != len(value):
            yield _problem(value, hint, place)
        for number, (inner, kind) in enumerate(zip(value, args if fixed else repeat(args[0]), strict=False)):
            yield from _problems(inner, kind, (*place, f"[{number}]"))
    elif not _is_plain(value, hint):
        yield _problem(value, hint, place)


def _union_problems(value: object, choices: Sequence[Any], hint: Any, place: Place) -> Iterator[str]:
    """If a choice is of the value's shape, what is wrong inside it; else what may stand there."""
    found = [next(_problems(value, choice, place), "") for choice in choices]
    if all(found):
        inside = [problem for problem in found if not problem.startswith(_start(value, place) + ";")]
        yield inside[0] if inside else _problem(value, hint, place)


def _key_problems(value: object, hint: Any, place: Place) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield _problem(value, hint, place)
        return
    if missing := sorted(key for key in hint.__required_keys__ if key not in value):
        yield f"{_written(place)} lacks {', '.join(missing)}"
    for key, kind in hints_of(hint).items():
        if value.get(key) is not None or (key in value and key in hint.__required_keys__):
            yield from _problems(value[key], kind, (*place, key))


def _is_plain(value: Any, hint: Any) -> bool:
    """Whether a value without parts is of a hint without parts."""
    match hint:
        case builtin if builtin is int:
            return isinstance(value, int) and not isinstance(value, bool)
        case builtin if builtin is float:
            return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST
        case builtin if builtin is str:
            return isinstance(value, str) and _is_text(value)
        case None | types.NoneType:
            return value is None
    if get_origin(hint) is Literal:
        return any(value == one and type(value) is type(one) for one in get_args(hint))
    if get_origin(hint) in (*SEQUENCES, dict, Mapping):
        return False  # a value of that shape has been looked into
    kind = get_origin(hint) or hint
    return hint is Any or not isinstance(kind, type) or isinstance(value, kind)


def _is_text(value: str) -> bool:
    """Whether it can be written: JSON may spell half of a surrogate pair."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _problem(value: object, hint: Any, place: Place) -> str:
    return f"{_start(value, place)}; it must be {words(hint)}"


def _start(value: object, place: Place) -> str:
    return f"{_written(place)} is {shown(value)}"


def _written(place: Place) -> str:
    root, *keys = place or ("a value",)
    inside = ".".join(keys).replace(".[", "[")
    return root + inside if inside.startswith("[") else f"{root}: {inside}" if inside else root


def shown(value: object) -> str:
    """A wrong value as an error shows it: not too much of it."""
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 1] + "…"


def words(hint: Any) -> str:
    """What a hint allows, as a person says it; that something may be left out is not said."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return words(args[0]) + "".join(str(one) for one in args[1:] if isinstance(one, Bounds))
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(words(one) for one in args if one is not types.NoneType))
    if origin is Literal:
        return " or ".join(_as_json(one) for one in args)
    if origin in SEQUENCES:
        if origin is tuple and args[-1] is not ...:
            return f"a list of {len(args)}: {', '.join(map(words, args))}"
        return f"a list, each of it {words(args[0])}"
    if origin in (dict, Mapping) or is_typeddict(hint):
        return "an object of names and values"
    plain = {int: "a whole number", float: "a number", str: "text", bool: "true or false", types.NoneType: "null"}
    return plain.get(hint, getattr(hint, "__name__", str(hint)))


def _as_json(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)
