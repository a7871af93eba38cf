"""Questions about what happened: a context of several events, much alike, and a question that fits one or none."""

import re
from collections.abc import Sequence
from dataclasses import replace

from glassformer.data.examples import SquadAnswer, SquadExample

from .events import Event, actions, sample_event
from .grammar import Grammar, question, statement
from .lexicon import NounPhrase, People, Person, sample_person
from .marked_text import lengthen_labels, spans, without_marks
from .stable_random import StableRandom

PARTS = ("who", "what", "whom", "where", "to", "how", "when")


def sample_question(rng: StableRandom, grammar: Grammar) -> SquadExample:
    """A context, a question and its answer; one question in four has none."""
    find = unanswerable if rng.happens(0.25) else answerable
    while True:
        events = sample_context(rng)
        if (found := find(rng, events)) is not None:
            break
    about, role, answered_by = found
    sentences = [lengthen_labels(statement(event)(grammar), f" {place}") for place, event in enumerate(events)]
    context = grammar.gap.join(sentences)
    answers = () if answered_by is None else (answer(context, events, role, answered_by),)
    return SquadExample("", without_marks(question(about, role)(grammar)), without_marks(context), answers)


def sample_short_question(rng: StableRandom, grammar: Grammar) -> SquadExample:
    """A question, the sentence that answers it, and the one before or else after it: "he" was named there."""
    while not (whole := sample_question(rng, grammar)).answers:
        pass
    (found,) = whole.answers
    ends = [match.end() for match in re.finditer(re.escape(grammar.stop), whole.context)]
    answering = sum(end <= found.start for end in ends)
    first, last = max(0, answering - 1), max(1, answering)
    start = ends[first - 1] + len(grammar.gap) if first else 0
    return replace(
        whole, context=whole.context[start : ends[last]], answers=(SquadAnswer(found.text, found.start - start),)
    )


def sample_context(rng: StableRandom) -> list[Event]:
    """Three or four people and what each of them did, once or twice; they often do the same things."""
    people: list[Person] = []
    for _ in range(3 + rng.below(2)):
        people.append(sample_person(rng, known=people))
    some = rng.sample(actions(), 3)

    def event(person: Person) -> Event:
        found = sample_event(rng, action=rng.choice(some), who=People((person,)))
        # It is done to somebody outside the context: given names must not come twice.
        return found._replace(whom=sample_person(rng, known=people)) if found.whom else found

    events: list[Event] = []
    for person in people:
        events.append(event(person))
        if rng.happens(0.4):
            events.append(event(person)._replace(pronoun=True))
    return events


def matches(event: Event, about: Event, role: str) -> bool:
    """Whether a question, but for what it asks, is true of an event."""
    hidden = ("where", "to") if role == "where" else (role,)
    return event.action is about.action and all(
        agrees(getattr(about, part), getattr(event, part)) for part in PARTS if part not in hidden
    )


def agrees(wanted: object, found: object) -> bool:
    """Whether a part of a question may be that of an event: "the hat" may be red, and "a hat" may be the red one."""
    if isinstance(wanted, NounPhrase) and isinstance(found, NounPhrase) and not (wanted.adjective and found.adjective):
        return wanted.noun == found.noun
    return wanted is None or wanted == found


def answerable(rng: StableRandom, events: Sequence[Event]) -> tuple[Event, str, int] | None:
    """A question that fits one event only, its role and the event's place; None where it fits several."""
    place = rng.below(len(events))
    event = events[place]
    role = rng.choice(event.roles)
    where = event.where if role == "where" or rng.happens(0.6) else None
    when = event.when if role == "when" or rng.happens(0.6) else None
    about = event._replace(where=where, when=when)  # without some of what is not asked for
    fitting = [one for one in events if matches(one, about, role)]
    return (reworded(rng, about), role, place) if len(fitting) == 1 else None


def unanswerable(rng: StableRandom, events: Sequence[Event]) -> tuple[Event, str, None] | None:
    """A question that fits no event: somebody else did it, or it was something else, or the context does not say."""
    event, other = rng.choice(events), rng.choice(events)
    kind = rng.below(3)
    if kind == 0:
        missing = [role for role in ("where", "when") if role not in event.roles]
        if not missing or (missing == ["where"] and not event.action.places):
            return None
        role = rng.choice(missing)
        known = any(one is not event and matches(one, event, role) for one in events)
        return None if known else (reworded(rng, event), role, None)
    role = rng.choice(event.roles)
    if kind == 1:
        about = event._replace(who=other.who)
    else:
        fresh = sample_event(rng, action=event.action, who=event.who)
        about = event._replace(what=fresh.what, where=fresh.where if event.where else None, to=fresh.to)
    hidden = role == "who" if kind == 1 else role in ("what", "where")
    if hidden or any(matches(one, about, role) for one in events):
        return None
    return reworded(rng, about), role, None


def reworded(rng: StableRandom, event: Event) -> Event:
    """The event as a question puts it: names short or in full, any of the verbs that mean the same."""
    (person,) = event.who.members
    who = People((person._replace(family=None) if rng.happens(0.5) else person,))
    return event._replace(who=who, form=rng.below(len(event.action.wordings)), pronoun=False)


def answer(context: str, events: Sequence[Event], role: str, place: int) -> SquadAnswer:
    """Where the context answers; who "she" is was said in the sentence before."""
    if role == "who":
        place = next(at for at in range(place, -1, -1) if not events[at].pronoun)
    span = next(span for span in spans(context) if span.label == f"{role} {place}")
    return SquadAnswer(without_marks(context)[span.start : span.stop], span.start)
