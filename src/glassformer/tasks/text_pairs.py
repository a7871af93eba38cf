"""Pairs of texts, a source and its target, in tokens; how target tokens are scored.

N pairs, R real target tokens, V target vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from glassformer.data.batches import Indices
from glassformer.data.examples import Parallel
from glassformer.data.ragged import Ragged
from glassformer.generate.result import Generated
from glassformer.text.bpe_dropout import NO_WORD, BpeDropout
from glassformer.text.tokenizer import Tokenizer

from .batch import Batch
from .encoded import encodings
from .metrics import Likelihood
from .running_text import as_text
from .spec import SpecialIds

BUCKET = 16  # sources whose lengths are rounded up to the same multiple may grow equally long targets


class PairWords(NamedTuple):
    """Which word each token of a source and of its target belongs to, NO_WORD for special ones."""

    sources: Ragged
    targets: Ragged


@dataclass
class Translated:
    """Encoded pairs of texts."""

    sources: Ragged
    targets: Ragged | None  # with the end token; None where they are to be written
    references: list[str]
    score_tokenizer: str
    num_truncated: int
    words: PairWords | None = None  # known where pairs are cut into other pieces each time
    lengths: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self.lengths = self.sources.lengths
        if self.targets is not None:
            self.lengths = np.maximum(self.lengths, self.targets.lengths)

    def cut_anew(
        self, cut: BpeDropout, indices: Indices, longest: tuple[int | None, int | None], seed: int
    ) -> "Translated":
        """Some pairs by themselves, with their words cut into other pieces; `longest`: tokens of each side."""
        assert self.words is not None
        assert self.targets is not None
        limit, target_limit = longest
        return Translated(
            cut_anew(cut, self.sources, self.words.sources, indices, max_length=limit, seed=f"{seed} source"),
            cut_anew(cut, self.targets, self.words.targets, indices, max_length=target_limit, seed=f"{seed} target"),
            [self.references[place] for place in indices.tolist()],
            self.score_tokenizer,
            num_truncated=0,
        )


def encode_sources(
    tokenizer: Tokenizer, texts: Sequence[str], ids: SpecialIds, *, max_length: int | None, special: bool = True
) -> tuple[Ragged, int]:
    """Rows as `generate` makes them, and how many tokens they lost; a text of no token still has its first."""
    found = list(encodings(tokenizer, texts, max_length=max_length, add_special_tokens=special))
    rows = (row or [ids.first] for one in found for row in one["input_ids"])
    return Ragged.of(rows), sum(sum(one.num_truncated) for one in found)


def encode_targets(
    tokenizer: Tokenizer, texts: Sequence[str], ids: SpecialIds, *, before: Sequence[int], max_length: int | None
) -> tuple[Ragged, int]:
    """Rows that begin with `before` and end, unless they were cut, and how many tokens they lost."""
    longest = None if max_length is None else max_length - len(before) - 1
    found = list(encodings(tokenizer, texts, max_length=longest, target=True, add_special_tokens=False))
    pairs = [pair for one in found for pair in zip(one["input_ids"], one.num_truncated, strict=True)]
    rows = ([*before, *row, *(() if lost else ids.ends[:1])] for row, lost in pairs)
    return Ragged.of(rows), sum(lost for _, lost in pairs)


def words_of(
    tokenizer: Tokenizer, texts: Sequence[str], rows: Ragged, *, max_length: int | None, before: int | None = None
) -> Ragged:
    """The word that each token of these rows belongs to; of targets, whose rows begin with `before` special tokens."""
    left = max_length if before is None or max_length is None else max_length - before - 1
    target = before is not None
    found = encodings(tokenizer, texts, max_length=left, target=target, add_special_tokens=not target)
    listed: list[list[int]] = [
        [NO_WORD] * (before or 0) + [NO_WORD if word is None else word for word in one.word_ids(row)]
        for one in found
        for row in range(len(one["input_ids"]))
    ]
    return Ragged.of(
        words + [NO_WORD] * (int(length) - len(words)) for words, length in zip(listed, rows.lengths, strict=True)
    )


def cut_anew(
    cut: BpeDropout, rows: Ragged, words: Ragged, indices: Indices, *, max_length: int | None, seed: str
) -> Ragged:
    """Some rows, their words cut by a chance of each row's own; one that would be too long stays as it was."""
    found = []
    for place in indices.tolist():
        new = cut.row(rows[place].tolist(), words[place].tolist(), Random(f"{seed} {place}"))
        found.append(new if max_length is None or len(new) <= max_length else rows[place].tolist())
    return Ragged.of(found)


def score_targets(likelihood: Likelihood, logits: Tensor, batch: Batch) -> None:
    """Enter the logits (R, V) of real target tokens, example by example."""
    labels, rows = batch.targets["labels"], batch.targets["rows"]
    losses, right = F.cross_entropy(logits, labels, reduction="none"), logits.argmax(-1) == labels
    none = torch.zeros(len(batch.inputs["input_ids"]), dtype=torch.float64, device=rows.device)
    loss, correct = (none.index_add(0, rows, each.double()) for each in (losses, right))
    likelihood.update(loss, rows.bincount(minlength=len(none)), correct=correct)


def as_source(given: object) -> str:
    """A text, or a dict with text, as Hugging Face takes them."""
    return given.source if isinstance(given, Parallel) else as_text(given)


def written_texts(
    tokenizer: Tokenizer,
    found: Tensor | Generated,
    start: int,
    *,
    name: str,
    tensors: bool = False,
    clean: bool | None = None,
) -> list[dict[str, Any]]:
    """What `generate` gives as dicts: with the text from the column `start` on under NAME_text or, with `tensors`, all
    ids under NAME_token_ids; and, where it is known, the score. `clean`: no space before punctuation."""
    ids = found.sequences if isinstance(found, Generated) else found
    if tensors:
        listed: list[dict[str, Any]] = [{f"{name}_token_ids": row} for row in ids.cpu()]
    else:
        rows = ids[:, start:].tolist()
        texts = tokenizer.batch_decode(rows, skip_special_tokens=True, clean_up_tokenization_spaces=clean)
        listed = [{f"{name}_text": text} for text in texts]
    if isinstance(found, Generated):
        for one, score in zip(listed, found.sequences_scores.tolist(), strict=True):
            one["score"] = score
    return listed


def rounded_up(length: int) -> int:
    """The length of a bucket's longest sources."""
    return BUCKET * -(-length // BUCKET)
