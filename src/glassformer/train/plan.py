"""How a model is trained: every choice of the loop, checked in one place."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Literal

from glassformer.data.batches import WINDOW, Budget
from glassformer.files import conform
from glassformer.files.schema import Bounds, NotNegative, Positive, Probability, Size, hints_of

from .optimiser import OptimiserName
from .schedule import ScheduleName

Precision = Literal["fp32", "bf16", "fp16"]
COMPUTE_BYTES: Mapping[Precision, int] = {"fp32": 4, "bf16": 2, "fp16": 2}  # of a number in the forward pass
Steps = Annotated[int, Bounds(1)]
BelowOne = Annotated[float, Bounds(0, 1, below=True)]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One run of the loop. A batch is what one update sees, whatever it is cut into and over how many processes."""

    epochs: Positive | None = None
    """Passes over the training data; 0.5 is half of one. Give epochs or steps."""
    steps: Steps | None = None
    """Updates of the weights, in the place of epochs."""
    batch_size: Size | None = None
    """Examples an update sees, over all processes. Larger is steadier, and wants a higher lr."""
    batch_tokens: Size | None = None
    """Tokens an update sees, padding counted, in the place of batch_size: for texts of unlike length."""
    shuffle_window: Annotated[int, Bounds(1)] = WINDOW
    """Tokens among which examples are mixed; more are mixed part by part, so that remote shards are fetched once."""
    accumulate: Size = 1
    """Micro-batches each batch is cut into, on each process: less memory, the same result."""
    lr: Positive = 5e-5
    """Peak learning rate: lower it when the loss jumps or a fine-tuned model forgets."""
    schedule: ScheduleName = "linear"
    """How the learning rate falls after the warm-up; plateau halves it when dev scores stop improving."""
    warmup: NotNegative = 0.0
    """Steps over which the rate rises from 0; below 1, that share of all steps."""
    final_lr: NotNegative = 0.0
    """Share of lr that is left at the end, of the schedules linear and cosine."""
    optimiser: OptimiserName = "adamw"
    """What takes the step; muon steps hidden matrices and leaves the rest to adamw."""
    weight_decay: NotNegative = 0.01
    """Pull of matrices towards 0; biases and norms are never decayed. More against overfitting."""
    beta1: BelowOne = 0.9
    """Decay of Adam's mean of gradients."""
    beta2: BelowOne = 0.999
    """Decay of Adam's mean of squared gradients; 0.98 or 0.99 follows large changes sooner."""
    eps: NotNegative = 1e-8
    """What Adam adds to its denominator."""
    momentum: BelowOne = 0.9
    """Momentum of sgd; other optimisers have none."""
    clip: NotNegative | None = 1.0
    """Largest norm of the gradient; a larger one is scaled down to it. 0 for no limit."""
    layer_decay: NotNegative = 1.0
    """Each layer learns at this share of the rate above it; 0.9 keeps lower layers as pretrained."""
    precision: Precision = "fp32"
    """What the forward pass computes in; weights stay fp32. bf16 on a recent GPU, fp16 on an older one."""
    compile: bool = False
    """Compile the layers with torch.compile: slow to start, then faster on a GPU."""
    checkpointing: bool = False
    """Forget activations and compute them again in the backward pass: less memory, more time."""
    parallel: Literal["ddp", "fsdp", "hsdp"] = "ddp"
    """Under torchrun: the whole model on each process, shards of it over all, or a whole one in each group of them."""
    shard_size: Size | None = None
    """Processes of a group of hsdp; by default those of a machine."""
    tensor_parallel: Size = 1
    """Under torchrun: processes that compute one model together, each some of its heads, neurons and words."""
    context_parallel: Size = 1
    """Under torchrun: processes that read each text together, each some of its positions: for long ones."""
    min_num_params: Annotated[int, Bounds(0)] = 2**24
    """With fsdp, gather layers together until they have so many parameters: calls cost more than to keep small ones."""
    reshard: bool = True
    """With fsdp, free a layer after its forward pass and gather it again: less memory, more exchange."""
    offload: bool = False
    """With fsdp, keep shards and the optimiser's state in the memory of the CPU."""
    deadline: Positive = 30.0
    """Minutes to wait for a process that does not answer; then the run stops and names it."""
    ema: Probability | None = None
    """Decay of a moving average of the weights, as 0.999; the average is scored and kept."""
    average: Size = 1
    """Checkpoints whose weights are averaged at the end: the last so many. 1 for none."""
    eval_every: Steps | None = None
    """Steps between evaluations on dev; by default every epoch, and at the end."""
    save_every: Steps | None = None
    """Steps between checkpoints; by default one after each evaluation."""
    save_minutes: NotNegative = 5.0
    """Minutes after which a checkpoint is written between those as well; 0 for never."""
    log_every: Steps = 20
    """Steps between the lines that tell the loss."""
    metric: str | None = None
    """Score that tells the best weights, with - before it where less is better; by default the task's own."""
    patience: Steps | None = None
    """Stop after so many evaluations without a better one; by default never."""
    keep: Literal["best", "last"] = "best"
    """Which weights the run folder ends with: of the best evaluation, or the last."""
    seed: Annotated[int, Bounds(0, 2**63 - 1)] = 0
    """Seed of initial weights, order, dropout and masks: the same seed gives the same run."""

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
