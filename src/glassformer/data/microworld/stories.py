"""Little stories: a person is introduced, something happens, somebody helps or does not, and it ends well or badly."""

from .grammar import Referent, Utterance, sentence
from .lexicon import (
    NounPhrase,
    People,
    adjectives,
    cities,
    person_noun,
    phrases,
    sample_company,
    sample_noun_phrase,
    sample_person,
    texts,
    trilingual,
    venues,
)
from .stable_random import StableRandom

OUTSIDE = ("park", "market", "station", "beach", "lake", "zoo", "square", "bridge")
INSIDE = ("café", "hotel", "park", "garden", "dinner")


def sample_cast(rng: StableRandom, things: str) -> dict[str, Referent]:
    """Everybody and everything that a story may speak of, by slot."""
    hero = sample_person(rng, full=1.0)
    friend = sample_person(rng, known=[hero], full=0.0)
    a = hero._replace(family=None)
    thing = sample_noun_phrase(rng, things)._replace(owner=a)
    thing = thing._replace(adjective=rng.choice(thing.noun.adjectives))
    bare = thing._replace(adjective=None)
    pet = sample_noun_phrase(rng, "animal")
    stray = pet._replace(adjective=None)
    where, place = (venues()[rng.choice(names)] for names in (OUTSIDE, INSIDE))
    city, city2, city3 = rng.sample(cities(), 3)
    return {
        "full": hero,
        "a": a,
        "b": friend,
        "ab": People((a, friend)),
        "friend": NounPhrase(person_noun("relations", "friend", friend), adjectives()["best"], owner=a),
        "neighbour": NounPhrase(person_noun("relations", "neighbour", friend), owner=a),
        "job": NounPhrase(person_noun("occupations", rng.choice(list(texts()["occupations"])), hero)),
        "thing": thing,
        "bare": bare,
        "new": bare._replace(adjective=adjectives()["new"]),
        "old": bare._replace(adjective=adjectives()["old"]),
        "pet": pet,
        "stray": stray,
        "lost": stray._replace(owner=friend),
        "org": sample_company(rng),
        "city": city,
        "city2": city2,
        "city3": city3,
        "where": where,
        "place": place,
        "when": rng.choice(phrases("story_times")),
        "how": rng.choice(phrases("vehicles")[:4]),
        "glad": rng.choice(phrases("glad")[:3]),
        "sad": rng.choice(phrases("sad")[:3]),
    }


def sample_story(rng: StableRandom) -> Utterance:
    """A story of two or three paragraphs, which are lines."""
    plot = rng.choice(list(texts()["plots"].values()))
    slots = sample_cast(rng, plot["things"])
    opening = [
        rng.choice(phrases("openings")),
        rng.choice([one for table in plot["friends"] for one in phrases(table)]),
    ]
    trouble = [trilingual(rng.choice(step)) for step in plot["trouble"]]
    ending = "good" if rng.happens(0.6) else "bad"
    end = [trilingual(rng.choice(step)) for step in plot[ending]]
    if ending in plot["closings"] and rng.happens(0.5):
        end.append(rng.choice(phrases(f"{ending}_closings")))
    paragraphs = [opening, trouble, end] if rng.happens(0.6) else [opening + trouble, end]
    return lambda grammar: "\n".join(
        grammar.gap.join(sentence(one, slots)(grammar) for one in lines) for lines in paragraphs
    )
