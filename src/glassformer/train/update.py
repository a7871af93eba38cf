"""One update: a batch in micro-batches, over any number of processes, with the gradient of the whole."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from glassformer.data.batches import BatchIndices, Indices, Schedule, share_out
from glassformer.tasks.batch import Batch, Carried, Items
from glassformer.tasks.task import AnyTask

from .layout import DTYPES, Layout
from .plan import Plan
from .processes import Processes


@dataclass(frozen=True)
class Update:
    """This process's micro-batches of one step; a part without examples has a batch that weighs nothing."""

    examples: BatchIndices
    parts: list[tuple[Batch, float]]

    @property
    def count(self) -> int:
        return sum(batch.count for batch, weight in self.parts if weight)

    @property
    def tokens(self) -> int:
        return sum(batch.tokens for batch, weight in self.parts if weight)

    @property
    def padding(self) -> int:
        return sum(batch.padding for batch, weight in self.parts if weight)


def combine_seeds(*numbers: int) -> int:
    """One seed from several numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)


def seed_step(seed: int, device: torch.device) -> None:
    """Seed what a step on this device draws from; torch.manual_seed visits every kind of device, for a millisecond."""
    (torch.default_generator.manual_seed if device.type == "cpu" else torch.manual_seed)(seed)


def schedule_of(task: AnyTask, items: Items, plan: Plan) -> Schedule:
    """Which examples each step of a plan sees."""
    return Schedule(
        items.lengths,
        plan.budget,
        seed=plan.seed,
        ordered=task.carry_state,
        window=plan.shuffle_window,
        sources=task.sources(items),
    )


def updates(
    task: AnyTask,
    items: Items,
    schedule: Schedule,
    plan: Plan,
    *,
    after: int,
    processes: Processes,
    total: int | None = None,
) -> Iterator[Update]:
    """The updates that follow step `after`, without end; `total` is of the steps that will be taken."""
    for chosen in schedule.after(after, total=total):
        if chosen.coming is not None:
            task.expect(items, chosen.coming)
        parts = share_out(chosen.indices, plan.accumulate * processes.world_size)[
            processes.rank :: processes.world_size
        ]
        seed = combine_seeds(plan.seed, chosen.epoch)
        yield Update(chosen, [_part(task, items, part, chosen.indices, seed) for part in parts])


def _part(task: AnyTask, items: Items, part: Indices, whole: Indices, seed: int) -> tuple[Batch, float]:
    """Every process must take the same number of steps, so an empty part borrows an example and gives it no weight."""
    return (task.batch(items, part, seed), 1.0) if len(part) else (task.batch(items, whole[:1], seed), 0.0)


class OptimizerStep:
    """Takes updates: gradients of the whole batch, clipped, into the optimiser."""

    def __init__(self, layout: Layout, plan: Plan, optimiser: torch.optim.Optimizer) -> None:
        self.layout, self.plan, self.optimiser, self.processes = layout, plan, optimiser, layout.data
        self.device = layout.device
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=plan.precision == "fp16")
        self.rates = [group["lr"] for group in optimiser.param_groups]
        self.carried: list[Carried] = [()] * plan.accumulate  # out of each micro-batch into that of the next step

    def __call__(self, update: Update, count: int, factor: float) -> tuple[Tensor, Tensor]:
        """This process's share of the summed loss and the gradient's norm; `count` is of the targets of the whole."""
        loss = torch.zeros((), device=self.device)
        for place, (batch, weight) in enumerate(update.parts):
            with self.layout.no_sync(last=place + 1 == len(update.parts)):
                part, carried = self._loss(batch.to(self.device), self.carried[place])
                part = part * weight
                # what processes find is averaged: undo it
                self.scaler.scale(part * (self.processes.world_size / count)).backward()
            loss += part.detach()
            self.carried[place] = carried if weight and not update.examples.closes_epoch else ()
        self.scaler.unscale_(self.optimiser)
        norm = self.layout.clip(self.plan.clip or math.inf)  # a recipe says 0, for want of a None
        for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor
        self.scaler.step(self.optimiser)
        self.scaler.update()
        self.optimiser.zero_grad(set_to_none=True)
        return loss, norm

    def _loss(self, batch: Batch, carried: Carried) -> tuple[Tensor, Carried]:
        if self.plan.precision == "fp32":
            return self.layout.objective(batch, carried)  # type: ignore[no-any-return]
        with torch.autocast(self.device.type, DTYPES[self.plan.precision]):
            return self.layout.objective(batch, carried)  # type: ignore[no-any-return]

    def gather_carried(self) -> Carried:
        """What is carried into the next step, of all rows of the batch in their order, from all processes."""
        found = self.processes.all_gather([tuple(one.cpu() for one in part) for part in self.carried])
        parts = [part for parts in zip(*found, strict=True) for part in parts]  # as `share_out` dealt them
        filled = [part for part in parts if part]
        return tuple(_interleaved(tensors) for tensors in zip(*filled, strict=True))

    def carry(self, whole: Carried) -> None:
        """Go on from what `gather_carried` gave."""
        parts = share_out(np.arange(len(whole[0])), self.plan.accumulate * self.processes.world_size) if whole else []
        mine = parts[self.processes.rank :: self.processes.world_size]
        for place, rows in enumerate(mine):
            self.carried[place] = tuple(one[rows].to(self.device) for one in whole) if len(rows) else ()


def _interleaved(parts: Sequence[Tensor]) -> Tensor:
    """The rows of a batch that was dealt out to these parts."""
    whole = torch.cat(list(parts))
    order = torch.cat([torch.arange(place, len(whole), len(parts)) for place in range(len(parts))])
    return whole[order.argsort()]
