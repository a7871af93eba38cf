"""Chinese: measure words; the order who, when, where, how, verb; 了 for what is done, 是…的 to ask about it."""

from collections.abc import Iterable
from typing import ClassVar

from glassformer.data.microworld.events import Event
from glassformer.data.microworld.voice import Voice
from glassformer.data.microworld.world import Item, Job, Language, People, Portion

NUMBERS = {1: "一", 2: "两", 3: "三", 4: "四"}
QUESTION_WORDS = {"what": "什么", "whom": "谁", "where": "在哪里", "when": "什么时候", "to": "哪里"}


class Chinese(Voice):
    """The forms asked for are those of a man, of one person, of one thing."""

    language: ClassVar[Language] = "zh"
    gap: ClassVar[str] = ""

    def join_names(self, names: Iterable[str]) -> str:
        return "·".join(names)

    def people(self, people: People, form: str) -> str:
        if not form:
            return "和".join(map(self.name, people.members))
        return ("她" if people.female else "他") + ("们" if people.plural else "")

    def job(self, job: Job, form: str) -> str:  # noqa: ARG002
        return job.names.zh

    def item(self, item: Item, form: str) -> str:
        """The forms are "一" (some), "那" (the one that is known), "他的" (whoever owns it) and "" (the bare noun)."""
        noun, measure = item.thing.name.zh, item.thing.plural.zh
        described = (item.adjective.words.zh if item.adjective else "") + noun
        if form == "一":
            return NUMBERS[item.number] + measure + described
        if form == "那":
            return "那" + (NUMBERS[item.number] if item.number > 1 else "") + measure + described
        if form == "他的":
            owner = "她" if item.owner and item.owner.female else "他"
            return f"{owner}那{measure}{described}" if item.adjective else f"{owner}的{noun}"
        return noun

    def portion(self, portion: Portion, form: str) -> str:
        """Without 一 and the measure word where it is known: 一杯茶, 茶."""
        phrase = portion.words.zh
        return phrase[2:] if form == "那" and phrase.startswith("一") else phrase

    def parts(self, event: Event, article: str = "一") -> dict[str, str]:
        """Each part of an event in its own words."""
        where = self.where(event, "")
        return {
            "when": self.when(event),
            "where": where and f"在{where}",
            "how": event.how.zh if event.how else "",
            "what": self.what(event, article),
            "whom": self.whom(event, "他"),
            "to": self.to(event, ""),
        }

    def tell(self, event: Event) -> str:
        parts, who = self.parts(event), self.who(event, "他")
        before = {name: parts[name] for name in ("when", "where", "how")}
        first = f"{before.pop(event.front)}，" if event.front else ""
        return first + who + "".join(before.values()) + event.wording.zh.format(**parts)

    def tell_on(self, event: Event) -> str:
        parts = self.parts(event)
        return f"，然后{parts['where']}{parts['how']}{event.wording.zh.format(**parts)}"

    def reason(self, event: Event, *, fits: bool) -> str:
        parts, who = self.parts(event), self.who(event, "他")
        return f"，{'因为' if fits else '尽管'}{who}{parts['where']}{parts['how']}{event.wording.zh.format(**parts)}"

    def ask(self, event: Event, role: str) -> str:
        asked = "to" if role == "where" and event.to else role
        parts = self.parts(event, "那") | {asked: QUESTION_WORDS.get(asked, "")}
        before = parts["when"] + parts["where"] + parts["how"]
        who = "谁" if role == "who" else self.people(event.who, "")
        if asked in ("when", "where"):
            return f"{who}是{before}{event.wording.zh_bare.format(**parts)}的？"
        return f"{who}{before}{event.wording.zh.format(**parts)}？"

    def full_stop(self, clause: str) -> str:
        return f"{clause}。"
