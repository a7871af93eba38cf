"""LoRA (Hu et al. 2021) for a whole model: adapters beside its linear layers, and the layers themselves frozen.

A transform before it is trained; `merge` makes it the plain architecture again.
"""

from collections import Counter
from collections.abc import Mapping

from torch import Tensor, nn

from glassformer.blocks.alignment import ConcatScore
from glassformer.blocks.lora import LoraLinear, NewTokens

from .freeze import Trained, matching, trained

QUERIES_AND_VALUES = "*attention.query,*attention.value"
HEADS = ("head", "pooler")  # what may be new, and so is trained whole
TOKENS = "embeddings.token"  # how the names of token tables end


def add_lora(
    model: nn.Module,
    targets: str = QUERIES_AND_VALUES,
    *,
    rank: int = 8,
    alpha: float = 16.0,
    dropout: float = 0.0,
    whole: str | None = None,
) -> Trained:
    """Put adapters beside the linear layers that `targets` names, in `freeze`'s patterns, and freeze the rest.

    Beside them only `whole` is trained: by default the head and the pooler, but for what was frozen before and for
    tensors that they share with the body. Layers with one weight (ALBERT) have one adapter, if any of them is named.
    """
    _check(model, rank=rank, alpha=alpha, dropout=dropout)
    parameters = dict(model.named_parameters(remove_duplicate=False))
    kept = _heads(parameters) if whole is None else _all_matching(parameters, whole)
    adaptable = _adaptable(model, parameters, kept)
    named = {adaptable[name].weight for name in _all_matching(adaptable, targets)}
    model.requires_grad_(False)
    for name in kept:
        parameters[name].requires_grad_(True)
    adapters: dict[Tensor, LoraLinear] = {}
    for name, base in adaptable.items():
        if base.weight in named:
            new = LoraLinear(base, rank=rank, alpha=alpha, dropout=dropout)
            first = adapters.setdefault(base.weight, new)
            new.lora_down, new.lora_up = first.lora_down, first.lora_up
            _place(model, name, new)
    return trained(model)


def train_new_tokens(model: nn.Module, tokens: range) -> Trained:
    """Of tables of tokens that are frozen, train the rows of these tokens, of which nothing is known yet.

    What shares a table, as an output that is tied to it, shares the rows. A table that is trained needs no more.
    """
    parts = dict(model.named_modules())
    tables = [part.get_parameter("weight") for name, part in parts.items() if name.endswith(TOKENS)]
    for table in {table for table in tables if not table.requires_grad}:
        NewTokens.placed_in([part for part in parts.values() if part._parameters.get("weight") is table], tokens)
    return trained(model)


def is_adapted(model: nn.Module) -> bool:
    """Whether it holds anything that `merge` would write into its weights."""
    return any(isinstance(part, (LoraLinear, NewTokens)) for part in model.modules())


def merge(model: nn.Module) -> nn.Module:
    """Write every adapter into its layer, in place: the plain architecture again, all of it trainable."""
    if not is_adapted(model):
        return model
    for name, part in list(model.named_modules()):
        if isinstance(part, LoraLinear):
            _place(model, name, part.merged())
    NewTokens.merged_in(model)
    return model.requires_grad_(True)


def _all_matching(names: Mapping[str, object], patterns: str) -> list[str]:
    found = (name for pattern in patterns.split(",") for name in matching(names, pattern.strip()))
    return list(dict.fromkeys(found))


def _heads(parameters: Mapping[str, Tensor]) -> list[str]:
    """The tensors of head and pooler that no other part holds, but for those that were frozen before."""
    body = {id(tensor) for name, tensor in parameters.items() if name.split(".")[0] not in HEADS}
    return [name for name, tensor in parameters.items() if tensor.requires_grad and id(tensor) not in body]


def _adaptable(model: nn.Module, parameters: Mapping[str, Tensor], kept: list[str]) -> dict[str, nn.Linear]:
    """The linear layers below the head that are not trained whole."""
    whole = {id(parameters[name]) for name in kept}
    holders = Counter(id(tensor) for tensor in parameters.values())
    found = {}
    for path, part in model.named_modules():
        for name, child in part.named_children():
            full = f"{path}.{name}".removeprefix(".")
            if not isinstance(child, nn.Linear) or full.split(".")[0] == "head" or id(child.weight) in whole:
                continue
            if not isinstance(part, ConcatScore):  # which takes its weight past the layer
                found[full] = child
    here = Counter(id(child.weight) for child in found.values())
    found = {name: child for name, child in found.items() if here[id(child.weight)] == holders[id(child.weight)]}
    if not found:  # a weight that another part holds too is left out: merging would change that part
        raise ValueError(f"a {type(model).__name__} has no linear layer for an adapter; freeze parts of it instead")
    return found


def _place(model: nn.Module, name: str, part: nn.Module) -> None:
    path, _, attribute = name.rpartition(".")
    setattr(model.get_submodule(path), attribute, part)


def _check(model: nn.Module, *, rank: int, alpha: float, dropout: float) -> None:
    if rank < 1:
        raise ValueError(f"rank must be at least 1, not {rank}; 8 is usual")
    if not alpha > 0:
        raise ValueError(f"alpha must be above 0, not {alpha}; twice the rank is usual")
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout must be at least 0 and below 1, not {dropout}")
    if any(isinstance(part, LoraLinear) for part in model.modules()):
        raise ValueError("the model has adapters already; merge them first")
