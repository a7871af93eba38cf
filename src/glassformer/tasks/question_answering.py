"""Question answering: the span of a context that answers a question, or none.

B batch, T length.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassformer.data.batches import Budget, Indices, in_order
from glassformer.data.examples import Asked
from glassformer.data.report import Read
from glassformer.data.squad import read_asked
from glassformer.files.schema import Count, Size
from glassformer.text.tokenizer import Tokenizer

from .metrics import Answers, Interval
from .spans import AskedTexts, Context, Reading, Row, answer_tokens, asked_texts, readings, window_rows
from .task import Batch, Task, device_of
from .windows import Frame, tokenised

LOG = logging.getLogger("glassformer")


class QuestionAnswering(Task[Asked, AskedTexts]):
    """The loss of a window is the mean of two cross-entropies over its tokens: where the answer begins, where it ends.

    A context that does not fit beside its question is read in windows; neighbours share doc_stride tokens, so that an
    answer that one cuts is whole in the next. A window that does not hold the whole answer (of several, the first) has
    its first token, [CLS], for both targets, as has every window of a question without an answer. So a window learns to
    say that it has no answer, which is what makes windows comparable; therefore it is done for SQuAD 1 as well.

    The best answer has the highest sum of scores at its ends, over all windows; no answer has the sum at [CLS], the
    lowest of all windows. Where there may be none, it is chosen if its sum is more than null_threshold higher. There
    may be none in `predict` if asked for, and in `metrics` if some question of the data has none.
    """

    name = "question-answering"
    head = "question-answering"
    metric = "f1"
    longest = 384

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        max_length: Size | None = None,
        doc_stride: Count = 128,
        max_question_length: Size = 64,
        max_answer_length: Size = 30,
        null_threshold: float = 0.0,
    ) -> None:
        """Lengths in tokens. A question is cut at max_question_length, or at half of a row; never a context."""
        for name, value in (("max_question_length", max_question_length), ("max_answer_length", max_answer_length)):
            if value < 1:
                raise ValueError(f"{name}={value}: give 1 token or more")
        if doc_stride < 0:
            raise ValueError(f"doc_stride={doc_stride}: give 0 tokens or more")
        if Frame(tokenizer, pair=True).template[0].text is not None:
            raise ValueError(
                "this tokenizer puts no [CLS] before two texts, for questions without an answer to point at: "
                "take one of the BERT family's, or train one of kind 'wordpiece'"
            )
        self.tokenizer, self.max_length, self.doc_stride = tokenizer, max_length, doc_stride
        self.max_question_length, self.max_answer_length = max_question_length, max_answer_length
        self.null_threshold = null_threshold

    @classmethod
    def read(
        cls,
        sources: Sequence[str],
        *,
        columns: Mapping[str, str] | None = None,
        require_target: bool = True,
        **_: Any,
    ) -> Read[Asked]:
        return read_asked(sources, columns, require_target=require_target)

    @classmethod
    def texts(cls, examples: Iterable[Asked]) -> Iterator[str]:
        context = None
        for one in examples:
            yield one.question
            if one.context != context:  # the questions of a context follow each other
                yield one.context
            context = one.context

    @classmethod
    def key(cls, example: Asked) -> str:
        return example.context

    @classmethod
    def for_data(cls, tokenizer: Tokenizer, examples: Sequence[Asked], **options: Any) -> Self:
        if not any(one.answers for one in examples):
            raise ValueError("no question of the training data has an answer; some must, to learn from")
        return cls(tokenizer, **options)

    @classmethod
    def for_model(cls, tokenizer: Tokenizer, model: nn.Module, **options: Any) -> Self:
        if model.head_name != cls.head:
            raise ValueError(f"the model has the head {model.head_name!r}: load one with the head {cls.head!r}")
        return super().for_model(tokenizer, model, **options)

    def encode(self, examples: Sequence[Asked]) -> AskedTexts:
        frame = Frame(self.tokenizer, pair=True)
        room = frame.room(self.max_length or self.longest)
        if room < 2:
            raise ValueError(f"max_length={self.max_length} has no room for a question and a context: raise it")
        known = self._contexts(examples)
        questions = tokenised(self.tokenizer, [one.question for one in examples])
        rows: list[Row] = []
        cut = lost = 0
        for owner, (one, question) in enumerate(zip(examples, questions, strict=True)):
            context = known[one.context]
            found = (answer_tokens(context, answer) for answer in one.answers)
            answer = next((tokens for tokens in found if tokens is not None), None)
            lost += bool(one.answers) and answer is None
            ids = np.array(question.ids[: min(self.max_question_length, room // 2)], np.int64)
            cut += len(question.ids) - len(ids)
            rows += window_rows(owner, ids, context, answer, frame=frame, room=room, overlap=self.doc_stride)
        if lost:
            LOG.warning("%s questions have answers that are no tokens: they are taken to have none", lost)
        contexts = [known[one.context] for one in examples]
        return asked_texts(examples, contexts, rows, segments=frame.segments, cut=cut)

    def _contexts(self, examples: Sequence[Asked]) -> dict[str, Context]:
        """The tokens of each different context."""
        texts = list(dict.fromkeys(one.context for one in examples))
        found = {}
        for text, pieces in zip(texts, tokenised(self.tokenizer, texts), strict=True):
            starts, ends = np.array(pieces.offsets, np.int64).reshape(-1, 2).T
            found[text] = Context(np.array(pieces.ids, np.int64), starts, ends)
        return found

    def batch(self, items: AskedTexts, indices: Indices, seed: int = 0) -> Batch:
        del seed  # nothing is random here
        start, end = torch.from_numpy(items.targets[indices]).unbind(1)
        inputs = items.inputs(indices, self.tokenizer.pad_token_id or 0)
        return Batch(inputs, {"start": start, "end": end}, count=len(indices), extra={"items": items, "rows": indices})

    def scores(self, model: Any, batch: Batch) -> tuple[Tensor, Tensor]:
        """Of every token as the answer's first and as its last: (B, T) each, -inf for padding."""
        out = model(**batch.inputs)
        padding = ~batch.inputs["attention_mask"].bool().to(out.start_logits.device)
        start, end = (logits.float().masked_fill(padding, -inf) for logits in (out.start_logits, out.end_logits))
        return start, end

    def loss(self, model: Any, batch: Batch) -> Tensor:
        return self.compare(*self.scores(model, batch), batch)

    def compare(self, start: Tensor, end: Tensor, batch: Batch) -> Tensor:
        starts = F.cross_entropy(start, batch.targets["start"], reduction="sum")
        return (starts + F.cross_entropy(end, batch.targets["end"], reduction="sum")) / 2

    def metrics(self, *, keep_examples: bool = False) -> "AnswerMetrics":
        return AnswerMetrics(self, keep_examples=keep_examples)

    @torch.inference_mode()
    def predict(
        self,
        model: Any,
        inputs: Sequence[Any],
        *,
        top_k: Size = 1,
        max_answer_length: Size | None = None,
        handle_impossible_answer: bool = False,
        null_threshold: float | None = None,
        batch_size: Size | None = None,
        batch_tokens: Size = 4096,
    ) -> list[Any]:
        """A dict of score, start, end and answer for each question, the likeliest; a list of top_k if more than 1.

        The score is the probability of both ends among the tokens of all windows. With handle_impossible_answer, no
        answer is one of the answers, with an empty text.
        """
        if top_k < 1:
            raise ValueError(f"top_k={top_k}: give 1 or more")
        if max_answer_length is not None and max_answer_length < 1:
            raise ValueError(f"max_answer_length={max_answer_length}: give 1 token or more")
        items = self.encode([as_asked(one) for one in inputs])
        longest = max_answer_length or self.max_answer_length
        threshold = self.null_threshold if null_threshold is None else null_threshold
        found = [Reading(top_k) for _ in inputs]
        for indices in in_order(items.lengths, Budget.of(batch_size, batch_tokens)):
            scores = self.scores(model, self.batch(items, indices).to(device_of(model)))
            for owner, one in readings(items, indices, *scores, keep=top_k, longest=longest):
                found[owner].merge(one)
        answers = [_as_dicts(one, threshold if handle_impossible_answer else None) for one in found]
        return [one[0] for one in answers] if top_k == 1 else answers


class AnswerMetrics:
    """Exact match and F1 of the best answer over all windows of each question, and the loss of a window.

    It keeps one answer for each question, and scores them when asked to.
    """

    def __init__(self, task: QuestionAnswering, *, keep_examples: bool) -> None:
        self.task: QuestionAnswering | None = task
        self.threshold, self.keep_examples = task.null_threshold, keep_examples
        self.loss, self.count = 0.0, 0
        self.found: dict[int, Reading] = {}
        self.gold: dict[int, list[str]] = {}

    def update(self, model: Any, batch: Batch) -> None:
        assert self.task is not None
        start, end = self.task.scores(model, batch)
        self.loss += float(self.task.compare(start, end, batch))
        self.count += batch.count
        items, rows = batch.extra["items"], batch.extra["rows"]
        for owner, one in readings(items, rows, start, end, keep=1, longest=self.task.max_answer_length):
            self.found.setdefault(owner, Reading(1)).merge(one)
            self.gold[owner] = [answer.text for answer in items.examples[owner].answers]

    def merge(self, other: Self) -> None:
        self.loss += other.loss
        self.count += other.count
        self.gold |= other.gold
        for owner, one in other.found.items():
            self.found.setdefault(owner, Reading(1)).merge(one)

    def scores(self) -> Answers:
        """The answers judged; whether there may be none, the whole of the data says."""
        threshold = None if all(self.gold.values()) else self.threshold
        predicted = [one.ranked(threshold)[0].text for one in self.found.values()]
        sheet = Answers(keep_examples=self.keep_examples)
        sheet.update(predicted, [self.gold[owner] for owner in self.found])
        return sheet

    def compute(self) -> dict[str, float]:
        return {"loss": self.loss / max(1, self.count), **self.scores().compute()}

    def intervals(self) -> dict[str, Interval]:
        return self.scores().intervals()

    def report(self) -> dict[str, dict[str, float]]:
        """Nothing: answers have no classes."""
        return {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "task": None}  # the tokenizer stays behind


def _as_dicts(reading: Reading, threshold: float | None) -> list[dict[str, Any]]:
    return [
        {"score": reading.share(one), "start": one.start, "end": one.end, "answer": one.text}
        for one in reading.ranked(threshold)
    ]


def as_asked(given: Any) -> Asked:
    """A question and its context: a dict of both, as Hugging Face takes it, or a pair."""
    match given:
        case Asked():
            return given
        case {"question": str(question), "context": str(context)} | (str(question), str(context)):
            return Asked("", question, context)
    raise ValueError(f"a dict with 'question' and 'context', or a pair of them, is wanted, not {given!r}")
