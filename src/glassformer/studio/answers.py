"""What a model was asked in a trace: the places it answers at, what it chooses among, and its scores.

T places, V choices.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from torch import Tensor

from glassformer.inspect.lens import scores
from glassformer.jobs.reading import token_text
from glassformer.models.contract import Model, as_model, label_names

from .limits import SECONDS, Deadline
from .traces import Trace

Choices = Literal["words", "classes", "tokens"]


@dataclass(frozen=True)
class TraceAnswers:
    """One trace as questions and answers."""

    trace: Trace
    deadline: Deadline = field(default_factory=lambda: Deadline.after(SECONDS))

    @cached_property
    def model(self) -> Model:
        model = as_model(self.trace.loaded.model)
        if model.head_name is None:
            raise ValueError("this model has no head, so it says nothing; load one that was trained for a task")
        return model

    @property
    def head(self) -> str:
        return self.model.head_name or ""

    @property
    def choices(self) -> Choices:
        """Words of the vocabulary, classes of the config, or the tokens of the text."""
        head = self.head
        if head == "question-answering":
            return "tokens"
        return "classes" if "classification" in head or head in ANSWERS else "words"

    @property
    def side(self) -> str | None:
        """Whose tokens the places are; None where they are no tokens."""
        if self.model.config.is_encoder_decoder:
            return "fed"
        return None if self.model.head_name in WHOLE else "read"

    @property
    def places(self) -> list[str]:
        """A label for each place."""
        if self.side is None:
            return WHOLE[self.head]
        return list(self.trace.reading.tokens[self.side].texts)

    @property
    def scores(self) -> Tensor:
        """(T, V) of the trace itself."""
        return self.scores_of(self.trace.outputs)

    def scores_of(self, outputs: dict[str, Tensor]) -> Tensor:
        """(T, V) of what the model gave."""
        return scores(self.model, list(outputs.values()))[0].float()

    @property
    def answer_places(self) -> list[int]:
        """The places that the answer is about: masks, words to be tagged, the last token of a text that goes on."""
        everywhere, tokenizer = list(range(len(self.places))), self.trace.loaded.tokenizer
        if self.model.head_name == "text-generation":
            return everywhere[-1:]
        if tokenizer is None or self.side != "read":
            return everywhere
        ids = self.trace.reading.inputs["input_ids"][0].tolist()
        if self.choices == "classes":
            special = set(tokenizer.all_special_ids)
            return [place for place in everywhere if ids[place] not in special] or everywhere
        return [place for place in everywhere if ids[place] == tokenizer.mask_token_id] or everywhere

    def shares(self, logits: Tensor) -> Tensor:
        """Probabilities: of one choice, or of each of several classes; a regression's number stays as it is."""
        if self.alone:
            return logits
        return logits.sigmoid() if self.several else logits.softmax(-1)

    @property
    def alone(self) -> bool:
        """Whether there is nothing to choose among: a regression says a number."""
        return self.choices == "classes" and len(self.labels) == 1

    @property
    def exclusive(self) -> bool:
        """Whether one choice excludes the others, so that there is an entropy."""
        return not self.alone and not self.several

    @property
    def several(self) -> bool:
        """Whether any number of classes may be right."""
        return self.choices == "classes" and self.model.config.problem_type == "multi_label_classification"

    @property
    def labels(self) -> list[str]:
        return ANSWERS.get(self.head) or label_names(self.model.config)

    def name(self, number: int) -> str:
        """A choice as a person reads it."""
        if self.choices == "classes":
            return self.labels[number]
        if self.choices == "tokens":
            return self.trace.reading.tokens["read"].texts[number]
        return token_text(self.trace.loaded.tokenizer, number)


ANSWERS = {  # classes that no config names
    "next-sentence-prediction": ["follows", "does not follow"],
    "replaced-token-detection": ["original", "replaced"],
}
WHOLE = {
    "text-classification": ["text"],
    "next-sentence-prediction": ["text"],
    "question-answering": ["start", "end"],
}


def divergence(before: Tensor, after: Tensor) -> Tensor:
    """KL(before ‖ after) in nats of logits (…, V), in float64."""
    sure, other = before.double().log_softmax(-1), after.double().log_softmax(-1)
    return (sure.exp() * (sure - other)).sum(-1).clamp(min=0.0)
