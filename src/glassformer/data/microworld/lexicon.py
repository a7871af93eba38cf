"""What there is in the micro-world: the tables of `texts/`, read when first asked for, and random people and things."""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import as_file, files
from typing import Any, NamedTuple

from glassformer.files import read_toml

from .stable_random import StableRandom


class Trilingual(NamedTuple):
    """One meaning in three languages: a word, a phrase or a template of a sentence."""

    en: str
    de: str
    zh: str


class Person(NamedTuple):
    given: Trilingual
    female: bool
    family: Trilingual | None = None


class People(NamedTuple):
    """Those who do something: one person or two."""

    members: tuple[Person, ...]


class ProperName(NamedTuple):
    """The name of a city (label "LOC") or of an organisation ("ORG")."""

    words: Trilingual
    label: str


class Venue(NamedTuple):
    """A place that has a noun: where one is, and where one goes."""

    at: Trilingual
    to: Trilingual


class FixedPhrase(NamedTuple):
    """An object that has one form: something to eat, to drink, to play."""

    words: Trilingual
    topic: str


class Noun(NamedTuple):
    """A noun with what grammar needs to know of it: its German gender and its plural (Chinese: measure word)."""

    name: Trilingual
    gender: str
    plural: Trilingual = Trilingual("", "", "")
    adjectives: tuple[Trilingual, ...] = ()  # those that go with it
    topic: str = ""


class NounPhrase(NamedTuple):
    """Some of a thing, or what somebody is, as it is spoken of."""

    noun: Noun
    adjective: Trilingual | None = None
    number: int = 1
    owner: Person | None = None


@cache
def texts() -> dict[str, Any]:
    """All tables of the files in `texts/`."""
    found: dict[str, Any] = {}
    with as_file(files(__package__) / "texts") as folder:
        for path in sorted(folder.glob("*.toml")):
            found |= read_toml(path)
    return found


def trilingual(row: Sequence[str]) -> Trilingual:
    """A row of a table; one of two cells is spelt alike in English and German."""
    return Trilingual(*row) if len(row) == 3 else Trilingual(row[0], *row)


def expand(names: str, groups: Mapping[str, str]) -> list[str]:
    """Names separated by spaces, those of groups spelt out."""
    return " ".join(groups.get(name, name) for name in names.split()).split()


@cache
def phrases(table: str) -> list[Trilingual]:
    """A table of nothing but words or templates."""
    return [trilingual(row) for row in texts()[table]]


@cache
def cities() -> list[ProperName]:
    return [ProperName(words, "LOC") for words in phrases("cities")]


@cache
def venues() -> dict[str, Venue]:
    return {name: Venue(trilingual(row["at"]), trilingual(row["to"])) for name, row in texts()["venues"].items()}


@cache
def adjectives() -> dict[str, Trilingual]:
    return {name: Trilingual(name, row["de"], row["zh"]) for name, row in texts()["adjectives"].items()}


@cache
def nouns() -> dict[str, Noun]:
    groups, found = texts()["adjective_groups"], dict[str, Noun]()
    for name, row in texts()["things"].items():
        words = Trilingual(name, row["de"][0], row["zh"])
        plural = Trilingual(row["plural"], row["de"][1], row["measure"])
        fitting = tuple(adjectives()[one] for one in expand(row["adjectives"], groups))
        found[name] = Noun(words, row["gender"], plural, fitting, row.get("topic", ""))
    return found


@cache
def nouns_of(kind: str) -> list[Noun]:
    """The things that an action of a kind may be done with."""
    groups = texts()["objects"]
    return [nouns()[name] for name in expand(groups[kind], groups)]


@cache
def fixed_phrases() -> dict[str, list[FixedPhrase]]:
    tables = texts()["fixed_phrases"].items()
    return {kind: [FixedPhrase(trilingual(one), table["topic"]) for one in table["phrases"]] for kind, table in tables}


def person_noun(table: str, name: str, person: Person) -> Noun:
    """What a person is: one of the "occupations" or "relations"."""
    row = texts()[table][name]
    return Noun(Trilingual(name, row["de"][person.female], row["zh"]), "f" if person.female else "m")


def sample_person(rng: StableRandom, *, known: Sequence[Person] = (), full: float = 0.4) -> Person:
    """Somebody whose given name none of the `known` has, with a family name at the probability `full`."""
    while True:
        female = rng.happens(0.5)
        given = rng.choice(phrases("women" if female else "men"))
        person = Person(given, female, rng.choice(phrases("families")) if rng.happens(full) else None)
        if given not in [one.given for one in known]:
            return person


def sample_company(rng: StableRandom) -> ProperName:
    name, kind = rng.choice(phrases("company_names")), rng.choice(phrases("company_kinds"))
    return ProperName(Trilingual(f"{name.en} {kind.en}", f"{name.de} {kind.de}", name.zh + kind.zh), "ORG")


def sample_noun_phrase(rng: StableRandom, kind: str, *, several: float = 0.0) -> NounPhrase:
    """A thing of a kind, mostly with an adjective, sometimes two to four of it."""
    noun = rng.choice(nouns_of(kind))
    adjective = rng.choice(noun.adjectives) if rng.happens(0.7) else None
    return NounPhrase(noun, adjective, 2 + rng.below(3) if rng.happens(several) else 1)
