"""Preflight: what a user wants to know before the first step costs anything."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import nn

from glassformer.blocks.memory import free_bytes
from glassformer.data.batches import Indices
from glassformer.data.examples import Document, Labelled, Tagged
from glassformer.data.mixing import shares_of
from glassformer.data.shards import Shards
from glassformer.data.splits import overlap, repeats
from glassformer.models.contract import GENERATES, as_model
from glassformer.tasks.batch import Items, device_of
from glassformer.tasks.task import AnyTask
from glassformer.train.freeze import percent
from glassformer.train.memory import Memory, estimate
from glassformer.train.plan import Plan
from glassformer.train.update import schedule_of

from .data import Splits

SCORES_WORDS = (*GENERATES, "fill-mask", "pretraining")  # heads that score all words
OVERFIT_STEPS, OVERFIT_SECONDS = 60, 30.0  # whichever is over first
OVERFIT_ROWS, OVERFIT_TOKENS = 8, 512  # at most


@dataclass
class Preflight:
    """What was found; `lines` for people, `facts` for the run folder, `warnings` for both."""

    facts: dict[str, Any] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def preflight(
    task: AnyTask,
    model: nn.Module,
    plan: Plan,
    splits: Splits,
    *,
    train: Items,
    dev: Items | None,
    device: torch.device,
) -> Preflight:
    """Look at the data and the plan as the loop will see them; `device` is where the model is, or is to be."""
    found = Preflight()
    _labels(found, splits)
    _duplicates(found, splits)
    _lengths(found, task, train, dev)
    _padding(found, task, train, plan)
    _memory(found, task, model, plan, train, device)
    _processes(found, plan)
    return found


def _processes(found: Preflight, plan: Plan) -> None:
    settings = {"parallel": "ddp", "tensor_parallel": 1, "context_parallel": 1}
    asked = [name for name, alone in settings.items() if getattr(plan, name) != alone]
    if asked and not dist.is_initialized():
        found.warnings.append(
            f"{asked[-1]} = {getattr(plan, asked[-1])} is for several processes, and this one is alone and holds all "
            "of the model: torchrun --nproc-per-node N -m glassformer train …"
        )


def _labels(found: Preflight, splits: Splits) -> None:
    for name, examples in splits.by_name().items():
        if not examples:
            continue
        if isinstance(examples, Shards):
            found.facts |= {f"{name}_documents": examples.documents, f"{name}_bytes": examples.bytes}
            continue
        counts = Counter(label for one in examples for label in _labels_of(one))
        found.facts[f"{name}_examples"] = len(examples)
        if not counts:
            found.lines.append(f"{name}: {len(examples)} examples")
            continue
        found.facts[f"{name}_labels"] = dict(counts.most_common())
        shown = ", ".join(f"{label} {count}" for label, count in counts.most_common(8))
        found.lines.append(f"{name}: {len(examples)} examples; {shown}{', …' if len(counts) > 8 else ''}")
        if name != "train" and (missing := set(found.facts.get("train_labels", {})) - set(counts)):
            found.warnings.append(f"{name} has no example of: {', '.join(sorted(missing)[:8])}")
        if name != "train" and (unseen := set(counts) - set(found.facts.get("train_labels", {}))):
            found.warnings.append(f"no training example of: {', '.join(sorted(unseen)[:8])}, which {name} has")


def _labels_of(example: object) -> Sequence[str]:
    match example:
        case Labelled(label=str(label)) | Document(label=str(label)):
            return [label]
        case Labelled(label=tuple(labels)):
            return labels
        case Tagged(tags=tuple(tags)):
            return [tag for tag in tags if tag.startswith("B-")]
        case _:
            return []


def _duplicates(found: Preflight, splits: Splits) -> None:
    if any(isinstance(one, Shards) for one in (splits.train, splits.dev, splits.test)):
        found.lines.append("repeats and texts that are in two splits: not looked for in shards")
        return
    train = [one.key for one in splits.train]
    if again := repeats(train):
        found.facts["train_repeats"] = again
        found.lines.append(f"repeats: {again} of the training examples have come before")
    for name in ("dev", "test"):
        shared = overlap(train, [one.key for one in splits.by_name()[name]])
        found.facts[f"{name}_seen_in_training"] = shared
        if shared:
            found.warnings.append(f"{shared} of the {name} examples are also in the training data: scores will flatter")


def _lengths(found: Preflight, task: AnyTask, train: Items, dev: Items | None) -> None:
    kept, lost = int(train.lengths.sum()), train.num_truncated
    found.facts |= {"longest": int(train.lengths.max()), "mean_length": float(train.lengths.mean())}
    found.facts |= {"train_tokens": kept, "train_tokens_cut": lost}
    found.facts["dev_tokens_cut"] = 0 if dev is None else dev.num_truncated
    found.lines.append(
        f"lengths: {train.lengths.mean():.1f} tokens on average, {train.lengths.max()} at most; {kept:,} in all"
    )
    if lost:
        share = percent(lost / (kept + lost))
        found.warnings.append(f"{share} of the training tokens are cut off by max_length={task.max_length}")


def _padding(found: Preflight, task: AnyTask, train: Items, plan: Plan) -> None:
    """Real and padded places of the first epoch's batches, just as the loop will make them."""
    schedule = schedule_of(task, train, plan)
    batches = schedule.epoch(0)
    places = sum(int(train.lengths[one].max()) * len(one) for one in batches)
    share = 1 - float(train.lengths.sum()) / max(1, places)
    steps = plan.steps or schedule.steps(plan.epochs or 1)
    found.facts |= {"padding_share": share, "steps": steps, "batches_an_epoch": len(batches)}
    found.lines.append(f"batches: {len(batches)} an epoch, {steps} steps in all; {100 * share:.1f} % padding")
    shares = shares_of(schedule.sources, len(train.lengths)) if schedule.sources else []
    for one, number in zip(schedule.sources, shares, strict=True):
        part, passes = percent(number / len(train.lengths)), steps / len(batches) * number / one.count
        found.lines.append(f"{one.name}: {part} of what is learnt, seen {passes:.3g} times")
        if not number:
            found.warnings.append(f"the weight of {one.name} is too small for one example of it an epoch")


def _memory(found: Preflight, task: AnyTask, model: nn.Module, plan: Plan, train: Items, device: torch.device) -> None:
    """What the largest batch of the first epoch will take."""
    batches = schedule_of(task, train, plan).epoch(0)
    length, rows = max(
        ((int(train.lengths[one].max()), len(one)) for one in batches), key=lambda shape: shape[0] * shape[1]
    )
    rows = -(-rows // plan.accumulate)
    without_values = next(model.parameters()).is_meta
    needs = _counted(model, plan, rows * length, device) if without_values else estimate(model, rows, length=length)
    found.facts |= {"memory_needed": needs.needed, "memory_available": needs.available}
    found.lines.append(f"memory: {needs}")
    if needs.needed > needs.available:
        found.warnings.append("this will not fit: lower the batch, raise accumulate, or set checkpointing = true")


def _counted(model: nn.Module, plan: Plan, tokens: int, device: torch.device) -> Memory:
    """What a process needs of a model that is dealt out, for its share of so many tokens: nothing can be tried yet."""
    from glassformer.train.mesh import Mesh, held  # DTensors take a third of a second to import

    mesh = Mesh.running()
    mine = tokens / mesh.rows(plan)
    kept = held(model, plan, mesh, tokens=mine, scored=mine if as_model(model).head_name in SCORES_WORDS else 0.0)
    return Memory(
        parameters=int(kept.gathered + (0 if kept.offloaded else kept.weights)),
        gradients=0 if kept.offloaded else int(kept.gradients),
        optimiser=0 if kept.offloaded else int(kept.moments),
        activations=int(kept.activations),
        passing=int(kept.scores),
        available=free_bytes(device),
    )


class Overfit(NamedTuple):
    """The loss on one batch before and after so many steps on nothing else."""

    before: float
    after: float
    steps: int

    def __str__(self) -> str:
        why = "" if self.steps == OVERFIT_STEPS else f", for which there are {OVERFIT_SECONDS:.0f} s"
        losses = f"loss {self.before:.4g} before, {self.after:.4g} after {self.steps} steps"
        return f"one batch learnt by heart: {losses}{why}"


def overfit(
    task: AnyTask,
    model: nn.Module,
    items: Items,
    *,
    seed: int = 0,
    seconds: float = OVERFIT_SECONDS,
    on_progress: Callable[[int, int], None] | None = None,
) -> Overfit:
    """Learn one small batch by heart, for so many seconds at most: a model that can learn, learns it."""
    model, device, begun = deepcopy(model).train(), device_of(model), time.monotonic()
    batch = task.batch(items, _few(items.lengths)).to(device)
    optimiser = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=1e-3)
    losses: list[float] = []
    torch.manual_seed(seed)
    while True:
        loss = task.loss(as_model(model), batch) / batch.count
        losses.append(float(loss.detach()))
        steps = len(losses) - 1
        share = max(steps / OVERFIT_STEPS, (time.monotonic() - begun) / max(seconds, 1e-9))  # of steps, or of time
        if on_progress is not None:
            on_progress(round(100 * share), 100)
        if steps and share >= 1:
            return Overfit(losses[0], losses[-1], steps)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()


def _few(lengths: NDArray[np.int64]) -> Indices:
    """The shortest examples, as many as are quickly read; two or more, where there are, since some losses compare."""
    shortest = np.argsort(lengths, kind="stable")[:OVERFIT_ROWS]
    fit = lengths[shortest] * np.arange(1, len(shortest) + 1) <= OVERFIT_TOKENS  # padding counted
    return shortest[: max(2, int(fit.sum()))]
