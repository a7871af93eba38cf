"""Questions about what happened: a context of several events, much alike, and a question that fits one or none."""

from collections.abc import Sequence

from glassformer.data.examples import SquadAnswer, SquadExample
from glassformer.data.microworld.actions import ACTIONS
from glassformer.data.microworld.events import Event, happen
from glassformer.data.microworld.lexicon import somebody_else
from glassformer.data.microworld.voice import THEN, Spoken, Voice, joined, spoken, telling
from glassformer.data.microworld.world import Chance, Item, People, Person

PARTS = ("who", "what", "whom", "where", "to", "how", "when")


def asked(chance: Chance, voice: Voice) -> SquadExample:
    """A context, a question and its answer; one question in four has none."""
    find = unanswerable if chance.happens(0.25) else answerable
    while True:
        events = context(chance)
        found = find(chance, events)
        if found is not None:
            question, role, answered_by = found
            sentences = [numbered(telling(event)(voice), place) for place, event in enumerate(events)]
            text = joined(sentences, voice.gap)
            answers = () if answered_by is None else (answer(text, events, role, answered_by),)
            return SquadExample("", spoken(voice.ask(question, role)).text, text.text, answers)


def context(chance: Chance) -> list[Event]:
    """Three or four people and what each of them did, once or twice; they often do the same things."""
    people: list[Person] = []
    for _ in range(3 + chance.below(2)):
        people.append(somebody_else(chance, people))
    actions = chance.some(ACTIONS, 3)
    events: list[Event] = []
    for person in people:
        who = People((person,))
        events.append(apart(chance, happen(chance, action=chance.pick(actions), who=who), people))
        if chance.happens(0.4):
            again = apart(chance, happen(chance, action=chance.pick(actions), who=who), people)
            events.append(again._replace(pronoun="who"))
    return events


def apart(chance: Chance, event: Event, people: Sequence[Person]) -> Event:
    """The event, with somebody outside the context as the one it is done to: given names must not come twice."""
    return event._replace(whom=somebody_else(chance, people)) if event.whom else event


def numbered(sentence: Spoken, place: int) -> Spoken:
    """The sentence with its place in the labels of its marks."""
    return Spoken(sentence.marked.replace(THEN, f" {place}{THEN}"))


def matches(event: Event, question: Event, role: str) -> bool:
    """Whether a question, but for what it asks, is true of an event."""
    hidden = ("where", "to") if role == "where" else (role,)
    return event.action is question.action and all(
        agrees(getattr(question, part), getattr(event, part)) for part in PARTS if part not in hidden
    )


def agrees(asked: object, told: object) -> bool:
    """Whether a part of a question may be that of an event: "the hat" may be red, and "a hat" may be the red one."""
    if isinstance(asked, Item) and isinstance(told, Item) and not (asked.adjective and told.adjective):
        return asked.thing == told.thing
    return asked is None or asked == told


def answerable(chance: Chance, events: Sequence[Event]) -> tuple[Event, str, int] | None:
    """A question that fits one event only; None where it fits several."""
    place = chance.below(len(events))
    role = chance.pick(events[place].roles)
    question = shortened(chance, events[place], role)
    fitting = [event for event in events if matches(event, question, role)]
    return (worded(chance, question), role, place) if len(fitting) == 1 else None


def unanswerable(chance: Chance, events: Sequence[Event]) -> tuple[Event, str, None] | None:
    """A question that fits no event: somebody else did it, or it was something else, or the context does not say."""
    event, other = chance.pick(events), chance.pick(events)
    kind = chance.below(3)
    if kind == 0:
        missing = [role for role in ("where", "when") if role not in event.roles]
        if not missing or (missing == ["where"] and not event.action.places):
            return None
        role, question = chance.pick(missing), event
        known = [one for one in events if one is not event and matches(one, question, role)]
        return None if known else (worded(chance, question), role, None)
    role = chance.pick(event.roles)
    if kind == 1:
        question = event._replace(who=other.who)
    else:
        fresh = happen(chance, action=event.action, who=event.who)
        question = event._replace(what=fresh.what, where=fresh.where if event.where else None, to=fresh.to)
    hidden = role == "who" if kind == 1 else role in ("what", "where")
    if hidden or any(matches(one, question, role) for one in events):
        return None
    return worded(chance, question), role, None


def shortened(chance: Chance, event: Event, role: str) -> Event:
    """The event without some of what is not asked for."""
    where = event.where if role == "where" or chance.happens(0.6) else None
    when = event.when if role == "when" or chance.happens(0.6) else None
    return event._replace(where=where, when=when)


def worded(chance: Chance, event: Event) -> Event:
    """The event as a question puts it: names short or in full, any of the verbs that mean the same."""
    (person,) = event.who.members
    who = People((person._replace(family=None) if chance.happens(0.5) else person,))
    return event._replace(who=who, form=chance.below(len(event.action.wordings)), pronoun="")


def answer(text: Spoken, events: Sequence[Event], role: str, place: int) -> SquadAnswer:
    """Where the context answers; who "she" is was said in the sentence before."""
    if role == "who":
        place = next(at for at in range(place, -1, -1) if events[at].pronoun != "who")
    mark = next(mark for mark in text.marks() if mark.label == f"{role} {place}")
    return SquadAnswer(text.text[mark.start : mark.stop], mark.start)
