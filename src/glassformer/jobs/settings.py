"""The keyword arguments of gf.train as editors and type checkers see them: a recipe's, the loop's and every task's.

What each means, and may be, stands where it is carried out (recipe.py, train/plan.py, the task's file); a test holds
names and types here to those there.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Required, TypedDict

from glassformer.data.documents import Unit
from glassformer.data.rows import Format
from glassformer.models.contract import ProblemType
from glassformer.tasks.pooling import Mode
from glassformer.train.optimiser import OptimiserName
from glassformer.train.plan import Precision
from glassformer.train.schedule import ScheduleName

Files = str | Path | Sequence[str | Path]


class RunSettings(TypedDict, total=False):
    """What to train, on what, and where to put it."""

    task: Required[str]
    out: Required[str | Path]
    data: Files
    dev: Files
    test: Files
    columns: Mapping[str, str]
    limit: int | None
    model: str | Path | None
    arch: str | None
    config: Mapping[str, Any]
    tokenizer: str | Path | None
    vocab_size: int | None
    lowercase: bool
    freeze: str | None
    lora: int | None
    lora_targets: str
    device: str
    tensorboard: bool


class LoopSettings(TypedDict, total=False):
    """How to train."""

    epochs: float | None
    steps: int | None
    batch_size: int | None
    batch_tokens: int | None
    accumulate: int
    lr: float
    schedule: ScheduleName
    warmup: float
    final_lr: float
    optimiser: OptimiserName
    weight_decay: float
    beta1: float
    beta2: float
    eps: float
    momentum: float
    clip: float | None
    layer_decay: float
    precision: Precision
    compile: bool
    checkpointing: bool
    ema: float | None
    average: int
    eval_every: int | None
    save_every: int | None
    save_minutes: float
    log_every: int
    metric: str | None
    patience: int | None
    keep: Literal["best", "last"]
    seed: int


class TaskSettings(TypedDict, total=False):
    """What the tasks can be told; which task takes which is checked when a run begins."""

    bleu: bool
    bleu_lowercase: bool
    bleu_tokenize: str | None
    block_size: int | None
    bpe_dropout: float
    carry_state: bool
    chunk: int | None
    column: int
    conditions: Sequence[str]
    context: int
    copies: int
    detection_weight: float
    doc_stride: int
    exact_match: bool
    file_format: Format | None
    generate: Mapping[str, Any] | None
    generator_size: float
    head: str
    header: bool | None
    label_smoothing: float
    labels: str | Sequence[str] | None
    length: int | None
    loss: Literal["cosine", "contrastive"]
    mask_rate: float
    max_answer_length: int
    max_length: int | None
    max_question_length: int
    max_source_length: int | None
    max_target_length: int | None
    mean_noise_span_length: float
    ngrams: int
    noise_density: float
    normalize: bool
    null_threshold: float
    packing: bool
    pooling: Mode
    prefix: str
    problem_type: ProblemType
    r_drop: float
    random_windows: bool
    rouge: bool
    scale: float
    score_range: tuple[float, float]
    shards: bool | None
    src_lang: str | None
    static_masks: int
    stride: int | None
    tgt_lang: str | None
    unit: Unit | None
    whole_words: bool
    word_column: int


class TrainSettings(RunSettings, LoopSettings, TaskSettings, total=False):
    """All of them."""
