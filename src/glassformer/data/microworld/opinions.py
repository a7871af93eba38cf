"""How people in the micro-world felt and judged: sentences whose tone hangs on more than one word."""

from glassformer.data.microworld.actions import ACTIONS
from glassformer.data.microworld.events import doers, happen
from glassformer.data.microworld.lexicon import GLAD, SAD, TIMES, rows, triples, verses
from glassformer.data.microworld.voice import Saying, spoken, telling
from glassformer.data.microworld.world import NO_WORDS, Chance, Item, Thing, Words

Pair = tuple[Words, Words]  # a good quality and the bad one that is its opposite


def pairs(*table: str) -> list[Pair]:
    return [(Words(*cells[:3]), Words(*cells[3:])) for row in table for cells in rows(row)]


# All of them may be "very" so: no German and no Englishman says "very excellent".
GOOD = pairs("good | gut | 好 | bad | schlecht | 差")
PLEASING = GOOD + pairs("pleasing | erfreulich | 让人满意 | disappointing | enttäuschend | 让人失望")
KINDS = {
    "show": PLEASING
    + pairs(
        "exciting    | spannend    | 精彩 | boring | langweilig | 无聊",
        "interesting | interessant | 有趣 | dull   | eintönig   | 单调",
    ),
    "food": GOOD + pairs("tasty | lecker | 好吃 | disgusting | eklig | 难吃"),
    "room": GOOD + pairs("clean | sauber | 干净 | dirty | schmutzig | 脏", "quiet | ruhig | 安静 | noisy | laut | 吵"),
    "time": PLEASING + pairs("pleasant | angenehm | 愉快 | tiring | anstrengend | 累人"),
    "help": PLEASING + pairs("fast | schnell | 快 | slow | langsam | 慢"),
}
SUBJECTS = [
    (row[4], Item(Thing(Words(row[0], row[1], row[3]), NO_WORDS, row[2])))
    for row in rows("""
    film    | Film       | m | 这部电影   | show
    book    | Buch       | n | 这本书     | show
    concert | Konzert    | n | 这场音乐会 | show
    story   | Geschichte | f | 这个故事   | show
    play    | Stück      | n | 这出戏     | show
    song    | Lied       | n | 这首歌     | show
    exhibition | Ausstellung | f | 这个展览  | show
    soup    | Suppe      | f | 这碗汤     | food
    food    | Essen      | n | 这里的饭菜 | food
    cake    | Kuchen     | m | 这块蛋糕   | food
    fish    | Fisch      | m | 这条鱼     | food
    bread   | Brot       | n | 这个面包   | food
    room    | Zimmer     | n | 这个房间   | room
    hotel   | Hotel      | n | 这家酒店   | room
    flat    | Wohnung    | f | 这套公寓   | room
    café    | Café       | n | 这家咖啡馆 | room
    trip    | Reise      | f | 这次旅行   | time
    walk    | Spaziergang | m | 这次散步  | time
    course  | Kurs       | m | 这门课     | time
    party   | Feier      | f | 这次聚会   | time
    holiday | Urlaub     | m | 这个假期   | time
    service | Service    | m | 这里的服务 | help
    """)
]
OCCASIONS = triples("""
    after the concert | nach dem Konzert  | 音乐会之后
    after the film    | nach dem Film     | 看完电影之后
    after the exam    | nach der Prüfung  | 考试之后
    after the game    | nach dem Spiel    | 比赛之后
    after the trip    | nach der Reise    | 旅行之后
    after the talk    | nach dem Gespräch | 谈话之后
    after dinner      | nach dem Essen    | 晚饭之后
    at the party      | auf der Feier     | 在聚会上
""")

# {x} is what is judged, {a} a quality of the wrong tone, {b} its opposite, of the tone that the sentence has.
PLAIN = verses("""
    {x:the} was {b}.
    {x:der} war {b}.
    {x}很{b}。

    {x:the} was very {b}.
    {x:der} war sehr {b}.
    {x}非常{b}。

    {x:the} was really {b}.
    {x:der} war wirklich {b}.
    {x}真的很{b}。

    {x:the} was quite {b}.
    {x:der} war ziemlich {b}.
    {x}相当{b}。

    {who} found {x:the} very {b}.
    {who} {who:fand} {x:den} sehr {b}.
    {who}觉得{x}非常{b}。
""")
TURNED = verses("""
    {x:the} was not {a}.
    {x:der} war nicht {a}.
    {x}不{a}。

    {x:the} was not at all {a}.
    {x:der} war überhaupt nicht {a}.
    {x}一点也不{a}。

    {x:the} was anything but {a}.
    {x:der} war alles andere als {a}.
    {x}绝对不{a}。

    {who} did not find {x:the} {a} at all.
    {who} {who:fand} {x:den} überhaupt nicht {a}.
    {who}觉得{x}一点也不{a}。

    {who} did not think that {x:the} was {a}.
    {who} {who:fand} nicht, dass {x:der} {a} war.
    {who}不觉得{x}{a}。
""")
CONTRASTS = verses("""
    at first {x:the} seemed {a}, but in the end {x:it} was {b}.
    zuerst wirkte {x:der} {a}, aber am Ende war {x:er} {b}.
    一开始{x}好像很{a}，但是最后很{b}。

    {who} thought {x:the} would be {a}, but {x:it} was {b}.
    {who} {who:dachte}, {x:der} wäre {a}, aber {x:er} war {b}.
    {who}以为{x}会很{a}，但是其实很{b}。

    everybody said {x:the} was {a}, but {who} found {x:it} {b}.
    alle sagten, {x:der} sei {a}, aber {who} {who:fand} {x:ihn} {b}.
    大家都说{x}很{a}，但是{who}觉得很{b}。

    {x:the} was not {a} but {b}.
    {x:der} war nicht {a}, sondern {b}.
    {x}不{a}，而是很{b}。

    although {y:the} was {c}, all in all {z:the} was {d}.
    obwohl {y:der} {c} war, war {z:der} alles in allem {d}.
    虽然{y}很{c}，但是总的来说{z}很{d}。
""")
PRAISE = verses("""
    {who} liked {x:the} very much.
    {who} {who:mochte} {x:den} sehr.
    {who}非常喜欢{x}。

    {who} would recommend {x:the}.
    {who} {who:würde} {x:den} empfehlen.
    {who}会推荐{x}。

    {who} {who:was} satisfied with {x:the}.
    {who} {who:war} mit {x:dem} zufrieden.
    {who}对{x}很满意。

    nobody was disappointed by {x:the}.
    niemand war {x:vom} enttäuscht.
    没有人对{x}失望。

    {who} had nothing bad to say about {x:the}.
    {who} {who:hatte} über {x:den} nichts Schlechtes zu sagen.
    {who}觉得{x}没有什么不好。

    {who} had no complaints about {x:the}.
    {who} {who:hatte} {x:am} nichts auszusetzen.
    {who}对{x}没有什么不满。
""")
BLAME = verses("""
    {who} did not like {x:the}.
    {who} {who:mochte} {x:den} nicht.
    {who}不喜欢{x}。

    {who} would not recommend {x:the}.
    {who} {who:würde} {x:den} nicht empfehlen.
    {who}不会推荐{x}。

    {who} {who:was} not satisfied with {x:the}.
    {who} {who:war} mit {x:dem} nicht zufrieden.
    {who}对{x}不满意。

    nobody was satisfied with {x:the}.
    niemand war mit {x:dem} zufrieden.
    没有人对{x}满意。

    {who} had nothing good to say about {x:the}.
    {who} {who:hatte} über {x:den} nichts Gutes zu sagen.
    {who}觉得{x}没有什么好的。

    {who} had expected more of {x:the}.
    {who} {who:hatte} {x:vom} mehr erwartet.
    {who}本来对{x}有更高的期待。
""")
# {f} is a feeling of the tone that the sentence has, {g} one of the other tone.
MOODS = verses("""
    {occasion} {who} {who:was} {f}.
    {occasion} {who:war} {who} {f}.
    {occasion}，{who}很{f}。

    {who} {who:was} very {f} {when}.
    {who} {who:war} {when} sehr {f}.
    {who}{when}非常{f}。

    {who} {who:was} {g} at first, but soon {who:he} {who:was} {f}.
    {who} {who:war} zuerst {g}, aber bald {who:war} {who:er} {f}.
    {who}一开始很{g}，但是很快就{f}了。

    {who} {who:was} not {g} but {f}.
    {who} {who:war} nicht {g}, sondern {f}.
    {who}并不{g}，而是很{f}。

    {occasion} {who} {who:was} not {g}.
    {occasion} {who:war} {who} nicht {g}.
    {occasion}，{who}不{g}。

    {who} {who:was} not {g} at all {when}.
    {who} {who:war} {when} überhaupt nicht {g}.
    {who}{when}一点也不{g}。

    {occasion} {who} {who:was} no longer {g}.
    {occasion} {who:war} {who} nicht mehr {g}.
    {occasion}，{who}不再{g}了。
""")
NEITHER = verses("""
    {x:the} was neither {a} nor {b}.
    {x:der} war weder {a} noch {b}.
    {x}不{a}也不{b}。

    {who} found {x:the} neither {a} nor {b}.
    {who} {who:fand} {x:den} weder {a} noch {b}.
    {who}觉得{x}不{a}也不{b}。

    {who} heard about {x:the} {when}.
    {who} {who:hörte} {when} {x:vom}.
    {who}{when}听说了{x}。

    {who} did not talk about {x:the} {when}.
    {who} {who:sprach} {when} nicht über {x:den}.
    {who}{when}没有谈起{x}。

    {who} {who:was} neither {f} nor {g} {when}.
    {who} {who:war} {when} weder {f} noch {g}.
    {who}{when}不{f}也不{g}。
""")
REASON = Words("{who} {who:was} {f}", "{who} {who:war} {f}", "{who}很{f}")


def filled(chance: Chance, templates: list[Words], good: bool) -> Saying:
    """A sentence from one of some templates."""
    template, who, when = chance.pick(templates), doers(chance), chance.pick(TIMES)
    kind, subject = chance.pick(SUBJECTS)
    other_kind, other = chance.pick([one for one in SUBJECTS if one[0] in ("food", "room", "help")])
    whole = chance.pick([thing for _, thing in SUBJECTS if thing.thing.name.en in ("trip", "holiday")])
    qualities, lesser, overall = chance.pick(KINDS[kind]), chance.pick(KINDS[other_kind]), chance.pick(KINDS["time"])
    feelings = (chance.pick(GLAD), chance.pick(SAD))
    right, wrong = (0, 1) if good else (1, 0)
    slots = {"who": who, "when": when, "occasion": chance.pick(OCCASIONS), "x": subject, "y": other, "z": whole}
    slots |= {"a": qualities[wrong], "b": qualities[right], "c": lesser[wrong], "d": overall[right]}
    slots |= {"f": feelings[right], "g": feelings[wrong]}
    return lambda voice: voice.say(template, **slots)


def reason(chance: Chance, good: bool) -> Saying:
    """A feeling that fits what happened, or one that does not: sad because, happy although."""
    fits = chance.happens(0.6)
    actions = [action for action in ACTIONS if action.good is (good if fits else not good)]
    event = happen(chance, action=chance.pick(actions), full=0.2)._replace(pronoun="who", when=None, front="")
    feeling = chance.pick(GLAD if good else [words for words in SAD if words.en not in ("lonely", "nervous")])
    felt = {"who": event.who, "f": feeling}
    return lambda voice: spoken(voice.full_stop(voice.fill(REASON, felt) + voice.reason(event, fits=fits)))


def opinion(chance: Chance, good: bool) -> Saying:
    """A sentence of one tone."""
    if chance.happens(0.3):
        return reason(chance, good)
    blame_or_praise = PRAISE if good else BLAME
    return filled(chance, chance.pick([PLAIN, TURNED, CONTRASTS, MOODS, MOODS, blame_or_praise]), good)


def no_opinion(chance: Chance) -> Saying:
    """A sentence of no tone: it says both, or nothing of the kind."""
    if chance.happens(0.6):
        return filled(chance, NEITHER, chance.happens(0.5))
    actions = [action for action in ACTIONS if action.good is None]
    return telling(happen(chance, action=chance.pick(actions)))
