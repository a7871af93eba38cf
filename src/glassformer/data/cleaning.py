"""A corpus made clean: what is too short or long, in another language or there already is left out, and counted."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .duplicates import NearDuplicates, SeenTexts
from .examples import Document
from .language import LANGUAGES, language_of, words_of


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
        if unknown := [code for code in self.languages if code not in LANGUAGES]:
            raise ValueError(f"language {unknown[0]!r} is not told from others; those that are: {', '.join(LANGUAGES)}")


class Cleaner:
    """Documents in, those that stay out; `left_out` counts the others by reason, and `kept` those that stay."""

    def __init__(self, wanted: Cleaning) -> None:
        self.wanted = wanted
        self.kept = 0
        self.left_out: Counter[str] = Counter()
        self._seen = SeenTexts() if wanted.exact else None
        self._near = None if wanted.near is None else NearDuplicates(wanted.near)

    def __call__(self, documents: Iterable[Document]) -> Iterator[tuple[Document, str | None]]:
        """Each document, and why it is left out; None for one that stays."""
        for one in documents:
            reason = self._reason(one.text)
            if reason is None:
                self.kept += 1
            else:
                self.left_out[reason] += 1
            yield one, reason

    def _reason(self, text: str) -> str | None:
        """The cheapest questions first; a text that is left out for one is not remembered by the next."""
        wanted, words = self.wanted, len(words_of(text))
        if words < wanted.min_words:
            return "too short"
        if wanted.max_words is not None and words > wanted.max_words:
            return "too long"
        if wanted.languages and language_of(text) not in wanted.languages:
            return "another language"
        if self._seen is not None and not self._seen.is_new(text):
            return "duplicate"
        if self._near is not None and not self._near.is_new(text):
            return "near duplicate"
        return None
