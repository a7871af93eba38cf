"""What `make test` takes of a product, such as every task on every kind of model; `make test-all` runs all of it."""

from collections.abc import Iterator
from functools import cache
from itertools import groupby
from typing import Any, TypeVar

import pytest
from hypothesis import settings

MANY = 3
Case = TypeVar("Case")
LAWS = "tests/laws/"  # which every family keeps; elsewhere one stands for all that are built alike


def is_quick() -> bool:
    """Whether this is `make test`, not `make test-all`."""
    return settings.get_current_profile_name() == "quick"


def takes_long(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """Of a test with many cases, those that can be left out while each value of each parameter still occurs.

    Of one marked `few(n)`, all but n of those that are left.
    """
    for name, group in groupby(items, lambda item: item.nodeid.split("[")[0]):
        kin = {} if name.startswith(LAWS) else _kin()
        cases = {item: _values(item, kin) for item in group if not item.get_closest_marker("slow")}
        chosen = thinned(cases) if len(cases) > MANY else cases.keys()
        kept = [item for item in cases if item in chosen]
        mark = kept[0].get_closest_marker("few") if kept else None
        yield from cases.keys() - set(kept if mark is None else spread(kept, *mark.args))


def spread(cases: list[Case], count: int) -> list[Case]:
    """So many of the cases, as far apart as can be; all of them where there are not more."""
    return cases if len(cases) <= count else [cases[place * len(cases) // count] for place in range(count)]


@cache
def _kin() -> dict[object, object]:
    """model_type -> the function that builds such models: Llama, Mistral and Qwen have one."""
    from glassformer.hub.registry import ARCHITECTURES

    return {name: id(architecture.build) for name, architecture in ARCHITECTURES.items()}


def _values(item: pytest.Item, kin: dict[object, object]) -> set[tuple[object, ...]]:
    """Each with the name of its parameter; the name of a case of tests/tasks/cases.py is that of a task, a model…"""
    from tasks.cases import NAMES

    found: set[tuple[object, ...]] = set()
    for parameter, value in item.callspec.params.items() if hasattr(item, "callspec") else ():
        plain = value is None or isinstance(value, (str, int, float))
        parts = value.split("/") if plain and value in NAMES else [value if plain else id(value)]
        found.update((parameter, place, kin.get(part, part)) for place, part in enumerate(parts))
    return found


def thinned(cases: dict[Case, set[tuple[object, ...]]]) -> set[Case]:
    """Few cases with every value: always the one with the most that are missing."""
    kept, missing = set(), set().union(*cases.values())
    while missing:
        kept.add(best := max(cases, key=lambda item: len(cases[item] & missing)))
        missing -= cases[best]
    return kept


def few_examples(test: Any) -> None:
    """A third of the examples that a test asks for, of few at least half: the first is always the plainest of all.

    There is no other way to change them than where hypothesis keeps them.
    """
    asked = test._hypothesis_internal_use_settings
    test._hypothesis_internal_use_settings = settings(
        asked, max_examples=max(min(3, (asked.max_examples + 1) // 2), asked.max_examples // 3)
    )
