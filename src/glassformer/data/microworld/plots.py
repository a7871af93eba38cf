"""What all stories share: how they open and close, and what a plot is.

A plot is a list of steps and a step a list of ways to say it. The slots: {full} and {a} are the hero, {b} a friend,
{ab} both; {thing} has an adjective and {bare} has none.
"""

from collections.abc import Sequence
from typing import NamedTuple

from glassformer.data.microworld.lexicon import triples, verses
from glassformer.data.microworld.world import Words

STORY_TIMES = triples("""
    one day          | eines Tages             | 有一天
    one morning      | eines Morgens           | 一天早上
    one evening      | eines Abends            | 一天晚上
    on a cold Monday | an einem kalten Montag  | 一个寒冷的星期一
    on a warm Sunday | an einem warmen Sonntag | 一个温暖的星期天
    last winter      | letzten Winter          | 去年冬天
""")

OPENINGS = verses("""
    {full} lived in {city} and worked as {job}.
    {full} lebte in {city} und arbeitete als {job}.
    {full}住在{city}，是一名{job}。

    {full} was {job} in {city}.
    {full} war {job} in {city}.
    {full}是{city}的一名{job}。

    in {city} there was {job} called {full}.
    in {city} gab es {job:einen} namens {full}.
    {city}有一名{job}，名叫{full}。

    {full} came from {city2} but had lived in {city} for years.
    {full} kam aus {city2}, lebte aber seit Jahren in {city}.
    {full}来自{city2}，但是已经在{city}住了很多年。
""")
FAR_FRIENDS = verses("""
    {friend:his} was called {b}.
    {friend:sein} hieß {b}.
    {a:他}最好的朋友叫{b}。

    {a} had known {b} since school.
    {a} kannte {b} seit der Schulzeit.
    {a}上学的时候就认识{b}了。
""")
FRIENDS = FAR_FRIENDS + verses("""
    {a} often met {b} {place}.
    {a} traf {b} oft {place}.
    {a}常常在{place}和{b}见面。

    {b} was {neighbour:his}.
    {b} war {neighbour:sein}.
    {b}是{a:他}的邻居。
""")
GOOD_CLOSINGS = verses("""
    afterwards they drank tea together {place}.
    danach tranken sie {place} zusammen Tee.
    之后，{ab:他}一起在{place}喝了茶。

    {a} never forgot that day.
    {a} vergaß diesen Tag nie.
    {a}永远没有忘记那一天。

    that evening {a} wrote {b} a long letter.
    an diesem Abend schrieb {a} {b} einen langen Brief.
    那天晚上，{a}给{b}写了一封长信。
""")
BAD_CLOSINGS = verses("""
    {a} never forgot that day.
    {a} vergaß diesen Tag nie.
    {a}永远没有忘记那一天。

    {a} stayed at home all the next day.
    {a} blieb den ganzen nächsten Tag zu Hause.
    第二天，{a}一整天都待在家里。
""")


class Plot(NamedTuple):
    """What may happen: a trouble, then a good end or a bad one."""

    trouble: Sequence[list[Words]]
    good: Sequence[list[Words]]
    bad: Sequence[list[Words]]
    things: str = "carried"  # what it turns on
    friends: Sequence[Words] = FRIENDS
    closings: Sequence[list[Words]] = (GOOD_CLOSINGS, BAD_CLOSINGS)
