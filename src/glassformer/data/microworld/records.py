"""The micro-world as examples of each kind: one draw of the dice is one example, in any language."""

import re

from glassformer.data.examples import Document, Labelled, Parallel, Tagged
from glassformer.data.microworld.chinese import Chinese
from glassformer.data.microworld.english import English
from glassformer.data.microworld.events import Event, doers, happen
from glassformer.data.microworld.german import German
from glassformer.data.microworld.lexicon import CITIES, TIMES, company, somebody, somebody_else, verses
from glassformer.data.microworld.opinions import no_opinion, opinion, reason
from glassformer.data.microworld.stories import story
from glassformer.data.microworld.voice import Saying, Spoken, Voice, spoken, telling
from glassformer.data.microworld.world import Chance, Language

VOICES: dict[Language, Voice] = {"en": English(), "de": German(), "zh": Chinese()}

STATES = verses("""
    {a} lives in {city}.
    {a} wohnt in {city}.
    {a}住在{city}。

    {a} works for {org} in {city}.
    {a} arbeitet in {city} bei {org}.
    {a}在{city}的{org}工作。

    {a} comes from {city} but lives in {city2}.
    {a} kommt aus {city}, wohnt aber in {city2}.
    {a}来自{city}，但是住在{city2}。

    {org} has a new office in {city}.
    {org} hat ein neues Büro in {city}.
    {org}在{city}有一个新办公室。

    {org} is looking for people in {city} and {city2}.
    {org} sucht Leute in {city} und {city2}.
    {org}正在{city}和{city2}招人。

    {a} from {city} won a prize {when}.
    {a} aus {city} gewann {when} einen Preis.
    来自{city}的{a}{when}获得了一个奖。

    the train from {city} to {city2} was late.
    der Zug von {city} nach {city2} hatte Verspätung.
    从{city}开往{city2}的火车晚点了。

    {a} and {b} have known each other for years.
    {a} und {b} kennen sich seit Jahren.
    {a}和{b}认识很多年了。

    {org} bought the company {org2} {when}.
    {org} kaufte {when} die Firma {org2}.
    {org}{when}收购了{org2}。

    {b} told {a} about {city}.
    {b} erzählte {a} von {city}.
    {b}跟{a}讲了{city}的事。

    nobody at {org} knew {a}.
    niemand bei {org} kannte {a}.
    {org}里没有人认识{a}。

    it rained all day.
    es regnete den ganzen Tag.
    雨下了一整天。

    the weather was fine {when}.
    das Wetter war {when} schön.
    {when}天气很好。
""")


def state(chance: Chance) -> Saying:
    """How things are."""
    template, a = chance.pick(STATES), somebody(chance)
    city, city2 = chance.some(CITIES, 2)
    slots = {"a": a, "b": somebody_else(chance, [a]), "city": city, "city2": city2, "when": chance.pick(TIMES)}
    slots |= {"org": company(chance), "org2": company(chance)}
    return lambda voice: voice.say(template, **slots)


def two_events(chance: Chance) -> tuple[Event, Event]:
    """Two things that the same people do, one after the other."""
    who = doers(chance)
    first, second = happen(chance, who=who), happen(chance, who=who)
    while second.action is first.action or (second.whom and second.whom == first.whom):
        second = happen(chance, who=who)
    return first, second._replace(when=None, front="", pronoun="who")


def tell_both(first: Event, second: Event) -> Saying:
    return lambda voice: spoken(voice.full_stop(voice.tell(first) + voice.tell_on(second)))


def question(event: Event, role: str) -> Saying:
    return lambda voice: spoken(voice.ask(event, role))


def sentence(chance: Chance) -> Saying:
    """Any sentence at all."""
    kind = chance.below(10)
    if kind < 4:
        return telling(happen(chance))
    if kind < 5:
        return tell_both(*two_events(chance))
    if kind < 6:
        return reason(chance, chance.happens(0.5))
    if kind < 7:
        event = happen(chance)
        return question(event, chance.pick(event.roles))
    if kind < 8:
        return state(chance)
    return opinion(chance, chance.happens(0.5))


def labelled(chance: Chance, voice: Voice) -> Labelled:
    """A sentence and its tone; as many good ones as bad ones, and some of neither."""
    tone = chance.pick(("positive", "positive", "negative", "negative", "neutral"))
    saying = no_opinion(chance) if tone == "neutral" else opinion(chance, tone == "positive")
    return Labelled(saying(voice).text, label=tone)


def multi_label(chance: Chance, voice: Voice) -> Labelled:
    """A sentence and the topics it touches, one to four of them."""
    while True:
        first, second = two_events(chance)
        both = chance.happens(0.6)
        topics = sorted({*first.topics, *(second.topics if both else ())})
        if topics:
            saying = tell_both(first, second) if both else telling(first)
            return Labelled(saying(voice).text, label=tuple(topics))


WEIGHTS = {("action",): 2.0, ("who",): 1.0, ("what", "whom"): 1.5, ("where", "to"): 1.0, ("when",): 0.5}
PARTS = ("who", "what", "whom", "where", "to", "when")


def likeness(one: Event, other: Event) -> float:
    """From 0 (nothing in common) to 1 (the same), over the parts that at least one of them has."""
    same = whole = 0.0
    for parts, weight in WEIGHTS.items():
        pairs = [(getattr(one, part), getattr(other, part)) for part in parts]
        shares = [part_likeness(a, b) for a, b in pairs if a is not None or b is not None]
        if shares:
            whole += weight
            same += weight * sum(shares) / len(shares)
    return round(same / whole, 2)


def part_likeness(one: object, other: object) -> float:
    """1 for the same; a red hat and a blue hat are more alike than a hat and a dog."""
    if one == other:
        return 1.0
    thing = getattr(one, "thing", None)
    return 0.6 if thing is not None and thing == getattr(other, "thing", None) else 0.0


def scored(chance: Chance, voice: Voice) -> Labelled:
    """Two different sentences and how alike their meanings are."""
    while True:
        one = happen(chance)
        other = variation(chance, one) if chance.happens(0.8) else happen(chance)
        text, pair = telling(one)(voice).text, telling(other)(voice).text
        if text != pair:
            return Labelled(text, pair, likeness(one, other))


def variation(chance: Chance, event: Event) -> Event:
    """The same action in other words, with some parts of it changed, or none."""
    again = happen(chance, action=event.action)
    share = chance.pick((0.0, 0.2, 0.5))
    other = event._replace(**{part: getattr(again, part) for part in PARTS if chance.happens(share)})
    if other.whom and other.whom.given in [one.given for one in other.who.members]:
        other = other._replace(who=event.who, whom=event.whom)
    fronts = [name for name in ("when", "where") if getattr(other, name)]
    return other._replace(form=again.form, front=chance.pick(["", *fronts]))


def tagged(chance: Chance, voice: Voice) -> Tagged:
    """A sentence in words (Chinese: characters), with its people, places and organisations."""
    kind = chance.below(10)
    if kind < 5:
        saying = telling(happen(chance, full=0.5))
    elif kind < 6:
        saying = tell_both(*two_events(chance))
    else:
        saying = state(chance) if kind < 9 else sentence(chance)
    return in_words(saying(voice), CHARACTER if voice.language == "zh" else WORD)


WORD = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")
CHARACTER = re.compile(r"\S")
ENTITIES = ("PER", "LOC", "ORG")


def in_words(said: Spoken, pattern: re.Pattern[str]) -> Tagged:
    """The words of a text and their tags in IOB2."""
    entities = {
        place: mark for mark in said.marks() if mark.label in ENTITIES for place in range(mark.start, mark.stop)
    }
    words, tags = list[str](), list[str]()
    for match in pattern.finditer(said.text):
        entity = entities.get(match.start())
        words.append(match.group())
        tags.append(f"{'B' if entity.start == match.start() else 'I'}-{entity.label}" if entity else "O")
    return Tagged(tuple(words), tuple(tags))


def parallel(chance: Chance, voice: Voice, target: Voice) -> Parallel:
    """The same sentence in two languages."""
    saying = sentence(chance)
    return Parallel(saying(voice).text, saying(target).text)


def documents(chance: Chance, voice: Voice) -> Document:
    """A little story."""
    return Document(story(chance)(voice).text)
