"""Chinese: measure words; 了 for what is done, 是…的 to ask about it.

The forms asked for are those of a man, of one person, of one thing.
"""

from collections.abc import Mapping

from .events import Event
from .grammar import Grammar
from .lexicon import FixedPhrase, NounPhrase

NUMBERS = {1: "一", 2: "两", 3: "三", 4: "四"}


class Chinese(Grammar):
    language, conjunction, he = "zh", "和", "他"
    gap, name_gap, stop = "", "·", "。"
    articles, prepositions, in_situ = ("一", "那"), ("", ""), True

    def pronoun(self, form: str, *, plural: bool, female: bool) -> str:
        del form
        return ("她" if female else "他") + ("们" if plural else "")

    def noun_phrase(self, phrase: NounPhrase, form: str) -> str:
        """The forms are "一" (some), "那" (the one that is known), "他的" (whoever owns it) and "" (the bare noun)."""
        noun, measure = phrase.noun.name.zh, phrase.noun.plural.zh
        described = (phrase.adjective.zh if phrase.adjective else "") + noun
        if form == "一":
            return NUMBERS[phrase.number] + measure + described
        if form == "那":
            return "那" + (NUMBERS[phrase.number] if phrase.number > 1 else "") + measure + described
        if form == "他的":
            owner = "她" if phrase.owner and phrase.owner.female else "他"
            return f"{owner}那{measure}{described}" if phrase.adjective else f"{owner}的{noun}"
        return noun

    def fixed_phrase(self, phrase: FixedPhrase, form: str) -> str:
        """Without 一 and the measure word where it is known: 一杯茶, 茶."""
        words = phrase.words.zh
        return words[2:] if form == "那" and words.startswith("一") else words

    def parts(self, event: Event, *, known: bool = False) -> dict[str, str]:
        parts = super().parts(event, known=known)
        return {**parts, "where": parts["where"] and f"在{parts['where']}"}

    def verb(self, event: Event, parts: Mapping[str, str]) -> Mapping[str, str]:
        return {name: form.format(**parts) for name, form in event.wording["zh"].items()}
