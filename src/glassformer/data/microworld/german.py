"""German: cases, genders, adjective endings, the verb in second place or last, separable verbs, the perfect."""

from typing import ClassVar

from glassformer.data.microworld.events import Event
from glassformer.data.microworld.voice import Voice
from glassformer.data.microworld.world import Item, Job, Language, People

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


def agree(verb: str, people: People) -> str:
    """A verb of the past as one person or several take it: ging, gingen."""
    if not people.plural:
        return verb
    return f"{verb}n" if verb.endswith("e") else f"{verb}en"


class German(Voice):
    """The forms asked for are masculine and singular: the case is theirs."""

    language: ClassVar[Language] = "de"

    def people(self, people: People, form: str) -> str:
        if not form:
            return " und ".join(map(self.name, people.members))
        if form in PRONOUNS:
            singular = "f" if people.female else "m"
            return PRONOUNS[form]["p" if people.plural else singular]
        return agree(form, people)

    def job(self, job: Job, form: str) -> str:
        """The forms are "" and "einen"."""
        female = bool(job.person and job.person.female)
        article = ("eine " if female else "einen ") if form else ""
        return article + (job.german_female if female else job.names.de)

    def item(self, item: Item, form: str) -> str:
        """The forms are those of der, ein, sein (whoever owns it) and er; and "" for the bare noun."""
        gender, noun = item.thing.gender, item.thing.name.de
        stem = item.adjective.words.de if item.adjective else ""
        if form in PRONOUNS:
            return PRONOUNS[form][gender]
        if item.number > 1:  # as a subject or an accusative
            die, ending = ("die", "en") if form in DEFINITE else ("", "e")
            return spaced(die, NUMBERS[item.number], stem and stem + ending, item.thing.plural.de)
        if not form:
            return noun
        if form in DEFINITE:
            articles, endings = DEFINITE[form]
            return spaced(articles[gender], stem and stem + endings[gender], noun)
        article = form[: form.index("ein") + 3]
        articles, endings = ENDINGS[form.removeprefix(article)]
        if article == "sein" and item.owner and item.owner.female:
            article = "ihr"
        return spaced(article + articles[gender], stem and stem + endings[gender], noun)

    def middle(self, event: Event, *, article: str = "einen", leave_out: str = "", then: str = "") -> str:
        """What stands between the two halves of the verb: known things first, then when, where, how, new things."""
        what = self.what(event, article) and event.wording.de_before + self.what(event, article)
        known = article == "den" and isinstance(event.what, Item)
        parts = {
            "whom": self.whom(event, event.wording.de_whom),
            "what": what if known else "",
            "when": then or self.when(event),
            "where": self.where(event, "in "),
            "how": event.how.de if event.how else "",
            "new": "" if known else what,
            "to": self.to(event, "nach "),
        }
        gone = {"where": {"where", "to"}, "what": {"what", "new"}}.get(leave_out, {leave_out})
        return spaced(*(part for name, part in parts.items() if name not in gone))

    def tell(self, event: Event) -> str:
        """The verb is second, whatever comes first."""
        verb, who, middle = agree(event.wording.de_past, event.who), self.who(event, "er"), self.middle(event)
        if event.front:
            who, middle = "", spaced(who, self.middle(event, leave_out=event.front))
        first = {"when": self.when(event), "where": self.where(event, "in ")}.get(event.front, who)
        return spaced(first, verb, middle, event.wording.de_prefix)

    def tell_on(self, event: Event) -> str:
        verb = agree(event.wording.de_past, event.who)
        return f" und {spaced(verb, self.middle(event, then='dann'), event.wording.de_prefix)}"

    def reason(self, event: Event, *, fits: bool) -> str:
        """The verb is last."""
        had = agree("war" if event.wording.de_moves else "hatte", event.who)
        clause = spaced(self.who(event, "er"), self.middle(event), event.wording.de_participle, had)
        return f", {'weil' if fits else 'obwohl'} {clause}"

    def ask(self, event: Event, role: str) -> str:
        """In the perfect, as it is spoken."""
        wording, plural = event.wording, event.who.plural and role != "who"
        have = {(False, False): "hat", (False, True): "haben", (True, False): "ist", (True, True): "sind"}
        word = {
            "who": "wer",
            "what": "was",
            "whom": "wem" if wording.de_whom == "ihm" else "wen",
            "where": "wohin" if event.to else "wo",
            "when": "wann",
        }[role]
        who = "" if role == "who" else self.people(event.who, "")
        middle = self.middle(event, article="den", leave_out=role)
        return spaced(word, have[wording.de_moves, plural], who, middle, wording.de_participle) + "?"

    def full_stop(self, clause: str) -> str:
        return f"{clause}."
