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
from glassformer.hub.registry import ARCHITECTURES, architecture_for, build, check_known, skeleton
from glassformer.models.config import labels as read_labels
from glassformer.tasks.task import Task
from glassformer.text.tokenizer import Tokenizer

from .recipe import NONE, Recipe

log = logging.getLogger("glassformer")

RNNS = ("rnn", "gru", "lstm")
ENCODER = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024}
SMALL: dict[str, dict[str, Any]] = {  # sizes of a fresh model that a laptop trains; `config` changes them
    "bert": {**ENCODER, "max_position_embeddings": 512},
    "roberta": {**ENCODER, "max_position_embeddings": 514},
    "distilbert": {"dim": 256, "n_layers": 3, "n_heads": 4, "hidden_dim": 1024, "max_position_embeddings": 512},
    "gpt2": {"n_embd": 256, "n_layer": 4, "n_head": 4, "n_positions": 512},
    "glassformer-rnn": {"embedding_size": 256, "hidden_size": 256, "num_layers": 1, "dropout": 0.3},
    "glassformer-seq2seq": {"embedding_size": 256, "hidden_size": 256, "dropout": 0.2, "bidirectional": True},
    "glassformer-transformer": {"d_model": 256, "encoder_layers": 3, "decoder_layers": 3, "dropout": 0.1}
    | {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 1024, "decoder_ffn_dim": 1024},
}
ARCHS = (*RNNS, "seq2seq", "transformer", *(name for name in SMALL if "-" not in name))
READS_BOTH_WAYS = ("text-classification", "token-classification")


def _plain(config: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a recipe as a config has them."""
    return {name: None if value == NONE else value for name, value in config.items()}


def head_for(arch: str | None, task: type[Task[Any, Any]]) -> str | None:
    """The head that a task asks for; a lesson can be put in several ways, and takes one that the kind of model has."""
    if not task.built_in:
        return task.head
    if task.name == "parity" and (arch in RNNS or (arch in SMALL and "text-classification" in _heads(arch))):
        return "text-classification"
    return "text-generation" if arch == "gpt2" else "text2text-generation"


def model_type(arch: str, head: str | None) -> str:
    """What an everyday name means for a head: a Transformer that only reads, or only writes, is half of one."""
    writes = head == "text2text-generation"
    if arch in RNNS:
        return "glassformer-seq2seq" if writes else "glassformer-rnn"
    if arch == "transformer":
        return "glassformer-transformer" if writes else "gpt2" if head == "text-generation" else "bert"
    if arch == "seq2seq":
        return "glassformer-seq2seq"
    if arch not in ARCHS:
        raise ValueError(f"arch must be one of {', '.join(ARCHS)}, not {arch!r}")
    return arch


def able(task: type[Task[Any, Any]]) -> dict[str, str]:
    """The kinds of model that can be trained afresh for a task, and the model_type that each is then."""
    heads = {arch: head_for(arch, task) for arch in ARCHS}
    kinds = {arch: model_type(arch, head) for arch, head in heads.items()}
    return {arch: kind for arch, kind in kinds.items() if heads[arch] in _heads(kind)}


def check_arch(arch: str, task: type[Task[Any, Any]]) -> str | None:
    """Refuse a kind of model that cannot do a task; of a Transformer, say in a line which half of it is built."""
    kind, can = model_type(arch, head_for(arch, task)), able(task)
    if arch not in can:
        raise ValueError(f"arch {arch!r} cannot do {task.name}; what can: {', '.join(can)}")
    half = {"bert": "encoder alone, as BERT arranges it", "gpt2": "decoder alone, as GPT-2 arranges it"}.get(kind)
    said = f"arch transformer: {task.name} takes its {half}; the model is a {kind}"
    return said if arch == "transformer" and half is not None else None


def check_model(name: str | Path, task: type[Task[Any, Any]]) -> None:
    """Refuse a folder whose kind of model cannot do a task, whatever is trained on top of it."""
    kind = read_config(config_folder(name)).get("model_type")
    if not task.built_in and task.head not in architecture_for(kind).heads:
        can = [other for other, architecture in ARCHITECTURES.items() if task.head in architecture.heads]
        raise ValueError(f"{name} is a {kind}, which cannot do {task.name}; what can: {', '.join(can)}")


def check_config(recipe: Recipe, task: type[Task[Any, Any]]) -> None:
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


def fresh(arch: str, task: Task[Any, Any], config: Mapping[str, Any]) -> nn.Module:
    """A new model, as large as its vocabulary asks, with the labels of the task."""
    kind, tokenizer = model_type(arch, task.head), task.tokenizer
    known = architecture_for(kind).config.__dataclass_fields__
    settings = {**SMALL[kind], "vocab_size": len(tokenizer)}
    if arch in RNNS:
        settings["kind"] = arch
    if task.head in READS_BOTH_WAYS and kind == "glassformer-rnn":
        settings["bidirectional"] = True
    for role in ("pad_token_id", "bos_token_id", "eos_token_id"):
        settings[role] = getattr(tokenizer, role)
    wanted = dict(task.settings())
    if labels := wanted.pop("labels", None):
        settings["id2label"] = dict(enumerate(labels))
    settings |= {name: value for name, value in wanted.items() if name in known}
    settings |= _plain(config)
    settings = {name: value for name, value in settings.items() if name in known or name in config}
    _check_memory(kind, task.head, settings)
    return build(kind, task.head, **settings)


def _check_memory(kind: str, head: str | None, settings: Mapping[str, Any]) -> None:
    """Refuse a fresh model whose weights alone are more than this machine has free; nothing is allocated for it."""
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


def loaded(name: str, task: Task[Any, Any], config: Mapping[str, Any]) -> nn.Module:
    """A model from a folder or the hub, in float32. The labels it was trained for keep their order, if they are those
    of the task; for others it is given a new head."""
    wanted = dict(task.settings())
    labels = wanted.get("labels")
    known = labels_of(name, task.head) if labels else None
    if labels and known and set(known) == set(labels):
        task.labels = labels = known  # type: ignore[attr-defined]
    model: Any = load(name, head=task.head, labels=labels, dtype=torch.float32, config=_plain(config))
    if labels and known and len(known) > 1 and known != labels:
        log.warning("%s was trained for other labels (%s); its head starts anew", name, ", ".join(known[:5]))
        for tensor in model.head.parameters():
            nn.init.zeros_(tensor) if tensor.dim() == 1 else nn.init.normal_(tensor, std=model.config.initializer_range)
    if "problem_type" in wanted and hasattr(model.config, "problem_type"):
        model.config = replace(model.config, problem_type=wanted["problem_type"])
    return with_room_for(model, task.tokenizer)


def check_fit(model: nn.Module, tokenizer: Tokenizer) -> None:
    """Refuse a tokenizer whose own tokens, not only those added to it, are more than the model knows."""
    config: Any = model.config
    if tokenizer.vocab_size > config.vocab_size:
        raise ValueError(
            f"the tokenizer has {tokenizer.vocab_size} tokens and the model's embedding {config.vocab_size}; "
            "they do not belong together"
        )


def with_room_for(model: nn.Module, tokenizer: Tokenizer) -> nn.Module:
    """The model, with new rows in its embeddings for tokens that were added to the tokenizer."""
    check_fit(model, tokenizer)
    config: Any = model.config
    size = len(tokenizer)
    if size <= config.vocab_size:
        return model
    head: Any = model.head_name
    grown = architecture_for(config.model_type).build(replace(config, vocab_size=size), head)
    state = grown.state_dict()
    with torch.no_grad():
        for name, old in model.state_dict().items():
            state[name][tuple(slice(length) for length in old.shape)] = old
    return grown.eval()
