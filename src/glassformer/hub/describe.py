"""What a model is made of, from its config alone: no weights are read or allocated."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from glassformer.models.contract import as_model
from glassformer.models.pretrained import PreTrainedModel

from . import fetch
from .folder import read_config
from .registry import architecture_for, head_for, skeleton


@dataclass(frozen=True)
class Component:
    """One part of a model, and how much of it there is."""

    name: str
    module: str
    parameters: int
    share: float


def describe(name: str | Path, *, revision: str | None = None) -> PreTrainedModel:
    """The model of a folder or hub name on the meta device: shapes without values."""
    raw = read_config(fetch.config_folder(name, revision=revision))
    architecture = architecture_for(raw.get("model_type"))
    return skeleton(architecture, architecture.config.from_hf(raw), head_for(architecture, raw.get("architectures")))


def components(model: nn.Module) -> list[Component]:
    """The model's parts in order; a tied tensor counts where it comes first."""
    seen: set[int] = set()
    counts: dict[str, int] = {}
    for name, child in model.named_children():
        fresh = {id(p): p.numel() for p in child.parameters() if id(p) not in seen}
        seen |= fresh.keys()
        counts[name] = sum(fresh.values())
    total = sum(counts.values())
    stack = "decoder" if as_model(model).is_causal else "encoder"
    return [
        Component(stack if name == "layers" else name, name, count, count / max(total, 1))
        for name, count in counts.items()
        if count or name == "head"
    ]


def totals(model: nn.Module) -> dict[str, Any]:
    """All parameters, and those that training would change."""
    parameters = list(model.parameters())
    return {
        "parameters": sum(p.numel() for p in parameters),
        "trainable": sum(p.numel() for p in parameters if p.requires_grad),
    }
