"""German: cases, genders, adjective endings, separable verbs, the perfect with haben or sein.

The forms asked for are masculine and singular: the case is theirs.
"""

from collections.abc import Mapping

from .events import Event
from .grammar import Grammar
from .lexicon import NounPhrase

NUMBERS = {2: "zwei", 3: "drei", 4: "vier"}
# By the masculine word: what stands there for each gender and the plural, and the ending of an adjective after it.
DEFINITE = {
    "der": ({"m": "der", "f": "die", "n": "das"}, {"m": "e", "f": "e", "n": "e"}),
    "den": ({"m": "den", "f": "die", "n": "das"}, {"m": "en", "f": "e", "n": "e"}),
    "dem": ({"m": "dem", "f": "der", "n": "dem"}, {"m": "en", "f": "en", "n": "en"}),
    "vom": ({"m": "vom", "f": "von der", "n": "vom"}, {"m": "en", "f": "en", "n": "en"}),
    "am": ({"m": "am", "f": "an der", "n": "am"}, {"m": "en", "f": "en", "n": "en"}),
}
ENDINGS = {  # of ein, sein and ihr, and of an adjective after them
    "": ({"m": "", "f": "e", "n": ""}, {"m": "er", "f": "e", "n": "es"}),
    "en": ({"m": "en", "f": "e", "n": ""}, {"m": "en", "f": "e", "n": "es"}),
    "em": ({"m": "em", "f": "er", "n": "em"}, {"m": "en", "f": "en", "n": "en"}),
}
PRONOUNS = {
    "er": {"m": "er", "f": "sie", "n": "es", "p": "sie"},
    "ihn": {"m": "ihn", "f": "sie", "n": "es", "p": "sie"},
    "ihm": {"m": "ihm", "f": "ihr", "n": "ihm", "p": "ihnen"},
    "seine": {"m": "seine", "f": "ihre", "p": "ihre"},
}


def spaced(*parts: str) -> str:
    """The parts that there are, with spaces between them."""
    return " ".join(part for part in parts if part)


def agree(verb: str, *, plural: bool) -> str:
    """A verb of the past as one person or several take it: ging, gingen."""
    if not plural:
        return verb
    return f"{verb}n" if verb.endswith("e") else f"{verb}en"


class German(Grammar):
    language, conjunction, he = "de", " und ", "er"
    articles, prepositions = ("einen", "den"), ("in ", "nach ")

    def pronoun(self, form: str, *, plural: bool, female: bool) -> str:
        if form not in PRONOUNS:
            return agree(form, plural=plural)
        singular = "f" if female else "m"
        return PRONOUNS[form]["p" if plural else singular]

    def noun_phrase(self, phrase: NounPhrase, form: str) -> str:
        """The forms are those of der, ein, sein (whoever owns it) and er; and "" for the bare noun."""
        gender, noun = phrase.noun.gender, phrase.noun.name.de
        stem = phrase.adjective.de if phrase.adjective else ""
        if form in PRONOUNS:
            return PRONOUNS[form][gender]
        if phrase.number > 1:  # as a subject or an accusative
            die, ending = ("die", "en") if form in DEFINITE else ("", "e")
            return spaced(die, NUMBERS[phrase.number], stem and stem + ending, phrase.noun.plural.de)
        if not form:
            return noun
        if form in DEFINITE:
            articles, endings = DEFINITE[form]
            return spaced(articles[gender], stem and stem + endings[gender], noun)
        article = form[: form.index("ein") + 3]
        articles, endings = ENDINGS[form.removeprefix(article)]
        if article == "sein" and phrase.owner and phrase.owner.female:
            article = "ihr"
        return spaced(article + articles[gender], stem and stem + endings[gender], noun)

    def verb(self, event: Event, parts: Mapping[str, str]) -> Mapping[str, str]:
        """Known things stand apart from new ones, and a preposition may stand before either."""
        forms = event.wording["de"]
        sein = forms.get("perfect") == "sein"
        has = ("ist", "sind") if sein else ("hat", "haben")
        what = parts["what"] and spaced(forms.get("preposition", ""), parts["what"])
        known = isinstance(event.what, NounPhrase) and "asked" in parts
        return {
            "past": agree(forms["past"], plural=event.plural),
            "prefix": forms.get("prefix", ""),
            "participle": forms["participle"],
            "had": agree("war" if sein else "hatte", plural=event.plural),
            "has": has[event.plural and parts["who"] != ""],
            "known": what if known else "",
            "what": "" if known else what,
        }

    def question_word(self, event: Event, asked: str) -> str:
        dative = asked == "whom" and event.wording["de"].get("whom") == "ihm"
        return "wem" if dative else super().question_word(event, asked)
