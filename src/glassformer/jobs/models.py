"""The model of a run: loaded with a head for the task, or fresh with sizes that suit it."""

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from glassformer.blocks.memory import free_on_this_machine
from glassformer.files import conform
from glassformer.files.schema import hints_of
from glassformer.hub.fetch import config_folder
from glassformer.hub.folder import read_config
from glassformer.hub.load import load
from glassformer.hub.registry import ARCHITECTURES, architecture_for, build, check_known, reading_head, skeleton
from glassformer.models.config import labels as read_labels
from glassformer.models.contract import as_model, generation_config, set_generation_config
from glassformer.tasks.spec import Spec
from glassformer.tasks.task import AnyTask
from glassformer.tasks.teaching import CLASSES
from glassformer.text.tokenizer import Tokenizer

from .recipe import NONE, Recipe

log = logging.getLogger("glassformer")

OURS = "glassformer-"
RNNS = ("rnn", "gru", "lstm")
READS_BOTH_WAYS = ("text-classification", "token-classification")


def archs() -> tuple[str, ...]:
    """The everyday names of models that can be trained from nothing: the three kinds of RNN, and every model_type with
    small sizes of its own, ours without "glassformer-"."""
    small = [name.removeprefix(OURS) for name, one in ARCHITECTURES.items() if one.small]
    return tuple(dict.fromkeys([*RNNS, "seq2seq", "transformer", *small]))


def _plain(config: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a recipe as a config has them."""
    return {name: None if value == NONE else value for name, value in config.items()}


def head_for(arch: str | None, task: type[AnyTask]) -> str | None:
    """The head that a task asks for; a lesson can be put in several ways, and takes one that the kind of model has."""
    if not task.built_in:
        return task.head
    kind = arch if arch in ARCHITECTURES else f"{OURS}{'rnn' if arch in RNNS else arch}"
    heads = ARCHITECTURES[kind].heads if kind in ARCHITECTURES else ()
    writes = "text-generation" in heads and arch not in RNNS
    if task.name in CLASSES and "text-classification" in heads and not writes:
        return "text-classification"
    return "text-generation" if writes else "text2text-generation"


def model_type(arch: str, head: str | None) -> str:
    """What an everyday name means for a head: a Transformer that only reads, or only writes, is half of one."""
    writes = head == "text2text-generation"
    if arch in RNNS:
        return "glassformer-seq2seq" if writes else "glassformer-rnn"
    if arch == "transformer":
        return "glassformer-transformer" if writes else "gpt2" if head == "text-generation" else "bert"
    if arch not in archs():
        raise ValueError(f"arch must be one of {', '.join(archs())}, not {arch!r}")
    return arch if arch in ARCHITECTURES else f"{OURS}{arch}"


def able(task: type[AnyTask]) -> dict[str, str]:
    """The kinds of model that can be trained afresh for a task, and the model_type that each is then."""
    heads = {arch: head_for(arch, task) for arch in archs()}
    kinds = {arch: model_type(arch, head) for arch, head in heads.items()}
    return {arch: kind for arch, kind in kinds.items() if heads[arch] in _heads(kind)}


def check_arch(arch: str, task: type[AnyTask]) -> str | None:
    """Refuse a kind of model that cannot do a task; of a Transformer, say in a line which half of it is built."""
    kind, can = model_type(arch, head_for(arch, task)), able(task)
    if arch not in can:
        raise ValueError(f"arch {arch!r} cannot do {task.name}; what can: {', '.join(can)}")
    half = {"bert": "encoder alone, as BERT arranges it", "gpt2": "decoder alone, as GPT-2 arranges it"}.get(kind)
    message = f"arch transformer: {task.name} takes its {half}; the model is a {kind}"
    return message if arch == "transformer" and half is not None else None


def check_model(name: str | Path, task: type[AnyTask]) -> None:
    """Refuse a folder whose kind of model cannot do a task, whatever is trained on top of it."""
    kind = read_config(config_folder(name)).get("model_type")
    if not task.built_in and task.head not in architecture_for(kind).heads:
        can = [other for other, architecture in ARCHITECTURES.items() if task.head in architecture.heads]
        raise ValueError(f"{name} is a {kind}, which cannot do {task.name}; what can: {', '.join(can)}")


def check_config(recipe: Recipe, task: type[AnyTask]) -> None:
    """Refuse settings that the recipe's kind of model does not have, or values that they cannot have."""
    kind = (
        model_type(str(recipe.arch), recipe.options.get("head", head_for(recipe.arch, task)))
        if recipe.model is None
        else read_config(config_folder(recipe.model)).get("model_type")
    )
    architecture = architecture_for(kind)
    try:
        check_known(recipe.config, architecture)
    except ValueError as error:
        raise ValueError(f"{recipe.origin.start('config')}{error}") from None
    hints = hints_of(architecture.config)
    for name, value in _plain(recipe.config).items():
        if name in hints and name != "id2label":  # whose numbers a file has as text
            conform(value, hints[name], *recipe.origin.place("config", name))


def _heads(kind: str) -> Collection[str | None]:
    return architecture_for(kind).heads


def model_for(
    cls: type[AnyTask],
    spec: Spec,
    tokenizer: Tokenizer,
    *,
    name: str | None,
    arch: str | None,
    config: Mapping[str, Any],
) -> nn.Module:
    """The model of a run, from the folder or hub name, or a new one of this arch; `config` changes its settings."""
    wanted = cls.model_settings(tokenizer, spec)
    if name is not None:
        return loaded(name, spec.head, wanted, tokenizer, config)
    return fresh(str(arch), spec.head, wanted, tokenizer, config)


def state_generation(model: nn.Module, spec: Spec) -> None:
    """Have a model's folder generate as it was scored."""
    if spec.generation:
        made = as_model(model)
        set_generation_config(made, {**generation_config(made), **spec.generation})


def fresh(
    arch: str, head: str | None, wanted: Mapping[str, Any], tokenizer: Tokenizer, config: Mapping[str, Any]
) -> nn.Module:
    """A new model, as large as its vocabulary asks, with the settings that its task wants."""
    kind = model_type(arch, head)
    head = reading_head(architecture_for(kind), head)
    known = architecture_for(kind).config.__dataclass_fields__
    settings = {**architecture_for(kind).small, "vocab_size": len(tokenizer)}
    if arch in RNNS:
        settings["kind"] = arch
    if head in READS_BOTH_WAYS and kind == "glassformer-rnn":
        settings["bidirectional"] = True
    for role in ("pad_token_id", "bos_token_id", "eos_token_id"):
        settings[role] = getattr(tokenizer, role)
    if "labels" in wanted:
        settings["id2label"] = dict(enumerate(wanted["labels"]))
    settings |= {name: value for name, value in wanted.items() if name in known}
    settings |= _plain(config)
    settings = {name: value for name, value in settings.items() if name in known or name in config}
    _check_memory(kind, head, settings)
    return build(kind, head, **settings)


def _check_memory(kind: str, head: str | None, settings: Mapping[str, Any]) -> None:
    """Refuse a fresh model whose weights alone are more than this machine has free; nothing is allocated for it.

    One that is built without values will be dealt out to who knows how many machines.
    """
    if torch.get_default_device().type == "meta":
        return
    check_known(settings, architecture := architecture_for(kind))
    empty = skeleton(architecture, architecture.config.from_hf({"model_type": kind, **settings}), head)
    count, free = sum(tensor.numel() for tensor in empty.parameters()), free_on_this_machine()
    if 4 * count > free:
        raise ValueError(
            f"a {kind} of these sizes has {count:,} parameters, {4 * count / 1e9:,.0f} GB, and {free / 1e9:,.0f} GB "
            "are free: give smaller sizes in config"
        )


def labels_of(name: str, head: str | None) -> list[str] | None:
    """The labels a folder's model was trained for, if it has this very head."""
    raw = read_config(config_folder(name))
    architecture = architecture_for(raw.get("model_type"))
    if head is None or architecture.heads[head].hf_class not in (raw.get("architectures") or []):
        return None
    return list(read_labels(raw).values())


def in_order_of(name: str, spec: Spec) -> Spec:
    """The spec; the labels that a folder's model was trained for keep their order, if they are those of the spec."""
    known = labels_of(name, spec.head) if spec.labels else None
    return replace(spec, labels=tuple(known)) if known and set(known) == set(spec.labels) else spec


def loaded(
    name: str, head: str | None, wanted: Mapping[str, Any], tokenizer: Tokenizer, config: Mapping[str, Any]
) -> nn.Module:
    """A model from a folder or the hub, in float32; its head starts anew where it was trained for other labels."""
    labels = wanted.get("labels")
    known = labels_of(name, head) if labels else None
    changes = _plain(config)
    kind = architecture_for(read_config(config_folder(name)).get("model_type"))
    if "problem_type" in wanted and "problem_type" in kind.config.__dataclass_fields__:
        changes["problem_type"] = wanted["problem_type"]
    place = torch.get_default_device()
    model = load(name, head=reading_head(kind, head), labels=labels, dtype=torch.float32, device=place, config=changes)
    if labels and known and len(known) > 1 and known != labels:
        log.warning("%s was trained for other labels (%s); its head starts anew", name, ", ".join(known[:5]))
        std = as_model(model).config.initializer_range
        for tensor in model.get_submodule("head").parameters():
            nn.init.zeros_(tensor) if tensor.dim() == 1 else nn.init.normal_(tensor, std=std)
    return resize_token_embeddings(model, tokenizer)


def check_fit(model: nn.Module, tokenizer: Tokenizer) -> None:
    """Refuse a tokenizer whose own tokens, not only those added to it, are more than the model knows."""
    config = as_model(model).config
    if tokenizer.vocab_size > config.vocab_size:
        raise ValueError(
            f"the tokenizer has {tokenizer.vocab_size} tokens and the model's embedding {config.vocab_size}; "
            "they do not belong together"
        )


def resize_token_embeddings(model: nn.Module, tokenizer: Tokenizer) -> nn.Module:
    """The model, with new rows in its embeddings for tokens that were added to the tokenizer."""
    check_fit(model, tokenizer)
    config = as_model(model).config
    size = len(tokenizer)
    if size <= config.vocab_size:
        return model
    grown = architecture_for(config.model_type).build(replace(config, vocab_size=size), as_model(model).head_name)
    state = grown.state_dict()
    with torch.no_grad():
        for name, old in model.state_dict().items():
            state[name][tuple(slice(length) for length in old.shape)] = old
    if stated := generation_config(as_model(model)):
        set_generation_config(as_model(grown), stated)
    return grown.eval()
