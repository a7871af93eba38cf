"""The splits of a run: read from files, taken from the micro-world, or cut from one file."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from glassformer.tasks.task import Task

from .recipe import MICROWORLD, Recipe, expanded

MICRO_SIZE = {"train": 4000, "dev": 400, "test": 400}


@dataclass
class Splits:
    """Examples by split, and what the readers had to say."""

    train: list[Any]
    dev: list[Any]
    test: list[Any]
    told: list[str] = field(default_factory=list)
    accounts: dict[str, Any] = field(default_factory=dict)


def read_splits(recipe: Recipe, task: type[Task[Any, Any]]) -> Splits:
    """Train, dev and test; where no dev is given, a part of the data that is chosen by a hash."""
    splits = Splits([], [], [])
    splits.train = _read(recipe.data, "train", recipe, task, splits)
    if recipe.dev:
        splits.dev = _read(recipe.dev, "dev", recipe, task, splits)
    elif recipe.data[0].startswith(MICROWORLD):
        splits.dev = _read(recipe.data, "dev", recipe, task, splits)
    else:
        splits.train, splits.dev = task.split(splits.train)
        splits.told.append(f"no dev data given: {len(splits.dev)} examples are held out of the training data")
    if recipe.test:
        splits.test = _read(recipe.test, "test", recipe, task, splits)
    if recipe.limit is not None:
        splits.train = splits.train[: recipe.limit]
    return splits


def _read(sources: Sequence[str], split: str, recipe: Recipe, task: type[Task[Any, Any]], splits: Splits) -> list[Any]:
    if sources[0].startswith(MICROWORLD):
        return made_up(sources[0], split, task, limit=recipe.limit)
    read = task.read(expanded(sources), columns=recipe.columns or None, **reading(task, recipe.options))
    splits.told += [f"{split}: {line}" for line in read.report.lines()]
    splits.accounts[split] = read.report.as_dict()
    return read.examples


def read_examples(
    task: type[Task[Any, Any]],
    sources: Sequence[str],
    *,
    split: str,
    columns: Mapping[str, str] | None = None,
    options: Mapping[str, Any],
) -> list[Any]:
    """One split by itself."""
    if sources[0].startswith(MICROWORLD):
        return made_up(sources[0], split, task)
    return task.read(sources, columns=columns, **reading(task, options)).examples


def reading(task: type[Task[Any, Any]], options: Mapping[str, Any]) -> dict[str, Any]:
    """Of a recipe's options, those that concern reading."""
    known = inspect.signature(task.read).parameters
    return {name: value for name, value in options.items() if name in known}


def made_up(source: str, split: str, task: type[Task[Any, Any]], *, limit: int | None = None) -> list[Any]:
    """ "microworld" or "microworld:de": examples that need no file; each split has a seed of its own."""
    _, _, language = source.partition(":")
    seed = list(MICRO_SIZE).index(split)
    count = MICRO_SIZE[split] if limit is None else min(limit, MICRO_SIZE[split])
    return list(task.made_up(count, seed, language or None))
