"""The loss as a step, where labels are given under Hugging Face's names; -100 is no label."""

from collections.abc import Mapping
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from . import formulas
from .laws import is_encoder_decoder
from .steps import Walk

LABELS = ("labels", "start_positions", "end_positions")


def loss(walk: Walk, model: nn.Module, inputs: Mapping[str, Any], outputs: Mapping[str, Tensor]) -> None:
    """Cross-entropy of labels, of next tokens, or of the two ends of an answer; torch's own is what is seen."""
    if "start_positions" in inputs:
        ends = [_one(walk, f"{end}_loss", f"{end}_logits", inputs[f"{end}_positions"], outputs) for end in ENDS]
        seen = sum((step.seen for step in walk.steps if step.name in ends and step.seen is not None), start=0.0) / 2
        walk.add("loss", HALF, {"start": ends[0], "end": ends[1]}, seen)  # type: ignore[arg-type]
    elif "labels" in inputs and "logits" in outputs:
        labels = inputs["labels"]
        if hasattr(model, "step") and not is_encoder_decoder(model) and labels.dim() == 2:
            labels = F.pad(labels[:, 1:], (0, 1), value=-100)  # the next token is what is to be said
        _one(walk, "loss", "logits", labels, outputs)


ENDS = ("start", "end")
HALF = formulas.Formula("(start + end) / 2", r"\frac{1}{2}(L_s + L_e)", lambda start, end: (start + end) / 2)


def _one(walk: Walk, name: str, logits: str, labels: Tensor, outputs: Mapping[str, Tensor]) -> str:
    wanted = walk.give(f"{name}.labels", labels)
    scores = outputs[logits].float().cpu()
    if labels.is_floating_point():
        formula, seen = _graded(scores, labels.cpu())
    else:
        formula, seen = formulas.CROSS_ENTROPY, F.cross_entropy(scores.flatten(0, -2), labels.flatten().cpu())
    return walk.add(name, formula, {"logits": logits, "labels": wanted}, seen)


def _graded(scores: Tensor, labels: Tensor) -> tuple[formulas.Formula, Tensor]:
    """Labels that are numbers: several classes at once (one for each score), or a value to come near to."""
    if scores.shape == labels.shape:
        return formulas.BINARY, F.binary_cross_entropy_with_logits(scores, labels)
    return formulas.SQUARED, F.mse_loss(scores.squeeze(-1), labels)
