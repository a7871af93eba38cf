"""fit: the one training loop. What a step does depends on its number alone, so that a run can be resumed exactly."""

import json
import math
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from glassformer.data.batches import Prefetch, in_order
from glassformer.data.fingerprint import fingerprint
from glassformer.data.mixing import tokens_by_source
from glassformer.models.contract import as_model
from glassformer.tasks.batch import Items, device_of
from glassformer.tasks.task import AnyTask, evaluate

from . import checkpoint
from .averaging import Ema, average_states
from .deferred import Deferred
from .layout import lay_out
from .optimiser import build_optimiser
from .plan import Plan
from .processes import Processes
from .schedule import Rate
from .signals import stops
from .update import OptimizerStep, Update, combine_seeds, schedule_of, seed_step, updates


@dataclass
class Progress:
    """Where a run is: all that the next step depends on beside weights and optimiser, and the ledger."""

    step: int = 0
    best: float | None = None
    best_step: int = 0
    stale: int = 0  # evaluations since the best one
    averaged: int = 0  # how many checkpoints the kept weights are the mean of
    targets: int = 0  # since the last line of metrics
    examples: int = 0
    tokens: int = 0
    padding: int = 0
    sources: dict[str, int] = field(default_factory=dict)  # tokens of each corpus, where there are several
    seconds: float = 0.0  # of training; evaluations and checkpoints are not counted
    waited: float = 0.0  # seconds the model stood idle for want of a batch


@dataclass(frozen=True)
class MetricsLine:
    """One line of metrics.jsonl: only what the same run would give again, so no times; null for what is no number."""

    step: int
    epoch: int
    values: dict[str, float]

    def __str__(self) -> str:
        numbers = {name: value if math.isfinite(value) else None for name, value in self.values.items()}
        return json.dumps({"step": self.step, "epoch": self.epoch, **numbers})


class Listener(Protocol):
    """Who wants to know how a run goes."""

    def begin(self, total: int, done: int) -> None: ...

    def stepped(self, progress: Progress) -> None: ...

    def scoring(self, done: int, total: int) -> None: ...

    def line(self, line: MetricsLine) -> None: ...


@dataclass(frozen=True)
class Outcome:
    """What a run came to."""

    progress: Progress
    total: int
    metrics: dict[str, float]
    stopped: int = 0  # the number of the signal that ended it before its end


class Unchecked(NamedTuple):
    """A step whose numbers no one has looked at yet."""

    loss: Tensor
    norm: Tensor
    update: Update


@dataclass
class Fit:
    """A run under way. `save` writes the model as the run folder is to hold it."""

    model: nn.Module
    task: AnyTask
    plan: Plan
    train: Items
    dev: Items | None
    folder: Path
    save: Callable[[nn.Module], object]
    listener: Listener
    processes: Processes = field(default_factory=Processes)
    values: Deferred | None = None  # of a model that is to be dealt out and was built without them

    def __post_init__(self) -> None:
        plan = self.plan
        name = plan.metric or self.task.metric
        self.metric, self.lower = name.removeprefix("-"), name.startswith("-")
        self.schedule = schedule_of(self.task, self.train, plan)
        self.total = plan.steps or self.schedule.steps(plan.epochs or 1)
        self.layout = lay_out(self.model, self.task, plan, self.processes, self.values)
        self.optimiser = build_optimiser(
            self.model,
            lr=plan.lr,
            name=plan.optimiser,
            weight_decay=plan.weight_decay,
            betas=(plan.beta1, plan.beta2),
            eps=plan.eps,
            momentum=plan.momentum,
            layer_decay=plan.layer_decay,
        )
        self.rate = Rate(plan.schedule, total=self.total, warmup=plan.warmup, final=plan.final_lr, lower=self.lower)
        self.stepper = OptimizerStep(self.layout, plan, self.optimiser)
        self.ema = Ema(self.model, plan.ema) if plan.ema else None
        self.progress, self.metrics = Progress(), dict[str, float]()
        self.window: Tensor | float = 0.0  # the loss since the last line of metrics, still on the device
        self.unchecked: Unchecked | None = None

    def run(self, *, resume: bool = False) -> Outcome:
        """Train to the end, or until Ctrl-C or SIGTERM."""
        if self.dev is not None and self.plan.metric is not None:
            self._check_metric()
        size = self._restore() if resume else 0
        self.lines = (
            checkpoint.MetricsFile(self.folder / "metrics.jsonl", size=size) if self.processes.is_main else None
        )
        self.listener.begin(self.total, self.progress.step)
        after = self.progress.step
        feed = Prefetch(
            updates(
                self.task,
                self.train,
                self.schedule,
                self.plan,
                after=after,
                processes=self.layout.data,
                total=self.total,
            )
        )
        self.model.train()
        self.saved_at = time.monotonic()
        stopped = 0
        with stops() as stop_signal:
            try:
                while not (stopped or self._is_over()):
                    stopped = self._train_step(feed, stop_signal())
            finally:
                feed.close()
            if stopped:
                self._checkpoint(checkpoint.BETWEEN)
        if not stopped:
            self._finish()
        self.layout.settle(wait=True)
        return Outcome(self.progress, self.total, self.metrics, stopped)

    def _is_over(self) -> bool:
        early_stopping = self.plan.patience is not None and self.progress.stale >= self.plan.patience
        return early_stopping or self.progress.step >= self.total

    def _train_step(self, feed: Prefetch[Update], stop_signal: int) -> int:
        """One step and what is due after it; by which signal some process was asked to stop, 0 for none."""
        began, waited, at = time.perf_counter(), feed.waited, self.progress
        update = next(feed)
        flags = (
            stop_signal == signal.SIGINT,
            stop_signal == signal.SIGTERM,
            self._is_long_ago(),
        )  # which all must agree on
        counts = self.processes.all_reduce(update.count, update.tokens, update.padding, *flags)
        alike = self.processes.world_size // self.layout.data.world_size  # processes that have the same examples
        count, tokens, padding = (int(value) // alike for value in counts[:3])
        interrupted, terminated, long_ago = map(int, counts[3:])
        seed_step(combine_seeds(self.plan.seed, at.step, self.layout.data.rank), self.stepper.device)
        loss, norm = self.stepper(update, max(1, count), self.rate(at.step))
        if self.ema is not None:
            self.ema.update(self.model)
        self._check_finite()
        self.unchecked = Unchecked(loss, norm, update)
        self.window = self.window + loss.double()
        at.step += 1
        at.targets, at.tokens, at.padding = at.targets + count, at.tokens + tokens, at.padding + padding
        at.examples += len(update.examples.indices)
        if self.schedule.sources:
            found = tokens_by_source(self.schedule.sources, self.schedule.lengths, update.examples.indices)
            at.sources = {name: at.sources.get(name, 0) + tokens for name, tokens in found.items()}
        at.waited += feed.waited - waited
        at.seconds += time.perf_counter() - began
        stop = signal.SIGTERM if terminated else signal.SIGINT if interrupted else 0
        self.layout.settle(wait=False)
        self._after(update, norm, long_ago=bool(long_ago and not stop))
        self.listener.stepped(at)
        return stop

    def _is_long_ago(self) -> bool:
        """Whether the last checkpoint is; the first process's clock counts, and what a step does is the same."""
        minutes = self.plan.save_minutes
        return self.processes.is_main and 0 < 60 * minutes <= time.monotonic() - self.saved_at

    def _after(self, update: Update, norm: Tensor, *, long_ago: bool) -> None:
        """Lines, evaluations and checkpoints, when they are due; one between those that are if it is long ago."""
        step, plan, last = self.progress.step, self.plan, self.progress.step == self.total
        logs = last or step % plan.log_every == 0
        evaluates = last or (update.examples.closes_epoch if plan.eval_every is None else step % plan.eval_every == 0)
        if logs or evaluates:
            self._check_finite()
        if logs:
            self._log(update.examples.epoch, norm)
        if evaluates and self.dev is not None:
            self._evaluate(update.examples.epoch)
        if evaluates if plan.save_every is None else (step % plan.save_every == 0 or last):
            self._checkpoint(checkpoint.DUE)
        elif long_ago:
            self._checkpoint(checkpoint.TIMED)

    def _log(self, epoch: int, norm: Tensor) -> None:
        at = self.progress
        (loss,) = self.layout.data.all_reduce(float(self.window))
        rate = self.rate(at.step - 1) * self.plan.lr
        values = {"loss": loss / max(1, at.targets), "lr": rate, "grad_norm": float(norm), "tokens": at.tokens}
        values |= {f"tokens of {name}": tokens for name, tokens in at.sources.items()}
        self._write(MetricsLine(at.step, epoch, values))
        at.targets, self.window = 0, 0.0

    def _write(self, line: MetricsLine) -> None:
        if self.lines is not None:
            self.lines.add(str(line))
        self.listener.line(line)

    def _evaluate(self, epoch: int) -> None:
        """Score the dev split with the weights that would be saved, and save them if none were better."""
        at = self.progress
        with self._weights_to_keep() as model:
            self.metrics = self._score(model)
            self._write(MetricsLine(at.step, epoch, {f"dev_{name}": value for name, value in self.metrics.items()}))
            value = self.metrics[self.metric]
            self.rate.observe(value)
            at.stale += 1
            if self._is_better(value):
                at.best, at.best_step, at.stale = value, at.step, 0
                if self.plan.keep == "best":
                    self._save(model)

    def _is_better(self, value: float) -> bool:
        best = self.progress.best
        return not math.isnan(value) and (best is None or (value < best if self.lower else value > best))

    def _check_metric(self) -> None:
        """Find out before the first step, by a few examples, whether the metric to judge by is one of the task's."""
        sheet, some = self.task.metrics(), in_order(self.dev.lengths, self.plan.budget)[0]  # type: ignore[union-attr]
        with self.layout.whole() as model, torch.inference_mode():
            sheet.update(as_model(model.eval()), self.task.batch(self.dev, some).to(device_of(model)))
        if self.metric not in (known := sheet.compute()):
            raise ValueError(f"there is no metric {self.metric!r} to judge by; this task has: {', '.join(known)}")

    def _score(self, model: nn.Module) -> dict[str, float]:
        share, on_progress = (self.processes.rank, self.processes.world_size), self.listener.scoring
        sheets = self.processes.all_gather(
            evaluate(
                as_model(model), self.task, self.dev, budget=self.plan.budget, share=share, on_progress=on_progress
            )
        )
        for other in sheets[1:]:
            sheets[0].merge(other)
        return sheets[0].compute()  # type: ignore[no-any-return]

    @contextmanager
    def _weights_to_keep(self, *, everywhere: bool = True) -> Iterator[nn.Module]:
        """The model as it is scored and saved: whole, and with averaged weights if that is asked for."""
        averaged = nullcontext() if self.ema is None else self.ema.swapped(self.model)
        with averaged, self.layout.whole(everywhere=everywhere) as model:
            yield model

    def _save(self, model: nn.Module) -> None:
        if self.processes.is_main:
            self.save(model)

    def _check_finite(self) -> None:
        """Stop at the first loss or gradient that is no number; one step late, so that a GPU need not be waited for."""
        if self.unchecked is None:
            return
        (loss, norm, update), self.unchecked = self.unchecked, None
        scaled = self.stepper.scaler.is_enabled()  # an infinite gradient is then no accident: the scale is lowered
        for what, value in (("loss", loss), *(() if scaled else (("gradient", norm),))):
            if not bool(value.isfinite()):
                indices = update.examples.indices
                shown = ", ".join(map(str, indices[:8].tolist())) + (", …" if len(indices) > 8 else "")
                text = self.task.tokenizer.decode(update.parts[0][0].inputs["input_ids"][0], skip_special_tokens=True)
                raise ValueError(
                    f"the {what} of step {self.progress.step} is {float(value)}: it came with training examples "
                    f"{shown} (counted from 0; the first reads {text[:60]!r}); lower lr, set clip, or look at them"
                )

    def _checkpoint(self, kind: checkpoint.Kind) -> None:
        self._check_finite()
        at = self.progress
        losses = self.layout.data.all_gather(float(self.window))  # each process has a window of its own
        carried = self.stepper.gather_carried()
        state = {
            "progress": asdict(at),
            "losses": losses,
            "carried": carried,
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "rate": self.rate.state(),
            "scaler": self.stepper.scaler.state_dict(),
            "ema": None if self.ema is None else self.ema.state(),
            "metrics": self.metrics,
            "metrics_size": 0 if self.lines is None else self.lines.size,
            "data": self.data_fingerprints,
        }
        self.layout.save(self.folder, at.step, state, kind=kind, keep=self.plan.average)
        self.saved_at = time.monotonic()

    @cached_property
    def data_fingerprints(self) -> dict[str, str]:
        """What tells this run's data from other data, inputs and targets alike."""
        return {"training": fingerprint([self.task.settings(), self.train]), "dev": fingerprint(self.dev)}

    def _restore(self) -> int:
        """Go back to the last checkpoint; how many bytes of metrics.jsonl were written by then."""
        path = self.processes.all_gather(checkpoint.newest(self.folder))[0]
        if path is None:
            return 0
        state = self.layout.load(path, self.optimiser)
        if not isinstance(state["data"], dict):
            raise ValueError(f"{path} is of an earlier version, which kept too little to resume; choose another --out")
        for name, known in self.data_fingerprints.items():
            if state["data"][name] != known:
                raise ValueError(f"the {name} data is not that of {path}; bring it back, or choose another --out")
        self._put_in(state["model"], path)
        self.optimiser.load_state_dict(state["optimiser"])
        self.rate.restore(state["rate"])
        self.stepper.scaler.load_state_dict(state["scaler"])
        if self.ema is not None:
            self.ema.restore(state["ema"])
        self.progress, self.metrics = Progress(**state["progress"]), state["metrics"]
        if self.progress.step > self.total:
            done = f"{self.progress.step} steps of this run are done, and it is to have {self.total}"
            raise ValueError(f"{done}: give more epochs or steps, or choose another --out")
        self.stepper.carry(state.get("carried", ()))
        self.window = sum(state["losses"][self.layout.data.rank :: self.layout.data.world_size])
        return int(state["metrics_size"])

    def _finish(self) -> None:
        """Leave in the run folder what it is to hold: the best, the last, or the mean of the last weights."""
        self._check_finite()
        if self.plan.average > 1:
            self._average()
        elif self.plan.keep == "last" or self.progress.best is None:
            with self._weights_to_keep(everywhere=False) as model:
                self._save(model)

    def _average(self) -> None:
        """The mean of the last checkpoints' weights, kept unless a single one was better."""
        self.layout.settle(wait=True)
        paths = self.processes.all_gather(checkpoint.found(self.folder))[0]  # all files are there
        self._put_in(average_states(self.layout.load(path, self.optimiser)["model"] for path in paths), paths[-1])
        at = self.progress
        with self.layout.whole() as model:
            if self.dev is not None:
                self.metrics = self._score(model)
                averaged = {f"averaged_{name}": value for name, value in self.metrics.items()}
                self._write(MetricsLine(at.step, -1, averaged))
                if self.plan.keep == "best" and not self._is_better(self.metrics[self.metric]):
                    return
                at.best, at.best_step = self.metrics[self.metric], at.step
            at.averaged = len(paths)
            self._save(model)

    def _put_in(self, weights: Mapping[str, Tensor], path: Path) -> None:
        """Take in the weights of a checkpoint."""
        try:
            self.model.load_state_dict(weights)
        except RuntimeError as error:
            first = str(error).splitlines()[1].strip()
            raise ValueError(f"{path} is of another model ({first}); choose another --out") from None
