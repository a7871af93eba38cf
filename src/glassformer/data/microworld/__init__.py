"""The micro-world: people, places, things and feelings in English, German and Chinese, as examples of every kind.

The same seed gives the same examples on every machine, and the first of many are the few. Seeds that differ modulo 3,
such as 0, 1 and 2, have no example in common: one is for training, the others to be judged by. Its words are in
`texts/`.
"""

from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from glassformer.data.examples import Asked, Document, Labelled, Parallel, Tagged

from . import kinds
from .chinese import Chinese
from .english import English
from .german import German
from .grammar import Grammar
from .questions import sample_question
from .stable_random import StableRandom

__all__ = ["KINDS", "examples"]

Example = Labelled | Tagged | Asked | Parallel | Document
KINDS: dict[str, Callable[..., Example]] = {
    "labelled": kinds.labelled,
    "scored": kinds.scored,
    "multi-label": kinds.multi_label,
    "tagged": kinds.tagged,
    "asked": sample_question,
    "parallel": kinds.parallel,
    "documents": kinds.documents,
}
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
) -> list[Any]:
    """So many different examples of a kind (see KINDS), the same for the same seed.

    labelled: tone of a sentence; scored: pairs and their likeness from 0 to 1; multi-label: topics; tagged: names in
    IOB2; asked: questions with spans, some with none; parallel: translations, from `source` to `target` or with a
    language like "en-zh"; documents: little stories, whose paragraphs are lines.
    """
    if kind not in KINDS:
        raise ValueError(f"kind={kind!r} is not of the micro-world: use one of {', '.join(KINDS)}")
    languages = sides(language, source, target) if kind == "parallel" else (language,)
    grammars = [grammar_of(one) for one in languages]
    found: dict[Example, int] = {}
    draw = tried = 0
    while len(found) < count:
        example = KINDS[kind](StableRandom(seed, kind, draw), *grammars)
        draw += 1
        if (key := key_of(example)) and share_of(key) != seed % SHARES:
            continue
        tried = tried + 1 if example in found else 0
        if tried == PATIENCE:
            raise ValueError(f"count={count}: the micro-world has no more than {len(found)} different {kind} examples")
        found.setdefault(example, len(found))
    return [
        replace(one, id=f"{language}-{seed}-{number}") if isinstance(one, Asked) else one
        for one, number in found.items()
    ]


def key_of(example: Example) -> str | None:
    """What is shared out among seeds, for short sentences come again under another seed; None for pairs, contexts and
    stories, which are so many that they need not be."""
    match example:
        case Labelled(pair=None):
            return example.text
        case Tagged():
            return " ".join(example.words)
        case Parallel():
            return example.source
    return None


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
