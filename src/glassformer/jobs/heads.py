"""What the attention heads of a model are worth to its task, on some examples."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from glassformer.data.batches import Budget, in_order
from glassformer.inspect.heads import Cut, Head, importance, pruning
from glassformer.inspect.statistics import Statistics, attention_statistics
from glassformer.tasks.task import Batch, device_of

from .predict import Pipeline
from .progress import shown

TOKENS = 4096  # of a batch


@dataclass(frozen=True)
class Measured:
    """The loss a target, every head's share in it (the cheapest first), how many can go, and what each looks at."""

    examples: int
    loss: float
    heads: list[Head]
    cuts: list[Cut]
    looks: list[Statistics]


def measure(pipe: Pipeline, examples: Sequence[Any], *, limit: int = 200) -> Measured:
    """The task's own loss is what a head is judged by; of more examples than the limit, some are drawn."""
    if len(examples) > limit:  # files are often sorted by label
        examples = random.Random(0).sample(examples, limit)
    if not examples:
        raise ValueError("there is no example to measure heads on; give a file that holds some")
    model, task = pipe.model, pipe.task
    items = task.encode(examples)
    batches = [task.batch(items, some).to(device_of(model)) for some in in_order(items.lengths, Budget(tokens=TOKENS))]

    @torch.no_grad()
    def loss() -> float:
        return sum(float(task.loss(model, batch)) for batch in batches) / max(1, sum(batch.count for batch in batches))

    with shown("heads") as told:
        base, ranked = importance(model, loss, told)
    with shown("pruning"):
        cuts = pruning(model, loss, ranked)
    return Measured(len(examples), base, ranked, cuts, _looks(model, batches))


def _looks(model: Any, batches: Sequence[Batch]) -> list[Statistics]:
    """Of the largest batch: enough tokens to see a habit."""
    most = max(batches, key=lambda batch: batch.tokens)
    return attention_statistics(model, most.inputs)
