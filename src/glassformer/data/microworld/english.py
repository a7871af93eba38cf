"""English: articles, pronouns, plurals. The forms asked for are those of a man, of one person, of one thing."""

from collections.abc import Mapping

from .events import Event
from .grammar import Grammar
from .lexicon import NounPhrase

NUMBERS = {2: "two", 3: "three", 4: "four"}
FEMALE = {"he": "she", "him": "her", "his": "her"}
PLURAL = {"he": "they", "him": "them", "his": "their", "was": "were"}


class English(Grammar):
    language, conjunction, he = "en", " and ", "he"
    articles, prepositions = ("a", "the"), ("in ", "to ")

    def pronoun(self, form: str, *, plural: bool, female: bool) -> str:
        if plural:
            return PLURAL[form]
        return FEMALE.get(form, form) if female else form

    def noun_phrase(self, phrase: NounPhrase, form: str) -> str:
        """The forms are "a", "the", "his" (whoever owns it), "it" and "" (the bare noun)."""
        if form == "it":
            return form
        words = [NUMBERS[phrase.number], phrase.noun.plural.en] if phrase.number > 1 else [phrase.noun.name.en]
        if phrase.adjective:
            words.insert(-1, phrase.adjective.en)
        if form == "his":
            words.insert(0, "her" if phrase.owner and phrase.owner.female else "his")
        elif form == "the":
            words.insert(0, "the")
        elif form == "a" and phrase.number == 1:
            words.insert(0, "an" if words[0][0] in "aeiou" else "a")
        return " ".join(words)

    def verb(self, event: Event, parts: Mapping[str, str]) -> Mapping[str, str]:
        del parts
        return event.wording["en"]
