"""What happens in the micro-world: somebody does something to something, somewhere, some time."""

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from .lexicon import (
    FixedPhrase,
    NounPhrase,
    People,
    Person,
    ProperName,
    Trilingual,
    Venue,
    cities,
    expand,
    fixed_phrases,
    phrases,
    sample_company,
    sample_noun_phrase,
    sample_person,
    texts,
    venues,
)
from .stable_random import StableRandom


class Action(NamedTuple):
    """Something that people do; see texts/actions.toml."""

    wordings: list[Mapping[str, Mapping[str, str]]]  # forms of the verb by language
    what: str = ""  # the kind of its object
    whom: bool = False
    places: tuple[str, ...] = ()  # venues where it is done; "city" among them for any city
    goals: tuple[str, ...] = ()  # venues to which it leads
    topic: str = ""
    asks_what: bool = True  # "what?" can be asked of it in every language
    good: bool | None = None  # how those who did it felt, where that is clear


@cache
def actions() -> list[Action]:
    groups, found = texts()["places"], list[Action]()
    for row in texts()["actions"]:
        places = {name: tuple(expand(row.get(name, ""), groups)) for name in ("places", "goals")}
        found.append(Action(**row | places))
    return found


class Event(NamedTuple):
    """One thing that happened, and how it is told."""

    action: Action
    who: People
    what: NounPhrase | FixedPhrase | ProperName | None = None
    whom: Person | None = None
    where: ProperName | Venue | None = None
    to: ProperName | Venue | None = None
    how: Trilingual | None = None
    when: Trilingual | None = None
    form: int = 0  # which of the action's wordings
    first: str = ""  # "when" or "where" may stand first
    pronoun: bool = False  # those who did it are known already

    @property
    def wording(self) -> Mapping[str, Mapping[str, str]]:
        return self.action.wordings[self.form]

    @property
    def plural(self) -> bool:
        return len(self.who.members) > 1

    @property
    def topics(self) -> set[str]:
        found = {self.action.topic}
        if isinstance(self.what, NounPhrase):
            found.add(self.what.noun.topic)
        elif isinstance(self.what, FixedPhrase):
            found.add(self.what.topic)
        return found - {""}

    @property
    def roles(self) -> list[str]:
        """The parts that may be asked for."""
        asked = {
            "who": True,
            "what": self.what is not None and self.action.asks_what,
            "whom": self.whom is not None and self.what is None,
            "where": self.where is not None or self.to is not None,
            "when": self.when is not None,
        }
        return [role for role, possible in asked.items() if possible]

    @property
    def firsts(self) -> list[str]:
        """The parts that may stand first."""
        return [name for name, part in (("when", self.when), ("where", self.where)) if part]


def sample_event(
    rng: StableRandom, *, action: Action | None = None, who: People | None = None, full: float = 0.4
) -> Event:
    """Something that happens, told in any way; people have a family name at the probability `full`."""
    done = action or rng.choice(actions())
    who = who or sample_people(rng, full=full)
    event = Event(
        done,
        who,
        what=_object(rng, done.what),
        whom=sample_person(rng, known=who.members, full=full) if done.whom else None,
        where=_place(rng, done.places) if rng.happens(0.8) else None,
        to=_place(rng, done.goals),
        how=rng.choice(phrases("vehicles")) if done.goals == ("city",) and rng.happens(0.5) else None,
        when=rng.choice(phrases("times")) if rng.happens(0.6) else None,
        form=rng.below(len(done.wordings)) if rng.happens(0.5) else 0,
    )
    return event._replace(first=rng.choice(event.firsts) if event.firsts and rng.happens(0.35) else "")


def sample_people(rng: StableRandom, *, full: float = 0.4) -> People:
    """One person, sometimes two."""
    first = sample_person(rng, full=full)
    return People((first, sample_person(rng, known=[first], full=0.0)) if rng.happens(0.15) else (first,))


def sample_two_events(rng: StableRandom) -> tuple[Event, Event]:
    """Two things that the same people do, one after the other."""
    who = sample_people(rng)
    first, second = sample_event(rng, who=who), sample_event(rng, who=who)
    while second.action is first.action or (second.whom and second.whom == first.whom):
        second = sample_event(rng, who=who)
    return first, second._replace(when=None, first="", pronoun=True)


def _object(rng: StableRandom, kind: str) -> NounPhrase | FixedPhrase | ProperName | None:
    if kind in ("", "company"):
        return sample_company(rng) if kind else None
    if kind in fixed_phrases():
        return rng.choice(fixed_phrases()[kind])
    return sample_noun_phrase(rng, kind, several=0.15 if kind == "goods" else 0.0)


def _place(rng: StableRandom, names: tuple[str, ...]) -> ProperName | Venue | None:
    name = rng.choice(names) if names else ""
    return rng.choice(cities()) if name == "city" else venues().get(name)
