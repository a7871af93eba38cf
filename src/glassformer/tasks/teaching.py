"""The teaching tasks: copy digits, reverse them, or say whether their sum is odd, for every family of models.

B batch, T length.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from glassformer.data.batches import Indices
from glassformer.data.examples import Labelled, Parallel
from glassformer.data.parallel import read_parallel
from glassformer.data.ragged import Ragged
from glassformer.data.report import Read
from glassformer.text.tokenizer import Tokenizer

from .task import Batch, Metrics, Task
from .text_classification import ClassificationMetrics, TextClassification
from .text_generation import hidden_states
from .translation import Translated, Translation, as_source, rounded_up

Lesson = Literal["copy", "reverse", "parity"]
LONGEST: dict[Lesson, int] = {"copy": 8, "reverse": 8, "parity": 20}  # digits
SHORTEST = 4  # of a test
ASKED = "="  # stands after the digits
HEADS = ("text2text-generation", "text-generation", "text-classification")


def answer(lesson: Lesson, digits: str) -> str:
    """What is right."""
    if lesson == "parity":
        return str(sum(map(int, digits)) % 2)
    return digits if lesson == "copy" else digits[::-1]


def examples(lesson: Lesson, count: int, *, seed: int) -> list[Parallel]:
    """Digits and an equals sign, and the answer. As in the micro-world, seeds that differ modulo 3 share no example.

    Those of seed 0 are for training and begin with one digit, since short sequences teach what long ones alone never
    do; of parity there are the more of a length the shorter it is, or all models stay at chance. The others are for
    tests, and begin with four.
    """
    found: list[Parallel] = []
    for number in range(count):
        chance = np.random.Generator(np.random.Philox(key=[seed, number]))
        while True:
            digits = chance.integers(10, size=_length(lesson, chance, trained=seed % 3 == 0))
            if _share(digits) == seed % 3:
                break
        text = "".join(map(str, digits))
        found.append(Parallel(text + ASKED, answer(lesson, text)))
    return found


def _share(digits: NDArray[np.int64]) -> int:
    """Which seeds a sequence belongs to: five in seven are for training. This tells nothing of the sum's parity."""
    mark = int((digits * 3 ** (np.arange(len(digits)) % 6)).sum()) + len(digits)
    return {0: 1, 1: 2}.get(mark % 7, 0)


def _length(lesson: Lesson, chance: np.random.Generator, *, trained: bool) -> int:
    lengths = np.arange(1 if trained else SHORTEST, LONGEST[lesson] + 1)
    weights = 1 / lengths if trained and lesson == "parity" else np.ones(len(lengths))
    return int(chance.choice(lengths, p=weights / weights.sum()))


class Teaching(Task[Parallel, Any]):
    """One lesson, in the form that a model can learn: `head` says which.

    text2text-generation: an encoder-decoder reads the digits and writes the answer. text-generation: a language model
    goes on after the digits. text-classification: the answer is a class; this is for parity alone. The score is the
    share of answers that are right from end to end.
    """

    lesson: ClassVar[Lesson]
    vocabulary = "character"
    built_in = True
    head = "text2text-generation"
    metric = "exact_match"

    def __init__(self, tokenizer: Tokenizer, *, head: str = "text2text-generation") -> None:
        known = HEADS if self.lesson == "parity" else HEADS[:2]
        if head not in known:
            raise ValueError(f"{self.lesson} is learnt with the head {' or '.join(known)}, not {head!r}")
        self.tokenizer, self.head, self.max_length = tokenizer, head, None
        self.form: Any = Translation(tokenizer, exact_match=True)
        if head == "text-generation":
            self.form = Continuation(tokenizer, exact_match=True)
        elif head == "text-classification":
            self.form = Classes(tokenizer, ["0", "1"])

    @classmethod
    def read(cls, sources: Sequence[str], *, columns: Mapping[str, str] | None = None, **_: Any) -> Read[Parallel]:
        return read_parallel(sources, columns=columns)

    @classmethod
    def texts(cls, examples: Iterable[Parallel]) -> Iterator[str]:
        return Translation.texts(examples)

    @classmethod
    def key(cls, example: Parallel) -> str:
        return example.source

    @classmethod
    def for_model(cls, tokenizer: Tokenizer, model: nn.Module, **options: Any) -> Self:
        return super().for_model(tokenizer, model, **{"head": model.head_name, **options})

    def settings(self) -> dict[str, Any]:
        return self.form.settings()  # type: ignore[no-any-return]

    def fit_to(self, model: nn.Module) -> None:
        self.form.fit_to(model)
        self.max_length = self.form.max_length

    def encode(self, examples: Sequence[Parallel]) -> Any:
        return self.form.encode([self._formed(one) for one in examples])

    def _formed(self, example: Parallel) -> Parallel | Labelled:
        return Labelled(example.source, label=example.target) if self.head == "text-classification" else example

    def batch(self, items: Any, indices: Indices, seed: int = 0) -> Batch:
        return self.form.batch(items, indices, seed)  # type: ignore[no-any-return]

    def loss(self, model: Any, batch: Batch) -> Tensor:
        return self.form.loss(model, batch)  # type: ignore[no-any-return]

    def metrics(self, *, keep_examples: bool = False) -> Metrics:
        return self.form.metrics(keep_examples=keep_examples)  # type: ignore[no-any-return]

    def predict_options(self) -> dict[str, Any]:
        return self.form.predict_options()  # type: ignore[no-any-return]

    def check_predict(self, options: Mapping[str, Any]) -> None:
        self.form.check_predict(options)

    def predict(self, model: Any, inputs: Sequence[Any], **options: Any) -> list[Any]:
        """A dict with the answer for each text of digits, whether or not the equals sign stands after them."""
        asked = [as_source(one).removesuffix(ASKED) + ASKED for one in inputs]
        key = "label" if self.head == "text-classification" else "translation_text"
        return [{"answer": found[key]} for found in self.form.predict(model, asked, **options)]


class Copy(Teaching):
    """Write the same digits."""

    name, lesson = "copy", "copy"


class Reverse(Teaching):
    """Write the digits from the last to the first."""

    name, lesson = "reverse", "reverse"


class Parity(Teaching):
    """Write 1 if the sum of the digits is odd, else 0."""

    name, lesson = "parity", "parity"


class Classes(TextClassification):
    """Answers of one character are classes."""

    def metrics(self, *, keep_examples: bool = False) -> "ClassMetrics":
        return ClassMetrics(self, keep_examples=keep_examples)


class ClassMetrics(ClassificationMetrics):
    """A class that is right is an answer that is right from end to end."""

    def compute(self) -> dict[str, float]:
        scores = super().compute()
        return {**scores, "exact_match": scores["accuracy"]}


@dataclass
class Continued(Translated):
    """Encoded pairs, joined into rows for a language model."""

    rows: Ragged | None = None  # source and target but its last token

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.targets is not None:
            pairs = ((self.sources[place], self.targets[place]) for place in range(len(self.sources)))
            self.rows = Ragged.of([*source.tolist(), *target.tolist()[:-1]] for source, target in pairs)
            self.lengths = self.rows.lengths


class Continuation(Translation):
    """Text to text with a language model: it goes on after the source, and only its answer is judged."""

    name = "text-generation"
    head = "text-generation"

    def settings(self) -> dict[str, Any]:
        return {name: value for name, value in super().settings().items() if name != "decoder_start_token_id"}

    def encode(self, examples: Sequence[Parallel]) -> Continued:
        plain = super().encode(examples)
        return Continued(plain.sources, plain.targets, plain.references, plain.bleu_tokenizer, plain.cut)

    def _sources(self, texts: Sequence[str]) -> tuple[Ragged, int]:
        rows, cut = self._rows(self.max_length, texts=texts, add_special_tokens=False)
        return Ragged.of(row or [self.marks.first] for row in rows), sum(cut)

    def batch(self, items: Translated, indices: Indices, seed: int = 0) -> Batch:
        assert isinstance(items, Continued)
        batch = super().batch(items, indices, seed)
        if items.rows is None or items.targets is None:
            return batch
        inputs = {"input_ids": items.rows.padded(indices, self.marks.pad), "attention_mask": items.rows.mask(indices)}
        width, rows = inputs["input_ids"].shape[1], batch.targets["rows"]
        # An answer's first token is told at the last place of its source.
        column = batch.targets["places"] - rows * int(items.targets.lengths[indices].max())
        first = torch.from_numpy(items.sources.lengths[indices] - 1)
        targets = {**batch.targets, "places": rows * width + first[rows] + column}
        return Batch(inputs, targets, batch.count, {**batch.extra, "prompts": super().prompts(batch)})

    def hidden(self, model: Any, batch: Batch) -> Tensor:
        return hidden_states(model, batch)

    def prompts(self, batch: Batch) -> tuple[Tensor, Tensor]:
        return batch.extra.get("prompts") or super().prompts(batch)

    def room(self, length: int, model: Any) -> int:
        longest = rounded_up(length)
        return min(10 + 3 * longest // 2, max(1, (model.config.max_positions or 10 * longest) - longest))
