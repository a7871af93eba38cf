"""gf.train: one call, or one command, from data to a run folder that holds a model, its scores and its recipe."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import nn

from glassformer.files import write_json, write_text
from glassformer.hub.fetch import config_folder
from glassformer.hub.load import load, save, usable
from glassformer.tasks.task import Metrics, Task, evaluate, remark
from glassformer.train import checkpoint
from glassformer.train.freeze import freeze, trained
from glassformer.train.loop import Fit, Outcome
from glassformer.train.lora import LoraLinear, add_lora, merge
from glassformer.train.plan import Plan
from glassformer.train.processes import Processes, joined, local_device
from glassformer.train.signals import terminable
from glassformer.train.transforms import compiled, recomputing

from .card import card, curves
from .data import Splits, examples_with_labels, read_splits, texts_of, tokenise
from .defaults import defaults
from .models import check_arch, check_config, check_model, fresh, head_for, loaded
from .preflight import Preflight, overfit, preflight
from .progress import Silent, Teller, shown
from .recipe import Recipe, changed
from .run_folder import CARD, CURVES, METRICS, RESULT, claimed, resume_command, write_card
from .tasks import taken, task_class
from .vocabulary import tokenizer_for

Say = Callable[[str], None]


@dataclass(frozen=True)
class Run:
    """A run that has ended: its folder, which loads as a model, and its scores."""

    folder: Path
    scores: dict[str, dict[str, float]]  # by split
    outcome: Outcome
    speaks: bool = True  # for all processes, if there are several

    def load(self) -> nn.Module:
        return load(self.folder)


def train(*, resume: bool = False, say: Say = print, **settings: Any) -> Run:
    """Train or fine-tune: train(task="text-classification", model="…", data="train.csv", out="runs/x", epochs=3).

    Every setting of a recipe is a keyword argument: the run's (model or arch, data, dev, test, columns, device…), the
    loop's (epochs, lr, batch_size…: see train/plan.py) and the task's (max_length…: see its file).
    """
    return run(Recipe.of(settings), resume=resume, say=say)


def look(recipe: Recipe, *, say: Say = print) -> dict[str, Any]:
    """The preflight of a recipe, and one batch learnt by heart, without a run."""
    _check(recipe, say)
    splits, task, model, plan = assemble(recipe, torch.device(_device(recipe.device)))
    items, dev = _encoded(task, splits)
    found = preflight(task, model, plan, splits, train=items, dev=dev)
    _tell(say, splits, found, model)
    with shown("learning one batch by heart") as on_progress:
        learnt = overfit(task, model, items, on_progress=on_progress)
    say(str(learnt))
    return {**found.facts, "warnings": found.warnings, "overfit": learnt._asdict()}


def run(recipe: Recipe, *, resume: bool = False, say: Say = print) -> Run:
    """Carry out a recipe."""
    device = torch.device(local_device(_device(recipe.device)))
    folder = Path(recipe.out)
    with terminable(), joined(device) as processes:
        if not processes.first:
            say = _nothing
        _check(recipe, say)
        with claimed(folder, recipe, resume=resume, processes=processes):
            splits, task, model, plan = assemble(recipe, device, processes)
            items, dev = _encoded(task, splits)
            found = preflight(task, model, plan, splits, train=items, dev=dev)
            _tell(say, splits, found, model)
            data = {"train": items, "dev": dev}
            with checkpoint.writing(folder):
                outcome = _fit(recipe, task, model, plan, **data, processes=processes, resume=resume, say=say)
                if not processes.first or outcome.stopped:
                    return Run(folder, {}, outcome, speaks=processes.first)
                return _conclude(recipe, task, plan, splits, found, outcome, say=say)


def assemble(
    recipe: Recipe, device: torch.device, processes: Processes | None = None
) -> tuple[Splits, Task[Any, Any], nn.Module, Plan]:
    """The examples, the task, the model on its device, and the plan; `processes` are those that share a run folder."""
    cls = task_class(recipe.task)
    splits = read_splits(recipe, cls)
    tokenizer = tokenizer_for(
        recipe.tokenizer or recipe.model or cls.vocabulary,
        lambda: texts_of(cls, splits.train),
        vocab_size=recipe.vocab_size,
        lowercase=recipe.lowercase,
        folder=Path(recipe.out),
        processes=processes,
    )
    kept = cls.read_extras(config_folder(recipe.model)) if recipe.model else {}
    options = {**kept, **taken(cls, recipe.options)}
    if cls.built_in:
        options.setdefault("head", head_for(recipe.arch, cls))
    task = cls.for_data(tokenizer, examples_with_labels(cls, splits), **options)
    tokenise(splits, task, processes or Processes())
    torch.manual_seed(int(recipe.plan.get("seed", 0)))
    model = loaded(recipe.model, task, recipe.config) if recipe.model else fresh(str(recipe.arch), task, recipe.config)
    task.fit_to(model)
    if task.max_length is not None:  # the tokenizer takes it along in the folder
        tokenizer.model_max_length = min(tokenizer.model_max_length, task.max_length)
    if task.head is None and getattr(model, "pooler", None) is not None:
        model.pooler.requires_grad_(False)  # vectors are pooled by the task, so this one has nothing to learn from
    standard = defaults(recipe.task, model, pretrained=recipe.model is not None, device=str(device))
    plan = plan_of(standard, recipe.plan)
    if recipe.freeze:
        freeze(model, recipe.freeze)
    if recipe.lora:
        add_lora(model, recipe.lora_targets, rank=recipe.lora)
    model = model.to(device)
    if plan.checkpointing:
        recomputing(model)
    if plan.compile:
        compiled(model)
        task.compile()
    return splits, task, model, plan


def _encoded(task: Task[Any, Any], splits: Splits) -> tuple[Any, Any]:
    """The training data and the dev data, if there is any, as the loop takes them."""
    with shown("encoding"):
        return task.encode(splits.train), task.encode(splits.dev) if splits.dev else None


def plan_of(standard: Mapping[str, Any], given: Mapping[str, Any]) -> Plan:
    """The standard plan, with what was asked for in its place."""
    return Plan(**changed(standard, given))


def _check(recipe: Recipe, say: Say) -> None:
    """Refuse a kind of model that cannot do the task, before anything is read or written."""
    task = task_class(recipe.task)
    if recipe.model is not None:
        check_model(recipe.model, task)
    elif (said := check_arch(str(recipe.arch), task)) is not None:
        say(said)
    check_config(recipe, task)


def _fit(
    recipe: Recipe,
    task: Task[Any, Any],
    model: nn.Module,
    plan: Plan,
    *,
    train: Any,
    dev: Any,
    processes: Processes,
    resume: bool,
    say: Say,
) -> Outcome:
    folder = Path(recipe.out)
    listener = Teller(say, folder=folder, tensorboard=recipe.tensorboard) if processes.first else Silent()

    def keep(model: nn.Module) -> None:
        try:
            save(_plain(model), folder, tokenizer=task.tokenizer)
        except SafetensorError as error:  # its way to say that a disk is full
            raise OSError(str(error)) from None
        task.write_extras(folder)

    fit = Fit(model, task, plan, train, dev, folder=folder, save=keep, listener=listener, processes=processes)
    if resume:
        say(_resumed_at(folder))
    try:
        outcome = fit.run(resume=resume)
    finally:
        listener.close()
    if outcome.stopped:
        say(f"stopped after step {outcome.progress.step} of {outcome.total}; go on with:")
        say(f"  {resume_command(folder)}")
    return outcome


def _resumed_at(folder: Path) -> str:
    last = checkpoint.newest(folder)
    if last is None:
        return f"{folder} holds no checkpoint to resume from: this is the first step"
    return f"resuming after step {checkpoint.step_of(last)} ({last})"


def _plain(model: nn.Module) -> nn.Module:
    """The model as its architecture has it, adapters merged into the weights."""
    adapted = any(isinstance(module, LoraLinear) for module in model.modules())
    return merge(deepcopy(model)) if adapted else model


def _tell(say: Say, splits: Splits, found: Preflight, model: nn.Module) -> None:
    for line in [*splits.told, *found.lines, str(trained(model)), *(f"mind: {warning}" for warning in found.warnings)]:
        say(line)


def _conclude(
    recipe: Recipe, task: Task[Any, Any], plan: Plan, splits: Splits, found: Preflight, outcome: Outcome, *, say: Say
) -> Run:
    """Score what the folder holds, as anyone would who loads it, and write it all down."""
    folder = Path(recipe.out)
    model = load(folder, device=_device(recipe.device))
    sheets: dict[str, Metrics] = {}
    for name in ("dev", "test"):
        if examples := getattr(splits, name):
            with shown(f"scoring {name}") as told:
                items = task.encode(examples)
                sheets[name] = evaluate(
                    model, task, items, budget=plan.budget, keep_examples=True, final=True, told=told
                )
    scores = {name: sheet.compute() for name, sheet in sheets.items()}
    for name, values in scores.items():
        say(f"{name}: " + ", ".join(f"{metric} {value:.4f}" for metric, value in values.items()))
        if (mind := remark(sheets[name].report())) is not None:
            say(f"mind: {name}: {mind}")
    progress = asdict(outcome.progress)
    write_json(
        folder / RESULT,
        {
            "scores": scores,
            "progress": progress,
            "plan": asdict(plan),
            "preflight": found.facts,
            "data": splits.accounts,
        },
    )
    write_text(folder / CURVES, curves(folder / METRICS))
    if not write_card(folder, card(recipe, plan, task, model, sheets, outcome, splits)):
        say(f"{folder / CARD} is not one that a run wrote: it is left as it is")
    say(f"the model is in {folder}")
    return Run(folder, scores, outcome)


def _device(name: str) -> str:
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return str(usable(name))


def _nothing(_text: str) -> None:
    pass
