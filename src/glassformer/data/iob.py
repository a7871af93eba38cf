"""Schemes of entity tags, told apart by their use over a whole file, and all turned into IOB2.

IOB2 begins every entity with B-; IOB1 only one that touches another of its type; IOBES, BILOU and BMES also mark
the last word (E, L) and an entity of one word (S, U, W). Tags that are none of these (parts of speech) are plain.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal

Scheme = Literal["IOB1", "IOB2", "IOBES", "BILOU", "BMES", "plain"]
BEGIN, INSIDE, LAST, SINGLE = "B", "IM", "EL", "SUW"


@lru_cache(maxsize=4096)
def split_tag(tag: str) -> tuple[str, str] | None:
    """The letter of a tag and the rest ("-PER", or nothing); None for O and for what is not such a tag."""
    letter, rest = tag[:1], tag[1:]
    known = letter and letter in BEGIN + INSIDE + LAST + SINGLE
    return (letter, rest) if known and (not rest or (rest.startswith("-") and len(rest) > 1)) else None


def detect(sentences: Iterable[Sequence[str]]) -> Scheme:
    """The scheme that the tags of all sentences follow."""
    letters: set[str] = set()
    marked = plain = opens_with_b = opens_with_i = 0
    for tags in sentences:
        before = ""
        for tag in tags:
            parts = split_tag(tag)
            marked += parts is not None
            plain += parts is None and tag != "O"
            letter, rest = parts or ("", "")
            letters.add(letter)
            if parts and before != f"entity{rest}":
                opens_with_b += letter == "B"
                opens_with_i += letter == "I"
            before = f"entity{rest}" if parts else ""
    if plain > marked:
        return "plain"
    if letters & set("LU"):
        return "BILOU"
    if letters & set("ESMW"):
        return "BMES" if "M" in letters else "IOBES"
    return "IOB1" if opens_with_i > opens_with_b else "IOB2"


def to_iob2(tags: Sequence[str], scheme: Scheme) -> tuple[list[str], list[int]]:
    """The tags in IOB2, and the positions of those that were mended: insides with no entity to be inside of."""
    if scheme == "plain":
        return list(tags), []
    found: list[str] = []
    mended: list[int] = []
    open_type: str | None = None
    for position, tag in enumerate(tags):
        parts = split_tag(tag)
        if parts is None:
            found.append(tag)
            open_type = None
            continue
        letter, rest = parts
        continues = letter in INSIDE + LAST and open_type == rest
        if letter in INSIDE + LAST and not continues and scheme != "IOB1":
            mended.append(position)
        found.append(("I" if continues else "B") + rest)
        open_type = None if letter in LAST + SINGLE else rest
    return found, mended
