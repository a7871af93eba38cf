"""Text classification: one text or a pair into one class, several classes, or a score.

B batch, C classes.
"""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from glassformer.data.batches import Budget, Indices
from glassformer.data.examples import Labelled
from glassformer.data.input_rows import InputColumns, PairColumns
from glassformer.data.labels import Kind, class_names, classes_of, with_names
from glassformer.data.report import Read
from glassformer.data.rows import Format
from glassformer.data.table import read_labelled
from glassformer.files import shown
from glassformer.files.schema import NotNegative, Probability, Size
from glassformer.models.contract import Model, ProblemType, label_names
from glassformer.text.tokenizer import Tokenizer

from .batch import Batch, OnProgress, device_of, predict_in_batches
from .encoded import EncodedTexts
from .metrics import Classification, MeanLoss, MultiLabel, Regression, ScoreSheet
from .r_drop import r_drop_loss
from .spec import Spec
from .task import Task

LOG = logging.getLogger("glassformer")
Applied = Literal["sigmoid", "softmax", "none"]  # a function of logits
KINDS: dict[ProblemType, Kind] = {
    "single_label_classification": "classes",
    "multi_label_classification": "multi-label",
    "regression": "regression",
}


@dataclass
class ClassifiedTexts(EncodedTexts):
    """Encoded texts with their labels."""

    labels: NDArray[Any] | None  # (N,) class numbers or scores, (N, C) 0 and 1 for several classes


class TextClassification(Task[Labelled, ClassifiedTexts]):
    """The loss is cross-entropy, binary cross-entropy over every class, or the squared error."""

    name = "text-classification"
    head = "text-classification"
    input_columns: ClassVar[InputColumns] = PairColumns()

    def __init__(
        self,
        tokenizer: Tokenizer,
        labels: Sequence[str],
        *,
        problem_type: ProblemType = "single_label_classification",
        max_length: Size | None = None,
        label_smoothing: Probability = 0.0,
        r_drop: NotNegative = 0.0,
    ) -> None:
        """
        Args:
            problem_type: One class a text, any number of classes, or a score (regression).
            r_drop: Weight (alpha) of how far two passes with different dropout differ; 1 is usual, for twice the time.
        """
        if problem_type not in KINDS:
            raise ValueError(f"problem_type must be one of {', '.join(KINDS)}, not {problem_type!r}")
        if r_drop and problem_type != "single_label_classification":
            raise ValueError(f"r_drop={r_drop} compares shares of classes, which {problem_type} has not; leave it out")
        self.tokenizer, self.labels, self.problem = tokenizer, list(labels), problem_type
        self.max_length, self.label_smoothing, self.r_drop = max_length, label_smoothing, r_drop
        self.metric = {"regression": "spearman", "multi_label_classification": "f1_micro"}.get(problem_type, "accuracy")

    @classmethod
    def read(
        cls,
        sources: Sequence[str],
        *,
        columns: Mapping[str, str] | None = None,
        problem_type: ProblemType = "single_label_classification",
        file_format: Format | None = None,
        header: bool | None = None,
        labels: str | Sequence[str] | None = None,
        require_target: bool = True,
        **_: object,
    ) -> Read[Labelled]:
        """
        Args:
            columns: Which column is the text, its pair (if it has one) and the label; several labels as a+b.
            labels: Names of classes: negative,positive for 0 and 1; 1=bad,2=good; or a file with a name a line.
        """
        if labels is not None and problem_type == "regression":
            raise ValueError("labels: names are for classes, and regression has a score; leave them out")
        read = read_labelled(
            sources,
            columns,
            kind=KINDS[problem_type],
            require_target=require_target,
            file_format=file_format,
            header=header,
        )
        if labels is None or not require_target:  # what is to be predicted may have any label, or none
            return read
        return replace(read, examples=with_names(read.examples, class_names(labels)))

    @classmethod
    def labels_in(cls, example: Labelled) -> Collection[str]:
        return () if isinstance(example.label, float) else classes_of(example)

    @classmethod
    def spec_of_data(
        cls,
        examples: Sequence[Labelled],
        *,
        labels: str | Sequence[str] | None = None,
        problem_type: ProblemType = "single_label_classification",
        **options: Any,
    ) -> Spec:
        found = cls.labels_of(examples, problem_type)  # which there must be, whatever they are called
        names = found if labels is None else class_names(labels).values()
        return cls.make_spec(options, labels=tuple(names), problem_type=problem_type)

    @classmethod
    def spec_of_model(
        cls,
        tokenizer: Tokenizer,
        model: Model,
        *,
        labels: str | Sequence[str] | None = None,
        problem_type: ProblemType | None = None,
        **options: Any,
    ) -> Spec:
        del tokenizer, labels  # those that it was trained with are its own now
        cls.check_head(model)
        names = label_names(model.config)
        usual = "regression" if len(names) == 1 else "single_label_classification"
        problem = problem_type or model.config.problem_type or usual
        return cls.make_spec(options, labels=tuple(names), problem_type=problem)

    @classmethod
    def from_spec(cls, tokenizer: Tokenizer, spec: Spec) -> Self:
        problem = spec.problem_type or "single_label_classification"
        return cls(tokenizer, spec.labels, problem_type=problem, max_length=spec.max_length, **spec.options)

    @classmethod
    def model_settings(cls, tokenizer: Tokenizer, spec: Spec) -> dict[str, Any]:
        del tokenizer
        return {"labels": list(spec.labels), "problem_type": spec.problem_type}

    @property
    def spec(self) -> Spec:
        return replace(super().spec, labels=tuple(self.labels), problem_type=self.problem)

    @classmethod
    def labels_of(cls, examples: Sequence[Labelled], problem_type: ProblemType) -> list[str]:
        """The classes that occur, in the order of their names, numbers by value."""
        if problem_type == "regression":
            return ["score"]
        found = {label for one in examples for label in classes_of(one)}
        if len(found) < 2 and problem_type == "single_label_classification":
            only = f"only the label {shown(next(iter(found)))}" if found else "no label"
            raise ValueError(f"the training data has {only}; a classifier needs two classes or more")
        numbers = {label: int(label) for label in found if label.isdecimal() and len(label) < 20}
        return sorted(found, key=lambda label: (label not in numbers, numbers.get(label, 0), label))

    def encode(self, examples: Sequence[Labelled]) -> ClassifiedTexts:
        pairs = [one.pair for one in examples]
        texts = EncodedTexts.of(self.tokenizer, [one.text for one in examples], pairs, self.max_length)
        labels = None if any(one.label is None for one in examples) else self._numbers(examples)
        return ClassifiedTexts(texts.rows, texts.segments, texts.num_truncated, labels)

    def _numbers(self, examples: Sequence[Labelled]) -> NDArray[Any]:
        if self.problem == "regression":
            return np.array([one.label for one in examples], np.float32)
        number = {label: place for place, label in enumerate(self.labels)}
        unknown = sorted({label for one in examples for label in classes_of(one)} - set(number))
        if unknown:
            raise ValueError(
                f"label {shown(unknown[0])} is not one of the model's ({', '.join(self.labels[:20])[:400]}); "
                "it is missing in the training data, or the wrong column was taken"
            )
        if self.problem == "single_label_classification":
            return np.array([number[str(one.label)] for one in examples], np.int64)
        table = np.zeros((len(examples), len(self.labels)), np.float32)
        for row, one in enumerate(examples):
            table[row, [number[label] for label in classes_of(one)]] = 1
        return table

    def batch(self, items: ClassifiedTexts, indices: Indices, seed: int = 0) -> Batch:
        del seed  # nothing is random here
        targets = {} if items.labels is None else {"labels": torch.from_numpy(items.labels[indices])}
        return Batch(items.inputs(indices, self.tokenizer.pad_token_id or 0), targets, count=len(indices))

    def loss(self, model: Model, batch: Batch) -> Tensor:
        def logits() -> Tensor:
            return model(**batch.inputs).logits  # type: ignore[no-any-return]

        def compare(found: Tensor) -> Tensor:
            return self.compare(found, batch.targets["labels"])

        return r_drop_loss(logits, compare, self.r_drop) if self.r_drop and model.training else compare(logits())

    def compare(self, logits: Tensor, labels: Tensor) -> Tensor:
        logits = logits.float()
        if self.problem == "regression":
            return F.mse_loss(logits[:, 0], labels, reduction="sum")
        if self.problem == "multi_label_classification":
            return F.binary_cross_entropy_with_logits(logits, labels, reduction="none").mean(1).sum()
        return F.cross_entropy(logits, labels, reduction="sum", label_smoothing=self.label_smoothing)

    def metrics(self, *, keep_examples: bool = False) -> ScoreSheet:
        """The scores that the kind of label calls for, and the loss."""
        loss, scores = MeanLoss(), self._scores(keep_examples=keep_examples)

        def update(model: Model, batch: Batch) -> None:
            logits, labels = model(**batch.inputs).logits, batch.targets["labels"]
            loss.update(float(self.compare(logits, labels)), batch.count)
            if isinstance(scores, Classification):
                scores.update(logits.argmax(-1), labels)
            elif isinstance(scores, MultiLabel):
                scores.update(self.probabilities(logits), labels)
            else:
                scores.update(logits[:, 0], labels)

        return ScoreSheet(update, loss=loss, scores=scores)

    def _scores(self, *, keep_examples: bool) -> Classification | MultiLabel | Regression:
        if self.problem == "regression":
            return Regression()
        cls = MultiLabel if self.problem == "multi_label_classification" else Classification
        return cls(self.labels, keep_examples=keep_examples)

    def probabilities(self, logits: Tensor) -> Tensor:
        """(B, C): shares of one class, chances of each of several, or the score itself."""
        logits = logits.float()
        if self.problem == "regression":
            return logits
        return logits.sigmoid() if self.problem == "multi_label_classification" else logits.softmax(-1)

    def applied(self, logits: Tensor, function: Applied | None) -> Tensor:
        """(B, C): the scores of a function, or else of the kind of label."""
        if function is None:
            return self.probabilities(logits)
        scores = logits.float()
        return {"sigmoid": scores.sigmoid(), "softmax": scores.softmax(-1), "none": scores}[function]

    @torch.inference_mode()
    def predict(
        self,
        model: Model,
        inputs: Sequence[object],
        *,
        top_k: Size | None = 1,
        batch_size: Size | None = None,
        batch_tokens: Size = 4096,
        return_all_scores: bool = False,
        function_to_apply: Applied | None = None,
        max_length: Size | None = None,
        truncation: bool | str = True,
        padding: bool | str = True,
        on_progress: OnProgress | None = None,
    ) -> list[Any]:
        """
        Args:
            inputs: A text, a pair of texts, or a dict with text and text_pair.
            top_k: Labels to give, the likeliest first; none for all.
            return_all_scores: An old name: all labels, in the model's order.
            function_to_apply: What makes scores of logits; by default what the model was trained with.
            max_length: Tokens that a text is cut to; by default what the model reads.
            truncation: Whether a text that is too long is cut; else it is refused.
            padding: Taken and without effect: padding is never seen.

        Returns:
            A dict of label and score; a list of them where top_k is not 1.
        """
        del padding
        items = self.cut_to(max_length).encode([as_labelled(one) for one in inputs])
        if items.num_truncated and not truncation:
            raise ValueError(f"{items.num_truncated} tokens of the texts do not fit: give truncation=True to cut them")
        if items.num_truncated and max_length is None:  # who gives a length knows
            LOG.warning(
                "%s tokens of the texts were cut: the model reads %s a text", items.num_truncated, self.max_length
            )

        def predict(indices: Indices) -> Iterator[Any]:
            batch = self.batch(items, indices).to(device_of(model))
            for row in self.applied(model(**batch.inputs).logits, function_to_apply).tolist():
                scored = [{"label": label, "score": score} for score, label in zip(row, self.labels, strict=True)]
                if return_all_scores:
                    yield scored
                else:
                    ranked = sorted(scored, key=lambda one: -one["score"])[:top_k]
                    yield ranked[0] if top_k == 1 else ranked

        return predict_in_batches(items.lengths, Budget.of(batch_size, batch_tokens), predict, on_progress)

    def cut_to(self, max_length: int | None) -> Self:
        """This task, or one that reads fewer tokens."""
        if max_length is None or (self.max_length is not None and max_length >= self.max_length):
            return self
        shorter = copy(self)
        shorter.max_length = max_length
        return shorter

    def shaped(self, found: list[Any], options: Mapping[str, object]) -> list[Any]:
        """Where top_k is asked for, each result is a list, even of one."""
        return [one if isinstance(one, list) else [one] for one in found] if "top_k" in options else found

    def wraps_one(self, found: object, options: Mapping[str, object]) -> bool:
        del found
        return "top_k" not in options


def as_labelled(given: object) -> Labelled:
    """A text, a (text, pair), or a dict with text and text_pair, as Hugging Face takes them."""
    match given:
        case Labelled():
            return given
        case str():
            return Labelled(given)
        case {"text": str(text), "text_pair": str(pair)}:
            return Labelled(text, pair)
        case {"text": str(text)}:
            return Labelled(text)
        case (str(text), str(pair)):
            return Labelled(text, pair)
    raise ValueError(f"a text, a pair of texts or a dict with 'text' is wanted, not {given!r}")
