"""Examples that need no file: "microworld", with a language ("microworld:de") and "short" ("microworld:de:short")."""

from collections.abc import Sequence
from typing import Any

from glassformer.data import microworld
from glassformer.tasks.task import Task
from glassformer.tasks.teaching import Teaching, examples

from .recipe import MICROWORLD

KINDS = {  # of the micro-world's examples, by task
    "text-classification": "labelled",
    "token-classification": "tagged",
    "question-answering": "asked",
    "sentence-similarity": "scored",
    "feature-extraction": "scored",
    "sentence-embedding": "scored",
    "translation": "parallel",
    "summarization": "summaries",
    "text2text-generation": "parallel",
    "zero-shot-classification": "nli",
    "fill-mask": "documents",
    "text-generation": "documents",
    "pretraining": "documents",
    "sentence-order-prediction": "documents",
    "replaced-token-detection": "documents",
    "span-corruption": "documents",
}
COUNTS = {"train": 4000, "dev": 400, "test": 400}


def is_built_in(sources: Sequence[str]) -> bool:
    return sources[0].partition(":")[0] == MICROWORLD  # and not a file called microworld.csv


def built_in_examples(
    source: str, split: str, task: type[Task[Any, Any]], *, limit: int | None = None, length: int | None = None
) -> list[Any]:
    """The built-in examples of a split for a task: of training `limit`, if given; each split has a seed of its own.

    `length` is how many digits a lesson has.
    """
    _, *wishes = source.split(":")
    short = wishes[-1:] == ["short"]
    language = ":".join(wishes[: len(wishes) - short]) or "en"
    seed = list(COUNTS).index(split)
    count = COUNTS[split] if limit is None else limit if split == "train" else min(limit, COUNTS[split])
    if issubclass(task, Teaching):
        return examples(task.lesson, count, seed=seed, length=length)  # digits are the same in all languages
    return microworld.examples(KINDS[task.name], count, seed=seed, language=language, short=short)
