"""Texts as a tokenizer leaves them: rows of ids, segments where the model takes them, and what was cut.

B batch, T length.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from glassformer.data.batches import Indices
from glassformer.data.ragged import Ragged
from glassformer.text.encoding import Encoding
from glassformer.text.tokenizer import Tokenizer

LOG = logging.getLogger("glassformer")
CHUNK = 10_000  # texts tokenised at a time


@dataclass
class EncodedTexts:
    """A split of texts, or of pairs of texts."""

    rows: Ragged
    segments: Ragged | None
    num_truncated: int  # tokens lost to truncation

    @classmethod
    def of(
        cls,
        tokenizer: Tokenizer,
        texts: Sequence[str],
        pairs: Sequence[str | None] | None = None,
        max_length: int | None = None,
    ) -> "EncodedTexts":
        """Tokenise, truncating to max_length; the preflight says how much was cut, so the tokenizer need not.

        Of `pairs`, the second texts, None is for a text that stands alone.
        """
        ids, segments, num_truncated = dict[int, list[int]](), dict[int, list[int]](), 0
        second = [None] * len(texts) if pairs is None else pairs
        for alone in (True, False):
            places = [place for place, one in enumerate(second) if (one is None) == alone]
            some, others = [texts[place] for place in places], [second[place] or "" for place in places]
            rows, types = list[list[int]](), list[list[int]]()
            for found in encodings(tokenizer, some, None if alone else others, max_length=max_length):
                rows += found["input_ids"]
                types += found.get("token_type_ids", [])
                num_truncated += sum(found.num_truncated)
            ids |= zip(places, rows, strict=True)
            segments |= zip(places, types, strict=False)  # which not every model has a use for
        ordered, typed = ([table[place] for place in sorted(table)] for table in (ids, segments))
        return cls(Ragged.of(ordered), Ragged.of(typed) if typed else None, num_truncated)

    @property
    def lengths(self) -> NDArray[np.int64]:
        return self.rows.lengths

    def inputs(self, indices: Indices, pad: int) -> dict[str, Tensor]:
        """The model's keyword arguments, (B, T) each."""
        inputs = {"input_ids": self.rows.padded(indices, pad), "attention_mask": self.rows.mask(indices)}
        if self.segments is not None:
            inputs["token_type_ids"] = self.segments.padded(indices, 0)
        return inputs


def encodings(
    tokenizer: Tokenizer,
    texts: Sequence[str],
    pairs: Sequence[str] | None = None,
    *,
    max_length: int | None,
    target: bool = False,
    add_special_tokens: bool = True,
) -> Iterator[Encoding]:
    """Texts truncated to max_length, many at a time and without a word on truncation; `target`: of the other side."""
    for start in range(0, len(texts), CHUNK):
        some, second = list(texts[start : start + CHUNK]), None if pairs is None else list(pairs[start : start + CHUNK])
        sides = {"text_target": some} if target else {"texts": some, "pairs": second}
        with quiet():
            found = tokenizer(**sides, truncation=True, max_length=max_length, add_special_tokens=add_special_tokens)
        yield found


@contextmanager
def quiet() -> Iterator[None]:
    """Keeps the tokenizer's own word on truncation out of the way."""
    was, LOG.disabled = LOG.disabled, True
    try:
        yield
    finally:
        LOG.disabled = was
