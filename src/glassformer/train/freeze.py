"""Freezing by pattern: which parts of a model are trained, chosen by the names of its modules.

Only gradients are switched off. Dropout inside a frozen part goes on in training, as PyTorch's users expect.
"""

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import accumulate
from typing import NamedTuple

from torch import nn

RANGE = re.compile(r"(?<![^.])(\d+)-(\d+)(?![^.])")  # `0-5`, alone between dots
UNITS = ((1e9, " B"), (1e6, " M"), (1e3, " k"))


def percent(share: float) -> str:
    """A share in three digits: "12.3 %"; never with an exponent."""
    return "under 0.01 %" if 0 < share < 1e-4 else f"{100 * share:.3g} %"


class Trained(NamedTuple):
    """How many numbers of a model are trained, of how many; a tied tensor counts once."""

    trainable: int
    total: int

    def __str__(self) -> str:
        share = percent(self.trainable / max(1, self.total))
        return f"{share} of {_short(self.total)} parameters are trained"


def trained(model: nn.Module) -> Trained:
    """What of a model will be trained as it stands."""
    sizes = [(tensor.numel(), tensor.requires_grad) for tensor in model.parameters()]
    return Trained(sum(size for size, learns in sizes if learns), sum(size for size, _ in sizes))


def freeze(model: nn.Module, patterns: str) -> Trained:
    """Freeze what the comma-separated patterns name, e.g. "embeddings,layers.0-5"; say what is still trained.

    A pattern is the beginning of a name, up to a dot; `*` stands for anything, `0-5` for these numbers. Patterns
    act from left to right, and a `!` before one makes its part trained again: "*,!head". Where the first one has a
    `!`, all else is frozen. A tied tensor goes by each of its names.
    """
    parameters = dict(model.named_parameters(remove_duplicate=False))
    wanted = [pattern.strip() for pattern in patterns.split(",")]
    wanted = ["*", *wanted] if wanted[0].startswith("!") else wanted
    changes = [(pattern, matching(parameters, pattern.removeprefix("!"))) for pattern in wanted]
    for pattern, names in changes:  # all are known by now: a wrong pattern changes nothing
        for name in names:
            parameters[name].requires_grad_(pattern.startswith("!"))
    return trained(model)


def matching(names: Iterable[str], pattern: str) -> list[str]:
    """The names of parameters or modules that a pattern means; an error names the nearest if there is none."""
    known = list(names)
    found: list[str] = []
    for single in _numbers_written_out(pattern):
        here = [name for name in known if any(fnmatchcase(part, single) for part in _beginnings(name))]
        if not here:
            inside = f" (in {pattern!r})" if single != pattern else ""
            near = ", ".join(_near(known, single))
            raise ValueError(f"no part of the model is called {single!r}{inside}; near it: {near}")
        found += here
    return found


def _numbers_written_out(pattern: str) -> Iterator[str]:
    """`layers.0-2` is `layers.0`, `layers.1` and `layers.2`."""
    span = RANGE.search(pattern)
    if span is None:
        yield pattern
        return
    first, last = int(span[1]), int(span[2])
    if first > last:
        raise ValueError(f"the range {span[0]!r} in {pattern!r} runs backwards; write {last}-{first}")
    for number in range(first, last + 1):
        yield from _numbers_written_out(f"{pattern[: span.start()]}{number}{pattern[span.end() :]}")


def _beginnings(name: str) -> Iterator[str]:
    """`a.b.c` begins with `a`, `a.b` and `a.b.c`."""
    return accumulate(name.split("."), lambda before, part: f"{before}.{part}")


def _near(names: Iterable[str], wanted: str) -> list[str]:
    """The names most like this one; failing that, those whose last word is, and failing that, the first."""
    parts = list(dict.fromkeys(part for name in names for part in _beginnings(name)))
    ends = {part.rpartition(".")[2]: part for part in reversed(parts)}
    like = [ends[end] for end in get_close_matches(wanted.rpartition(".")[2], ends)]
    return get_close_matches(wanted, parts) or like or parts[:3]


def _short(count: int) -> str:
    """22.7 M for 22713986."""
    for size, unit in UNITS:
        if count >= 0.9995 * size:
            return f"{count / size:.3g}{unit}"
    return str(count)
