"""What the grammars of all languages share: templates with slots, filled with things and with the parts of an event.

In a template, `"{who} sah {what:einen}"`, the form wanted follows the colon, written as the word that a masculine
singular would have there; the grammar puts the right one. All texts given here may hold marks (see marked_text).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cache
from string import Formatter
from typing import Any, ClassVar

from .events import Event
from .lexicon import FixedPhrase, NounPhrase, People, Person, ProperName, Trilingual, Venue, texts
from .marked_text import capitalise, mark

Referent = Trilingual | FixedPhrase | ProperName | Venue | Person | People | NounPhrase
"""Whatever a slot may be filled with."""


@cache
def parse(template: str) -> list[tuple[str, str | None, str | None, str | None]]:
    """The literal texts of a template, each with the slot after it and its form."""
    return list(Formatter().parse(template))


class Grammar(ABC):
    """A language; its clauses are templates of texts/grammar.toml."""

    language: ClassVar[str]
    gap: ClassVar[str] = " "  # between sentences
    name_gap: ClassVar[str] = " "
    stop: ClassVar[str] = "."
    conjunction: ClassVar[str]  # between the names of two people
    he: ClassVar[str]  # the form of those who are known
    articles: ClassVar[tuple[str, str]]  # forms of what is new and of what is known
    in_situ: ClassVar[bool] = False  # question words stand where the answer would
    prepositions: ClassVar[tuple[str, str]]  # before a city where one is, and to which one goes

    @property
    def templates(self) -> dict[str, Any]:
        found: dict[str, Any] = texts()[self.language]
        return found

    def word(self, words: Trilingual | None) -> str:
        """The word of this language; "" for none."""
        return str(getattr(words, self.language)) if words else ""

    def inflect(self, value: Referent, form: str = "") -> str:
        """Anything of the micro-world in the form asked for."""
        match value:
            case Trilingual():
                return self.word(value)
            case FixedPhrase():
                return self.fixed_phrase(value, form)
            case ProperName():
                return mark(value.label, self.word(value.words))
            case Venue():
                return self.word(value.to if form == "to" else value.at)
            case NounPhrase():
                return self.noun_phrase(value, form)
        members = value.members if isinstance(value, People) else (value,)
        if form:
            return self.pronoun(form, plural=len(members) > 1, female=all(one.female for one in members))
        full = ([one.given, one.family] if one.family else [one.given] for one in members)
        return self.conjunction.join(mark("PER", self.name_gap.join(map(self.word, names))) for names in full)

    def fill(self, template: Trilingual, slots: Mapping[str, Referent]) -> str:
        """A template of a sentence with its slots filled."""
        return "".join(
            literal if name is None else literal + self.inflect(slots[name], form or "")
            for literal, name, form, _ in parse(self.word(template))
        )

    @abstractmethod
    def pronoun(self, form: str, *, plural: bool, female: bool) -> str:
        """A pronoun, or a verb that agrees with people."""

    @abstractmethod
    def noun_phrase(self, phrase: NounPhrase, form: str) -> str:
        """Some of a thing, with its article."""

    def fixed_phrase(self, phrase: FixedPhrase, form: str) -> str:
        del form
        return self.word(phrase.words)

    @abstractmethod
    def verb(self, event: Event, parts: Mapping[str, str]) -> Mapping[str, str]:
        """The forms of an event's verb, and other parts of a clause that only this language has."""

    def parts(self, event: Event, *, known: bool = False) -> dict[str, str]:
        """The parts of an event, "" for one that it does not have; each is marked as what may be asked for."""

        def part(label: str, value: Referent | None, form: str = "", before_city: str = "") -> str:
            text = mark(label, self.inflect(value, form)) if value else ""
            return before_city + text if isinstance(value, ProperName) else text

        return {
            "who": part("who", event.who, self.he if event.pronoun else ""),
            "whom": part("whom", event.whom),
            "what": part("what", event.what, self.articles[known]),
            "where": part("where", event.where, "", self.prepositions[0]),
            "to": part("where", event.to, "to", self.prepositions[1]),
            "how": self.word(event.how),
            "when": part("when", event.when),
        }

    def clause(self, name: str, event: Event, parts: Mapping[str, str] | None = None) -> str:
        """An event as one of the language's clauses."""
        parts = self.parts(event) if parts is None else parts
        parts = {**parts, **self.verb(event, parts)}
        pieces = ((literal, parts[slot] if slot else "") for literal, slot, _, _ in parse(self.templates[name]))
        return "".join(literal + part if part else literal.removesuffix(" ") for literal, part in pieces)

    def statement(self, event: Event) -> str:
        """What happened, as a main clause without a full stop."""
        if not event.first:
            return self.clause("statement", event)
        parts = self.parts(event)
        return self.clause(f"{event.first}_first", event, {**parts, "first": parts[event.first]})

    def question(self, event: Event, role: str) -> str:
        """The question whose answer is one part of an event."""
        asked = "to" if role == "where" and event.to else role
        word = self.question_word(event, asked)
        parts = {**self.parts(event, known=True), asked: word if self.in_situ else "", "asked": word}
        return self.clause(f"question_{asked}" if f"question_{asked}" in self.templates else "question", event, parts)

    def question_word(self, event: Event, asked: str) -> str:
        del event
        return str(self.templates["asked"][asked])


Utterance = Callable[[Grammar], str]
"""Something meant, to be said in any language, as a marked text."""


def sentence(template: Trilingual, slots: Mapping[str, Referent]) -> Utterance:
    """A template of a whole sentence, filled."""
    return lambda grammar: capitalise(grammar.fill(template, slots))


def statement(event: Event, then: Event | None = None) -> Utterance:
    """An event, and perhaps what the same people did then, as a sentence."""
    return lambda grammar: capitalise(
        grammar.statement(event) + (grammar.clause("then", then) if then else "") + grammar.stop
    )


def question(event: Event, role: str) -> Utterance:
    return lambda grammar: capitalise(grammar.question(event, role))
