"""Stories that turn on a thing: lost, given, broken."""

from glassformer.data.microworld.lexicon import verses
from glassformer.data.microworld.plots import Plot

LOST = Plot(
    trouble=(
        verses("""
        {when} {a} lost {thing:his} {where}.
        {when} verlor {a} {where} {thing:seinen}.
        {when}，{a}在{where}弄丢了{thing:他的}。

        {when} {a} went {where:to} and lost {thing:his}.
        {when} ging {a} {where:to} und verlor {thing:seinen}.
        {when}，{a}去了{where:to}，弄丢了{thing:他的}。
        """),
        verses("""
        {a:he} had bought {bare:it} in {city2} and liked {bare:it} very much.
        {a:er} hatte {bare:ihn} in {city2} gekauft und mochte {bare:ihn} sehr.
        那是{a:他}在{city2}买的，{a:他}非常喜欢。

        {bare:it} was a present from {b}.
        {bare:er} war ein Geschenk von {b}.
        那是{b}送的礼物。
        """),
        verses("""
        {a:he} looked for {bare:it} everywhere, but {a:he} could not find {bare:it}.
        {a:er} suchte {bare:ihn} überall, konnte {bare:ihn} aber nicht finden.
        {a:他}到处找，但是没有找到。

        {a} was very {sad}.
        {a} war sehr {sad}.
        {a}非常{sad}。
        """),
    ),
    good=(
        verses("""
        then {a:he} met {b} {place}.
        dann traf {a:er} {b} {place}.
        后来，{a:他}在{place}遇见了{b}。

        in the evening {b} called.
        am Abend rief {b} an.
        晚上，{b}打来了电话。
        """),
        verses("""
        {b} had found {bare:the} and brought {bare:it} back.
        {b} hatte {bare:den} gefunden und brachte {bare:ihn} zurück.
        {b}找到了{bare:那}，并且送了回来。
        """),
        verses("""
        {a} was {glad} and thanked {b}.
        {a} war {glad} und dankte {b}.
        {a}很{glad}，向{b}道了谢。
        """),
    ),
    bad=(
        verses("""
        {a:he} asked {b}, but {b} had not seen {bare:it} either.
        {a:er} fragte {b}, aber {b} hatte {bare:ihn} auch nicht gesehen.
        {a:他}问了{b}，但是{b}也没有看见。
        """),
        verses("""
        in the end {a} had to buy {new:a}.
        am Ende musste {a} {new:einen} kaufen.
        最后，{a}只好买了{new:一}。
        """),
        verses("""
        but {a:he} was still {sad}.
        aber {a:er} war immer noch {sad}.
        但是{a:他}还是很{sad}。
        """),
    ),
)
GIFT = Plot(
    trouble=(
        verses("""
        soon it was {b}'s birthday.
        bald hatte {b} Geburtstag.
        {b}的生日快到了。
        """),
        verses("""
        {a} did not know what to buy.
        {a} wusste nicht, was {a:er} kaufen sollte.
        {a}不知道该买什么。

        {a} wanted to find something special.
        {a} wollte etwas Besonderes finden.
        {a}想找一件特别的礼物。
        """),
        verses("""
        at the market {a:he} saw {thing:a}.
        auf dem Markt sah {a:er} {thing:einen}.
        在市场上，{a:他}看见了{thing:一}。

        in {city2} {a:he} discovered {thing:a}.
        in {city2} entdeckte {a:er} {thing:einen}.
        在{city2}，{a:他}发现了{thing:一}。
        """),
        verses("""
        {bare:it} was not cheap, but {a} bought {bare:it}.
        {bare:er} war nicht billig, aber {a} kaufte {bare:ihn}.
        虽然不便宜，但是{a}买了下来。

        {a} liked {bare:it} at once.
        {a:ihm} gefiel {bare:er} sofort.
        {a}一眼就喜欢上了。
        """),
    ),
    good=(
        verses("""
        at last the day came, and {a} gave {b} {bare:the}.
        endlich kam der Tag, und {a} schenkte {b} {bare:den}.
        那一天终于到了，{a}把{bare:那}送给了{b}。
        """),
        verses("""
        {b} was very {glad} and hugged {a:him}.
        {b} war sehr {glad} und umarmte {a:ihn}.
        {b}非常{glad}，拥抱了{a:他}。

        {b} had always wanted {bare:a}.
        {b} hatte sich schon immer {bare:einen} gewünscht.
        {b}一直想要{bare:一}。
        """),
        verses("""
        they ate cake and sang.
        sie aßen Kuchen und sangen.
        {ab:他}一起吃蛋糕、唱歌。
        """),
    ),
    bad=(
        verses("""
        on the birthday {a} gave {b} {bare:the}.
        am Geburtstag schenkte {a} {b} {bare:den}.
        生日那天，{a}把{bare:那}送给了{b}。
        """),
        verses("""
        but {b} already had {bare:a}.
        aber {b} hatte schon {bare:einen}.
        可是{b}已经有{bare:一}了。
        """),
        verses("""
        {a} was {sad} and went home early.
        {a} war {sad} und ging früh nach Hause.
        {a}很{sad}，很早就回家了。
        """),
    ),
    things="gift",
)
REPAIR = Plot(
    trouble=(
        verses("""
        {when} {a}'s {bare} broke.
        {when} ging {a} {bare:der} kaputt.
        {when}，{a}的{bare}坏了。
        """),
        verses("""
        {a} needed {bare:it} every day.
        {a} brauchte {bare:ihn} jeden Tag.
        {a}每天都要用。

        {a} had bought {bare:it} only a month before.
        {a} hatte {bare:ihn} erst einen Monat vorher gekauft.
        那是{a}一个月前才买的。
        """),
        verses("""
        {a:he} tried to repair {bare:it}, but {a:he} did not succeed.
        {a:er} versuchte, {bare:ihn} zu reparieren, aber es gelang {a:ihm} nicht.
        {a:他}试着修理，但是没有成功。
        """),
        verses("""
        so {a:he} asked {b} for help.
        also bat {a:er} {b} um Hilfe.
        于是，{a:他}请{b}帮忙。
        """),
    ),
    good=(
        verses("""
        {b} came at once and repaired {bare:the} in an hour.
        {b} kam sofort und reparierte {bare:den} in einer Stunde.
        {b}马上就来了，一个小时就修好了{bare:那}。
        """),
        verses("""
        {a} was {glad} and cooked a soup for {b}.
        {a} war {glad} und kochte für {b} eine Suppe.
        {a}很{glad}，给{b}做了汤。
        """),
    ),
    bad=(
        verses("""
        but {b} could not help {a:him} either.
        aber auch {b} konnte {a:ihm} nicht helfen.
        可是{b}也帮不上忙。
        """),
        verses("""
        in the end {a} sold {old:the} and bought {new:a}.
        am Ende verkaufte {a} {old:den} und kaufte {new:einen}.
        最后，{a}卖掉了{old:那}，买了{new:一}。
        """),
    ),
    things="broken",
)
