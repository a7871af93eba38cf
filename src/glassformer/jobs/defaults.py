"""Settings that suit a task and a model when nobody says otherwise: the plain command should already be right."""

from math import ceil
from typing import Any

from torch import nn

from glassformer.blocks.attention import MultiHeadAttention

MILLION = 1_000_000
TEXT_TO_TEXT = ("translation", "summarization", "text2text-generation")
RUNNING_TEXT = (
    *("text-generation", "fill-mask", "pretraining", "sentence-order-prediction", "replaced-token-detection"),
    "span-corruption",
)

FEW_UPDATES, MOST_EPOCHS = 200, 10  # of fine-tuning: a new head learns nothing in fewer, and little by more


def defaults(
    task: str, model: nn.Module, *, pretrained: bool, device: str, examples: int | None = None
) -> dict[str, Any]:
    """Settings of the loop; `examples` are those of the training data, where they are known."""
    size = sum(tensor.numel() for tensor in model.parameters())
    common = {"precision": "bf16" if device.startswith("cuda") else "fp32"}
    if task in RUNNING_TEXT:
        return common | _language_model(size, pretrained=pretrained)
    if pretrained:
        return common | _fine_tuning(task, size, examples)
    return common | _from_scratch(task, model)


def _fine_tuning(task: str, size: int, examples: int | None) -> dict[str, Any]:
    """Small models learn at higher rates than BERT's 2e-5, and few examples are read more often."""
    rates = ((60, 2e-5), (30, 5e-5), (15, 1e-4), (0, 3e-4))
    rate = next(rate for millions, rate in rates if size >= millions * MILLION)
    epochs = {"token-classification": 4, "question-answering": 2, "sentence-similarity": 2}.get(task, 3)
    batch = {"batch_tokens": 4096} if task in TEXT_TO_TEXT else {"batch_size": 32}
    if examples and "batch_size" in batch:
        epochs = max(epochs, min(MOST_EPOCHS, ceil(FEW_UPDATES * batch["batch_size"] / examples)))
    return {**batch, "lr": rate, "epochs": epochs, "schedule": "linear", "warmup": 0.1, "weight_decay": 0.01}


def _from_scratch(task: str, model: nn.Module) -> dict[str, Any]:
    """Transformers learn slowly and warm up; a model with no layer between its table and its scores learns fastest."""
    attends = any(isinstance(part, MultiHeadAttention) for part in model.modules())
    layered = any(isinstance(part, nn.Linear | nn.RNNBase) for part in model.modules())
    if task in TEXT_TO_TEXT:
        rate = {"lr": 1e-3, "schedule": "linear", "warmup": 0.05}
        if attends:
            rate = {"lr": 2e-3, "schedule": "inverse_sqrt", "warmup": 0.1, "beta2": 0.98, "average": 5}
        return {"batch_tokens": 4096, "epochs": 30, "weight_decay": 0.0001, **rate}
    rate = {"lr": 5e-4, "warmup": 0.1} if attends else {"lr": 2e-3 if layered else 1e-2, "warmup": 0.0}
    return {"batch_size": 64, "epochs": 10, "schedule": "linear", "weight_decay": 0.01, **rate}


def _language_model(size: int, *, pretrained: bool) -> dict[str, Any]:
    rate = 1e-3 if size < 30 * MILLION else 6e-4
    return {
        "batch_tokens": 8192,
        "epochs": 3 if pretrained else 10,
        "lr": rate / 10 if pretrained else rate,
        "schedule": "cosine",
        "final_lr": 0.1,
        "warmup": 0.05,
        "weight_decay": 0.1,
        "beta2": 0.99,
    }
