"""Token classification: a tag for every word of a sentence, or the entities of a text.

B batch, T length, P targets, C classes.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from glassformer.data.batches import Budget, Indices, in_order
from glassformer.data.conll import read_tagged
from glassformer.data.examples import Tagged
from glassformer.data.report import Read
from glassformer.files import shown
from glassformer.files.schema import Count, Probability, Size
from glassformer.text.backend import Pieces, RustBackend
from glassformer.text.tokenizer import Tokenizer

from .alignment import TaggedTexts, Tokens, aligned, tagged_texts, target_windows, whole
from .grouping import Strategy, Token, entities
from .metrics import Classification, Entities, Interval
from .task import Batch, Task, device_of
from .windows import Frame, Numbers, ragged, tokenised

OUTSIDE = "O"


class AlignmentLine(NamedTuple):
    """A line of the view: what becomes of a token."""

    token: str
    word: str | None  # None for special tokens and for spaces
    label: str | None  # None where it is no target
    target: bool
    window: int


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

    def __init__(
        self,
        tokenizer: Tokenizer,
        labels: Sequence[str],
        *,
        max_length: Size | None = None,
        context: Count = 0,
        label_smoothing: Probability = 0.0,
    ) -> None:
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
        **_: Any,
    ) -> Read[Tagged]:
        return read_tagged(sources, column, word_column=word_column, columns=columns, require_target=require_target)

    @classmethod
    def texts(cls, examples: Iterable[Tagged]) -> Iterator[str]:
        return (" ".join(one.words) for one in examples)

    @classmethod
    def key(cls, example: Tagged) -> str:
        return " ".join(example.words)

    @classmethod
    def labels_in(cls, example: Tagged) -> Collection[str]:
        """The types of its entities: a type that is begun may go on."""
        return {tag.removeprefix("B-").removeprefix("I-") for tag in example.tags or ()}

    @classmethod
    def for_data(cls, tokenizer: Tokenizer, examples: Sequence[Tagged], **options: Any) -> Self:
        return cls(tokenizer, cls.labels_of(examples), **options)

    @classmethod
    def for_model(cls, tokenizer: Tokenizer, model: nn.Module, **options: Any) -> Self:
        config: Any = model.config
        if model.head_name != cls.head:
            raise ValueError(f"the model has the head {model.head_name!r}: load one with the head {cls.head!r}")
        labels = list(config.id2label.values())
        if len(set(labels)) < len(labels):
            raise ValueError(f"the model gives two numbers to one label ({', '.join(labels)}): mend its id2label")
        task = cls(tokenizer, labels, **options)
        task.fit_to(model)
        return task

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

    def settings(self) -> dict[str, Any]:
        return {"labels": self.labels}

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

    def _sentences(self, sentences: Sequence[Sequence[str]]) -> Iterator[Tokens]:
        found = tokenised(self.tokenizer, [" ".join(words) for words in sentences])
        known = (self.tokenizer.unk_token_id, self.tokenizer.pad_token_id, 0)
        nothing = next(index for index in known if index is not None)
        return (aligned(pieces, words, nothing) for pieces, words in zip(found, sentences, strict=True))

    def _rows(self, sentences: Sequence[Tokens], context: int = 0) -> TaggedTexts:
        frame = self.frame
        return tagged_texts(sentences, frame, room=frame.room(self.max_length), context=context)

    def alignment_view(self, example: Tagged) -> list[AlignmentLine]:
        """What becomes of every token of a sentence: its word, and the label it carries if it is a target."""
        (sentence,) = self._sentences([example.words])
        frame, lines = self.frame, []
        found = target_windows(sentence, frame.room(self.max_length))
        for window, ((start, stop), _, firsts) in enumerate(found):
            row, targets = frame.row(sentence.ids[start:stop]), firsts.tolist()
            for place, token in enumerate(self.tokenizer.convert_ids_to_tokens(row)):
                at = place - frame.before(0) + start
                word = int(sentence.words[at]) if start <= at < stop else -1
                label = example.tags[word] if example.tags and at in targets else None
                lines.append(
                    AlignmentLine(token, example.words[word] if word >= 0 else None, label, at in targets, window)
                )
        return lines

    def batch(self, items: TaggedTexts, indices: Indices, seed: int = 0) -> Batch:
        del seed  # nothing is random here
        inputs = items.inputs(indices, self.tokenizer.pad_token_id or 0)
        real = items.places.mask(indices).bool()
        rows = torch.arange(len(indices))[:, None] * inputs["input_ids"].shape[1]
        targets = {"places": (items.places.padded(indices, 0) + rows)[real]}  # (P,) of B · T
        if items.labels is not None:
            targets["labels"] = items.labels.padded(indices, 0)[real]  # (P,)
        return Batch(inputs, targets, count=int(real.sum()), extra={"items": items, "rows": indices})

    def logits(self, model: Any, batch: Batch) -> Tensor:
        """Those of the targets alone: (P, C)."""
        found: Tensor = model(**batch.inputs).logits.flatten(0, 1)
        return found.index_select(0, batch.targets["places"]).float()

    def loss(self, model: Any, batch: Batch) -> Tensor:
        return self.compare(self.logits(model, batch), batch)

    def compare(self, logits: Tensor, batch: Batch) -> Tensor:
        if "labels" not in batch.targets:
            raise ValueError("some of these sentences have no tags: give tags to train with or to compare with")
        return F.cross_entropy(logits, batch.targets["labels"], reduction="sum", label_smoothing=self.label_smoothing)

    def metrics(self, *, keep_examples: bool = False) -> "TaggingMetrics":
        return TaggingMetrics(self, keep_examples=keep_examples)

    @torch.inference_mode()
    def predict(
        self,
        model: Any,
        inputs: Sequence[Any],
        *,
        aggregation_strategy: Strategy = "first",
        ignore_labels: Collection[str] = (OUTSIDE,),
        batch_size: Size | None = None,
        batch_tokens: Size = 4096,
    ) -> list[Any]:
        """For a text its entities with their characters; for a list of words (or Tagged) a dict for every word.

        A text of any length is read whole, in windows. Sub-words that are never targets in training have tags all the
        same; "first", "average" and "max" keep them from breaking up a word.
        """
        given = [text_or_words(one) for one in inputs]
        pieces = tokenised(self.tokenizer, [one for one in given if isinstance(one, str)])
        read = [next(pieces) if isinstance(one, str) else None for one in given]
        split = self._sentences([one for one in given if not isinstance(one, str)])
        sentences = [next(split) if one is None else whole(one) for one in read]
        budget = Budget.of(batch_size, batch_tokens)
        found: list[Any] = []
        for one, text, scores in zip(given, read, self._scores(model, sentences, budget), strict=True):
            if isinstance(one, str):
                assert text is not None
                tokens = self._tokens(one, text, scores)
                chosen = entities(tokens, self.labels, aggregation_strategy, ignored=ignore_labels, join=self._join)
                found.append(chosen)
            else:
                found.append([self._tag(*word) for word in zip(range(len(one)), one, scores, strict=True)])
        return found

    def _scores(self, model: Any, sentences: Sequence[Tokens], budget: Budget) -> list[NDArray[np.float32]]:
        """The share of every class, for every target of every sentence."""
        items = self._rows(sentences)
        scores = [np.zeros((size, len(self.labels)), np.float32) for size in items.sizes.tolist()]
        for indices in in_order(items.lengths, budget):
            batch = self.batch(items, indices).to(device_of(model))
            found = self.logits(model, batch).softmax(-1).cpu().numpy()
            parts = np.split(found, items.places.lengths[indices].cumsum()[:-1])
            for row, part in zip(indices.tolist(), parts, strict=True):
                scores[items.owners[row]][items.words[row]] = part
        return scores

    def _tokens(self, text: str, pieces: Pieces, scores: NDArray[np.float32]) -> list[Token]:
        before, unknown = self.frame.before(0), self.tokenizer.unk_token_id
        names = self.tokenizer.convert_ids_to_tokens(pieces.ids)
        found = []
        for place, (start, end) in enumerate(pieces.offsets):
            name = text[start:end] if pieces.ids[place] == unknown else names[place]
            found.append(Token([name], before + place, start, end, pieces.words[place], scores[place]))
        return found

    def _tag(self, index: int, word: str, scores: NDArray[np.float32]) -> dict[str, Any]:
        return {"entity": self.labels[scores.argmax()], "score": float(scores.max()), "index": index, "word": word}

    def _join(self, tokens: list[str]) -> str:
        backend = self.tokenizer.backend
        decoder = backend.rust.decoder if isinstance(backend, RustBackend) else None
        return str(decoder.decode(tokens)) if decoder is not None else " ".join(tokens)


class TaggingMetrics:
    """Scores of entities, strict and by conlleval, or of plain tags; and the loss.

    A sentence in several windows is counted when the last of them has come: only such sentences are kept till then.
    """

    def __init__(self, task: TokenClassification, *, keep_examples: bool) -> None:
        self.task: TokenClassification | None = task
        self.labels = task.labels
        self.loss, self.count = 0.0, 0
        self.parts: dict[int, NDArray[np.int64]] = {}  # sentence -> (2, words): guessed and true, -1 for not yet
        self.scores: Entities | Classification
        if task.has_entities:
            self.scores = Entities(keep_examples=keep_examples)
        else:
            self.scores = Classification(task.labels, keep_examples=keep_examples)

    def update(self, model: Any, batch: Batch) -> None:
        assert self.task is not None
        logits = self.task.logits(model, batch)
        self.loss += float(self.task.compare(logits, batch))
        self.count += batch.count
        tags = torch.stack([logits.argmax(-1), batch.targets["labels"]]).cpu().numpy()  # (2, P)
        if isinstance(self.scores, Classification):
            self.scores.update(tags[0], tags[1])
            return
        items, rows = batch.extra["items"], batch.extra["rows"]
        parts = np.split(tags, items.places.lengths[rows].cumsum()[:-1], axis=1)
        for row, part in zip(rows.tolist(), parts, strict=True):
            owner = int(items.owners[row])
            sentence = np.full((2, items.sizes[owner]), -1)
            sentence[:, items.words[row]] = part
            self._add(owner, sentence)

    def _add(self, owner: int, sentence: NDArray[np.int64]) -> None:
        """Count a sentence that is whole, keep one that is not."""
        assert isinstance(self.scores, Entities)
        sentence = np.maximum(sentence, self.parts.pop(owner, sentence))
        if (sentence < 0).any():
            self.parts[owner] = sentence
        else:
            guessed, true = ([self.labels[number] for number in row] for row in sentence.tolist())
            self.scores.update([guessed], [true])

    def merge(self, other: Self) -> None:
        self.loss += other.loss
        self.count += other.count
        self.scores.merge(other.scores)  # type: ignore[arg-type]
        for owner, sentence in other.parts.items():
            self._add(owner, sentence)

    def compute(self) -> dict[str, float]:
        return {"loss": self.loss / max(1, self.count), **self.scores.compute()}

    def intervals(self) -> dict[str, Interval]:
        return self.scores.intervals()

    def report(self) -> dict[str, dict[str, float]]:
        """Each type of entity, or each tag, by itself."""
        return self.scores.report()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "task": None}  # the tokenizer stays behind


def is_iob(tag: str) -> bool:
    """Whether a tag is O, or begins or goes on with an entity."""
    return tag == OUTSIDE or tag in ("B", "I") or tag[:2] in ("B-", "I-")


def text_or_words(given: Any) -> str | list[str]:
    """A text, or the words of one."""
    match given:
        case str():
            return given
        case Tagged():
            return list(given.words)
        case [*words] if all(isinstance(word, str) for word in words):
            return words
    raise ValueError(f"a text or a list of words is wanted, not {given!r}")
