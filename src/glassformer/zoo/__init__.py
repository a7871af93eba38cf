"""Built-in models: a folder here for each, made by recipes/zoo, and named `zoo:NAME` wherever a model is named."""

import hashlib
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import NotRequired, Required, TypedDict

from glassformer.files import conform, read_toml

PREFIX = "zoo:"
CARD = "card.toml"
HOME = Path(__file__).parent


class Card(TypedDict):
    """card.toml: what a model is for, what it was made of, and what it is worth."""

    name: Required[str]
    task: Required[str]
    also: NotRequired[list[str]]  # other tasks that it does
    about: Required[str]  # what it is worth, in a sentence
    languages: Required[list[str]]  # read, or read and written
    examples: NotRequired[list[dict[str, str]]]  # to try it with: inputs, of some also a pair or a condition
    default: Required[bool]  # whether it is preferred to others of its task
    base: NotRequired[str]  # the model that its weights are a correction of
    parameters: Required[int]
    bytes: Required[int]
    metric: Required[str]
    score: Required[float]
    baseline: Required[float]
    baseline_of: Required[str]
    seed: Required[int]
    command: Required[str]  # that builds it again
    data: Required[dict[str, str]]  # text, licence, attribution, split
    scores: Required[dict[str, float]]  # all of them, on what is held out
    elsewhere: NotRequired[dict[str, float]]  # scores on data of another kind
    conditions: NotRequired[dict[str, float]]  # of a language model that takes some: what they are worth
    choices: NotRequired[dict[str, float]]  # of one that chooses among labels: how often it is right
    recipe: Required[dict[str, str]]  # file and sha256
    files: Required[dict[str, str]]  # sha256 of every other file of the folder


def zoo() -> list[Card]:
    """The cards of the built-in models, by task and name."""
    return sorted(_cards(HOME).values(), key=lambda card: (card["task"], card["name"]))


def is_built_in(name: str | Path) -> bool:
    return str(name).startswith(PREFIX)


def card_of(name: str) -> Card:
    """The card of `zoo:NAME`, or of NAME; a name that is not there is told the near ones."""
    wanted, there = name.removeprefix(PREFIX), _cards(HOME)
    if wanted not in there:
        close = [*(one for one in there if wanted and wanted in one), *get_close_matches(wanted, there)]
        near = [PREFIX + one for one in dict.fromkeys(close)]
        listed = f"near it: {', '.join(near)}" if near else f"there are: {_listed(there)}"
        raise ValueError(f"there is no built-in model {PREFIX}{wanted}; {listed}")
    return there[wanted]


def score_of(card: Card) -> str:
    """The score that counts, beside its baseline; where a model knows only made-up sentences, that it does."""
    where = " in the micro-world" if card["data"]["text"].startswith("micro-world") else ""
    return f"{card['metric']} {card['score']:.4g}{where} (baseline {card['baseline']:.4g})"


def folder_of(name: str) -> Path:
    """The folder of `zoo:NAME`, once its files are found to be those that were shipped."""
    return _checked(HOME / card_of(name)["name"])


def default_for(task: str, languages: tuple[str, ...] = ()) -> str:
    """`zoo:NAME` of the model to take for a task where none is named; of a translation from one language to another."""
    able = [card for card in zoo() if task in (card["task"], *card.get("also", ()))]
    able = [card for card in able if not languages or tuple(card["languages"]) == languages]
    if not able:
        what = f"{task} from {' to '.join(languages)}" if languages else task
        raise ValueError(
            f"there is no built-in model for {what}: name a folder, a hub name, or one of {_listed(_cards(HOME))}"
        )
    return PREFIX + max(able, key=lambda card: card["default"])["name"]


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@cache
def _cards(home: Path) -> dict[str, Card]:
    found = {path.parent.name: read_card(path) for path in sorted(home.glob(f"*/{CARD}"))}
    return {name: card for name, card in found.items() if name == card["name"]}


def read_card(path: Path) -> Card:
    raw = read_toml(path)
    conform(raw, Card, str(path))
    return raw  # type: ignore[return-value]


@cache
def _checked(folder: Path) -> Path:
    """The folder; refused where a file is not the one that its card knows."""
    for name, stated in read_card(folder / CARD)["files"].items():
        path = folder / name
        if not path.is_file() or sha256(path) != stated:
            what = "is damaged" if path.is_file() else "is missing"
            raise ValueError(f"{path} {what}: install glassformer again, or build it with make zoo ONLY={folder.name}")
    return folder


def _listed(cards: dict[str, Card]) -> str:
    return ", ".join(f"{PREFIX}{name} ({card['task']})" for name, card in cards.items()) or "none"
