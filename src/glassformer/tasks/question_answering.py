"""Question answering: the span of a context that answers a question, or none.

B batch, T length.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from math import inf
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.data.batches import Budget, Indices
from glassformer.data.examples import SquadExample
from glassformer.data.input_rows import QuestionColumns
from glassformer.data.report import Read
from glassformer.data.squad import read_asked
from glassformer.files.schema import Count, Size
from glassformer.models.contract import Model
from glassformer.text.tokenizer import Tokenizer

from .batch import Batch, OnProgress, device_of, predict_in_batches
from .metrics import Answers, DeferredMetric, MeanLoss, ScoreSheet
from .spans import (
    AnswerCandidates,
    AskedTexts,
    Context,
    WindowRow,
    answer_candidates,
    answer_tokens,
    asked_texts,
    window_rows,
)
from .spec import Spec
from .task import Task
from .windows import Frame, tokenised

LOG = logging.getLogger("glassformer")


class QuestionAnswering(Task[SquadExample, AskedTexts]):
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
    input_columns = QuestionColumns()

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
        """
        Args:
            max_length: Tokens of a window: question, context, special. By default what the model reads, up to 384.
            doc_stride: Tokens that two windows of a long context share, so that no answer is cut in both.
            max_question_length: Tokens of a question at most; a longer one is cut, a context never.
            max_answer_length: Tokens of an answer at most.
            null_threshold: How much higher no answer must score than the best one to be chosen.
        """
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
        **_: object,
    ) -> Read[SquadExample]:
        """
        Args:
            columns: Of a table: which column is the question, the context and the answers.
        """
        return read_asked(sources, columns, require_target=require_target)

    @classmethod
    def texts(cls, examples: Iterable[SquadExample]) -> Iterator[str]:
        context = None
        for one in examples:
            yield one.question
            if one.context != context:  # the questions of a context follow each other
                yield one.context
            context = one.context

    @classmethod
    def spec_of_data(cls, examples: Sequence[SquadExample], **options: Any) -> Spec:
        if not any(one.answers for one in examples):
            raise ValueError("no question of the training data has an answer; some must, to learn from")
        return cls.make_spec(options)

    @classmethod
    def spec_of_model(cls, tokenizer: Tokenizer, model: Model, **options: Any) -> Spec:
        cls.check_head(model)
        return super().spec_of_model(tokenizer, model, **options)

    def encode(self, examples: Sequence[SquadExample]) -> AskedTexts:
        frame = Frame(self.tokenizer, pair=True)
        capacity = frame.capacity(self.max_length or self.longest)
        if capacity < 2:
            raise ValueError(f"max_length={self.max_length} has no room for a question and a context: raise it")
        known = self._contexts(examples)
        questions = tokenised(self.tokenizer, [one.question for one in examples])
        rows: list[WindowRow] = []
        num_truncated = lost = 0
        for owner, (one, question) in enumerate(zip(examples, questions, strict=True)):
            context = known[one.context]
            found = (answer_tokens(context, answer) for answer in one.answers)
            answer = next((tokens for tokens in found if tokens is not None), None)
            lost += bool(one.answers) and answer is None
            ids = np.array(question.ids[: min(self.max_question_length, capacity // 2)], np.int64)
            num_truncated += len(question.ids) - len(ids)
            rows += window_rows(owner, ids, context, answer, frame=frame, capacity=capacity, overlap=self.doc_stride)
        if lost:
            LOG.warning("%s questions have answers that are no tokens: they are taken to have none", lost)
        contexts = [known[one.context] for one in examples]
        return asked_texts(examples, contexts, rows, segments=frame.segments, num_truncated=num_truncated)

    def _contexts(self, examples: Sequence[SquadExample]) -> dict[str, Context]:
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

    def scores(self, model: Model, batch: Batch) -> tuple[Tensor, Tensor]:
        """Of every token as the answer's first and as its last: (B, T) each, -inf for padding."""
        out = model(**batch.inputs)
        padding = ~batch.inputs["attention_mask"].bool().to(out.start_logits.device)
        start, end = (logits.float().masked_fill(padding, -inf) for logits in (out.start_logits, out.end_logits))
        return start, end

    def loss(self, model: Model, batch: Batch) -> Tensor:
        return self.compare(*self.scores(model, batch), batch)

    def compare(self, start: Tensor, end: Tensor, batch: Batch) -> Tensor:
        starts = F.cross_entropy(start, batch.targets["start"], reduction="sum")
        return (starts + F.cross_entropy(end, batch.targets["end"], reduction="sum")) / 2

    def metrics(self, *, keep_examples: bool = False) -> ScoreSheet:
        """The answer to each question by SQuAD's rules, and the loss of a window."""
        loss, answers = MeanLoss(), BestAnswers(self.null_threshold, keep_examples=keep_examples)

        def update(model: Model, batch: Batch) -> None:
            start, end = self.scores(model, batch)
            loss.update(float(self.compare(start, end, batch)), batch.count)
            items, rows = batch.extra["items"], batch.extra["rows"]
            for owner, one in answer_candidates(items, rows, start, end, top_k=1, longest=self.max_answer_length):
                answers.update(owner, one, [answer.text for answer in items.examples[owner].answers])

        return ScoreSheet(update, loss=loss, answers=answers)

    @torch.inference_mode()
    def predict(
        self,
        model: Model,
        inputs: Sequence[object],
        *,
        top_k: Size = 1,
        max_answer_length: Size | None = None,
        handle_impossible_answer: bool = False,
        null_threshold: float | None = None,
        max_answer_len: Size | None = None,
        max_question_len: Size | None = None,
        max_seq_len: Size | None = None,
        doc_stride: Count | None = None,
        batch_size: Size | None = None,
        batch_tokens: Size = 4096,
        on_progress: OnProgress | None = None,
    ) -> list[Any]:
        """The score is the probability of both ends among the tokens of all windows.

        Args:
            inputs: A question and its context: by name, or a dict with both.
            top_k: Answers to give, the likeliest first.
            max_answer_length: Tokens of an answer at most; by default as the model was trained.
            handle_impossible_answer: Let no answer be one of the answers, with an empty text.
            null_threshold: How much higher no answer must score to be chosen; by default as the model was trained.
            max_answer_len: Hugging Face's name of max_answer_length.
            max_question_len: Tokens of a question at most; by default as the model was trained.
            max_seq_len: Tokens of a window; by default as the model was trained.
            doc_stride: Tokens that two windows of a context share; by default as the model was trained.

        Returns:
            A dict of score, start, end (characters of the context) and answer; a list of top_k if more than 1.
        """
        if top_k < 1:
            raise ValueError(f"top_k={top_k}: give 1 or more")
        if max_answer_length is not None and max_answer_length < 1:
            raise ValueError(f"max_answer_length={max_answer_length}: give 1 token or more")
        items = self._with(max_question_len, max_seq_len, doc_stride).encode([as_asked(one) for one in inputs])
        longest = max_answer_length or max_answer_len or self.max_answer_length
        threshold = self.null_threshold if null_threshold is None else null_threshold

        def predict(indices: Indices) -> Iterator[tuple[int, AnswerCandidates]]:
            scores = self.scores(model, self.batch(items, indices).to(device_of(model)))
            return answer_candidates(items, indices, *scores, top_k=top_k, longest=longest)

        found = [AnswerCandidates(top_k) for _ in inputs]
        budget = Budget.of(batch_size, batch_tokens)
        for owner, one in predict_in_batches(items.lengths, budget, predict, on_progress):
            found[owner].merge(one)
        answers = [_as_dicts(one, threshold if handle_impossible_answer else None) for one in found]
        return [one[0] for one in answers] if top_k == 1 else answers

    def _with(self, question: int | None, row: int | None, stride: int | None) -> Self:
        """This task with other lengths, where some are given; a row is never longer than the model reads."""
        changed = copy(self)
        changed.max_question_length = question or self.max_question_length
        if row is not None:
            changed.max_length = min(row, self.max_length or self.longest)
        changed.doc_stride = self.doc_stride if stride is None else stride
        return changed

    def call_inputs(self, inputs: object, more: Sequence[object], options: dict[str, Any]) -> Any:
        """A question and its context by name, or one behind the other; several questions may share a context."""
        if len(more) == 1 and isinstance(inputs, str) and isinstance(more[0], str):
            return {"question": inputs, "context": more[0]}
        if inputs is not None or not {"question", "context"} <= options.keys():
            return super().call_inputs(inputs, more, options)
        question, context = options.pop("question"), options.pop("context")
        if not isinstance(question, list):
            return {"question": question, "context": context}
        contexts = context if isinstance(context, list) else [context] * len(question)
        if len(contexts) != len(question):
            raise ValueError(f"{len(question)} questions need one context or as many, not {len(contexts)}")
        return [{"question": one, "context": other} for one, other in zip(question, contexts, strict=True)]


class BestAnswers(DeferredMetric):
    """Exact match and F1 of the best answer over all windows of each question, one of which is kept."""

    def __init__(self, threshold: float, *, keep_examples: bool) -> None:
        self.threshold, self.keep_examples, self.count = threshold, keep_examples, 0
        self.found: dict[int, AnswerCandidates] = {}
        self.gold: dict[int, list[str]] = {}

    def update(self, owner: int, found: AnswerCandidates, gold: list[str]) -> None:
        """What a window says to the question of this number, and the question's gold answers."""
        self.found.setdefault(owner, AnswerCandidates(1)).merge(found)
        self.gold[owner] = gold
        self.count = len(self.gold)

    def merge(self, other: Self) -> None:
        for owner, one in other.found.items():
            self.update(owner, one, other.gold[owner])

    def judge(self) -> Answers:
        """Whether there may be no answer, the whole of the data says."""
        threshold = None if all(self.gold.values()) else self.threshold
        owners = sorted(self.found)
        predicted = [self.found[owner].ranked(threshold)[0].text for owner in owners]
        scores = Answers(keep_examples=self.keep_examples)
        scores.update(predicted, [self.gold[owner] for owner in owners])
        return scores


def _as_dicts(reading: AnswerCandidates, threshold: float | None) -> list[dict[str, Any]]:
    return [
        {"score": reading.share(one), "start": one.start, "end": one.end, "answer": one.text}
        for one in reading.ranked(threshold)
    ]


def as_asked(given: object) -> SquadExample:
    """A question and its context: a dict of both, as Hugging Face takes it, or a pair."""
    match given:
        case SquadExample():
            return given
        case {"question": str(question), "context": str(context)} | (str(question), str(context)):
            return SquadExample("", question, context)
    raise ValueError(f"a dict with 'question' and 'context', or a pair of them, is wanted, not {given!r}")
