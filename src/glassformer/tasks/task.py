"""What a task is: examples to batches, a loss, metrics and predictions; train, eval, predict and serve all use it.

B batch, T length.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar, get_type_hints

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from glassformer.data.batches import Budget, Indices, in_order
from glassformer.data.report import Read
from glassformer.data.splits import split_by_hash
from glassformer.files import conform
from glassformer.text.folder import NO_LIMIT
from glassformer.text.tokenizer import Tokenizer

from .metrics import Interval


@dataclass(frozen=True)
class Batch:
    """The model's inputs and what its outputs are compared with."""

    inputs: dict[str, Tensor]
    targets: dict[str, Tensor]
    count: int  # of targets: the loss is a sum over them
    extra: dict[str, Any] = field(default_factory=dict)  # what metrics want to know and the loss does not

    def to(self, device: torch.device) -> Self:
        """On the model's device; masks stay, since packing reads them on the CPU."""
        if device.type == "cpu":
            return self

        def move(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
            return {
                name: tensor if name.endswith("attention_mask") else tensor.pin_memory().to(device, non_blocking=True)
                for name, tensor in tensors.items()
            }

        return replace(self, inputs=move(self.inputs), targets=move(self.targets))

    @property
    def tokens(self) -> int:
        """Real tokens read, of a translation the source's."""
        mask = self.inputs.get("attention_mask")
        return self.inputs["input_ids"].numel() if mask is None else int(mask.sum())

    @property
    def padding(self) -> int:
        return self.inputs["input_ids"].numel() - self.tokens


class Items(Protocol):
    """Encoded examples."""

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(N,) tokens each costs."""
        ...

    @property
    def cut(self) -> int:
        """Tokens lost to truncation, over all."""
        ...


class Metrics(Protocol):
    """A score sheet that is filled batch by batch, and over several processes."""

    def update(self, model: Any, batch: Batch) -> None: ...

    def merge(self, other: Any) -> None: ...

    def compute(self) -> dict[str, float]: ...

    def intervals(self) -> dict[str, Interval]:
        """95 % intervals of some of the scores, where the sheet was made with keep_examples."""
        ...

    def report(self) -> dict[str, dict[str, float]]:
        """Scores of each class or type by itself; empty where there is none."""
        ...


E = TypeVar("E")
I = TypeVar("I", bound=Items)  # noqa: E741


class Task(ABC, Generic[E, I]):
    """One job. Its options are the constructor's keyword arguments; a recipe may set each of them."""

    name: ClassVar[str]  # Hugging Face's
    head: str | None  # what gf.load is asked for
    metric: str  # the best model has the most of it, or the least where a "-" stands before the name
    vocabulary: ClassVar[str] = "wordpiece"  # what a fresh model learns, if nothing else is asked for
    one_in_a_list: ClassVar[bool] = False  # whether a pipeline, as Hugging Face's, wraps the result of one text
    longest: ClassVar[int | None] = 1024  # tokens, where a model reads more: an endless line must not take all memory
    labels_of_all: ClassVar[bool] = False  # whether labels that only dev or test data has are learnt too
    built_in: ClassVar[bool] = False  # whether examples are made up where no data is given

    tokenizer: Tokenizer
    max_length: int | None  # tokens of an example; None until a model says how many it can read

    @abstractmethod
    def __init__(self, tokenizer: Tokenizer, **options: Any) -> None:
        """Every task names its own options."""

    def compile(self) -> None:
        """Compile what is costly in the loss beside the model's layers; most tasks have nothing of the kind."""

    # Before there is a task: what the data says.

    @classmethod
    @abstractmethod
    def read(cls, sources: Sequence[str], *, columns: Mapping[str, str] | None = None, **options: Any) -> Read[E]:
        """The examples in some files. Of the options (the recipe's) it takes what concerns reading."""

    @classmethod
    @abstractmethod
    def texts(cls, examples: Iterable[E]) -> Iterator[str]:
        """What a vocabulary is learnt from."""

    @classmethod
    @abstractmethod
    def key(cls, example: E) -> str:
        """Examples with the same key must never be on two sides of a split."""

    @classmethod
    def labels_in(cls, example: E) -> Collection[str]:
        """The labels of an example, of which training must see each; most tasks have none."""
        del example
        return ()

    @classmethod
    def split(cls, examples: Sequence[E]) -> tuple[list[E], list[E]]:
        """Train and dev from one set, where no dev was given."""
        train, dev, _ = split_by_hash(examples, cls.key)
        return train, dev

    @classmethod
    def for_data(cls, tokenizer: Tokenizer, examples: Sequence[E], **options: Any) -> Self:
        """A task whose labels are those of the training data (`labels_of_all`: of all data), where it has labels."""
        del examples
        return cls(tokenizer, **options)

    @classmethod
    def for_model(cls, tokenizer: Tokenizer, model: nn.Module, **options: Any) -> Self:
        """A task whose labels are those of a trained model, where it has labels."""
        task = cls(tokenizer, **options)
        task.fit_to(model)
        return task

    def settings(self) -> dict[str, Any]:
        """What a model for this task must be told: labels, problem_type."""
        return {}

    def fit_to(self, model: nn.Module) -> None:
        """Take from a model what only it knows: how long a text may be, and whether it has a use for segments."""
        if getattr(getattr(model, "embeddings", None), "segment", None) is None:
            self.tokenizer.settings.segments = False
        if self.max_length is None:
            limits = [number for number in (longest_input(model, self.tokenizer), self.longest) if number is not None]
            self.max_length = min(limits, default=None)

    @classmethod
    def read_extras(cls, folder: Path) -> dict[str, Any]:
        """Options that a folder holds beside its model; most have none."""
        del folder
        return {}

    def write_extras(self, folder: Path) -> None:
        """Write what this task keeps beside a model; most have nothing."""

    # With a task: examples to numbers, numbers to answers.

    @abstractmethod
    def encode(self, examples: Sequence[E]) -> I:
        """Tokenise a split, once."""

    @abstractmethod
    def batch(self, items: I, indices: Indices, seed: int = 0) -> Batch:
        """Some examples of a split; what is random depends on the seed and the example, never on the batch."""

    @abstractmethod
    def loss(self, model: Any, batch: Batch) -> Tensor:
        """The sum over the batch's targets, so that parts of a batch add up to the whole."""

    @abstractmethod
    def metrics(self, *, keep_examples: bool = False) -> Metrics:
        """An empty score sheet; it must pickle without model and tokenizer, to travel between processes."""

    def final_metrics(self, *, keep_examples: bool = False) -> Metrics:
        """The sheet for a trained model, with scores too costly to ask for while training."""
        return self.metrics(keep_examples=keep_examples)

    def predict_options(self) -> dict[str, Any]:
        """What `predict` can be told, and the hint of what each may be."""
        hints = get_type_hints(self.predict, include_extras=True)
        known = inspect.signature(self.predict).parameters.values()
        return {one.name: hints[one.name] for one in known if one.kind is one.KEYWORD_ONLY}

    def check_predict(self, options: Mapping[str, Any]) -> None:
        """Refuse options that `predict` does not have, or values that they cannot have; of a task that generates, the
        settings of generation are checked there."""
        known = self.predict_options()
        generates = any(one.kind is one.VAR_KEYWORD for one in inspect.signature(self.predict).parameters.values())
        for name, value in options.items():
            if name in known:
                conform(value, known[name], name)
            elif not generates:
                raise ValueError(f"{self.name} has no option {name!r}; a call can be told {', '.join(known)}")

    @abstractmethod
    def predict(self, model: Any, inputs: Sequence[Any], *_: Any, **options: Any) -> list[Any]:
        """What the model says, in the shape of Hugging Face's pipelines; each input as if alone."""


def longest_input(model: Any, tokenizer: Tokenizer) -> int | None:
    """How many tokens a model can read; None where there is no limit."""
    config = model.config
    limit = getattr(config, "n_positions", None) or getattr(config, "max_position_embeddings", None)
    if limit is not None and getattr(model, "padding_idx", None) is not None:
        limit -= model.padding_idx + 1  # RoBERTa counts from there
    known = [number for number in (limit, tokenizer.model_max_length) if number is not None and number < NO_LIMIT]
    return min(known, default=None)


def device_of(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


def remark(report: Mapping[str, Mapping[str, float]]) -> str | None:
    """What the scores of each class (a sheet's report) show at a glance: one class for everything, or none ever right.

    None where there is nothing to remark on, or where the data itself has one class only.
    """
    total = sum(row["support"] for row in report.values())
    several = sum(row["support"] > 0 for row in report.values()) > 1
    for label, row in report.items():
        hits = row["recall"] * row["support"]
        if several and hits and round(hits / row["precision"]) == total:  # as often as there are examples
            return f"every example was given the class {label!r}: the model does not tell classes apart"
    if total and not any(row["f1"] for row in report.values()):
        return "not one example of any class was found: the model has not learnt them"
    return None


@torch.inference_mode()
def evaluate(
    model: nn.Module,
    task: Task[E, I],
    items: I,
    *,
    budget: Budget,
    share: tuple[int, int] = (0, 1),
    keep_examples: bool = False,
    final: bool = False,
    told: Callable[[int, int], None] | None = None,
) -> Metrics:
    """The score sheet of a split, or of this process's share (number, of how many) of it; model in eval mode.

    `told` hears after each batch how many are done, and of how many.
    """
    was_training, device = model.training, device_of(model)
    model.eval()
    sheet = (task.final_metrics if final else task.metrics)(keep_examples=keep_examples)
    number, processes = share
    batches = in_order(items.lengths, budget)
    for place, indices in enumerate(batches):
        if place % processes == number:
            sheet.update(model, task.batch(items, indices).to(device))
        if told is not None:
            told(place + 1, len(batches))
    model.train(was_training)
    return sheet
