"""Little stories: a person is introduced, something happens, somebody helps or does not, and it ends well or badly."""

from typing import Any

from glassformer.data.microworld.actions import OBJECTS
from glassformer.data.microworld.lexicon import (
    ADJECTIVES,
    CITIES,
    GLAD,
    JOBS,
    SAD,
    VEHICLES,
    VENUES,
    company,
    item,
    somebody,
    somebody_else,
)
from glassformer.data.microworld.plots import OPENINGS, STORY_TIMES
from glassformer.data.microworld.plots_of_people import STRAY, TRIP, WORK
from glassformer.data.microworld.plots_of_things import GIFT, LOST, REPAIR
from glassformer.data.microworld.voice import Saying, Spoken, Voice, joined
from glassformer.data.microworld.world import NO_WORDS, Adjective, Chance, Item, People, Thing, Words

PLOTS = (LOST, GIFT, TRIP, REPAIR, STRAY, WORK)
BEST = Adjective(Words("best", "best", "最好的"))
BEST_FRIEND = {
    female: Item(Thing(Words("friend", noun, "朋友"), NO_WORDS, gender), BEST)
    for female, noun, gender in ((True, "Freundin", "f"), (False, "Freund", "m"))
}
NEIGHBOUR = {
    female: Item(Thing(Words("neighbour", noun, "邻居"), NO_WORDS, gender))
    for female, noun, gender in ((True, "Nachbarin", "f"), (False, "Nachbar", "m"))
}
OUTSIDE = ("park", "market", "station", "beach", "lake", "zoo", "square", "bridge")
INSIDE = ("café", "hotel", "park", "garden", "dinner")


def cast(chance: Chance, things: str) -> dict[str, Any]:
    """Everybody and everything that a story may speak of."""
    hero = somebody(chance, full=1.0)
    friend = somebody_else(chance, [hero], full=0.0)
    a = hero._replace(family=None)
    thing = item(chance, OBJECTS[things])._replace(owner=a)
    thing = thing._replace(adjective=chance.pick(thing.thing.adjectives))
    pet = item(chance, OBJECTS["animal"])
    where, place = (VENUES[chance.pick(names)] for names in (OUTSIDE, INSIDE))
    city, city2, city3 = chance.some(CITIES, 3)
    bare = thing._replace(adjective=None)
    return {
        "full": hero,
        "a": a,
        "b": friend,
        "ab": People((a, friend)),
        "friend": BEST_FRIEND[friend.female]._replace(owner=a),
        "neighbour": NEIGHBOUR[friend.female]._replace(owner=a),
        "job": chance.pick(JOBS)._replace(person=hero),
        "thing": thing,
        "bare": bare,
        "new": bare._replace(adjective=ADJECTIVES["new"]),
        "old": bare._replace(adjective=ADJECTIVES["old"]),
        "pet": pet,
        "stray": pet._replace(adjective=None),
        "lost": pet._replace(adjective=None, owner=friend),
        "org": company(chance),
        "city": city,
        "city2": city2,
        "city3": city3,
        "where": where,
        "place": place,
        "when": chance.pick(STORY_TIMES),
        "how": chance.pick(VEHICLES[:4]),
        "glad": chance.pick(GLAD[:3]),
        "sad": chance.pick(SAD[:3]),
    }


def story(chance: Chance) -> Saying:
    """A story of two or three paragraphs, which are lines."""
    plot = chance.pick(PLOTS)
    slots = cast(chance, plot.things)
    opening = [chance.pick(OPENINGS), chance.pick(plot.friends)]
    trouble = [chance.pick(step) for step in plot.trouble]
    good = chance.happens(0.6)
    end = [chance.pick(step) for step in (plot.good if good else plot.bad)]
    closings = plot.closings[0 if good else 1]
    if closings and chance.happens(0.5):
        end.append(chance.pick(closings))
    paragraphs = [opening, trouble, end] if chance.happens(0.6) else [opening + trouble, end]

    def told(voice: Voice) -> Spoken:
        said = [joined([voice.say(line, **slots) for line in lines], voice.gap) for lines in paragraphs]
        return joined(said, "\n")

    return told
