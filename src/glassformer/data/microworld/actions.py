"""What people in the micro-world do, and how it is said."""

from typing import NamedTuple

from glassformer.data.microworld.lexicon import BALL_GAMES, DRINKS, FOOD, FOOTBALL, MISSED, STRINGS, THINGS, VIOLIN


class Wording(NamedTuple):
    """The verb of an action in three languages, in all the forms that a clause may need."""

    en_past: str
    en_base: str
    en_participle: str
    de_past: str
    de_participle: str
    zh: str  # with slots for what follows the verb
    zh_bare: str  # without 了
    de_prefix: str = ""  # of a separable verb
    de_moves: bool = False  # the perfect is made with sein
    de_before: str = ""  # a preposition before the object
    de_whom: str = "ihn"  # the case of the person it is done to


class Action(NamedTuple):
    """Something that people do."""

    wordings: tuple[Wording, ...]  # the first is the usual one, the others mean the same
    what: str = ""  # the kind of its object
    whom: bool = False
    places: str = ""  # venues; "city" among them for any city
    goals: str = ""
    topic: str = ""
    asks_what: bool = True  # "what?" can be asked of it in every language
    good: bool | None = None  # how those who did it felt, where that is clear


GOODS = [
    name for name in THINGS if name not in ("letter", "newspaper", "dog", "cat", "bird", "rabbit", "table", "chair")
]
ANIMALS = ["dog", "cat", "bird", "rabbit"]
OBJECTS = {
    "goods": [*GOODS, "table", "chair", "dog", "cat", "bird", "rabbit"],
    "small": [*GOODS, "newspaper"],
    "carried": ["book", "umbrella", "hat", "watch", "coat", "scarf", "camera", "key", "bag", "ring", "map"],
    "gift": [*GOODS, "dog", "cat", "rabbit"],
    "broken": ["bicycle", "lamp", "guitar", "violin", "watch", "camera", "chair", "umbrella"],
    "text": ["book", "newspaper", "letter"],
    "letter": ["letter"],
    "animal": ANIMALS,
    "glass": ["vase", "cup", "plate", "mirror"],
}
PORTIONS = {
    "food": FOOD,
    "drink": DRINKS,
    "football": FOOTBALL,
    "ball game": BALL_GAMES,
    "strings": STRINGS,
    "violin": VIOLIN,
    "missed": MISSED,
}
ANYWHERE = "city park market library station museum café garden beach lake hotel office bridge airport school square"
AT_TABLE = "city café dinner garden park hotel office"

ACTIONS = [
    Action(
        (
            Wording("bought", "buy", "bought", "kaufte", "gekauft", "买了{what}", "买{what}"),
            Wording("purchased", "purchase", "purchased", "erwarb", "erworben", "购买了{what}", "购买{what}"),
        ),
        what="goods",
        places="city city market shop",
        topic="shopping",
        good=True,
    ),
    Action(
        (Wording("sold", "sell", "sold", "verkaufte", "verkauft", "卖掉了{what}", "卖掉{what}"),),
        what="goods",
        places="city city market square",
        topic="shopping",
    ),
    Action(
        (
            Wording("found", "find", "found", "fand", "gefunden", "找到了{what}", "找到{what}"),
            Wording("discovered", "discover", "discovered", "entdeckte", "entdeckt", "发现了{what}", "发现{what}"),
        ),
        what="small",
        places=ANYWHERE,
        good=True,
    ),
    Action(
        (Wording("lost", "lose", "lost", "verlor", "verloren", "弄丢了{what}", "弄丢{what}"),),
        what="carried",
        places=ANYWHERE,
        good=False,
    ),
    Action(
        (
            Wording("saw", "see", "seen", "sah", "gesehen", "看见了{what}", "看见{what}"),
            Wording("noticed", "notice", "noticed", "bemerkte", "bemerkt", "注意到了{what}", "注意到{what}"),
        ),
        what="animal",
        places="park garden beach lake bridge school square zoo",
    ),
    Action(
        (Wording("broke", "break", "broken", "zerbrach", "zerbrochen", "打碎了{what}", "打碎{what}"),),
        what="glass",
        places="market shop hotel office school",
        good=False,
    ),
    Action(
        (Wording("missed", "miss", "missed", "verpasste", "verpasst", "错过了{what}", "错过{what}"),),
        what="missed",
        places="city",
        topic="travel",
        good=False,
    ),
    Action(
        (Wording("repaired", "repair", "repaired", "reparierte", "repariert", "修好了{what}", "修好{what}"),),
        what="broken",
        places="garden school office shop",
        topic="work",
        good=True,
    ),
    Action(
        (Wording("read", "read", "read", "las", "gelesen", "读了{what}", "读{what}"),),
        what="text",
        places="library garden park café beach lake hotel station",
        topic="reading",
    ),
    Action(
        (
            Wording(
                "gave",
                "give",
                "given",
                "schenkte",
                "geschenkt",
                "送给了{whom}{what}",
                "送给{whom}{what}",
                de_whom="ihm",
            ),
        ),
        what="gift",
        whom=True,
        places="city café garden station school",
        topic="friends",
        good=True,
    ),
    Action(
        (
            Wording(
                "showed", "show", "shown", "zeigte", "gezeigt", "给{whom}看了{what}", "给{whom}看{what}", de_whom="ihm"
            ),
        ),
        what="gift",
        whom=True,
        places="park café garden office school museum",
        topic="friends",
    ),
    Action(
        (
            Wording(
                "wrote",
                "write",
                "written",
                "schrieb",
                "geschrieben",
                "给{whom}写了{what}",
                "给{whom}写{what}",
                de_whom="ihm",
            ),
        ),
        what="letter",
        whom=True,
        places="city café garden office hotel beach",
        topic="friends",
        asks_what=False,
    ),
    Action(
        (
            Wording("met", "meet", "met", "traf", "getroffen", "遇见了{whom}", "遇见{whom}"),
            Wording("ran into", "run into", "run into", "begegnete", "begegnet", "碰到了{whom}", "碰到{whom}")._replace(
                de_moves=True, de_whom="ihm"
            ),
        ),
        whom=True,
        places=ANYWHERE,
        topic="friends",
        good=True,
    ),
    Action(
        (Wording("visited", "visit", "visited", "besuchte", "besucht", "看望了{whom}", "看望{whom}"),),
        whom=True,
        places="city",
        topic="friends",
        good=True,
    ),
    Action(
        (Wording("helped", "help", "helped", "half", "geholfen", "帮助了{whom}", "帮助{whom}", de_whom="ihm"),),
        whom=True,
        places="garden library office school station market",
        topic="friends",
        good=True,
    ),
    Action(
        (
            Wording(
                "called", "call", "called", "rief", "angerufen", "给{whom}打了电话", "给{whom}打电话", de_prefix="an"
            ),
        ),
        whom=True,
        topic="friends",
    ),
    Action(
        (
            Wording("picked up", "pick up", "picked up", "holte", "abgeholt", "接到了{whom}", "接{whom}")._replace(
                de_prefix="ab"
            ),
        ),
        whom=True,
        places="station airport hotel school",
        topic="friends",
    ),
    Action(
        (Wording("travelled", "travel", "travelled", "reiste", "gereist", "去了{to}", "去{to}", de_moves=True),),
        goals="city",
        topic="travel",
        good=True,
    ),
    Action(
        (Wording("went", "go", "gone", "ging", "gegangen", "去了{to}", "去{to}", de_moves=True),),
        goals="park market library museum café garden beach lake dinner zoo",
    ),
    Action(
        (Wording("ate", "eat", "eaten", "aß", "gegessen", "吃了{what}", "吃{what}"),),
        what="food",
        places=AT_TABLE,
        topic="food",
    ),
    Action(
        (Wording("drank", "drink", "drunk", "trank", "getrunken", "喝了{what}", "喝{what}"),),
        what="drink",
        places=AT_TABLE,
        topic="food",
    ),
    Action(
        (Wording("played", "play", "played", "spielte", "gespielt", "踢了一场{what}", "踢{what}"),),
        what="football",
        places="city park beach garden school",
        topic="sport",
        asks_what=False,
    ),
    Action(
        (Wording("played", "play", "played", "spielte", "gespielt", "打了一场{what}", "打{what}"),),
        what="ball game",
        places="city park school",
        topic="sport",
        asks_what=False,
    ),
    Action(
        (Wording("played", "play", "played", "spielte", "gespielt", "弹了{what}", "弹{what}"),),
        what="strings",
        places="city park garden hotel café school square",
        topic="music",
        asks_what=False,
    ),
    Action(
        (Wording("played", "play", "played", "spielte", "gespielt", "拉了{what}", "拉{what}"),),
        what="violin",
        places="city park garden hotel café school square",
        topic="music",
        asks_what=False,
    ),
    Action(
        (Wording("founded", "found", "founded", "gründete", "gegründet", "创办了{what}", "创办{what}"),),
        what="company",
        places="city",
        topic="work",
        good=True,
    ),
    Action(
        (Wording("left", "leave", "left", "verließ", "verlassen", "离开了{what}", "离开{what}"),),
        what="company",
        topic="work",
    ),
    Action(
        (
            Wording("joined", "join", "joined", "fing", "angefangen", "加入了{what}", "加入{what}")._replace(
                de_prefix="an", de_before="bei "
            ),
        ),
        what="company",
        places="city",
        topic="work",
        asks_what=False,
        good=True,
    ),
]
