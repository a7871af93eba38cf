"""What a task is: examples to batches, a loss, metrics and predictions; train, eval, predict and the studio use it.

B batch, T length.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar, get_type_hints

import torch
from torch import Tensor

from glassformer.data.batches import Budget, Indices, in_order
from glassformer.data.examples import Example
from glassformer.data.input_rows import InputColumns, TextColumn
from glassformer.data.mixing import CorpusPart
from glassformer.data.report import Read
from glassformer.data.splits import split_by_hash
from glassformer.files import conform, read_json, shown
from glassformer.models.contract import Model
from glassformer.text.folder import NO_LIMIT
from glassformer.text.tokenizer import Tokenizer

from .batch import Batch, Carried, Items, OnProgress, device_of
from .metrics import ScoreSheet
from .spec import Spec

E = TypeVar("E", bound=Example)
I = TypeVar("I", bound=Items)  # noqa: E741


class Task(ABC, Generic[E, I]):
    """One job. Its options are the constructor's keyword arguments; a recipe may set each of them."""

    name: ClassVar[str]  # Hugging Face's
    head: str | None  # what gf.load is asked for
    metric: str  # the best model has the most of it, or the least where a "-" stands before the name
    vocabulary: ClassVar[str] = "wordpiece"  # what a fresh model learns, if nothing else is asked for
    longest: ClassVar[int | None] = 1024  # tokens, where a model reads more: an endless line must not take all memory
    length_option: ClassVar[str] = "max_length"  # what the constructor calls the tokens of an example
    labels_of_all: ClassVar[bool] = False  # whether labels that only dev or test data has are learnt too
    carry_state: bool = False  # whether a batch goes on where the one before it ended, with the state after that
    by_token: ClassVar[bool] = False  # whether input_ids and labels are (B, T), and a loss is of what is said at each
    built_in: ClassVar[bool] = False  # whether examples are made up where no data is given
    input_columns: ClassVar[InputColumns] = TextColumn()  # of a table, what is read to predict

    tokenizer: Tokenizer
    max_length: int | None  # tokens of an example at most

    @abstractmethod
    def __init__(self, tokenizer: Tokenizer, **options: Any) -> None:
        """Every task names its own options. What a setting means stands in the docstring of the constructor, of `read`
        or of `predict`, of the class or of the nearest base that tells it: help and reference are made from there.

        Args:
            max_length: Tokens of an example at most; a longer one is cut. By default what the model reads, up to 1024.
            label_smoothing: Share of the target spread over all classes or tokens; 0.1 makes a model less sure.
        """

    def compile(self) -> None:
        """Compile what is costly in the loss beside the model's layers; most tasks have nothing of the kind."""

    def expect(self, items: I, indices: Indices) -> None:
        """These examples will be asked for soon; a task whose examples may lie elsewhere has them fetched."""

    def sources(self, items: I) -> Sequence[CorpusPart]:
        """The corpora that examples are from, where there are several."""
        del items
        return ()

    # Before there is a task: what the data says.

    @classmethod
    @abstractmethod
    def read(cls, sources: Sequence[str], *, columns: Mapping[str, str] | None = None, **options: Any) -> Read[E]:
        """The examples in some files. Of the options (the recipe's) it takes what concerns reading.

        Args:
            file_format: How files are written, where their names do not tell; first-word: a label, then the text.
            header: Whether the first line of a csv or tsv names the columns; by default found out.
        """

    @classmethod
    def texts(cls, examples: Iterable[E]) -> Iterator[str]:
        """What a vocabulary is learnt from."""
        return (text for one in examples for text in one.texts)

    @classmethod
    def labels_in(cls, example: E) -> Collection[str]:
        """The labels of an example, of which training must see each; most tasks have none."""
        del example
        return ()

    @classmethod
    def split(cls, examples: Sequence[E]) -> tuple[list[E], list[E]]:
        """Train and dev from one set, where no dev was given."""
        train, dev, _ = split_by_hash(examples, lambda one: one.key)
        return train, dev

    # From data or a model to a spec, and from a spec to a task.

    @classmethod
    def make_spec(cls, options: Mapping[str, Any], **known: Any) -> Spec:
        """A spec of the constructor's options and of what else is known."""
        rest = {name: value for name, value in options.items() if name != cls.length_option}
        return Spec(**{"head": cls.head, "max_length": options.get(cls.length_option), "options": rest, **known})

    @classmethod
    def spec_of_data(cls, examples: Sequence[E], **options: Any) -> Spec:
        """What the training data (`labels_of_all`: all data) says: its labels. Refused: what teaches nothing."""
        del examples
        return cls.make_spec(options)

    @classmethod
    def spec_of_model(cls, tokenizer: Tokenizer, model: Model, **options: Any) -> Spec:
        """What a trained model says: its labels. One that was trained for something else is refused."""
        del tokenizer, model
        return cls.make_spec(options)

    @classmethod
    def check_head(cls, model: Model) -> None:
        """Refuse a model with another head than this task's."""
        if model.head_name != cls.head:
            raise ValueError(f"the model has the head {model.head_name!r}: load one with the head {cls.head!r}")

    @classmethod
    def fit_spec(cls, spec: Spec, tokenizer: Tokenizer, model: Model) -> Spec:
        """The spec with what only a model knows: how long a text may be, and whether it has a use for segments.

        A length that was asked for and that the model has no positions for is refused.
        """
        longest, limit = spec.max_length, model.config.max_positions
        if longest is None:
            known = (longest_input(model, tokenizer), cls.longest)
            longest = min((number for number in known if number is not None), default=None)
        elif limit is not None and longest > limit:
            raise ValueError(f"{cls.length_option} is {longest}; this model reads {limit} tokens at most")
        return replace(spec, max_length=longest, segments=model.config.has_segments)

    @classmethod
    def model_settings(cls, tokenizer: Tokenizer, spec: Spec) -> dict[str, Any]:
        """What the config of a model for this task must say: labels, problem_type, special ids."""
        del tokenizer, spec
        return {}

    @classmethod
    def from_spec(cls, tokenizer: Tokenizer, spec: Spec) -> Self:
        """The task, complete."""
        return cls(tokenizer, **{cls.length_option: spec.max_length}, **spec.options)

    @classmethod
    def for_data(cls, tokenizer: Tokenizer, examples: Sequence[E], **options: object) -> Self:
        """A task for a model that is still to be built, as its training data says."""
        spec = cls.spec_of_data(examples, **options)
        return cls.from_spec(tokenizer.adapted(special_tokens=spec.special_tokens), spec)

    @classmethod
    def for_model(cls, tokenizer: Tokenizer, model: Model, **options: object) -> Self:
        """A task for a trained model, as the model says."""
        spec = cls.fit_spec(cls.spec_of_model(tokenizer, model, **options), tokenizer, model)
        return cls.from_spec(tokenizer.adapted(segments=spec.segments), spec)

    @property
    def spec(self) -> Spec:
        """What this task and a model for it must agree on."""
        return Spec(head=self.head, max_length=self.max_length)

    def settings(self) -> dict[str, Any]:
        """What the config of a model for this task must say."""
        return self.model_settings(self.tokenizer, self.spec)

    @classmethod
    def config_extras(cls, config: Mapping[str, Any], task: str | None = None) -> dict[str, Any]:
        """Options that a config.json has for the task, called as the user calls it (translation_en_to_de); most have
        none."""
        del config, task
        return {}

    @classmethod
    def read_extras(cls, folder: Path, task: str | None = None) -> dict[str, Any]:
        """Options that a folder holds beside its model, in config.json or elsewhere."""
        return cls.config_extras(read_json(folder / "config.json"), task)

    def write_extras(self, folder: Path) -> None:
        """Write what this task keeps beside a model; most have nothing."""

    # With a task: examples to numbers, numbers to answers.

    @abstractmethod
    def encode(self, examples: Sequence[E]) -> I:
        """Tokenise a split, once."""

    @abstractmethod
    def batch(self, items: I, indices: Indices, seed: int = 0) -> Batch:
        """Collate some examples of a split; what is random depends on the seed and the example, never on the batch."""

    @abstractmethod
    def loss(self, model: Model, batch: Batch) -> Tensor:
        """The sum over the batch's targets, so that parts of a batch add up to the whole."""

    def carried_loss(self, model: Model, batch: Batch, carried: Carried) -> tuple[Tensor, Carried]:
        """The loss of a batch that goes on from what was carried out of the one before it, and what is carried on."""
        assert not carried, f"{self.name} carries no state"
        return self.loss(model, batch), ()

    def eval_batches(
        self, items: I, budget: Budget, *, share: tuple[int, int] = (0, 1), final: bool = False
    ) -> list[Indices]:
        """All examples of a split, or this process's share (rank, world_size) of them, in batches to be scored.

        `final`: of a trained model, whose scores may take longer.
        """
        del final
        rank, world_size = share
        return in_order(items.lengths, budget)[rank::world_size]

    @abstractmethod
    def metrics(self, *, keep_examples: bool = False) -> ScoreSheet:
        """An empty score sheet."""

    def final_metrics(self, *, keep_examples: bool = False) -> ScoreSheet:
        """The sheet for a trained model, with scores too costly to ask for while training."""
        return self.metrics(keep_examples=keep_examples)

    def predict_options(self) -> dict[str, Any]:
        """What `predict` can be told, and the hint of what each may be."""
        return call_options(self.predict)

    def check_predict(self, options: Mapping[str, object]) -> None:
        """Refuse options that `predict` does not have, or values that they cannot have; of a task that generates, the
        settings of generation are checked there."""
        known = self.predict_options()
        for name, value in options.items():
            if name in known:
                conform(value, known[name], name)
            elif not takes_settings(self.predict):
                raise ValueError(f"{self.name} has no option {name!r}; a call can be told {', '.join(known)}")

    def call_inputs(self, inputs: object, more: Sequence[object], options: dict[str, Any]) -> Any:
        """The inputs of a pipeline's call: what stands behind them (`more`) or among the options may be part of them,
        as a question's context is, and is then taken out of the options. Most tasks refuse more."""
        del options
        if more:
            raise ValueError(f"{self.name} takes one input or a list of them, and {shown(more[0])} stands beside it")
        return inputs

    def shaped(self, found: list[Any], options: Mapping[str, object]) -> list[Any]:
        """Results as Hugging Face's pipeline gives them for these options; of most tasks they are so already."""
        del options
        return found

    def wraps_one(self, found: object, options: Mapping[str, object]) -> bool:
        """Whether Hugging Face's pipeline puts the result of one text in a list, for the options of a call."""
        del found, options
        return False

    @abstractmethod
    def predict(self, model: Model, inputs: Sequence[object], *_: Any, **options: Any) -> list[Any]:
        """What the model says, in the shape of Hugging Face's pipelines; each input as if alone.

        Args:
            inputs: A text.
            batch_size: Inputs read at once; the results are the same.
            batch_tokens: Tokens read at once, where no batch_size is given.
        """


AnyTask = Task[Any, Any]  # whatever its examples are


def call_options(predict: Callable[..., object]) -> dict[str, Any]:
    """What a task's `predict` can be told by name, and the hint of what each may be."""
    hints = get_type_hints(predict, include_extras=True)
    known = inspect.signature(predict).parameters.values()
    named = (one.name for one in known if one.kind is one.KEYWORD_ONLY and one.name != "on_progress")
    return {name: hints[name] for name in named}


def takes_settings(predict: Callable[..., object]) -> bool:
    """Whether a task's `predict` also takes settings of generation."""
    return any(one.kind is one.VAR_KEYWORD for one in inspect.signature(predict).parameters.values())


def longest_input(model: Model, tokenizer: Tokenizer) -> int | None:
    """How many tokens a model can read; None where there is no limit."""
    limit = model.config.max_positions
    known = [number for number in (limit, tokenizer.model_max_length) if number is not None and number < NO_LIMIT]
    return min(known, default=None)


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
    model: Model,
    task: Task[E, I],
    items: I,
    *,
    budget: Budget,
    share: tuple[int, int] = (0, 1),
    keep_examples: bool = False,
    final: bool = False,
    on_progress: OnProgress | None = None,
) -> ScoreSheet:
    """The score sheet of a split, or of this process's share (rank, world_size) of it; model in eval mode.

    `on_progress` hears after each batch how many are done, and of how many.
    """
    was_training, device = model.training, device_of(model)
    model.eval()
    sheet = (task.final_metrics if final else task.metrics)(keep_examples=keep_examples)
    batches = task.eval_batches(items, budget, share=share, final=final)
    for place, indices in enumerate(batches):
        sheet.update(model, task.batch(items, indices).to(device))
        sheet.order += indices.tolist()
        if on_progress is not None:
            on_progress(place + 1, len(batches))
    model.train(was_training)
    return sheet
