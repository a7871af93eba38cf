"""Optimisers: each trains the same model on the same data, at a learning rate that suits it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

from glassformer.train.optimiser import OptimiserName
from glassformer.view.report import Text

from ..tuning import TunedExperiment

FRESH: dict[str, Sequence[float]] = {
    "adamw": (1e-4, 5e-4, 2e-3),
    "adam": (1e-4, 5e-4, 2e-3),
    "sgd": (1e-2, 1e-1, 5e-1),
    "adafactor": (1e-3, 1e-2, 5e-2),  # of a tensor's own size
    "muon": (5e-4, 2e-3, 1e-2),  # its updates are scaled to those of a late AdamW, and small in a short run
}
ADDED = ("adam", "sgd")  # they would add a decay to the gradient, where Adam makes it far stronger than it is elsewhere
SMALLER = 0.1  # rates of fine-tuning, to those of a fresh model


@dataclass(frozen=True, kw_only=True)
class Optimisers(TunedExperiment):
    """AdamW, Adam, SGD with momentum, Adafactor and Muon, with the same schedule and batches."""

    name: ClassVar[str] = "optimisers"
    question: ClassVar[Text] = Text(
        "Which optimiser comes furthest in the same number of steps, each at its best learning rate of a few?",
        "同样的步数内，各取若干学习率中最好的一个，哪种优化器走得最远？",
    )

    note: ClassVar[Text] = Text(
        "Adam and SGD run without weight decay, which they would add to the gradient; the others decay the weights.",
        "Adam 与 SGD 不用权重衰减（它们会把衰减加进梯度）；其余优化器直接衰减权重。",
    )

    def ways(self) -> Mapping[str, Mapping[str, Any]]:
        without = {"weight_decay": 0.0}
        return {name: {"optimiser": name, **(without if name in ADDED else {})} for name in get_args(OptimiserName)}

    def rates_of(self, contestant: str) -> Sequence[float]:
        share = 1 if self.model is None else SMALLER
        return [float(f"{rate * share:.3g}") for rate in FRESH[contestant]]
