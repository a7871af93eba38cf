"""Optimisers for any of our models: what is decayed, and how fast each layer learns, is read from parameters' names."""

import math
import re
from collections.abc import Mapping, Sequence, Set
from typing import Any, Literal

from torch import Tensor, nn
from torch.optim import SGD, Adafactor, Adam, AdamW, Muon, Optimizer

OptimiserName = Literal["adamw", "adam", "sgd", "adafactor", "muon"]
Group = dict[str, Any]  # as torch takes them: params, and settings of their own

LAYER = re.compile(r"(?P<stack>.*?)(?:\blayers\.|_l)(?P<number>\d+)(?:\.|_reverse$|$)")  # torch's RNNs write `_l0`
FUSED = ("cpu", "cuda")  # one kernel for the whole update; on a CPU it is about four times as fast as the next best


def build_optimiser(
    model: nn.Module,
    lr: float,
    *,
    name: OptimiserName = "adamw",
    weight_decay: float = 0.01,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    momentum: float = 0.9,
    layer_decay: float = 1.0,
) -> Optimizer:
    """The optimiser of this name over the parameters that are trained, each in one group, tied ones once.

    Matrices are decayed, token and position tables among them, as in BERT and GPT-2; biases, norms and everything
    else with one dimension are not. AdamW, Adafactor and Muon decay the weights themselves; Adam and SGD add the decay
    to the gradient. With `layer_decay` below 1, a layer learns at that share of the rate of the one above it, the
    embeddings slowest; heads and whatever else has no number learn at the full rate. `betas` and `eps` are of AdamW and
    Adam, `momentum` of SGD.
    """
    _check(lr=lr, weight_decay=weight_decay, layer_decay=layer_decay)
    groups = _groups(model, lr, weight_decay=weight_decay, layer_decay=layer_decay)
    adam: dict[str, Any] = {"lr": lr, "betas": betas, "eps": eps, "fused": _can_fuse(groups)}
    plain, decoupled = _adams(groups)
    match name:
        case "adamw":
            return decoupled(groups, **adam)
        case "adam":
            return plain(groups, **adam)
        case "sgd":
            return SGD(groups, lr=lr, momentum=momentum)
        case "adafactor":
            return Adafactor(groups, lr=lr)
        case "muon":
            hidden = _hidden_matrices(model)
            inside, outside = (_only(groups, hidden, inside=where) for where in (True, False))
            parts: list[Optimizer] = [decoupled(outside, **adam)] if outside else []
            # an update as large as AdamW's, so that one rate suits both
            return Combined([*parts, *([Muon(inside, lr=lr, adjust_lr_fn="match_rms_adamw")] if inside else [])])


class Combined(Optimizer):
    """Several optimisers, each with parameters of its own, that step and are saved as one."""

    def __init__(self, parts: Sequence[Optimizer]) -> None:
        self.parts = parts
        super().__init__([group for part in parts for group in part.param_groups], {})

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        assert closure is None, "a gradient is computed once for all parts"
        for part in self.parts:
            part.step()

    def state_dict(self) -> dict[str, Any]:
        return {"parts": [part.state_dict() for part in self.parts]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for part, state in zip(self.parts, state_dict["parts"], strict=True):
            part.load_state_dict(state)
        self.param_groups = [group for part in self.parts for group in part.param_groups]  # they were made anew


def _groups(model: nn.Module, lr: float, *, weight_decay: float, layer_decay: float) -> list[Group]:
    """Parameters of one rate and one decay together: few groups, since each is a call of the kernel."""
    found: dict[tuple[float, bool], list[Tensor]] = {}
    distances = distances_from_the_top(model)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            found.setdefault((lr * layer_decay ** distances[name], parameter.dim() > 1), []).append(parameter)
    if not found:
        raise ValueError("no parameter is trained: leave a part of the model unfrozen")
    return [
        {"params": parameters, "lr": rate, "weight_decay": weight_decay if decayed else 0.0}
        for (rate, decayed), parameters in found.items()
    ]


def _only(groups: Sequence[Group], chosen: Set[Tensor], *, inside: bool) -> list[Group]:
    """The groups with the parameters that are among the chosen ones, or with the others; none that is empty."""
    found = [{**group, "params": [one for one in group["params"] if (one in chosen) == inside]} for group in groups]
    return [group for group in found if group["params"]]


def _hidden_matrices(model: nn.Module) -> set[nn.Parameter]:
    """What Muon is for: matrices between the tables that are looked up and the layers that give the scores."""
    tables = {part.weight for part in model.modules() if isinstance(part, nn.Embedding)}
    outputs = {one for name, one in model.named_parameters(remove_duplicate=False) if name.startswith("head.")}
    return {parameter for parameter in model.parameters() if parameter.dim() == 2} - tables - outputs


def _can_fuse(groups: Sequence[Group]) -> bool | None:
    """True where all parameters lie on devices that have the one kernel; None leaves the choice to torch."""
    devices = {parameter.device.type for group in groups for parameter in group["params"]}
    return True if devices <= set(FUSED) else None


def _adams(groups: Sequence[Group]) -> tuple[type[Adam], type[AdamW]]:
    """Adam and AdamW for these parameters: shards have their own."""
    if not any(hasattr(parameter, "device_mesh") for group in groups for parameter in group["params"]):
        return Adam, AdamW
    from .sharded_adam import ShardedAdam, ShardedAdamW  # DTensors take a third of a second to import

    return ShardedAdam, ShardedAdamW


def distances_from_the_top(model: nn.Module) -> Mapping[str, int]:
    """How many layers below the head each parameter lies, under the first of its names.

    The layers of an encoder and of a decoder are counted apart, because the top of either feeds the top of the other;
    all embeddings lie below the taller of the two. A tied tensor lies where its lowest name does.
    """
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    places = [match for tied in names.values() for name in tied if (match := LAYER.match(name))]
    heights: dict[str, int] = {}
    for place in places:
        heights[place["stack"]] = max(heights.get(place["stack"], 0), int(place["number"]) + 1)
    return {tied[0]: max(_distance(name, heights) for name in tied) for tied in names.values()}


def _distance(name: str, heights: Mapping[str, int]) -> int:
    if "embeddings" in name.split("."):
        return max(heights.values(), default=0) + 1
    place = LAYER.match(name)
    return heights[place["stack"]] - int(place["number"]) if place else 0


def _check(*, lr: float, weight_decay: float, layer_decay: float) -> None:
    if not (lr > 0 and math.isfinite(lr)):
        raise ValueError(f"lr must be above 0, not {lr}; 5e-5 suits fine-tuning, 1e-3 a small model from scratch")
    if not (weight_decay >= 0 and math.isfinite(weight_decay)):
        raise ValueError(f"weight_decay must be 0 or more, not {weight_decay}; 0.01 is usual")
    if not 0 < layer_decay <= 1:
        raise ValueError(f"layer_decay must be above 0 and at most 1 (off), not {layer_decay}")
