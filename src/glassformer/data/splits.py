"""Which split an example belongs to: its text decides, so that no text is ever on two sides.

A text is hashed to a number from 0 to 1 that is its own, whatever its neighbours: test is below `test`, dev below
`test + dev`, the rest is train. Texts that differ only in case or blanks count as equal.
"""

import logging
import random
from collections.abc import Callable, Collection, Iterable, Sequence
from hashlib import blake2b
from typing import Generic, NamedTuple, TypeVar

LOG = logging.getLogger("glassformer")

E = TypeVar("E")
Labels = Callable[[E], Collection[str]]  # those of an example


class HashSplits(NamedTuple, Generic[E]):
    """Examples by split, each in the order they came in."""

    train: list[E]
    dev: list[E]
    test: list[E]


def split_by_hash(
    examples: Sequence[E], key: Callable[[E], str], *, dev: float = 0.1, test: float = 0.0
) -> HashSplits[E]:
    """Shares of about `dev` and `test`, and the rest; examples with equal keys stay together.

    The same example is in the same split however many others there are, with one exception: in a set so small that
    a split would be empty, the text nearest to its border is moved in. Two different texts are enough for a dev set.
    """
    if not (dev >= 0 and test >= 0 and dev + test < 1):
        raise ValueError(f"dev={dev} and test={test}: give shares from 0 on that leave some examples to train with")
    places = {text: place_of(text) for text in {plain(key(example)) for example in examples}}
    low, high = borders(sorted(places.values()), dev, test) if places else (0.0, 0.0)
    splits: HashSplits[E] = HashSplits([], [], [])
    for example in examples:
        place = places[plain(key(example))]
        side = splits.test if place < low else splits.dev if place < high else splits.train
        side.append(example)
    LOG.info("split by hash: %s for training, %s for dev, %s for test", *map(len, splits))
    return splits


class RebalancedSplits(NamedTuple, Generic[E]):
    """Two sides of a split, and the labels for which a text has changed sides."""

    train: list[E]
    dev: list[E]
    labels: list[str]


def keep_labels(train: list[E], dev: list[E], key: Callable[[E], str], labels_in: Labels[E]) -> RebalancedSplits[E]:
    """Have every label in training: where all texts of one are held out, the one nearest to the border changes sides.

    Examples with equal keys stay together. Nothing changes where training has all labels.
    """
    known = {label for one in train for label in labels_in(one)}
    found: dict[str, set[str]] = {}  # the labels of each text
    for one in dev:
        found.setdefault(plain(key(one)), set()).update(labels_in(one))
    texts: dict[str, list[str]] = {}  # the texts of each label that training has not
    for text, labels in found.items():
        for label in labels - known:
            texts.setdefault(label, []).append(text)
    moved: set[str] = set()
    for label in sorted(texts):
        if label not in known:  # nor came with another
            moved.add(text := max(texts[label], key=place_of))
            known |= found[text]
    sides: tuple[list[E], list[E]] = [], []
    for one in dev:
        sides[plain(key(one)) in moved].append(one)
    return RebalancedSplits([*train, *sides[True]], sides[False], sorted(texts))


def draw(examples: Sequence[E], count: int, labels_in: Labels[E], *, seed: int = 0) -> list[E]:
    """So many of the examples, in their order; of every label there is one, if they are enough for that."""
    drawn = random.Random(seed).sample(range(len(examples)), count)  # files are often sorted by label
    known: set[str] = set()
    first: list[int] = []  # of each label
    for place in (*drawn, *range(len(examples))):
        if not known.issuperset(labels := labels_in(examples[place])):
            known.update(labels)
            first.append(place)
    chosen = list(dict.fromkeys([*first, *drawn]))[:count]
    return [examples[place] for place in sorted(chosen)]


def borders(places: Sequence[float], dev: float, test: float) -> tuple[float, float]:
    """The first place that is not test's, and the first that is train's; no split is empty that need not be."""
    count = len(places)
    wants_dev = dev > 0 and count >= 2
    wants_test = test > 0 and count >= 2 + wants_dev
    in_test = min(max(sum(place < test for place in places), wants_test), count - 1 - wants_dev)
    held_out = min(max(sum(place < test + dev for place in places), in_test + wants_dev), count - 1)
    return places[in_test], places[held_out]


def plain(text: str) -> str:
    """A text without what makes no difference: case, and how much blank there is."""
    return " ".join(text.casefold().split())


def place_of(text: str) -> float:
    """A text's own number from 0 to 1."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big") / 2**64


def overlap(one: Iterable[str], other: Iterable[str]) -> int:
    """How many texts of the other set are in this one, too."""
    known = {plain(text) for text in one}
    return sum(plain(text) in known for text in other)


def repeats(texts: Iterable[str]) -> int:
    """How many texts of a set have come before in it."""
    plain_texts = [plain(text) for text in texts]
    return len(plain_texts) - len(set(plain_texts))
