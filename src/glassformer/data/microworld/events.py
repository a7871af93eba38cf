"""What happens in the micro-world: somebody does something to something, somewhere, some time."""

from typing import NamedTuple

from glassformer.data.microworld.actions import ACTIONS, OBJECTS, PORTIONS, Action, Wording
from glassformer.data.microworld.lexicon import CITIES, TIMES, VEHICLES, VENUES, company, item, somebody, somebody_else
from glassformer.data.microworld.world import Chance, City, Item, Organisation, People, Person, Portion, Venue, Words

What = Item | Portion | Organisation


class Event(NamedTuple):
    """One thing that happened."""

    action: Action
    who: People
    what: What | None = None
    whom: Person | None = None
    where: City | Venue | None = None
    to: City | Venue | None = None
    how: Words | None = None
    when: Words | None = None
    # How it is told:
    form: int = 0  # which of the action's wordings
    front: str = ""  # "when" or "where" may stand first
    pronoun: str = ""  # "who" or "whom" is known already

    @property
    def wording(self) -> Wording:
        return self.action.wordings[self.form]

    @property
    def topics(self) -> tuple[str, ...]:
        """What it is about, in alphabetical order."""
        found = {self.action.topic}
        if isinstance(self.what, Item):
            found.add(self.what.thing.topic)
        elif isinstance(self.what, Portion):
            found.add(self.what.topic)
        return tuple(sorted(found - {""}))

    @property
    def roles(self) -> tuple[str, ...]:
        """The parts that may be asked for."""
        there = {
            "who": True,
            "what": self.what is not None and self.action.asks_what,
            "whom": self.whom is not None and self.what is None,
            "where": self.where is not None or self.to is not None,
            "when": self.when is not None,
        }
        return tuple(role for role, present in there.items() if present)


def place(chance: Chance, names: str) -> City | Venue | None:
    """One of some venues, or a city."""
    if not names:
        return None
    name = chance.pick(names.split())
    return chance.pick(CITIES) if name == "city" else VENUES[name]


def thing(chance: Chance, kind: str) -> What | None:
    """An object of a kind."""
    if not kind:
        return None
    if kind == "company":
        return company(chance)
    if kind in PORTIONS:
        return chance.pick(PORTIONS[kind])
    return item(chance, OBJECTS[kind], several=0.15 if kind == "goods" else 0.0)


def happen(chance: Chance, *, action: Action | None = None, who: People | None = None, full: float = 0.4) -> Event:
    """Something that happens, told in any way."""
    done = action or chance.pick(ACTIONS)
    who = who or doers(chance, full=full)
    event = Event(
        done,
        who,
        what=thing(chance, done.what),
        whom=somebody_else(chance, who.members, full=full) if done.whom else None,
        where=place(chance, done.places) if chance.happens(0.8) else None,
        to=place(chance, done.goals),
        how=chance.pick(VEHICLES) if done.goals == "city" and chance.happens(0.5) else None,
        when=chance.pick(TIMES) if chance.happens(0.6) else None,
        form=chance.below(len(done.wordings)) if chance.happens(0.5) else 0,
    )
    return event._replace(front=front(chance, event))


def doers(chance: Chance, *, full: float = 0.4) -> People:
    """One person, sometimes two."""
    first = somebody(chance, full=full)
    return People((first, somebody_else(chance, [first], full=0.0)) if chance.happens(0.15) else (first,))


def front(chance: Chance, event: Event) -> str:
    """What stands first, where it is not the people."""
    options = [name for name in ("when", "where") if getattr(event, name)]
    return chance.pick(options) if options and chance.happens(0.35) else ""
