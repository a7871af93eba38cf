"""English: articles, pronouns, word order, questions with "did"."""

from typing import ClassVar

from glassformer.data.microworld.events import Event
from glassformer.data.microworld.voice import Voice
from glassformer.data.microworld.world import Item, Job, Language, People

NUMBERS = {2: "two", 3: "three", 4: "four"}
FEMALE = {"he": "she", "him": "her", "his": "her"}
PLURAL = {"he": "they", "him": "them", "his": "their", "was": "were"}
QUESTION_WORDS = {"what": "what", "whom": "who", "where": "where", "when": "when"}


def with_article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


class English(Voice):
    """The forms asked for are those of a man, of one person, of one thing."""

    language: ClassVar[Language] = "en"

    def people(self, people: People, form: str) -> str:
        if not form:
            return " and ".join(map(self.name, people.members))
        if people.plural:
            return PLURAL[form]
        return FEMALE.get(form, form) if people.female else form

    def job(self, job: Job, form: str) -> str:  # noqa: ARG002
        return with_article(job.names.en)

    def item(self, item: Item, form: str) -> str:
        """The forms are "a", "the", "his" (whoever owns it), "it" and "" (the bare noun)."""
        if form == "it":
            return form
        words = [NUMBERS[item.number]] if item.number > 1 else []
        words += [item.adjective.words.en] if item.adjective else []
        words.append(item.thing.name.en if item.number == 1 else item.thing.plural.en)
        noun = " ".join(words)
        if form == "a" and item.number == 1:
            return with_article(noun)
        article = {"the": "the ", "his": "her " if item.owner and item.owner.female else "his "}.get(form, "")
        return article + noun

    def rest(self, event: Event, *, article: str = "a", leave_out: str = "") -> str:
        """All that follows the verb, but for a part that stands elsewhere or is asked for."""
        parts = {
            "whom": self.whom(event, "him"),
            "what": self.what(event, article),
            "to": self.to(event, "to "),
            "how": event.how.en if event.how else "",
            "where": self.where(event, "in "),
            "when": self.when(event),
        }
        gone = {"where", "to"} if leave_out == "where" else {leave_out}
        return "".join(f" {part}" for name, part in parts.items() if part and name not in gone)

    def tell(self, event: Event) -> str:
        done = f"{self.who(event, 'he')} {event.wording.en_past}{self.rest(event, leave_out=event.front)}"
        if event.front == "when":
            return f"{self.when(event)} {done}"
        return f"{self.where(event, 'in ')}, {done}" if event.front == "where" else done

    def tell_on(self, event: Event) -> str:
        return f" and then {event.wording.en_past}{self.rest(event)}"

    def reason(self, event: Event, *, fits: bool) -> str:
        had = f"{self.who(event, 'he')} had {event.wording.en_participle}"
        return f" {'because' if fits else 'although'} {had}{self.rest(event)}"

    def ask(self, event: Event, role: str) -> str:
        rest = self.rest(event, article="the", leave_out=role)
        if role == "who":
            return f"who {event.wording.en_past}{rest}?"
        return f"{QUESTION_WORDS[role]} did {self.people(event.who, '')} {event.wording.en_base}{rest}?"

    def full_stop(self, clause: str) -> str:
        return f"{clause}."
