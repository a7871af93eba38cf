"""What kind of value each setting takes, by its type: a whole number, a number, yes or no, ids, or strings."""

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

MOST = 2**63 - 1  # what a tensor can hold
SEEDS = range(-(2**63), 2**64)  # what torch takes
IDS = {
    *("eos_token_id", "stop_token_ids", "suppress_tokens", "begin_suppress_tokens", "forced_eos_token_id"),
    *("bad_words_ids", "force_words_ids"),
}


def checked_kinds(values: Mapping[str, Any], hints: Mapping[str, Any]) -> dict[str, Any]:
    """The same values, once no setting has one that it cannot have, wherever it was written: a call or a folder's file.

    A number is then a float: tensors are not divided by whole numbers of any size.
    """
    for name, value in values.items():
        hint = hints[name]
        if name in IDS and not _are_ids(value):
            raise ValueError(f"{name} must be ids, whole numbers up to {MOST}, not {value!r}")
        if hint in (int, int | None) and not _is_whole(value, SEEDS if name == "seed" else range(-MOST, MOST + 1)):
            raise ValueError(f"{name} must be a whole number, and not beyond {MOST}, not {value!r}")
        if hint in (float, float | None) and not _is_number(value):
            raise ValueError(f"{name} must be a number, not {value!r}")
        if hint in (bool, bool | None) and not isinstance(value, bool):
            raise ValueError(f"{name} must be True or False, not {value!r}")
        if name == "stop_strings" and not _all(value, lambda one: isinstance(one, str)):
            raise ValueError(f"stop_strings must be strings, not {value!r}")
        if name == "constraints" and not _all(value, lambda one: hasattr(one, "options")):
            raise ValueError(f"constraints must be PhrasalConstraint or DisjunctiveConstraint, not {value!r}")
    numbers = {name: float(value) for name, value in values.items() if hints[name] in (float, float | None)}
    return {**values, **numbers}


def _all(values: Any, rule: Callable[[Any], bool]) -> bool:
    return isinstance(values, Iterable) and all(map(rule, values))


def _is_whole(value: Any, allowed: range) -> bool:
    try:
        return not isinstance(value, bool) and operator.index(value) in allowed
    except TypeError:
        return False


def _is_number(value: Any) -> bool:
    try:
        return not isinstance(value, bool | str) and not math.isnan(value)
    except (TypeError, OverflowError, ValueError):
        return False


def _are_ids(value: Any) -> bool:
    if isinstance(value, list | tuple | set | frozenset | range):
        return all(map(_are_ids, value))
    return _is_whole(value, range(-MOST, MOST + 1)) or (hasattr(value, "tolist") and _are_ids(value.tolist()))
