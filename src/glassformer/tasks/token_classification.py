"""Token classification: a tag for every word of a sentence, or the entities of a text.

B batch, T length, P targets, C classes.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from glassformer.data.batches import Budget, Indices
from glassformer.data.conll import read_tagged
from glassformer.data.examples import Tagged
from glassformer.data.input_rows import WordsColumn
from glassformer.data.report import Read
from glassformer.files import shown
from glassformer.files.schema import Count, Probability, Size
from glassformer.models.contract import Model, label_names
from glassformer.text.tokenizer import Tokenizer

from .alignment import (
    SentenceTokens,
    TaggedTexts,
    WindowedEntities,
    aligned,
    tagged_texts,
    whole,
)
from .batch import Batch, OnProgress, device_of, predict_in_batches
from .grouping import Strategy, entities, joined, scored_tokens, tagged_words, text_or_words
from .metrics import Classification, MeanLoss, ScoreSheet
from .spec import Spec
from .task import Task
from .windows import Frame, Numbers, ragged, tokenised

OUTSIDE = "O"


class TokenClassification(Task[Tagged, TaggedTexts]):
    """The loss is cross-entropy over the words.

    Words to sub-words: a sentence is read as its words with spaces between them. The first sub-word of a word carries
    its label; the other sub-words, special tokens, context and padding are no targets. Targets are listed by place,
    so that no token's value decides. A word that the tokenizer makes nothing of is read as one unknown token.

    A sentence longer than max_length is read in windows that overlap by a quarter. Each word is a target in one window,
    the one where it has most text on both sides, so every word has one prediction.

    With `context`, so many sentences before and after, as the file has them, are read around a sentence, as far as they
    fit. This concerns `encode`; `predict` takes each input as if alone.
    """

    name = "token-classification"
    head = "token-classification"
    input_columns = WordsColumn()

    def __init__(
        self,
        tokenizer: Tokenizer,
        labels: Sequence[str],
        *,
        max_length: Size | None = None,
        context: Count = 0,
        label_smoothing: Probability = 0.0,
    ) -> None:
        """
        Args:
            max_length: Tokens of a window; a longer sentence has several. By default what the model reads, up to 1024.
            context: Sentences before and after that are read around each, as far as they fit; 0 for none.
        """
        if context < 0:
            raise ValueError(f"context={context}: give 0 or more sentences")
        self.tokenizer, self.labels = tokenizer, list(labels)
        self.max_length, self.context, self.label_smoothing = max_length, context, label_smoothing
        self.has_entities = all(map(is_iob, self.labels))
        self.metric = "f1" if self.has_entities else "accuracy"

    @classmethod
    def read(
        cls,
        sources: Sequence[str],
        *,
        columns: Mapping[str, str] | None = None,
        column: int = -1,
        word_column: int = 0,
        require_target: bool = True,
        **_: object,
    ) -> Read[Tagged]:
        """
        Args:
            columns: Of a table: which column is the list of words, and which the list of tags.
            column: Of a CoNLL file: the column of tags, from 0; -1 is the last.
            word_column: Of a CoNLL file: the column of words, from 0.
        """
        return read_tagged(sources, column, word_column=word_column, columns=columns, require_target=require_target)

    @classmethod
    def labels_in(cls, example: Tagged) -> Collection[str]:
        """The types of its entities: a type that is begun may go on."""
        return {tag.removeprefix("B-").removeprefix("I-") for tag in example.tags or ()}

    @classmethod
    def spec_of_data(cls, examples: Sequence[Tagged], **options: Any) -> Spec:
        return cls.make_spec(options, labels=tuple(cls.labels_of(examples)))

    @classmethod
    def spec_of_model(cls, tokenizer: Tokenizer, model: Model, **options: Any) -> Spec:
        del tokenizer
        cls.check_head(model)
        labels = tuple(label_names(model.config))
        if len(set(labels)) < len(labels):
            raise ValueError(f"the model gives two numbers to one label ({', '.join(labels)}): mend its id2label")
        return cls.make_spec(options, labels=labels)

    @classmethod
    def from_spec(cls, tokenizer: Tokenizer, spec: Spec) -> Self:
        return cls(tokenizer, spec.labels, max_length=spec.max_length, **spec.options)

    @classmethod
    def model_settings(cls, tokenizer: Tokenizer, spec: Spec) -> dict[str, Any]:
        del tokenizer
        return {"labels": list(spec.labels)}

    @property
    def spec(self) -> Spec:
        return replace(super().spec, labels=tuple(self.labels))

    @classmethod
    def labels_of(cls, examples: Iterable[Tagged]) -> list[str]:
        """O, then the tags in the order of their names; a type that is begun may go on, so it has B- and I-."""
        found = {tag for one in examples for tag in one.tags or ()}
        if len(found) < 2:
            only = f"only the tag {next(iter(found))!r}" if found else "no tag"
            raise ValueError(f"the training data has {only}; it takes two tags or more to learn from")
        if all(map(is_iob, found)):
            found |= {letter + tag[1:] for tag in found if tag != OUTSIDE for letter in "BI"}
        return sorted(found, key=lambda tag: (tag != OUTSIDE, tag))

    @property
    def frame(self) -> Frame:
        return Frame(self.tokenizer, pair=False)

    def encode(self, examples: Sequence[Tagged]) -> TaggedTexts:
        items = self._rows(list(self._sentences([one.words for one in examples])), self.context)
        if all(one.tags is not None for one in examples):
            numbers = self._numbers(examples)
            labels = [numbers[owner][items.words[row]] for row, owner in enumerate(items.owners.tolist())]
            items.labels = ragged(labels)
        return items

    def _numbers(self, examples: Sequence[Tagged]) -> list[Numbers]:
        number = {label: place for place, label in enumerate(self.labels)}
        unknown = sorted({tag for one in examples for tag in one.tags or ()} - set(number))
        if unknown:
            raise ValueError(
                f"tag {shown(unknown[0])} is not one of the model's ({', '.join(self.labels[:20])[:400]}); "
                "it is missing in the training data, or the wrong column was taken"
            )
        for one in examples:
            if len(one.tags or ()) != len(one.words):
                raise ValueError(f"{len(one.words)} words but {len(one.tags or ())} tags: {' '.join(one.words)[:60]!r}")
        return [np.array([number[tag] for tag in one.tags or ()], np.int64) for one in examples]

    def _sentences(self, sentences: Sequence[Sequence[str]]) -> Iterator[SentenceTokens]:
        found = tokenised(self.tokenizer, [" ".join(words) for words in sentences])
        known = (self.tokenizer.unk_token_id, self.tokenizer.pad_token_id, 0)
        nothing = next(index for index in known if index is not None)
        return (aligned(pieces, words, nothing) for pieces, words in zip(found, sentences, strict=True))

    def _rows(self, sentences: Sequence[SentenceTokens], context: int = 0, overlap: int | None = None) -> TaggedTexts:
        frame = self.frame
        capacity = frame.capacity(self.max_length)
        if overlap is not None and overlap >= capacity:
            raise ValueError(f"stride={overlap}: a window has {capacity} tokens; give fewer")
        return tagged_texts(sentences, frame, capacity=capacity, context=context, overlap=overlap)

    def batch(self, items: TaggedTexts, indices: Indices, seed: int = 0) -> Batch:
        del seed  # nothing is random here
        inputs = items.inputs(indices, self.tokenizer.pad_token_id or 0)
        real = items.places.mask(indices).bool()
        rows = torch.arange(len(indices))[:, None] * inputs["input_ids"].shape[1]
        targets = {"places": (items.places.padded(indices, 0) + rows)[real]}  # (P,) of B · T
        if items.labels is not None:
            targets["labels"] = items.labels.padded(indices, 0)[real]  # (P,)
        return Batch(inputs, targets, count=int(real.sum()), extra={"items": items, "rows": indices})

    def logits(self, model: Model, batch: Batch) -> Tensor:
        """Those of the targets alone: (P, C)."""
        found: Tensor = model(**batch.inputs).logits.flatten(0, 1)
        return found.index_select(0, batch.targets["places"]).float()

    def loss(self, model: Model, batch: Batch) -> Tensor:
        return self.compare(self.logits(model, batch), batch)

    def compare(self, logits: Tensor, batch: Batch) -> Tensor:
        if "labels" not in batch.targets:
            raise ValueError("some of these sentences have no tags: give tags to train with or to compare with")
        return F.cross_entropy(logits, batch.targets["labels"], reduction="sum", label_smoothing=self.label_smoothing)

    def metrics(self, *, keep_examples: bool = False) -> ScoreSheet:
        """Scores of entities, strict and by conlleval, or of plain tags; and the loss."""
        loss, entities = MeanLoss(), WindowedEntities(self.labels, keep_examples=keep_examples)
        tags = Classification(self.labels, keep_examples=keep_examples)

        def update(model: Model, batch: Batch) -> None:
            logits = self.logits(model, batch)
            loss.update(float(self.compare(logits, batch)), batch.count)
            found = torch.stack([logits.argmax(-1), batch.targets["labels"]]).cpu().numpy()  # (2, P)
            if self.has_entities:
                entities.update_windows(found, batch.extra["items"], batch.extra["rows"])
            else:
                tags.update(found[0], found[1])

        return ScoreSheet(update, loss=loss, scores=entities if self.has_entities else tags)

    @torch.inference_mode()
    def predict(
        self,
        model: Model,
        inputs: Sequence[object],
        *,
        aggregation_strategy: Strategy = "none",
        ignore_labels: Collection[str] = (OUTSIDE,),
        grouped_entities: bool | None = None,
        ignore_subwords: bool | None = None,
        stride: Count | None = None,
        batch_size: Size | None = None,
        batch_tokens: Size = 4096,
        on_progress: OnProgress | None = None,
    ) -> list[Any]:
        """A text of any length is read whole, in windows. Sub-words that are never targets in training have tags all
        the same; the strategies first, average and max keep them from breaking up a word.

        Args:
            inputs: A text, or a list of words (or Tagged).
            aggregation_strategy: How tokens are joined to entities: not at all, neighbours of a type, or whole words.
            ignore_labels: Tags that are not given.
            grouped_entities: An old name: true is the strategy simple.
            ignore_subwords: An old name: with grouped_entities, the strategy first.
            stride: Tokens that windows of a long text share; by default a quarter of one.

        Returns:
            A list of dicts of entity, score, index, word, start and end; joined: entity_group, and no index. Of words,
            a dict for each.
        """
        if grouped_entities is not None or ignore_subwords is not None:
            aggregation_strategy = ("first" if ignore_subwords else "simple") if grouped_entities else "none"
        given = [text_or_words(one) for one in inputs]
        pieces = tokenised(self.tokenizer, [one for one in given if isinstance(one, str)])
        read = [next(pieces) if isinstance(one, str) else None for one in given]
        split = self._sentences([one for one in given if not isinstance(one, str)])
        sentences = [next(split) if one is None else whole(one) for one in read]
        budget = Budget.of(batch_size, batch_tokens)
        scores_of = self._scores(model, self._rows(sentences, overlap=stride), budget, on_progress)
        found: list[Any] = []
        for one, text, scores in zip(given, read, scores_of, strict=True):
            if isinstance(one, str):
                assert text is not None
                tokens = scored_tokens(one, text, scores, tokenizer=self.tokenizer, before=self.frame.before(0))
                join = partial(joined, self.tokenizer)
                found.append(entities(tokens, self.labels, aggregation_strategy, ignored=ignore_labels, join=join))
            else:
                found.append(tagged_words(one, self.labels, scores))
        return found

    def _scores(
        self, model: Model, items: TaggedTexts, budget: Budget, on_progress: OnProgress | None
    ) -> list[NDArray[np.float32]]:
        """The share of every class, for every target of every sentence."""

        def predict(indices: Indices) -> list[NDArray[np.float32]]:
            batch = self.batch(items, indices).to(device_of(model))
            found = self.logits(model, batch).softmax(-1).cpu().numpy()
            return np.split(found, items.places.lengths[indices].cumsum()[:-1])

        scores = [np.zeros((size, len(self.labels)), np.float32) for size in items.sizes.tolist()]
        for row, part in enumerate(predict_in_batches(items.lengths, budget, predict, on_progress)):
            scores[items.owners[row]][items.words[row]] = part
        return scores


def is_iob(tag: str) -> bool:
    """Whether a tag is O, or begins or goes on with an entity."""
    return tag == OUTSIDE or tag in ("B", "I") or tag[:2] in ("B-", "I-")
