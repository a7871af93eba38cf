"""How a model is trained: every choice of the loop, checked in one place."""

from dataclasses import dataclass, fields
from typing import Annotated, Literal

from glassformer.data.batches import Budget
from glassformer.files import conform
from glassformer.files.schema import Bounds, NotNegative, Positive, Probability, Size, hints_of

from .optimiser import OptimiserName
from .schedule import ScheduleName

Precision = Literal["fp32", "bf16", "fp16"]
Steps = Annotated[int, Bounds(1)]
BelowOne = Annotated[float, Bounds(0, 1, below=True)]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One run of the loop. A batch is what one update sees, whatever it is cut into and over how many processes."""

    epochs: Positive | None = None
    steps: Steps | None = None
    batch_size: Size | None = None  # examples a batch
    batch_tokens: Size | None = None  # or tokens a batch, padding counted
    accumulate: Size = 1  # micro-batches a batch is cut into, for each process
    lr: Positive = 5e-5
    schedule: ScheduleName = "linear"
    warmup: NotNegative = 0.0  # steps, or below 1 a share of all steps
    final_lr: NotNegative = 0.0  # share of lr left at the end (linear, cosine)
    optimiser: OptimiserName = "adamw"
    weight_decay: NotNegative = 0.01
    beta1: BelowOne = 0.9
    beta2: BelowOne = 0.999
    eps: NotNegative = 1e-8
    momentum: BelowOne = 0.9  # of sgd
    clip: NotNegative | None = 1.0  # the gradient's norm at most; 0 for any
    layer_decay: NotNegative = 1.0  # each layer below learns at this share of the rate above it
    precision: Precision = "fp32"
    compile: bool = False
    checkpointing: bool = False  # forget activations and compute them again: less memory, more time
    ema: Probability | None = None  # decay of the moving average of the weights
    average: Size = 1  # mean of the last so many checkpoints' weights
    eval_every: Steps | None = None  # steps; None: every epoch, and at the end
    save_every: Steps | None = None  # steps; None: whenever there is an evaluation
    save_minutes: NotNegative = 5.0  # a checkpoint between those, where the last is so long ago; 0 for none
    log_every: Steps = 20
    metric: str | None = None  # what "best" means, "-" before it for less is better; None: the task's own
    patience: Steps | None = None  # early stopping: after so many evaluations without a better one
    keep: Literal["best", "last"] = "best"  # which weights the run folder ends with
    seed: Annotated[int, Bounds(0, 2**63 - 1)] = 0

    def __post_init__(self) -> None:
        for one in fields(self):
            conform(getattr(self, one.name), hints_of(Plan)[one.name], one.name)
        if (self.epochs is None) == (self.steps is None):
            raise ValueError("say how long to train: epochs or steps, one of the two")
        _ = self.budget
        if self.ema is not None and self.average > 1:
            raise ValueError("ema and average are two ways to average the weights: choose one of them")

    @property
    def budget(self) -> Budget:
        return Budget(self.batch_size, self.batch_tokens)
