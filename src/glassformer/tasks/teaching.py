"""The teaching tasks: copy digits, reverse them, say whether their sum is odd, or add two that are marked.

B batch, T length.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.data.batches import Indices
from glassformer.data.examples import Labelled, Parallel
from glassformer.data.input_rows import TextColumn
from glassformer.data.parallel import read_parallel
from glassformer.data.ragged import Ragged
from glassformer.data.report import Read
from glassformer.data.roles import SOURCES, TEXTS
from glassformer.files.schema import Size
from glassformer.models.contract import Model
from glassformer.text.tokenizer import Tokenizer

from .batch import Batch
from .metrics import Classification, ScoreSheet
from .spec import Spec
from .task import AnyTask, Task
from .text_classification import TextClassification
from .text_pairs import Translated, as_source, encode_sources, rounded_up
from .translation import Translation

Lesson = Literal["copy", "reverse", "parity", "adding"]
LONGEST: dict[Lesson, int] = {"copy": 8, "reverse": 8, "parity": 20, "adding": 20}  # digits, unless a length is given
CLASSES: dict[Lesson, tuple[str, ...]] = {"parity": ("0", "1"), "adding": tuple(map(str, range(19)))}
FEWEST: dict[Lesson, int] = {"copy": 1, "reverse": 1, "parity": 1, "adding": 2}
SHORTEST = 4  # of a test
ASKED = "="  # stands after the digits
MARK = "*"  # stands before a digit that is to be added
HEADS = ("text2text-generation", "text-generation", "text-classification")


def answer(lesson: Lesson, digits: str) -> str:
    """What is right; of the adding problem, the sum of the two digits that have a mark before them."""
    if lesson == "adding":
        return str(sum(int(part[0]) for part in digits.split(MARK)[1:]))
    if lesson == "parity":
        return str(sum(map(int, digits)) % 2)
    return digits if lesson == "copy" else digits[::-1]


def examples(lesson: Lesson, count: int, *, seed: int, length: int | None = None) -> list[Parallel]:
    """Digits and an equals sign, and the answer. As in the micro-world, seeds that differ modulo 3 share no example.

    Those of seed 0 are for training and begin with one digit, since short sequences teach what long ones alone never
    do; of parity there are the more of a length the shorter it is, or all models stay at chance. The others are for
    tests, and begin with four. With `length` those for training have so many digits at most, and those for tests have
    exactly so many.

    In the adding problem (Hochreiter & Schmidhuber, 1997) one digit of either half is marked: the longer the text, the
    farther apart they stand.
    """
    if length is not None and length < FEWEST[lesson]:
        raise ValueError(f"length={length} is too short for {lesson}; it takes {FEWEST[lesson]} digits or more")
    found: list[Parallel] = []
    for number in range(count):
        chance = np.random.Generator(np.random.Philox(key=[seed, number]))
        while True:
            digits = chance.integers(10, size=_length(lesson, chance, trained=seed % 3 == 0, length=length))
            if _share(digits) == seed % 3:
                break
        text = _marked(digits, chance) if lesson == "adding" else "".join(map(str, digits))
        found.append(Parallel(text + ASKED, answer(lesson, text)))
    return found


def _share(digits: NDArray[np.int64]) -> int:
    """Which seeds a sequence belongs to: five in seven are for training. This tells nothing of the sum's parity."""
    key = int((digits * 3 ** (np.arange(len(digits)) % 6)).sum()) + len(digits)
    return {0: 1, 1: 2}.get(key % 7, 0)


def _marked(digits: NDArray[np.int64], chance: np.random.Generator) -> str:
    half = len(digits) // 2
    marked = {int(chance.integers(half)), int(chance.integers(half, len(digits)))}
    return "".join(MARK * (place in marked) + str(digit) for place, digit in enumerate(digits))


def _length(lesson: Lesson, chance: np.random.Generator, *, trained: bool, length: int | None) -> int:
    if length is not None and not trained:
        return length
    lengths = np.arange(FEWEST[lesson] if trained else SHORTEST, (length or LONGEST[lesson]) + 1)
    weights = 1 / lengths if trained and lesson == "parity" else np.ones(len(lengths))
    return int(chance.choice(lengths, p=weights / weights.sum()))


class Teaching(Task[Parallel, Any]):
    """One lesson, in the form that a model can learn: `head` says which.

    text2text-generation: an encoder-decoder reads the digits and writes the answer. text-generation: a language model
    goes on after the digits. text-classification: the answer is a class; this is for parity and adding alone. The score
    is the share of answers that are right from end to end.
    """

    lesson: ClassVar[Lesson]
    vocabulary = "character"
    built_in = True
    head = "text2text-generation"
    metric = "exact_match"
    input_columns = TextColumn("source", (*SOURCES, *TEXTS))

    def __init__(
        self, tokenizer: Tokenizer, *, head: str = "text2text-generation", form: AnyTask | None = None
    ) -> None:
        """
        Args:
            head: text2text-generation, text-generation or, of parity and adding, text-classification. By default what
                suits the arch.
        """
        known = HEADS if self.lesson in CLASSES else HEADS[:2]
        if head not in known:
            raise ValueError(f"{self.lesson} is learnt with the head {' or '.join(known)}, not {head!r}")
        self.form = form or form_of(head).from_spec(tokenizer, self.make_spec({"head": head}))
        self.tokenizer, self.head, self.max_length = tokenizer, head, self.form.max_length

    @classmethod
    def read(
        cls,
        sources: Sequence[str],
        *,
        columns: Mapping[str, str] | None = None,
        length: Size | None = None,
        **_: object,
    ) -> Read[Parallel]:
        """
        Args:
            columns: Which column is the source and which the target.
            length: Digits of made-up examples: in training at most, in dev and test exactly. Files have their own.
        """
        del length
        return read_parallel(sources, columns=columns)

    @classmethod
    def make_spec(cls, options: Mapping[str, Any], **known: Any) -> Spec:
        """The spec of the form that the head asks for."""
        head = options.get("head", cls.head)
        if head == "text-classification":
            return Spec(
                head=head, labels=CLASSES.get(cls.lesson, ()), problem_type="single_label_classification", **known
            )
        return Spec(head=head, options={"exact_match": True}, **known)

    @classmethod
    def spec_of_model(cls, tokenizer: Tokenizer, model: Model, **options: Any) -> Spec:
        return super().spec_of_model(tokenizer, model, **{"head": model.head_name, **options})

    @classmethod
    def fit_spec(cls, spec: Spec, tokenizer: Tokenizer, model: Model) -> Spec:
        return form_of(spec.head).fit_spec(spec, tokenizer, model)

    @classmethod
    def model_settings(cls, tokenizer: Tokenizer, spec: Spec) -> dict[str, Any]:
        return form_of(spec.head).model_settings(tokenizer, spec)

    @classmethod
    def from_spec(cls, tokenizer: Tokenizer, spec: Spec) -> Self:
        return cls(tokenizer, head=str(spec.head), form=form_of(spec.head).from_spec(tokenizer, spec))

    @property
    def spec(self) -> Spec:
        return self.form.spec

    def encode(self, examples: Sequence[Parallel]) -> Any:
        return self.form.encode([self._formed(one) for one in examples])

    def _formed(self, example: Parallel) -> Parallel | Labelled:
        return Labelled(example.source, label=example.target) if self.head == "text-classification" else example

    def batch(self, items: object, indices: Indices, seed: int = 0) -> Batch:
        return self.form.batch(items, indices, seed)

    def loss(self, model: Model, batch: Batch) -> Tensor:
        return self.form.loss(model, batch)

    def metrics(self, *, keep_examples: bool = False) -> ScoreSheet:
        return self.form.metrics(keep_examples=keep_examples)

    def predict_options(self) -> dict[str, Any]:
        return self.form.predict_options()

    def check_predict(self, options: Mapping[str, object]) -> None:
        self.form.check_predict(options)

    def predict(self, model: Model, inputs: Sequence[object], **options: Any) -> list[Any]:
        """Options are those of the task that the lesson is put as.

        Args:
            inputs: Digits, as 31*452*7, with or without the equals sign after them.

        Returns:
            A dict of answer.
        """
        sources = [as_source(one).removesuffix(ASKED) + ASKED for one in inputs]
        key = "label" if self.head == "text-classification" else "translation_text"
        return [{"answer": found[key]} for found in self.form.predict(model, sources, **options)]


class Copy(Teaching):
    """Write the same digits."""

    name, lesson = "copy", "copy"


class Reverse(Teaching):
    """Write the digits from the last to the first."""

    name, lesson = "reverse", "reverse"


class Parity(Teaching):
    """Write 1 if the sum of the digits is odd, else 0."""

    name, lesson = "parity", "parity"


class Adding(Teaching):
    """Write the sum of the two digits that are marked."""

    name, lesson = "adding", "adding"


class Classes(TextClassification):
    """Answers that are few are classes."""

    def _scores(self, *, keep_examples: bool) -> Classification:
        return WholeAnswers(self.labels, keep_examples=keep_examples)


class WholeAnswers(Classification):
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

    @classmethod
    def model_settings(cls, tokenizer: Tokenizer, spec: Spec) -> dict[str, Any]:
        found = super().model_settings(tokenizer, spec)
        return {name: value for name, value in found.items() if name != "decoder_start_token_id"}

    def encode(self, examples: Sequence[Parallel]) -> Continued:
        plain = super().encode(examples)
        return Continued(plain.sources, plain.targets, plain.references, plain.score_tokenizer, plain.num_truncated)

    def _sources(self, texts: Sequence[str]) -> tuple[Ragged, int]:
        return encode_sources(self.tokenizer, texts, self.special_ids, max_length=self.max_length, special=False)

    def batch(self, items: Translated, indices: Indices, seed: int = 0) -> Batch:
        assert isinstance(items, Continued)
        batch = super().batch(items, indices, seed)
        if items.rows is None or items.targets is None:
            return batch
        inputs = {
            "input_ids": items.rows.padded(indices, self.special_ids.pad),
            "attention_mask": items.rows.mask(indices),
        }
        width, rows = inputs["input_ids"].shape[1], batch.targets["rows"]
        # An answer's first token is told at the last place of its source.
        column = batch.targets["places"] - rows * int(items.targets.lengths[indices].max())
        first = torch.from_numpy(items.sources.lengths[indices] - 1)
        targets = {**batch.targets, "places": rows * width + first[rows] + column}
        return Batch(inputs, targets, batch.count, {**batch.extra, "prompts": super().prompts(batch)})

    def prompts(self, batch: Batch) -> tuple[Tensor, Tensor]:
        return batch.extra.get("prompts") or super().prompts(batch)

    def max_new_tokens(self, length: int, model: Model) -> int:
        longest = rounded_up(length)
        return min(10 + 3 * longest // 2, max(1, (model.config.max_positions or 10 * longest) - longest))


def form_of(head: str | None) -> type[AnyTask]:
    """The task that a lesson is learnt as, with this head."""
    forms: dict[str | None, type[AnyTask]]
    forms = {"text-generation": Continuation, "text-classification": Classes}
    return forms.get(head, Translation)
