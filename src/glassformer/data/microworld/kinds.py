"""The micro-world as examples of each kind: one random draw is one example, in any language."""

import re
from collections.abc import Collection

from glassformer.data.examples import Document, Labelled, Parallel, Tagged

from .events import Event, sample_event, sample_two_events
from .grammar import Grammar, statement
from .lexicon import NounPhrase
from .marked_text import spans, without_marks
from .questions import sample_context
from .sentences import Tone, sample_of_tone, sample_sentence, sample_state
from .stable_random import StableRandom
from .stories import sample_story

TONES: tuple[Tone, ...] = ("positive", "positive", "negative", "negative", "neutral")
WEIGHTS = {("action",): 2.0, ("who",): 1.0, ("what", "whom"): 1.5, ("where", "to"): 1.0, ("when",): 0.5}
PARTS = ("who", "what", "whom", "where", "to", "when")
CIRCUMSTANCES = ("where", "when", "how")  # what may be left out
INFERENCES = ("entailment", "neutral", "contradiction")
WORD = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")
CHARACTER = re.compile(r"\S")
ENTITIES = ("PER", "LOC", "ORG")


def labelled(rng: StableRandom, grammar: Grammar) -> Labelled:
    """A sentence and its tone; as many good ones as bad ones, and some of neither."""
    tone = rng.choice(TONES)
    return Labelled(without_marks(sample_of_tone(rng, tone)(grammar)), label=tone)


def multi_label(rng: StableRandom, grammar: Grammar) -> Labelled:
    """A sentence and the topics it touches, one to four of them."""
    while True:
        first, second = sample_two_events(rng)
        both = rng.happens(0.6)
        if topics := first.topics | (second.topics if both else set()):
            text = without_marks(statement(first, second if both else None)(grammar))
            return Labelled(text, label=tuple(sorted(topics)))


def scored(rng: StableRandom, grammar: Grammar) -> Labelled:
    """Two different sentences and how alike their meanings are."""
    while True:
        one = sample_event(rng)
        other = sample_variation(rng, one) if rng.happens(0.8) else sample_event(rng)
        text, pair = without_marks(statement(one)(grammar)), without_marks(statement(other)(grammar))
        if text != pair:
            return Labelled(text, pair, similarity(one, other))


def sample_variation(rng: StableRandom, event: Event) -> Event:
    """The same action in other words, with some parts of it changed, or none."""
    again = sample_event(rng, action=event.action)
    share = rng.choice((0.0, 0.2, 0.5))
    other = event._replace(**{part: getattr(again, part) for part in PARTS if rng.happens(share)})
    if _reflexive(other):
        other = other._replace(who=event.who, whom=event.whom)
    return other._replace(form=again.form, first=rng.choice(["", *other.firsts]))


def _reflexive(event: Event) -> bool:
    """Whether somebody does it to himself, which the grammars cannot say."""
    return event.whom is not None and event.whom.given in [one.given for one in event.who.members]


def nli(rng: StableRandom, grammar: Grammar) -> Labelled:
    """A premise, a hypothesis, and whether that follows, may be so or not, or is wrong; as many of each."""
    label = rng.choice(INFERENCES)
    change = changed if label == "contradiction" else shortened
    while (other := change(rng, event := sample_event(rng))) is None:
        pass
    other = other._replace(form=rng.below(len(event.action.wordings)), first=rng.choice(["", *other.firsts]))
    long, other_text = (without_marks(statement(one)(grammar)) for one in (event, other))
    return Labelled(other_text, long, label) if label == "neutral" else Labelled(long, other_text, label)


def changed(rng: StableRandom, event: Event) -> Event | None:
    """The event with another who, what or where; None where that cannot be said, or is the same."""
    again = sample_event(rng, action=event.action)
    part = rng.choice([part for part in PARTS if getattr(event, part) is not None])
    other = event._replace(**{part: getattr(again, part)})
    same = getattr(other, part) in (None, getattr(event, part))
    return None if same or _reflexive(other) else other


def shortened(rng: StableRandom, event: Event) -> Event | None:
    """The event without some of its circumstances; None where it has none."""
    told = [part for part in CIRCUMSTANCES if getattr(event, part) is not None]
    return without(event, rng.sample(told, 1 + rng.below(len(told)))) if told else None


def without(event: Event, parts: Collection[str]) -> Event:
    """The event, some of whose circumstances are not told."""
    where, when, how = (None if part in parts else getattr(event, part) for part in CIRCUMSTANCES)
    return event._replace(where=where, when=when, how=how, first="")


def summaries(rng: StableRandom, grammar: Grammar) -> Parallel:
    """What several people did, and in a few words what the first of them did first."""
    events = sample_context(rng)
    text = grammar.gap.join(statement(event)(grammar) for event in events)
    return Parallel(without_marks(text), headline(events[0], grammar))


def short_summary(rng: StableRandom, grammar: Grammar) -> Parallel:
    """What somebody did, with and without its circumstances."""
    while without(event := sample_event(rng), CIRCUMSTANCES) == event._replace(first=""):
        pass
    return Parallel(without_marks(statement(event)(grammar)), headline(event, grammar))


def headline(event: Event, grammar: Grammar) -> str:
    """What was done, without where, when and how."""
    return without_marks(statement(without(event, CIRCUMSTANCES)._replace(form=0))(grammar))


def similarity(one: Event, other: Event) -> float:
    """From 0 (nothing in common) to 1 (the same), over the parts that at least one of them has."""
    same = whole = 0.0
    for parts, weight in WEIGHTS.items():
        pairs = [(getattr(one, part), getattr(other, part)) for part in parts]
        shares = [part_similarity(a, b) for a, b in pairs if a is not None or b is not None]
        if shares:
            whole += weight
            same += weight * sum(shares) / len(shares)
    return round(same / whole, 2)


def part_similarity(one: object, other: object) -> float:
    """1 for the same; a red hat and a blue hat are more alike than a hat and a dog."""
    if one == other:
        return 1.0
    same_noun = isinstance(one, NounPhrase) and isinstance(other, NounPhrase) and one.noun == other.noun
    return 0.6 if same_noun else 0.0


def tagged(rng: StableRandom, grammar: Grammar) -> Tagged:
    """A sentence in words (Chinese: characters), with its people, places and organisations."""
    kind = rng.below(10)
    if kind < 5:
        utterance = statement(sample_event(rng, full=0.5))
    elif kind < 6:
        utterance = statement(*sample_two_events(rng))
    else:
        utterance = sample_state(rng) if kind < 9 else sample_sentence(rng)
    return in_iob2(utterance(grammar), CHARACTER if grammar.language == "zh" else WORD)


def in_iob2(marked: str, pattern: re.Pattern[str]) -> Tagged:
    """The words of a text and their tags."""
    names = [span for span in spans(marked) if span.label in ENTITIES]
    entities = {place: span for span in names for place in range(span.start, span.stop)}
    words, tags = list[str](), list[str]()
    for match in pattern.finditer(without_marks(marked)):
        entity = entities.get(match.start())
        words.append(match.group())
        tags.append(f"{'B' if entity.start == match.start() else 'I'}-{entity.label}" if entity else "O")
    return Tagged(tuple(words), tuple(tags))


def parallel(rng: StableRandom, source: Grammar, target: Grammar) -> Parallel:
    """The same sentence in two languages."""
    utterance = sample_sentence(rng)
    return Parallel(without_marks(utterance(source)), without_marks(utterance(target)))


def documents(rng: StableRandom, grammar: Grammar) -> Document:
    """A little story."""
    return Document(without_marks(sample_story(rng)(grammar)))


def single_sentence(rng: StableRandom, grammar: Grammar) -> Document:
    """Any sentence by itself."""
    return Document(without_marks(sample_sentence(rng)(grammar)))
