"""Stories that turn on somebody: a visit, a stray animal, a job far away."""

from glassformer.data.microworld.lexicon import verses
from glassformer.data.microworld.plots import BAD_CLOSINGS, FAR_FRIENDS, Plot

TRIP = Plot(
    trouble=(
        verses("""
        {when} {a} travelled to {city3} {how}.
        {when} reiste {a} {how} nach {city3}.
        {when}，{a}{how}去了{city3}。
        """),
        verses("""
        it was raining.
        es regnete.
        天下着雨。

        the sun was shining.
        die Sonne schien.
        阳光明媚。

        it was cold and dark.
        es war kalt und dunkel.
        天又冷又黑。
        """),
        verses("""
        {a:he} wanted to visit {b} there.
        {a:er} wollte dort {b} besuchen.
        {a:他}想去那里看望{b}。

        {b} had invited {a:him}.
        {b} hatte {a:ihn} eingeladen.
        是{b}邀请{a:他}去的。
        """),
        verses("""
        the journey was long, and {a:he} read a book.
        die Fahrt war lang, und {a:er} las ein Buch.
        路很长，{a:他}看了一本书。

        on the way {a:he} saw {pet:a}.
        unterwegs sah {a:er} {pet:einen}.
        在路上，{a:他}看见了{pet:一}。
        """),
    ),
    good=(
        verses("""
        {b} was already waiting for {a:him}.
        {b} wartete schon auf {a:ihn}.
        {b}已经在等{a:他}了。
        """),
        verses("""
        together they went {place:to}.
        zusammen gingen sie {place:to}.
        {ab:他}一起去了{place:to}。

        together they ate noodles {place}.
        zusammen aßen sie {place} Nudeln.
        {ab:他}一起在{place}吃了面条。
        """),
        verses("""
        in the evening {a} was tired but {glad}.
        am Abend war {a} müde, aber {glad}.
        晚上，{a}很累，但是很{glad}。
        """),
    ),
    bad=(
        verses("""
        but {b} was not at home.
        aber {b} war nicht zu Hause.
        可是{b}不在家。

        but {b} had forgotten the day.
        aber {b} hatte den Tag vergessen.
        可是{b}忘记了日子。
        """),
        verses("""
        {a} went to a hotel alone and was {sad}.
        {a} ging allein in ein Hotel und war {sad}.
        {a}一个人去了酒店，很{sad}。
        """),
        verses("""
        a day later {a:he} travelled back to {city}.
        einen Tag später reiste {a:er} nach {city} zurück.
        一天以后，{a:他}回到了{city}。
        """),
    ),
    friends=FAR_FRIENDS,
)
STRAY = Plot(
    trouble=(
        verses("""
        {when} {a} found {pet:a} {where}.
        {when} fand {a} {where} {pet:einen}.
        {when}，{a}在{where}发现了{pet:一}。
        """),
        verses("""
        {stray:it} was hungry and afraid.
        {stray:er} hatte Hunger und Angst.
        {stray:那}又饿又怕。

        {stray:it} was quite alone.
        {stray:er} war ganz allein.
        {stray:那}孤零零的。
        """),
        verses("""
        {a} gave {stray:it} water and something to eat.
        {a} gab {stray:ihm} Wasser und etwas zu essen.
        {a}给它喝了水，还给它吃了东西。
        """),
        verses("""
        {a:he} asked many people, but nobody knew {stray:it}.
        {a:er} fragte viele Leute, aber niemand kannte {stray:ihn}.
        {a:他}问了很多人，但是没有人认识它。
        """),
    ),
    good=(
        verses("""
        so {stray:the} stayed with {a:him}.
        also blieb {stray:der} bei {a:ihm}.
        于是，{stray:那}留在了{a:他}身边。
        """),
        verses("""
        from then on {a} was never lonely again.
        von da an war {a} nie wieder einsam.
        从那以后，{a}再也不孤独了。

        {b} came every day and played with {stray:it}.
        {b} kam jeden Tag und spielte mit {stray:ihm}.
        {b}每天都来和它玩。
        """),
    ),
    bad=(
        verses("""
        then {b} came: it was {lost:his}.
        dann kam {b}: Es war {lost:sein}.
        后来{b}来了：那是{lost:他的}。
        """),
        verses("""
        when {b} took {stray:the} home, {a} was {sad}.
        als {b} {stray:den} nach Hause brachte, war {a} {sad}.
        {b}把{stray:那}带回家的时候，{a}很{sad}。
        """),
    ),
)
WORK = Plot(
    trouble=(
        verses("""
        {when} {a} got a letter from {org}.
        {when} bekam {a} einen Brief von {org}.
        {when}，{a}收到了{org}的一封信。

        {when} {a} got a call from {org}.
        {when} bekam {a} einen Anruf von {org}.
        {when}，{a}接到了{org}的电话。
        """),
        verses("""
        they offered {a:him} a job in {city3}.
        man bot {a:ihm} eine Stelle in {city3} an.
        公司请{a:他}去{city3}工作。
        """),
        verses("""
        {a} thought about it for three days.
        {a} dachte drei Tage lang darüber nach.
        {a}考虑了三天。

        {b} did not want {a:him} to go.
        {b} wollte nicht, dass {a:er} ging.
        {b}不想让{a:他}走。
        """),
    ),
    good=(
        verses("""
        but then {b} also found a job in {city3}.
        aber dann fand auch {b} eine Stelle in {city3}.
        可是后来{b}也在{city3}找到了工作。
        """),
        verses("""
        together they moved to {city3}.
        zusammen zogen sie nach {city3}.
        {ab:他}一起搬到了{city3}。
        """),
        verses("""
        {a} still works for {org} today and is {glad}.
        {a} arbeitet noch heute bei {org} und ist {glad}.
        今天，{a}还在{org}工作，很{glad}。
        """),
    ),
    bad=(
        verses("""
        but {org} did not want to wait.
        aber {org} wollte nicht warten.
        可是{org}不愿意等。
        """),
        verses("""
        somebody else got the job, and {a} was {sad}.
        jemand anders bekam die Stelle, und {a} war {sad}.
        别人得到了那份工作，{a}很{sad}。
        """),
    ),
    closings=([], BAD_CLOSINGS),
)
