"""How a language speaks: templates whose slots are filled with things of the micro-world, in the form they ask for.

A template is a sentence with slots: `"{who} sah {what:einen}"`. What follows the colon is the form wanted, written
as the word that a masculine singular would have there; the voice puts the right one. Names of people, places and
organisations are marked as such in what is said, and so are the parts that may be asked for; `spoken` takes the marks
out and tells where they stood.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from string import Formatter
from typing import Any, ClassVar, NamedTuple

from glassformer.data.microworld.events import Event
from glassformer.data.microworld.world import (
    City,
    Item,
    Job,
    Language,
    Organisation,
    People,
    Person,
    Portion,
    Venue,
    Words,
)

OPEN, THEN, CLOSE = "\ue000", "\ue001", "\ue002"  # private characters, which no text of ours has
MARKS = re.compile(f"{OPEN}[^{THEN}]*{THEN}|{CLOSE}")
FIRST_LETTER = re.compile(f"(?<![^{THEN}])[^{OPEN}]")  # of the text: labels are passed over


class Mark(NamedTuple):
    """A part of a text and what it is: text[start:stop]."""

    label: str
    start: int
    stop: int


class Spoken:
    """A text with marks in it, which most have no need to look at."""

    def __init__(self, marked: str) -> None:
        self.marked = marked

    @property
    def text(self) -> str:
        return MARKS.sub("", self.marked)

    def marks(self) -> list[Mark]:
        """The marked parts of the text, inner ones before outer ones."""
        marks, opened = list[Mark](), list[tuple[str, int]]()
        head, *parts = self.marked.split(OPEN)
        place = len(head)
        for part in parts:
            label, _, rest = part.partition(THEN)
            opened.append((label, place))
            inside, *after = rest.split(CLOSE)
            place += len(inside)
            for plain in after:
                marks.append(Mark(*opened.pop(), place))
                place += len(plain)
        return marks


def mark(label: str, text: str) -> str:
    return f"{OPEN}{label}{THEN}{text}{CLOSE}"


def spoken(marked: str) -> Spoken:
    """A sentence, its first letter a capital."""
    return Spoken(FIRST_LETTER.sub(lambda match: match[0].upper(), marked, count=1))


def joined(sentences: Iterable[Spoken], gap: str) -> Spoken:
    """Sentences one after the other."""
    return Spoken(gap.join(sentence.marked for sentence in sentences))


@cache
def parsed(template: str) -> list[tuple[str, str | None, str | None, str | None]]:
    """The literal texts of a template, each with the slot after it and its form."""
    return list(Formatter().parse(template))


class Voice(ABC):
    """A language."""

    language: ClassVar[Language]
    gap: ClassVar[str] = " "  # between sentences

    def __init__(self) -> None:
        self.forms: dict[type, Callable[[Any, str], str]] = {
            Words: lambda words, _form: self.word(words),
            Portion: self.portion,
            City: lambda city, _form: mark("LOC", self.word(city.names)),
            Organisation: lambda one, _form: mark("ORG", self.word(one.names)),
            Venue: lambda venue, form: self.word(venue.to if form == "to" else venue.at),
            Person: lambda person, form: self.people(People((person,)), form),
            People: self.people,
            Item: self.item,
            Job: self.job,
        }

    def form(self, value: Any, form: str = "") -> str:
        """Anything of the micro-world in the form asked for."""
        return self.forms[type(value)](value, form)

    def fill(self, template: Words, slots: Mapping[str, Any]) -> str:
        """A template with its slots filled."""
        return "".join(
            literal if name is None else literal + self.form(slots[name], form or "")
            for literal, name, form, _ in parsed(self.word(template))
        )

    def say(self, template: Words, **slots: Any) -> Spoken:
        """A sentence from a template."""
        return spoken(self.fill(template, slots))

    def word(self, words: Words) -> str:
        """The word of this language."""
        return str(getattr(words, self.language))

    def name(self, person: Person) -> str:
        """A person's name."""
        names = [person.given, *([person.family] if person.family else [])]
        return mark("PER", self.join_names(map(self.word, names)))

    def join_names(self, names: Iterable[str]) -> str:
        return " ".join(names)

    def portion(self, portion: Portion, form: str) -> str:  # noqa: ARG002
        return self.word(portion.words)

    def who(self, event: Event, pronoun: str) -> str:
        """Those who did it, by name or by pronoun."""
        return self.people(event.who, pronoun) if event.pronoun == "who" else mark("who", self.people(event.who, ""))

    def whom(self, event: Event, pronoun: str) -> str:
        """The person it was done to, by name or by pronoun."""
        if event.whom is None:
            return ""
        return mark("whom", self.form(event.whom, pronoun if event.pronoun == "whom" else ""))

    def where(self, event: Event, before_city: str) -> str:
        """Where it happened; the part that answers "where?" is marked."""
        if isinstance(event.where, City):
            return before_city + mark("where", self.form(event.where))
        return mark("where", self.form(event.where)) if event.where else ""

    def to(self, event: Event, before_city: str) -> str:
        """Where it led."""
        if isinstance(event.to, City):
            return before_city + mark("where", self.form(event.to))
        return mark("where", self.form(event.to, "to")) if event.to else ""

    def what(self, event: Event, article: str) -> str:
        """What it was done with."""
        return mark("what", self.form(event.what, article)) if event.what else ""

    def when(self, event: Event) -> str:
        return mark("when", self.word(event.when)) if event.when else ""

    @abstractmethod
    def people(self, people: People, form: str) -> str:
        """Who they are, or a pronoun, or a verb that agrees with them."""

    @abstractmethod
    def item(self, item: Item, form: str) -> str:
        """Some of a thing, with its article."""

    @abstractmethod
    def job(self, job: Job, form: str) -> str:
        """What somebody is."""

    @abstractmethod
    def tell(self, event: Event) -> str:
        """An event as a main clause, without a full stop."""

    @abstractmethod
    def tell_on(self, event: Event) -> str:
        """What the same people did then, to follow the clause before."""

    @abstractmethod
    def reason(self, event: Event, *, fits: bool) -> str:
        """An event as the reason for what was said before, or as a reason against it."""

    @abstractmethod
    def ask(self, event: Event, role: str) -> str:
        """The question whose answer is one part of an event."""

    @abstractmethod
    def full_stop(self, clause: str) -> str:
        """A clause as a sentence."""


Saying = Callable[[Voice], Spoken]
"""Something meant, to be said in any language."""


def telling(event: Event) -> Saying:
    """An event as a sentence."""
    return lambda voice: spoken(voice.full_stop(voice.tell(event)))
