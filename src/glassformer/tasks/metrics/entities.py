"""Scores of named entities: tags read strictly, and as the CoNLL shared tasks' script reads them.

Both count an entity as found when its type and both of its ends are right. They differ on tags that break IOB2:
- strictly (as seqeval's strict mode), an entity opens with B- and goes on with I- of its type; an I- that follows
  anything else belongs to no entity;
- conlleval lets such an I- open an entity of its own.
So `O I-PER I-PER` is nothing strictly and one person to conlleval; `B-PER I-LOC` is a person, and to conlleval also
a place. On well-formed tags they agree.
"""

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np

from glassformer.tasks.metrics.metric import Array, Metric, f1_table

Entity = tuple[str, int, int]  # type, first word, word after the last
NAMES = ("precision", "recall", "f1")


def strict_entities(tags: Sequence[str]) -> set[Entity]:
    """The entities of a sentence in IOB2, where an I- that continues nothing is passed over."""
    return _entities(tags, lenient=False)


def conlleval_entities(tags: Sequence[str]) -> set[Entity]:
    """The entities of a sentence by the rules of conlleval, where an I- that continues nothing opens one."""
    return _entities(tags, lenient=True)


class Entities(Metric):
    """Precision, recall and F1 of entities, strict and by conlleval (*_conlleval), and the accuracy of tags."""

    def __init__(self, *, keep_examples: bool = False) -> None:
        self.types: dict[str, Array] = {}  # type -> (2, 3): the two readings; found, predicted, gold
        super().__init__(np.zeros(8), keep_examples=keep_examples)  # the same six, then right tags and all tags

    def update(self, predicted: Iterable[Sequence[str]], gold: Iterable[Sequence[str]]) -> None:
        """The tags of sentences, a tag for every word."""
        rows = [self._count(guess, truth) for guess, truth in zip(predicted, gold, strict=True)]
        self._add(np.array(rows))

    def merge(self, other: "Entities") -> None:
        """Count what another metric has counted, too."""
        super().merge(other)
        for kind, counts in other.types.items():
            self.types[kind] = self.types.get(kind, 0) + counts

    def report(self, *, conlleval: bool = False) -> dict[str, dict[str, float]]:
        """Precision, recall, F1 and support (how many there are) of every type, in one of the two readings."""
        found = {}
        for kind in sorted(self.types):
            counts = self.types[kind][int(conlleval)]
            found[kind] = {**dict(zip(NAMES, f1_table(*counts).tolist(), strict=True)), "support": float(counts[2])}
        return found

    def _count(self, predicted: Sequence[str], gold: Sequence[str]) -> list[int]:
        if len(predicted) != len(gold):
            raise ValueError(
                f"a sentence of {len(gold)} words has {len(predicted)} predicted tags; give each word one, O for none"
            )
        row: list[int] = []
        for reading, read in enumerate((strict_entities, conlleval_entities)):
            guessed, true = read(predicted), read(gold)
            for place, entities in enumerate((guessed & true, guessed, true)):
                row.append(len(entities))
                for kind, _, _ in entities:
                    self.types.setdefault(kind, np.zeros((2, 3)))[reading, place] += 1
        return [*row, sum(map(str.__eq__, predicted, gold)), len(gold)]

    def _scores(self, total: Array) -> dict[str, float]:
        strict, conlleval = (f1_table(*counts).tolist() for counts in (total[:3], total[3:6]))
        return {
            **dict(zip(NAMES, strict, strict=True)),
            **{f"{name}_conlleval": score for name, score in zip(NAMES, conlleval, strict=True)},
            "accuracy": float(total[6] / max(total[7], 1)),
        }


def _entities(tags: Sequence[str], *, lenient: bool) -> set[Entity]:
    found: set[Entity] = set()
    open_type: str | None = None
    start = 0
    for place, tag in enumerate(chain(tags, ["O"])):
        prefix, _, kind = tag.partition("-")
        if prefix not in ("B", "I", "O"):
            raise ValueError(f"the tag {tag!r} is not IOB2; give O, B-TYPE or I-TYPE")
        if prefix == "I" and kind == open_type:
            continue
        if open_type is not None:
            found.add((open_type, start, place))
        opens = prefix == "B" or (prefix == "I" and lenient)
        open_type, start = (kind, place) if opens else (None, place)
    return found
