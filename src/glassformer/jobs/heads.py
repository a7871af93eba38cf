"""What the attention heads of a model are worth to its task, on some examples."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from glassformer.data.batches import Budget, in_order
from glassformer.inspect.heads import HeadImportance, PruningPoint, attentions_of, importance, pruning
from glassformer.inspect.statistics import Statistics, attention_statistics
from glassformer.models.contract import as_model
from glassformer.tasks.batch import Batch, device_of

from .predict import Pipeline
from .progress import clock, shown

TOKENS = 4096  # of a batch
WORTH_SAYING = 10.0  # seconds


@dataclass(frozen=True)
class Measured:
    """The loss a target, every head's share in it (the cheapest first), how many can go, and what each looks at."""

    examples: int
    loss: float
    heads: list[HeadImportance]
    cuts: list[PruningPoint]
    looks: list[Statistics]


def measure(
    pipe: Pipeline, examples: Sequence[Any], *, limit: int = 200, log: Callable[[str], None] | None = None
) -> Measured:
    """The task's own loss is what a head is judged by.

    Of more examples than the limit some are drawn, and so are some rows where examples are read in more rows than
    that, as a long text is in blocks. `log` takes how long it will take, where that is more than some seconds.
    """
    if len(examples) > limit:  # files are often sorted by label
        examples = random.Random(0).sample(examples, limit)
    if not examples:
        raise ValueError("there is no example to measure heads on; give a file that holds some")
    model, task = pipe.model, pipe.task
    items = task.encode(examples)
    rows = np.sort(np.random.default_rng(0).permutation(len(items.lengths))[:limit])
    chosen = [rows[some] for some in in_order(items.lengths[rows], Budget(tokens=TOKENS))]
    batches = [task.batch(items, some).to(device_of(model)) for some in chosen]

    @torch.no_grad()
    def loss() -> float:
        return sum(float(task.loss(as_model(model), batch)) for batch in batches) / max(
            1, sum(batch.count for batch in batches)
        )

    heads = sum(part.heads for part in attentions_of(model).values())
    seconds = heads * _seconds(loss)
    if log is not None and seconds > WORTH_SAYING:
        log(f"{heads} heads, each put out on {len(rows)} examples: about {clock(seconds)}; --limit reads fewer")
    with shown("heads") as on_progress:
        base, ranked = importance(model, loss, on_progress)
    with shown("pruning") as on_progress:
        cuts = pruning(model, loss, ranked, on_progress)
    return Measured(len(examples), base, ranked, cuts, _looks(model, batches))


def _seconds(loss: Callable[[], float]) -> float:
    """How long one reading of all batches takes."""
    begun = time.perf_counter()
    loss()
    return time.perf_counter() - begun


def _looks(model: nn.Module, batches: Sequence[Batch]) -> list[Statistics]:
    """Of the largest batch: enough tokens to see a habit."""
    most = max(batches, key=lambda batch: batch.tokens)
    return attention_statistics(model, most.inputs)
