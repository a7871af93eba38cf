"""A predictor: a model that is loaded once, wherever this runs, and then asked about chunk after chunk of inputs."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import torch

from .predict import Pipeline, pipeline

MOST_CHARACTERS = 300  # of an error beside a row


@dataclass(frozen=True)
class PredictorSpec:
    """What a predictor loads, and the options of every call; plain values, so that it can go to any process."""

    model: str
    task: str
    device: str | None = None
    dtype: str | None = None
    quant: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    threads: int | None = None  # of torch; None: as many as it likes


class Prediction(NamedTuple):
    """The result of an input, or why there is none."""

    found: Any
    error: str | None = None


class Predictor:
    """Made at once; the model is loaded when it is first asked for."""

    def __init__(self, spec: PredictorSpec) -> None:
        self.spec = spec

    @cached_property
    def pipe(self) -> Pipeline:
        spec = self.spec
        if spec.threads is not None:
            torch.set_num_threads(spec.threads)
        pipe = pipeline(spec.task, spec.model, device=spec.device, dtype=spec.dtype, quant=spec.quant)
        pipe.task.check_predict(spec.options)
        return pipe

    def load(self) -> int:
        """Load the model, and say which process this is; what speaks against it is a ValueError."""
        self.pipe.model.eval()
        return os.getpid()

    def predict(self, inputs: Sequence[Any]) -> list[Prediction]:
        """One prediction for each input, in their order. Where some cannot be predicted together, halves of them are
        tried, so that one that cannot be predicted spoils no other."""
        if not inputs:
            return []
        try:
            found = self.pipe(list(inputs), **self.spec.options)
        except Exception as error:  # of the input, or of a batch too large for the memory
            if len(inputs) == 1:
                return [Prediction(None, _message(error))]
            half = len(inputs) // 2
            return [*self.predict(inputs[:half]), *self.predict(inputs[half:])]
        return [Prediction(as_written(given, one)) for given, one in zip(inputs, found, strict=True)]


def _message(error: Exception) -> str:
    line = (str(error).strip().splitlines() or [""])[0][:MOST_CHARACTERS]
    return line if isinstance(error, ValueError) else f"{type(error).__name__}: {line}"


def as_people_read(task: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a call, with those that a command takes where nobody says otherwise: entities by whole words."""
    return {**({"aggregation_strategy": "first"} if task == "token-classification" else {}), **options}


def as_written(given: Any, found: Any) -> Any:
    """Entities in the words of their text: a tokenizer may have folded capitals and parted words and marks."""
    if not (isinstance(given, str) and isinstance(found, list)):
        return found
    cut = [isinstance(one, dict) and {"word", "start", "end"} <= one.keys() for one in found]
    return [
        {**one, "word": given[one["start"] : one["end"]]} if has else one for one, has in zip(found, cut, strict=True)
    ]
