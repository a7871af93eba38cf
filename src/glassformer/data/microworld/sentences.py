"""Random sentences: how things are, how people felt and what they judged, whose tone hangs on more than one word."""

from functools import cache
from typing import Literal

from .events import actions, sample_event, sample_people, sample_two_events
from .grammar import Referent, Utterance, question, sentence, statement
from .lexicon import Noun, NounPhrase, Trilingual, cities, phrases, sample_company, sample_person, texts, trilingual
from .marked_text import capitalise
from .stable_random import StableRandom

Tone = Literal["positive", "negative", "neutral"]


@cache
def subjects(*kinds: str) -> list[tuple[str, NounPhrase]]:
    """What may be judged, and the kind of its qualities; of some kinds, or of all."""
    return [
        (row["kind"], NounPhrase(Noun(Trilingual(name, row["de"], row["zh"]), row["gender"])))
        for name, row in texts()["subjects"].items()
        if not kinds or row["kind"] in kinds
    ]


def sample_state(rng: StableRandom) -> Utterance:
    """How things are."""
    template, a = rng.choice(phrases("states")), sample_person(rng)
    city, city2 = rng.sample(cities(), 2)
    slots: dict[str, Referent] = {"a": a, "b": sample_person(rng, known=[a]), "city": city, "city2": city2}
    slots |= {"when": rng.choice(phrases("times")), "org": sample_company(rng), "org2": sample_company(rng)}
    return sentence(template, slots)


def sample_judgement(rng: StableRandom, templates: str, *, good: bool) -> Utterance:
    """A sentence from one of some templates, whose tone is good or bad."""
    template, who = rng.choice(phrases(templates)), sample_people(rng)
    when = rng.choice(phrases("times"))
    kind, subject = rng.choice(subjects())
    other_kind, other = rng.choice(subjects("food", "room", "help"))
    whole = rng.choice([one for _, one in subjects("time") if one.noun.name.en in ("trip", "holiday")])
    pairs = [tuple(map(trilingual, rng.choice(texts()["qualities"][of]))) for of in (kind, other_kind, "time")]
    pairs.append(tuple(rng.choice(phrases(mood)) for mood in ("glad", "sad")))
    right, wrong = (0, 1) if good else (1, 0)
    slots: dict[str, Referent] = {"who": who, "when": when, "occasion": rng.choice(phrases("occasions"))}
    slots |= {"x": subject, "y": other, "z": whole, "a": pairs[0][wrong], "b": pairs[0][right]}
    slots |= {"c": pairs[1][wrong], "d": pairs[2][right], "f": pairs[3][right], "g": pairs[3][wrong]}
    return sentence(template, slots)


def sample_feeling(rng: StableRandom, *, good: bool) -> Utterance:
    """A feeling that fits what happened, or one that does not: sad because, happy although."""
    fits = rng.happens(0.6)
    action = rng.choice([action for action in actions() if action.good is (good if fits else not good)])
    event = sample_event(rng, action=action, full=0.2)._replace(pronoun=True, when=None, first="")
    sad = [words for words in phrases("sad") if words.en not in ("lonely", "nervous")]
    slots: dict[str, Referent] = {"who": event.who, "f": rng.choice(phrases("glad") if good else sad)}
    (feeling,) = phrases("reason")
    reason = "because" if fits else "although"
    return lambda grammar: capitalise(grammar.fill(feeling, slots) + grammar.clause(reason, event) + grammar.stop)


def sample_opinion(rng: StableRandom, *, good: bool) -> Utterance:
    """A sentence whose tone is good or bad."""
    if rng.happens(0.3):
        return sample_feeling(rng, good=good)
    tables = ["plain", "negated", "contrasts", "moods", "moods", "praise" if good else "blame"]
    return sample_judgement(rng, rng.choice(tables), good=good)


def sample_of_tone(rng: StableRandom, tone: Tone) -> Utterance:
    """A sentence of a tone; a neutral one says both, or nothing of the kind."""
    if tone != "neutral":
        return sample_opinion(rng, good=tone == "positive")
    if rng.happens(0.6):
        return sample_judgement(rng, "neither", good=rng.happens(0.5))
    return statement(sample_event(rng, action=rng.choice([action for action in actions() if action.good is None])))


def sample_sentence(rng: StableRandom) -> Utterance:
    """Any sentence at all."""
    kind = rng.below(10)
    if kind < 4:
        return statement(sample_event(rng))
    if kind < 5:
        return statement(*sample_two_events(rng))
    if kind < 6:
        return sample_feeling(rng, good=rng.happens(0.5))
    if kind < 7:
        event = sample_event(rng)
        return question(event, rng.choice(event.roles))
    if kind < 8:
        return sample_state(rng)
    return sample_opinion(rng, good=rng.happens(0.5))
