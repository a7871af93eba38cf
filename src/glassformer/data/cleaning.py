"""A corpus made clean: what is too short or long, in another language or there already is left out, and counted."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .duplicates import NearDuplicates, Signature, check_threshold, digest, signature
from .examples import Document
from .language import LANGUAGES, language_of, words_of

COPY, ALIKE = "duplicate", "near duplicate"


@dataclass(frozen=True, kw_only=True)
class Cleaning:
    """What may stay."""

    min_words: int = 1
    max_words: int | None = None
    languages: tuple[str, ...] = ()
    """Codes; none: any language."""
    exact: bool = True
    """Leave out what has the same words as a document before it."""
    near: float | None = None
    """Leave out what is so alike to one before it; None: do not look."""

    def __post_init__(self) -> None:
        if self.min_words < 1 or (self.max_words is not None and self.max_words < self.min_words):
            raise ValueError(f"words from {self.min_words} to {self.max_words}: give 1 <= min-words <= max-words")
        if self.near is not None:
            check_threshold(self.near)
        if unknown := [code for code in self.languages if code not in LANGUAGES]:
            raise ValueError(f"language {unknown[0]!r} is not told from others; those that are: {', '.join(LANGUAGES)}")


class SeenDocuments:
    """What was there so far: the digests of all documents, and the signatures of those that stayed."""

    def __init__(self, wanted: Cleaning) -> None:
        self.digests = set[bytes]()
        self.near = None if wanted.near is None else NearDuplicates(wanted.near)

    def is_copy(self, digest: bytes) -> bool:
        """Whether a document has the words of one before it; if not, it is remembered."""
        known = digest in self.digests
        self.digests.add(digest)
        return known

    def is_alike(self, signature: Signature) -> bool:
        """Whether it is too alike to one before it; if not, it is remembered."""
        assert self.near is not None
        known = signature in self.near
        if not known:
            self.near.add(signature)
        return known


class Cleaner:
    """Documents in, those that stay out; `left_out` counts the others by reason, and `kept` those that stay."""

    def __init__(self, wanted: Cleaning) -> None:
        self.wanted = wanted
        self.kept = 0
        self.left_out: Counter[str] = Counter()

    def __call__(self, documents: Iterable[Document]) -> Iterator[tuple[Document, str | None]]:
        """Each document of a corpus, and why it is left out; None for one that stays."""
        for one, reason in self.judged(documents):
            if reason is None:
                self.kept += 1
            else:
                self.left_out[reason] += 1
            yield one, reason

    def judged(self, documents: Iterable[Document]) -> Iterator[tuple[Document, str | None]]:
        """The same, not counted; the cheapest questions come first."""
        seen = SeenDocuments(self.wanted)
        for one in documents:
            reason = unfit(one.text, self.wanted)
            if reason is None and self.wanted.exact and seen.is_copy(digest(one.text)):
                reason = COPY
            if reason is None and seen.near is not None and seen.is_alike(signature(one.text)):
                reason = ALIKE
            yield one, reason


def unfit(text: str, wanted: Cleaning) -> str | None:
    """Why a text is left out whatever stands before it."""
    words = len(words_of(text))
    if words < wanted.min_words:
        return "too short"
    if wanted.max_words is not None and words > wanted.max_words:
        return "too long"
    if wanted.languages and language_of(text) not in wanted.languages:
        return "another language"
    return None
