"""What the conditions of a language model are worth, on texts that were held out."""

from collections.abc import Sequence
from dataclasses import replace
from math import exp, inf
from pathlib import Path

import torch
import torch.nn.functional as F

from glassformer.data.batches import Budget
from glassformer.data.examples import Document
from glassformer.jobs.predict import Pipeline, pipeline
from glassformer.models.contract import as_token_scorer
from glassformer.tasks.text_generation import TextGeneration, control_token
from glassformer.tasks.words import NO_TARGET

COLUMNS = {"label": "label"}


def worth(model: str | Path, sources: Sequence[str], *, base: str) -> dict[str, float]:
    """Perplexities of labelled texts after their condition, after none and after another one, and of the base."""
    pipe = pipeline("text-generation", model, device="cpu")
    told = pipe.read(sources, columns=COLUMNS).examples
    plain = [replace(one, label=None) for one in told]
    others = _others(pipe.task.conditions)
    wrong = [replace(one, label=others[one.label]) for one in told]
    return {
        "perplexity after its condition": perplexity(pipe, told),
        "perplexity after none": perplexity(pipe, plain),
        "perplexity after another": perplexity(pipe, wrong),
        f"perplexity by {base}": perplexity(pipeline("text-generation", base, device="cpu"), plain),
    }


def _others(conditions: Sequence[str]) -> dict[str, str]:
    """Of each condition another one: the next."""
    return dict(zip(conditions, [*conditions[1:], conditions[0]], strict=True))


@torch.inference_mode()
def perplexity(pipe: Pipeline, examples: Sequence[Document]) -> float:
    """Of the tokens of the texts and their ends; a condition is read, and guessed neither there nor elsewhere."""
    task, model = pipe.task, as_token_scorer(pipe.model)
    assert isinstance(task, TextGeneration)
    task.packing = False
    never = task.tokenizer.convert_tokens_to_ids([control_token(one) for one in task.conditions])
    items = task.encode(examples)
    loss = count = 0.0
    for indices in task.eval_batches(items, Budget(tokens=4096)):
        batch = task.batch(items, indices)
        labels = batch.targets["labels"]
        if examples[0].label is not None:
            labels[:, 0] = NO_TARGET
        scores = model.logits(model.hidden(**batch.inputs)).index_fill(-1, torch.tensor(never, dtype=torch.long), -inf)
        loss += F.cross_entropy(scores.flatten(0, 1), labels.flatten(), ignore_index=NO_TARGET, reduction="sum").item()
        count += (labels != NO_TARGET).sum().item()
    return exp(loss / count)
