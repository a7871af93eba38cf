"""T5's pretraining: parts of a text are taken out, and an encoder-decoder writes them.

B batch, N tokens of a block.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from glassformer.data.batches import Indices
from glassformer.data.blocks import Blocks, TokenStream, joined, tokenised
from glassformer.data.corruption import corrupt, draw_spans, num_spans
from glassformer.data.examples import Document
from glassformer.data.ragged import Ragged
from glassformer.data.shards import Shards
from glassformer.files.schema import Positive, Probability, Size
from glassformer.models.contract import Model
from glassformer.text.sentinels import sentinel_ids, sentinel_tokens
from glassformer.text.tokenizer import Tokenizer

from .batch import Batch, OnProgress
from .metrics import ScoreSheet
from .running_text import RunningTextTask, as_text
from .spec import Spec, SpecialIds
from .text_pairs import Translated
from .translation import Text2TextGeneration, Translation

NOTHING = np.zeros(0, np.int64)


@dataclass
class TextBlocks:
    """Blocks of running text, to be corrupted anew each time."""

    blocks: Blocks
    num_truncated: int = 0  # nothing is

    @property
    def lengths(self) -> NDArray[np.int64]:
        return self.blocks.lengths + 1  # the end token


class SpanCorruption(RunningTextTask[TextBlocks]):
    """All documents are one stream, an end token after each, cut into blocks of `block_size` tokens. Of a block a share
    `noise_density` is taken out, in stretches of `mean_noise_span_length` tokens on average, anew in every epoch.

    The model reads the block with a sentinel (<extra_id_0>, <extra_id_1> …) in the place of each stretch, and writes
    each sentinel, its stretch, and a last sentinel. The loss is the cross-entropy over all of what it writes.
    """

    name = "span-corruption"
    head = "text2text-generation"
    vocabulary = "unigram"
    longest = 512
    length_option = "block_size"

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        block_size: Size | None = None,
        noise_density: Probability = 0.15,
        mean_noise_span_length: Positive = 3.0,
        special_ids: SpecialIds | None = None,
    ) -> None:
        """
        Args:
            block_size: Tokens of a block. By default what the model reads, up to 512.
            noise_density: Share of the tokens that are taken out.
            mean_noise_span_length: Tokens of a stretch that is taken out, on average.
        """
        self.tokenizer, self.max_length = tokenizer, block_size
        self.noise: dict[str, float] = {"rate": noise_density, "mean_span": mean_noise_span_length}
        self.sentinels = sentinel_ids(tokenizer)
        self.form = Text2TextGeneration(tokenizer, max_length=block_size, special_ids=special_ids)
        needed = num_spans(max(2, self.size), **self.noise)[1] + 1
        if needed > len(self.sentinels):
            raise ValueError(
                f"block_size={self.size} needs {needed} sentinels and the vocabulary has {len(self.sentinels)}: give "
                "smaller blocks, or a vocabulary with <extra_id_0>, <extra_id_1> …"
            )

    @property
    def size(self) -> int:
        return self.max_length or self.longest

    @property
    def end(self) -> int:
        return self.form.special_ids.ends[0]

    @classmethod
    def spec_of_data(cls, examples: Sequence[Document], **options: Any) -> Spec:
        """The sentinels are part of the vocabulary, whether it was T5's or is learnt here."""
        del examples
        return cls.make_spec(options, special_tokens=sentinel_tokens())

    @classmethod
    def fit_spec(cls, spec: Spec, tokenizer: Tokenizer, model: Model) -> Spec:
        fitted = super().fit_spec(spec, tokenizer, model)
        return replace(fitted, special_ids=SpecialIds.of_model(tokenizer, model))

    @classmethod
    def model_settings(cls, tokenizer: Tokenizer, spec: Spec) -> dict[str, Any]:
        return Translation.model_settings(tokenizer, spec)

    @classmethod
    def from_spec(cls, tokenizer: Tokenizer, spec: Spec) -> Self:
        return cls(tokenizer, block_size=spec.max_length, special_ids=spec.special_ids, **spec.options)

    @property
    def spec(self) -> Spec:
        return replace(super().spec, special_ids=self.form.special_ids)

    def encode(self, examples: Sequence[Document] | Shards) -> TextBlocks:
        """Tokenise documents, once; of shards, documents with their ends are expected."""
        ids: TokenStream = examples if isinstance(examples, Shards) else self._stream(examples)
        return TextBlocks(Blocks(ids, self.size, before=NOTHING, after=NOTHING))

    def _stream(self, examples: Sequence[Document]) -> NDArray[np.int32]:
        return joined(tokenised(self.tokenizer, [one.text for one in examples]), self.end)[1:]

    def stream(self, items: TextBlocks) -> Blocks:
        return items.blocks

    def batch(self, items: TextBlocks, indices: Indices, seed: int = 0) -> Batch:
        """Which parts are taken out depends on the seed and the block alone."""
        found = []
        for index in indices.tolist():
            ids, chance = items.blocks[index], np.random.Generator(np.random.Philox(key=[seed, index]))
            spans = draw_spans(len(ids), chance=chance, **self.noise)
            found.append(corrupt(ids, spans, self.sentinels, self.end))
        sources, targets = (Ragged.of(rows) for rows in zip(*found, strict=True))
        pairs = Translated(sources, targets, [""] * len(found), "", 0)
        return self.form.batch(pairs, np.arange(len(found)))

    def loss(self, model: Model, batch: Batch) -> Tensor:
        return self.form.loss(model, batch)

    def metrics(self, *, keep_examples: bool = False) -> ScoreSheet:
        return self.form.metrics(keep_examples=keep_examples)

    def predict(
        self,
        model: Model,
        inputs: Sequence[object],
        *,
        batch_size: Size | None = None,
        batch_tokens: Size = 4096,
        on_progress: OnProgress | None = None,
        **settings: Any,
    ) -> list[Any]:
        """Settings are generate's.

        Args:
            inputs: A text with sentinels, <extra_id_0> and so on, where something is to be written.

        Returns:
            A dict of generated_text, the text with its gaps filled; a list where num_return_sequences is more than 1.
        """
        texts = [as_text(one) for one in inputs]
        rows = [self.tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
        if wrong := [text for text, row in zip(texts, rows, strict=True) if not {*row} & {*self.sentinels}]:
            raise ValueError(f"{wrong[0][:40]!r} has no sentinel to fill: write <extra_id_0> where words are missing")
        how = {"batch_size": batch_size, "batch_tokens": batch_tokens, "on_progress": on_progress, **settings}
        written = self.form.predict(model, texts, return_tensors=True, **how)
        return [self._filled(row, one) for row, one in zip(rows, written, strict=True)]

    def _filled(self, row: Sequence[int], written: Mapping[str, Any] | list[Mapping[str, Any]]) -> Any:
        if isinstance(written, list):
            return [self._filled(row, one) for one in written]
        spans = self.spans_of(written["generated_token_ids"].tolist())
        ids = [one for token in row for one in (spans.get(token, []) if token in self.sentinels else [token])]
        return {"generated_text": self.tokenizer.decode(ids, skip_special_tokens=True)}

    def spans_of(self, ids: Sequence[int]) -> dict[int, list[int]]:
        """What stands behind each sentinel, up to the next or to the end."""
        known, spans, current = {*self.sentinels}, dict[int, list[int]](), None
        for token in ids:
            if token in known:
                current = spans.setdefault(token, [])
            elif token in self.form.special_ids.ends and spans:
                break
            elif current is not None:
                current.append(token)
        return spans

    def wraps_one(self, found: object, options: Mapping[str, object]) -> bool:
        return self.form.wraps_one(found, options)
