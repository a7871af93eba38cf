"""gf.train: one call, or one command, from data to a run folder that holds a model, its scores and its recipe."""

import warnings
from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Unpack

import torch
from safetensors import SafetensorError
from torch import nn

from glassformer.data.fingerprint import fingerprint
from glassformer.files import write_json, write_text
from glassformer.hub.load import load, save, usable
from glassformer.models.contract import as_model
from glassformer.models.pretrained import PreTrainedModel
from glassformer.tasks.batch import Items, device_of
from glassformer.tasks.metrics import ScoreSheet
from glassformer.tasks.metrics.examples import ExampleScores, write_examples
from glassformer.tasks.running_text import RunningTextTask
from glassformer.tasks.task import AnyTask, evaluate, remark
from glassformer.train import checkpoint
from glassformer.train.deferred import Deferred
from glassformer.train.freeze import trained
from glassformer.train.layout import is_dealt_out
from glassformer.train.loop import Fit, Outcome
from glassformer.train.lora import is_adapted, merge
from glassformer.train.plan import Plan
from glassformer.train.processes import Processes, is_restarted, joined, local_device
from glassformer.train.signals import terminable
from glassformer.view.notebook import facts_line, facts_table

from .assemble import assemble
from .card import card, curves
from .data import Splits
from .generator import apart, complete
from .models import check_arch, check_config, check_model
from .preflight import Preflight, overfit, preflight
from .progress import ConsoleListener, NullListener, shown
from .recipe import Recipe
from .run_folder import CARD, CURVES, EXAMPLES, RESULT, claimed, resume_command, write_card
from .settings import TrainSettings
from .tasks import task_class

Log = Callable[[str], None]


@dataclass(frozen=True)
class Run:
    """A run that has ended: its folder, which loads as a model, and its scores."""

    folder: Path
    scores: dict[str, dict[str, float]]  # by split
    outcome: Outcome
    speaks: bool = True  # for all processes, if there are several

    def load(self) -> PreTrainedModel:
        return load(self.folder)

    def _facts(self) -> dict[str, str]:
        """What it came to, in a few words."""
        done, seconds = self.outcome.progress.step, self.outcome.progress.seconds
        steps = f"{'stopped after ' if self.outcome.stopped else ''}{done:,} of {self.outcome.total:,}"
        scores = {
            name: ", ".join(f"{metric} {value:.4f}" for metric, value in values.items())
            for name, values in self.scores.items()
        }
        return {"folder": str(self.folder), "steps": f"{steps}, {seconds:.1f} s of training"} | scores

    def __repr__(self) -> str:
        return facts_line("Run", self._facts())

    def _repr_html_(self) -> str:
        """The same as a table, over its curves, for notebooks."""
        curves = self.folder / CURVES
        return facts_table("Run", self._facts(), svg=curves.read_text("utf-8") if curves.is_file() else None)


def train(*, resume: bool = False, log: Log = print, **settings: Unpack[TrainSettings]) -> Run:
    """Train or fine-tune: train(task="text-classification", model="…", data="train.csv", out="runs/x", epochs=3).

    Every setting of a recipe is a keyword argument: the run's (model or arch, data, dev, test, columns, device…), the
    loop's (epochs, lr, batch_size…: see train/plan.py) and the task's (max_length…: see its file). `log` takes each
    line that is reported.
    """
    given: dict[str, Any] = {**settings}
    if "say" in given:
        warnings.warn("say is called log now", DeprecationWarning, stacklevel=2)
        log = given.pop("say")
    return run(Recipe.of(given), resume=resume, log=log)


def look(recipe: Recipe, *, log: Log = print) -> dict[str, Any]:
    """The preflight of a recipe, and one batch learnt by heart, without a run."""
    _check(recipe, log)
    splits, task, model, plan = assemble(recipe, usable(recipe.device))
    items, dev = _encoded(task, splits)
    found = preflight(task, model, plan, splits, train=items, dev=dev, device=device_of(model))
    _log_found(log, splits, found, model)
    with shown("learning one batch by heart") as on_progress:
        learnt = overfit(task, model, items, on_progress=on_progress)
    log(str(learnt))
    return {**found.facts, "warnings": found.warnings, "overfit": learnt._asdict()}


def run(recipe: Recipe, *, resume: bool = False, log: Log = print) -> Run:
    """Carry out a recipe; one that torchrun has started again goes on from its last checkpoint."""
    deadline = float(recipe.plan.get("deadline", Plan.deadline))
    device = torch.device(local_device(str(usable(recipe.device))))
    folder = Path(recipe.out)
    with joined(device, minutes=deadline) as processes, terminable():
        if not processes.is_main:
            log = _nothing
        resume = any(processes.all_gather(resume or is_restarted()))  # a machine that came back counts from 0
        _check(recipe, log)
        with claimed(folder, recipe, resume=resume, processes=processes):
            asked = {name: recipe.plan[name] for name in ("parallel", "tensor_parallel") if name in recipe.plan}
            values = Deferred(device) if is_dealt_out(**asked) else None
            splits, task, model, plan = assemble(recipe, device, processes, values)
            items, dev = _encoded(task, splits)
            found = preflight(task, model, plan, splits, train=items, dev=dev, device=device)
            _log_found(log, splits, found, model)
            with checkpoint.writing(folder):
                outcome = _fit(
                    recipe,
                    task,
                    model,
                    plan,
                    train=items,
                    dev=dev,
                    processes=processes,
                    values=values,
                    resume=resume,
                    log=log,
                )
                if not processes.is_main or outcome.stopped:
                    return Run(folder, {}, outcome, speaks=processes.is_main)
                return _conclude(recipe, task, plan, splits, found, outcome, log=log)


def _encoded(task: AnyTask, splits: Splits) -> tuple[Items, Items | None]:
    """The training data and the dev data, if there is any, as the loop takes them."""
    with shown("encoding"):
        return task.encode(splits.train), task.encode(splits.dev) if splits.dev else None


def _check(recipe: Recipe, log: Log) -> None:
    """Refuse a kind of model that cannot do the task, before anything is read or written."""
    task = task_class(recipe.task)
    if recipe.model is not None:
        check_model(recipe.model, task)
    elif (message := check_arch(str(recipe.arch), task)) is not None:
        log(message)
    check_config(recipe, task)


def _fit(
    recipe: Recipe,
    task: AnyTask,
    model: nn.Module,
    plan: Plan,
    *,
    train: Items,
    dev: Items | None,
    processes: Processes,
    values: Deferred | None,
    resume: bool,
    log: Log,
) -> Outcome:
    folder = Path(recipe.out)
    listener = (
        ConsoleListener(log, folder=folder, tensorboard=recipe.tensorboard) if processes.is_main else NullListener()
    )

    def keep(model: nn.Module) -> None:
        try:
            for place, part in apart(_plain(model)).items():
                save(part, folder / place, tokenizer=task.tokenizer)
        except SafetensorError as error:  # its way to say that a disk is full
            raise OSError(str(error)) from None
        task.write_extras(folder)

    fit = Fit(
        model,
        task,
        plan,
        train,
        dev,
        folder=folder,
        save=keep,
        listener=listener,
        processes=processes,
        values=values,
    )
    if resume:
        log(_resumed_at(folder))
    try:
        outcome = fit.run(resume=resume)
    finally:
        listener.close()
    if outcome.stopped:
        log(f"stopped after step {outcome.progress.step} of {outcome.total}; go on with:")
        log(f"  {resume_command(folder)}")
    return outcome


def _resumed_at(folder: Path) -> str:
    last = checkpoint.newest(folder)
    if last is None:
        return f"{folder} holds no checkpoint to resume from: this is the first step"
    return f"resuming after step {checkpoint.step_of(last)} ({last})"


def _plain(model: nn.Module) -> nn.Module:
    """The model as its architecture has it, adapters merged into the weights."""
    return merge(deepcopy(model)) if is_adapted(model) else model


def _log_found(log: Log, splits: Splits, found: Preflight, model: nn.Module) -> None:
    for line in [
        *splits.messages,
        *found.lines,
        str(trained(model)),
        *(f"mind: {warning}" for warning in found.warnings),
    ]:
        log(line)


def _conclude(
    recipe: Recipe, task: AnyTask, plan: Plan, splits: Splits, found: Preflight, outcome: Outcome, *, log: Log
) -> Run:
    """Score what the folder holds, as anyone would who loads it, and write it all down."""
    folder = Path(recipe.out)
    model = load(folder, device=recipe.device)
    sheets: dict[str, ScoreSheet] = {}
    for name in ("dev", "test"):
        if examples := splits.by_name()[name]:
            with shown(f"scoring {name}") as on_progress:
                items = task.encode(examples)
                sheets[name] = evaluate(
                    as_model(complete(task, model, folder)),
                    task,
                    items,
                    budget=plan.budget,
                    keep_examples=True,
                    final=True,
                    on_progress=on_progress,
                )
    scores = {name: sheet.compute() for name, sheet in sheets.items()}
    for name, values in scores.items():
        log(f"{name}: " + ", ".join(f"{metric} {value:.4f}" for metric, value in values.items()))
        if (mind := remark(sheets[name].report())) is not None:
            log(f"mind: {name}: {mind}")
    progress = asdict(outcome.progress)
    examples = {name: _data(task, splits.by_name()[name]) for name in sheets}
    write_examples(folder / EXAMPLES, {name: ExampleScores.of(sheet, examples[name]) for name, sheet in sheets.items()})
    write_json(
        folder / RESULT,
        {
            "scores": scores,
            "metric": plan.metric or task.metric,
            "reports": {name: sheet.report() for name, sheet in sheets.items()},
            "parameters": sum(tensor.numel() for tensor in model.parameters()),
            "progress": progress,
            "plan": asdict(plan),
            "preflight": found.facts,
            "data": splits.accounts,
        },
    )
    write_text(folder / CURVES, curves(folder))
    if not write_card(folder, card(recipe, plan, task, model, sheets, outcome, splits)):
        log(f"{folder / CARD} is not one that a run wrote: it is left as it is")
    log(f"the model is in {folder}")
    return Run(folder, scores, outcome)


def _data(task: AnyTask, examples: Any) -> str:
    """The fingerprint of what was scored: examples, or windows of a text, which another tokenizer cuts elsewhere."""
    windows = isinstance(task, RunningTextTask)
    return fingerprint([examples, task.encode(examples).lengths]) if windows else fingerprint(examples)


def _nothing(_text: str) -> None:
    pass
