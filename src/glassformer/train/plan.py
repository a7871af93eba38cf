"""How a model is trained: every choice of the loop, checked in one place."""

from dataclasses import dataclass, fields
from typing import Literal, get_args

from glassformer.data.batches import Budget

from .schedule import ScheduleName

Precision = Literal["fp32", "bf16", "fp16"]
SCHEDULES = get_args(ScheduleName)
NUMBERS: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float)}
PRECISIONS = ("fp32", "bf16", "fp16")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One run of the loop. A batch is what one update sees, whatever it is cut into and over how many processes."""

    epochs: float | None = None
    steps: int | None = None
    batch_size: int | None = None  # examples a batch
    batch_tokens: int | None = None  # or tokens a batch, padding counted
    accumulate: int = 1  # micro-batches a batch is cut into, for each process
    lr: float = 5e-5
    schedule: ScheduleName = "linear"
    warmup: float = 0.0  # steps, or below 1 a share of all steps
    final_lr: float = 0.0  # share of lr left at the end (linear, cosine)
    weight_decay: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    clip: float | None = 1.0  # the gradient's norm at most; 0 for any
    layer_decay: float = 1.0  # each layer below learns at this share of the rate above it
    precision: Precision = "fp32"
    compile: bool = False
    checkpointing: bool = False  # forget activations and compute them again: less memory, more time
    ema: float | None = None  # decay of the moving average of the weights
    average: int = 1  # mean of the last so many checkpoints' weights
    eval_every: int | None = None  # steps; None: every epoch, and at the end
    save_every: int | None = None  # steps; None: whenever there is an evaluation
    save_minutes: float = 5.0  # a checkpoint between those, where the last is so long ago; 0 for none
    log_every: int = 20
    metric: str | None = None  # what "best" means, "-" before it for less is better; None: the task's own
    patience: int | None = None  # evaluations without a better one before the run stops
    keep: Literal["best", "last"] = "best"  # which weights the run folder ends with
    seed: int = 0

    def __post_init__(self) -> None:
        for one in fields(self):
            value, kind = getattr(self, one.name), getattr(one.type, "__name__", str(one.type)).split(" | ")[0]
            if (
                kind in NUMBERS
                and value is not None
                and (isinstance(value, bool) or not isinstance(value, NUMBERS[kind]))
            ):
                raise ValueError(f"{one.name} must be a number ({kind}), not {value!r}")
        if (self.epochs is None) == (self.steps is None):
            raise ValueError("say how long to train: epochs or steps, one of the two")
        _ = self.budget
        least = {"accumulate": 1, "average": 1, "log_every": 1, "save_minutes": 0}
        least |= {
            name: 1 for name in ("eval_every", "save_every", "patience", "steps") if getattr(self, name) is not None
        }
        for name, bound in least.items():
            if getattr(self, name) < bound:
                raise ValueError(f"{name} must be at least {bound}, not {getattr(self, name)}")
        for name in ("epochs", "lr"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"{name} must be above 0, not {value}")
        if self.ema is not None and self.average > 1:
            raise ValueError("ema and average are two ways to average the weights: choose one of them")
        for name, known in (("schedule", SCHEDULES), ("precision", PRECISIONS), ("keep", ("best", "last"))):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(known)}, not {getattr(self, name)!r}")

    @property
    def budget(self) -> Budget:
        return Budget(self.batch_size, self.batch_tokens)
