"""Alignments against those that people made: their files, and the alignment error rate (Och and Ney 2003).

M target words, N source words; words are what stands between spaces.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from glassformer.jobs.align import Aligned

WordLink = tuple[int, int]
"""A source word and a target word, counted from 0."""
LINK = re.compile(r"(\d+)([-p?])(\d+)")


@dataclass(frozen=True)
class GoldAlignment:
    """Links of a pair of sentences: those that must be there, and all that may."""

    sure: frozenset[WordLink]
    possible: frozenset[WordLink]


def read_gold(path: Path) -> list[GoldAlignment]:
    """A file with a line for each pair: `0-0 1-2 2p3`, source-target; `p` or `?` for a link that is only possible."""
    if not path.is_file():
        raise ValueError(f"{path} is not there; gold is a file of alignments, a line for each pair of the test data")
    return [
        _links(line, f"{path}, line {n}") for n, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    ]


def _links(line: str, place: str) -> GoldAlignment:
    found: dict[str, set[WordLink]] = {"-": set(), "p": set()}
    for one in line.split():
        link = LINK.fullmatch(one)
        if link is None:
            raise ValueError(f"{place}: {one!r} is no link; write 0-1 for source word 0 and target word 1, or 0p1")
        found["-" if link[2] == "-" else "p"].add((int(link[1]), int(link[3])))
    return GoldAlignment(frozenset(found["-"]), frozenset(found["-"] | found["p"]))


def check_gold(gold: Sequence[GoldAlignment], pairs: Sequence[tuple[str, str]]) -> None:
    """Refuse alignments of other pairs."""
    if len(gold) != len(pairs):
        raise ValueError(f"gold has {len(gold)} lines for {len(pairs)} pairs; it needs one for each")
    for number, (one, (source, target)) in enumerate(zip(gold, pairs, strict=True), 1):
        sizes = len(source.split()), len(target.split())
        for link in one.possible:
            if link[0] >= sizes[0] or link[1] >= sizes[1]:
                raise ValueError(
                    f"gold, line {number}: the link {link[0]}-{link[1]} is outside a source of {sizes[0]} words and a "
                    f"target of {sizes[1]}; words are counted from 0"
                )


def between_spaces(aligned: Aligned, source: str, target: str) -> Aligned:
    """The same with words that stand between spaces: what a tokenizer had parted is joined again."""
    read, written = _joined(aligned.source, source), _joined(aligned.target, target)  # (N', N), (M', M)
    lookers = written / np.maximum(1, written.sum(1, keepdims=True))
    return Aligned(source.split(), target.split(), lookers @ aligned.weights @ read.T)


def _joined(parts: Sequence[str], text: str) -> NDArray[np.float64]:
    """(words, parts): 1 where a part begins in a word."""
    starts = [word.start() for word in re.finditer(r"\S+", text)]
    found, last = np.zeros((len(starts), len(parts))), 0
    for number, part in enumerate(parts):
        place = text.find(part, last)
        place, last = (last, last) if place < 0 else (place, place + len(part))
        found[max(0, int(np.searchsorted(starts, place, side="right")) - 1), number] = 1.0
    return found


def links_of(aligned: Aligned) -> set[WordLink]:
    """Of each target word, the source word that it looks at most."""
    return {(link.source, link.target) for link in aligned.links()}


def alignment_error(found: Iterable[set[WordLink]], gold: Iterable[GoldAlignment]) -> float:
    """1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|) over all pairs: 0 where A holds what is sure and nothing impossible."""
    hits = total = 0
    for links, one in zip(found, gold, strict=True):
        hits += len(links & one.sure) + len(links & one.possible)
        total += len(links) + len(one.sure)
    return 1 - hits / total if total else 0.0
