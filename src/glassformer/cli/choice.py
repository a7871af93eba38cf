"""The model of a command that was given none: the built-in one of its task."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from glassformer.zoo import card_of, default_for

from .output import echo_line

OptionalName = Annotated[
    str | None,
    typer.Argument(metavar="[MODEL]", help="A folder, zoo:NAME or a hub name; without it the built-in model."),
]
NAME = re.compile(r"[\w.:~/\\-]+", re.ASCII)  # what a folder or a name on the hub may be; a text has spaces or marks


def chosen(
    first: str | None, texts: Sequence[str], task: str, languages: tuple[str, ...] = ()
) -> tuple[str, list[str]]:
    """The model and the texts of a command line, on which the first word may be either.

    What could be no name and is no folder is a text already; then, or where there is nothing, the built-in model of
    the task is taken, which stderr is told.
    """
    if first is not None and (NAME.fullmatch(first) or not first.strip() or Path(first).is_dir()):
        if first.isalpha() and not Path(first).exists():
            echo_line(f"{first} is taken for a model's name; if it is a text, name the model before it", err=True)
        return first, list(texts)
    name = default_for(task, languages)
    echo_line(f"{name}, the built-in model: {card_of(name)['about']}", err=True)
    return name, [*([] if first is None else [first]), *texts]


def chosen_for_one(
    first: str | None, text: str | None, task: str, languages: tuple[str, ...] = ()
) -> tuple[str, str | None]:
    """The same for a command that takes one text at most."""
    name, texts = chosen(first, [] if text is None else [text], task, languages)
    if len(texts) > 1:
        raise ValueError(f"there are two texts, {texts[0]!r} and {texts[1]!r}: put one in quotes, or name the model")
    return name, texts[0] if texts else None
