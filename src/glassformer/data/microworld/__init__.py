"""The micro-world: people, places, things and feelings in English, German and Chinese, as examples of every kind.

The same seed gives the same examples on every machine, and the first of many are the few. Seeds that differ modulo 3,
such as 0, 1 and 2, have no example in common: one is for training, the others to be judged by. Its words are in
`texts/`.
"""

from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from glassformer.data.examples import Document, Labelled, Parallel, SquadExample, Tagged

from . import kinds
from .chinese import Chinese
from .english import English
from .german import German
from .grammar import Grammar
from .questions import sample_question, sample_short_question
from .stable_random import StableRandom

__all__ = ["KINDS", "examples"]

Example = Labelled | Tagged | SquadExample | Parallel | Document
KINDS: dict[str, Callable[..., Example]] = {
    "labelled": kinds.labelled,
    "scored": kinds.scored,
    "multi-label": kinds.multi_label,
    "tagged": kinds.tagged,
    "asked": sample_question,
    "parallel": kinds.parallel,
    "documents": kinds.documents,
    "nli": kinds.nli,
    "summaries": kinds.summaries,
}
SHORT_KINDS = {
    "asked": sample_short_question,
    "documents": kinds.single_sentence,
    "summaries": kinds.short_summary,
}
MAX_WORDS = 8  # of a short sentence
GRAMMARS: dict[str, Grammar] = {"en": English(), "de": German(), "zh": Chinese()}
SHARES = 3  # for training, development and test
PATIENCE = 1000  # draws in a row that give nothing new, before the world is taken to be exhausted


def examples(
    kind: str,
    count: int,
    *,
    seed: int = 0,
    language: str = "en",
    source: str | None = None,
    target: str | None = None,
    short: bool = False,
) -> list[Any]:
    """So many different examples of a kind (see KINDS), the same for the same seed.

    labelled: tone of a sentence; scored: pairs and their likeness from 0 to 1; multi-label: topics; tagged: names in
    IOB2; asked: questions with spans, some with none; parallel: translations, from `source` to `target` or with a
    language like "en-zh"; documents: little stories, whose paragraphs are lines; nli: a premise, a hypothesis, and
    whether it follows; summaries: what several people did, and what the first of them did, in few words. `short`:
    sentences of at most eight words, two of them as the context of a question, one as a document; a small model
    learns these in seconds.
    """
    if kind not in KINDS:
        raise ValueError(f"kind={kind!r} is not of the micro-world: use one of {', '.join(KINDS)}")
    languages = sides(language, source, target) if kind == "parallel" else (language,)
    grammars = [grammar_of(one) for one in languages]
    sample = SHORT_KINDS.get(kind, KINDS[kind]) if short else KINDS[kind]
    found: dict[Example, int] = {}
    draw = tried = 0
    while len(found) < count:
        example = sample(StableRandom(seed, kind, draw), *grammars)
        draw += 1
        sentences = sentences_of(example)
        if len(sentences) == 1 and share_of(sentences[0]) != seed % SHARES:
            continue
        if short and any(words_in(one, languages[0]) > MAX_WORDS for one in sentences):
            continue
        tried = tried + 1 if example in found else 0
        if tried == PATIENCE:
            raise ValueError(f"count={count}: the micro-world has no more than {len(found)} different {kind} examples")
        found.setdefault(example, len(found))
    return [
        replace(one, id=f"{language}-{seed}-{number}") if isinstance(one, SquadExample) else one
        for one, number in found.items()
    ]


def sentences_of(example: Example) -> list[str]:
    """The sentences of an example; none where it is a context or a story.

    A single sentence comes again under another seed, so these are shared out among seeds; pairs, contexts and stories
    are so many that they need not be.
    """
    match example:
        case Labelled():
            return [text for text in (example.text, example.pair) if text]
        case Tagged():
            return [" ".join(example.words)]
        case Parallel():
            return [example.source]
        case Document() if "\n" not in example.text:
            return [example.text]
    return []


def words_in(text: str, language: str) -> int:
    """How many words a text has; two Chinese characters are about a word."""
    return len(text.replace(" ", "")) // 2 if language == "zh" else len(text.split())


def share_of(text: str) -> int:
    """Which seeds a text belongs to."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") % SHARES


def sides(language: str, source: str | None, target: str | None) -> tuple[str, str]:
    """The two languages of a translation; from English it is into German, and from others into English."""
    first, _, second = language.partition("-")
    source = source or first
    target = target or second or ("de" if source == "en" else "en")
    if source == target:
        raise ValueError(f"source and target are both {source!r}: give two languages")
    return source, target


def grammar_of(language: str) -> Grammar:
    if language not in GRAMMARS:
        raise ValueError(f"language={language!r} is not spoken in the micro-world: use one of {', '.join(GRAMMARS)}")
    return GRAMMARS[language]
