"""Every task by its name; a task's file is imported when it is first asked for."""

import inspect
import re
from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # names are known without torch
    from glassformer.tasks.task import AnyTask

TASKS = {
    "text-classification": ("text_classification", "TextClassification"),
    "token-classification": ("token_classification", "TokenClassification"),
    "question-answering": ("question_answering", "QuestionAnswering"),
    "fill-mask": ("fill_mask", "FillMask"),
    "pretraining": ("pretraining", "BertPretraining"),
    "sentence-order-prediction": ("sentence_order", "SentenceOrder"),
    "replaced-token-detection": ("replaced_tokens", "ReplacedTokens"),
    "text-generation": ("text_generation", "TextGeneration"),
    "translation": ("translation", "Translation"),
    "summarization": ("summarization", "Summarization"),
    "text2text-generation": ("translation", "Text2TextGeneration"),
    "span-corruption": ("span_corruption", "SpanCorruption"),
    "zero-shot-classification": ("zero_shot_classification", "ZeroShotClassification"),
    "sentence-similarity": ("sentence_similarity", "SentenceSimilarity"),
    "feature-extraction": ("sentence_similarity", "FeatureExtraction"),
    "sentence-embedding": ("sentence_similarity", "SentenceEmbedding"),
    "copy": ("teaching", "Copy"),
    "reverse": ("teaching", "Reverse"),
    "parity": ("teaching", "Parity"),
    "adding": ("teaching", "Adding"),
}
ALIASES = {
    "ner": "token-classification",
    "sentiment-analysis": "text-classification",
}
PAIR = re.compile(r"translation_(.+)_to_(.+)")  # Hugging Face's names of translations from one language to another


def task_name(name: str) -> str:
    """The name in TASKS of what a user calls a task; one that there is not is refused, with a near one."""
    name = ALIASES.get(name, "translation" if PAIR.fullmatch(name) else name)
    if name not in TASKS:
        near = get_close_matches(name, [*TASKS, *ALIASES], n=1)
        hint = f"did you mean {near[0]!r}? All: " if near else "there are: "
        raise ValueError(f"there is no task {name!r}; {hint}{', '.join(TASKS)}, translation_xx_to_yy")
    return name


def task_class(name: str) -> type["AnyTask"]:
    """The task of a name, Hugging Face's where it has one."""
    file, cls = TASKS[task_name(name)]
    return getattr(import_module(f"glassformer.tasks.{file}"), cls)  # type: ignore[no-any-return]


def taken(cls: type["AnyTask"], options: Mapping[str, Any]) -> dict[str, Any]:
    """Of some options, those of the task itself; the rest are its reader's."""
    known = inspect.signature(cls.__init__).parameters.keys() - {"tokenizer"}  # a recipe names the run's, not an option
    return {name: value for name, value in options.items() if name in known}
