"""The loss as a step, where labels are given under Hugging Face's names; -100 is no label."""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from glassformer.models.contract import as_model, can_generate

from ..formulas import Formula
from ..walk import Walk

LABELS = ("labels", "start_positions", "end_positions")


def walk_loss(walk: Walk, inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor]) -> None:
    """Cross-entropy of labels, of next tokens, or of the two ends of an answer; torch's own is what is seen."""
    if "start_positions" in inputs:
        names, seen = zip(
            *(_one(walk, f"{end}_loss", f"{end}_logits", inputs[f"{end}_positions"], outputs) for end in ENDS),
            strict=True,
        )
        walk.add("loss", HALF, dict(zip(ENDS, names, strict=True)), sum(seen) / 2)
    elif "labels" in inputs and "logits" in outputs:
        labels = inputs["labels"]
        model = as_model(walk.model)
        if can_generate(model) and not model.config.is_encoder_decoder:
            labels = F.pad(labels[:, 1:], (0, 1), value=-100)  # the next token is what is to be predicted
        _one(walk, "loss", "logits", labels, outputs)


def _one(walk: Walk, name: str, logits: str, labels: Tensor, outputs: Mapping[str, Tensor]) -> tuple[str, Tensor]:
    """The name of a loss, and torch's own value of it."""
    wanted = walk.give(f"{name}.labels", labels)
    scores = outputs[logits].float().cpu()
    if labels.is_floating_point():
        formula, seen = _graded(scores, labels.cpu())
    else:
        formula, seen = CROSS_ENTROPY, F.cross_entropy(scores.flatten(0, -2), labels.flatten().cpu())
    return walk.add(name, formula, {"logits": logits, "labels": wanted}, seen), seen


def _graded(scores: Tensor, labels: Tensor) -> tuple[Formula, Tensor]:
    """Labels that are numbers: several classes at once (one for each score), or a value to come near to."""
    if scores.shape == labels.shape:
        return BINARY, F.binary_cross_entropy_with_logits(scores, labels)
    return SQUARED, F.mse_loss(scores.squeeze(-1), labels)


def _cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """The mean over labels that are not −100, as Hugging Face counts it."""
    rows, wanted = logits.flatten(0, -2), labels.flatten()
    rows, wanted = rows[wanted >= 0], wanted[wanted >= 0]
    highest = rows.amax(-1, keepdim=True)
    total = (rows - highest).exp().sum(-1).log() + highest[:, 0]
    return (total - rows[torch.arange(len(rows)), wanted]).mean()


ENDS = ("start", "end")
HALF = Formula("(start + end) / 2", r"\frac{1}{2}(L_s + L_e)", lambda start, end: (start + end) / 2)
CROSS_ENTROPY = Formula(
    "−mean log softmax(logits)[label]",
    r"-\frac{1}{N} \sum_n \log \mathrm{softmax}(z_n)_{y_n}",
    _cross_entropy,
)
BINARY = Formula(
    "−mean [y log σ(z) + (1 − y) log(1 − σ(z))]",
    r"-\frac{1}{N} \sum_n y_n \log \sigma(z_n) + (1 - y_n) \log(1 - \sigma(z_n))",
    lambda logits, y: (logits.clamp(min=0) - logits * y + (-logits.abs()).exp().log1p()).mean(),
)
SQUARED = Formula(
    "mean (z − y)²", r"\frac{1}{N} \sum_n (z_n - y_n)^2", lambda logits, y: ((logits[..., 0] - y) ** 2).mean()
)
