"""From a recipe to what the loop trains: examples, a tokenizer, a model, a task and a plan."""

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from glassformer.data.shards import Shards
from glassformer.hub.fetch import config_folder
from glassformer.models.contract import as_model
from glassformer.models.init import fill_tables
from glassformer.tasks.task import AnyTask
from glassformer.train.deferred import Deferred
from glassformer.train.freeze import freeze
from glassformer.train.lora import add_lora, train_new_tokens
from glassformer.train.plan import Plan
from glassformer.train.processes import Processes
from glassformer.train.transforms import compiled, recomputing

from .data import Splits, examples_with_labels, read_splits, texts_of, tokenise
from .defaults import defaults
from .generator import complete
from .models import head_for, in_order_of, model_for, state_generation
from .recipe import Recipe, changed
from .tasks import taken, task_class
from .tokenised import tokenizer_of
from .vocabulary import tokenizer_for


class Assembly(NamedTuple):
    """All that a run consists of; the model is on its device, or has no values yet."""

    splits: Splits
    task: AnyTask
    model: nn.Module
    plan: Plan


def assemble(
    recipe: Recipe, device: torch.device, processes: Processes | None = None, values: Deferred | None = None
) -> Assembly:
    """Everything that a recipe asks for, each built once and complete; `processes` are those that share a run folder.

    With `values` the model is built without them, on the meta device, and they are remembered there.

    The data says what tokenizer, model and task must agree on (the spec), the model adds what it can read.
    """
    cls = task_class(recipe.task)
    splits = read_splits(recipe, cls)
    spec = cls.spec_of_data(examples_with_labels(cls, splits), **_options(recipe, cls))
    if recipe.model:
        spec = in_order_of(recipe.model, spec)
    named = recipe.tokenizer or recipe.model
    if named is None and isinstance(splits.train, Shards):
        named = tokenizer_of(splits.train)
    known = tokenizer_for(
        named or cls.vocabulary,
        lambda: texts_of(cls, splits.train),
        vocab_size=recipe.vocab_size,
        lowercase=recipe.lowercase,
        folder=Path(recipe.out),
        processes=processes,
    )
    vocabulary = known.adapted(special_tokens=spec.special_tokens)
    building = nullcontext if values is None else values.building
    torch.manual_seed(int(recipe.plan.get("seed", 0)))
    with building():
        model = model_for(cls, spec, vocabulary, name=recipe.model, arch=recipe.arch, config=recipe.config)
    spec = cls.fit_spec(spec, vocabulary, as_model(model))
    state_generation(model, spec)
    longest = None if spec.options.get("carry_state") else spec.max_length  # a state is carried on without end
    tokenizer = vocabulary.adapted(segments=spec.segments, model_max_length=longest)
    task = cls.from_spec(tokenizer, spec)
    with building():
        model = complete(task, model, config_folder(recipe.model) if recipe.model else None, new=True)
    tokenise(splits, task, processes or Processes())
    standard = defaults(
        cls.name, model, pretrained=recipe.model is not None, device=str(device), examples=len(splits.train)
    )
    plan = plan_of(standard, recipe.plan)
    with building():
        model = _transformed(model, task, plan, recipe, new_tokens=range(len(known), len(vocabulary)))
    if values is None:
        model = model.to(device)
    else:
        fill_tables(model, device, next(model.parameters()).dtype)
    return Assembly(splits, task, model, plan)


def _options(recipe: Recipe, cls: type[AnyTask]) -> dict[str, Any]:
    """The task's options: those that a folder holds beside its model, and over them those of the recipe."""
    kept = cls.read_extras(config_folder(recipe.model), recipe.task) if recipe.model else {}
    head = {"head": head_for(recipe.arch, cls)} if cls.built_in else {}
    return {**head, **kept, **taken(cls, recipe.options)}


def _transformed(model: nn.Module, task: AnyTask, plan: Plan, recipe: Recipe, *, new_tokens: range) -> nn.Module:
    """The model as it is trained: parts frozen, adapters added, layers compiled, as the recipe asks."""
    pooler = dict(model.named_children()).get("pooler")
    if task.head is None and pooler is not None:
        pooler.requires_grad_(False)  # vectors are pooled by the task, so this one has nothing to learn from
    if recipe.freeze:
        freeze(model, recipe.freeze)
    if recipe.lora:
        add_lora(model, recipe.lora_targets, rank=recipe.lora)
    if new_tokens:
        train_new_tokens(model, new_tokens)
    if plan.checkpointing:
        recomputing(model, compile=plan.compile)
    elif plan.compile:
        compiled(model)
    if plan.compile:
        task.compile()
    return model


def plan_of(standard: Mapping[str, Any], given: Mapping[str, Any]) -> Plan:
    """The standard plan, with what was asked for in its place."""
    return Plan(**changed(standard, given))
