"""What articles are about, found by counting words, to judge by how labels are chosen that nobody has trained."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from math import log
from random import Random

WORD = re.compile(r"[A-Za-z]+")
MOST = 8  # topics of an article
TIMES = 4  # that a topic occurs in its article at least
SHARE = 0.25  # of the articles that may hold it
NAME = 0.3  # share of a word's occurrences that have a capital, if it is a name
LETTERS = 4  # of a topic at least
CANDIDATES = 4


def topics_of(articles: Sequence[Sequence[str]]) -> list[list[str]]:
    """Of each article, given by its paragraphs, the words that are frequent in it and rare elsewhere, without names."""
    words = [[word for text in paragraphs for word in WORD.findall(text)] for paragraphs in articles]
    counts = [Counter(map(str.lower, some)) for some in words]
    holding = Counter(word for one in counts for word in one)
    seen = Counter(word.lower() for some in words for word in some)
    capitals = Counter(word.lower() for some in words for word in some if word[0].isupper())
    found = []
    for one in counts:
        rank = {
            word: count * log(len(articles) / holding[word])
            for word, count in one.items()
            if count >= TIMES
            and len(word) >= LETTERS
            and holding[word] <= SHARE * len(articles)
            and capitals[word] < NAME * seen[word]
        }
        found.append(sorted(rank, key=lambda word: (-rank[word], word))[:MOST])
    return found


def choices(articles: Sequence[Sequence[str]], count: int, rng: Random) -> Iterator[dict[str, object]]:
    """So many paragraphs, each with a topic of its article and others, of which none is in it, to choose from."""
    found = topics_of(articles)
    pool = sorted({topic for topics in found for topic in topics})
    able = [(paragraphs, topics) for paragraphs, topics in zip(articles, found, strict=True) if topics]
    for paragraphs, topics in rng.choices(able, [len(paragraphs) for paragraphs, _ in able], k=count):
        there = set(map(str.lower, WORD.findall(" ".join(paragraphs))))
        topic, others = rng.choice(topics), rng.sample([word for word in pool if word not in there], CANDIDATES - 1)
        yield {"text": rng.choice(paragraphs), "label": topic, "labels": rng.sample([topic, *others], CANDIDATES)}
