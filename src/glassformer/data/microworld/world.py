"""What there is in the micro-world: people, places and things, and the dice that choose among them."""

from collections.abc import Sequence
from random import Random
from typing import Literal, NamedTuple, TypeVar

Language = Literal["en", "de", "zh"]
T = TypeVar("T")


class Chance:
    """The dice: only `Random.random()` is used, which Python promises never to change for a seed."""

    def __init__(self, *seed: str | int) -> None:
        self._random = Random("/".join(map(str, seed)))

    def happens(self, probability: float) -> bool:
        return self._random.random() < probability

    def below(self, limit: int) -> int:
        return int(self._random.random() * limit)

    def pick(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]

    def some(self, options: Sequence[T], count: int) -> list[T]:
        """Different ones, in any order."""
        left = list(options)
        return [left.pop(self.below(len(left))) for _ in range(count)]


class Words(NamedTuple):
    """One meaning in three languages."""

    en: str
    de: str
    zh: str


NO_WORDS = Words("", "", "")


class Person(NamedTuple):
    """Somebody, by a given name and perhaps a family name."""

    given: Words
    female: bool
    family: Words | None = None


class People(NamedTuple):
    """Who does something: one person or two."""

    members: tuple[Person, ...]

    @property
    def plural(self) -> bool:
        return len(self.members) > 1

    @property
    def female(self) -> bool:
        return all(one.female for one in self.members)


class City(NamedTuple):
    names: Words


class Organisation(NamedTuple):
    names: Words


class Venue(NamedTuple):
    """A place that has a noun: where one is, and where one goes."""

    at: Words  # Chinese without 在
    to: Words  # Chinese without 去


class Portion(NamedTuple):
    """An object that is one fixed phrase: something to eat, to drink, to play."""

    words: Words
    topic: str


class Adjective(NamedTuple):
    words: Words  # the German one is a stem that takes an ending


class Thing(NamedTuple):
    """A noun with its plurals, its German gender, its Chinese measure word and the adjectives that go with it."""

    name: Words
    plural: Words  # Chinese: the measure word
    gender: str
    adjectives: tuple[Adjective, ...] = ()
    topic: str = ""


class Item(NamedTuple):
    """Some of a thing, as it is spoken of."""

    thing: Thing
    adjective: Adjective | None = None
    number: int = 1
    owner: Person | None = None


class Job(NamedTuple):
    """What a person does for a living."""

    names: Words
    german_female: str
    person: Person | None = None
