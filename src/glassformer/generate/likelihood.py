"""Likelihood: how probable a model finds each token of a text, and what it would have written instead.

R texts, P prompt length, N new tokens, k alternatives, V vocabulary.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.blocks.state import S
from glassformer.models.contract import Stepper

from .job import Prompt

ROWS_AT_ONCE = 8  # the scores of all words at all places are large


@dataclass(frozen=True)
class SequenceLikelihood:
    """Log-probabilities under the model itself, before any filter."""

    logprobs: Tensor  # (R, N), 0 behind the end
    top_ids: Tensor  # (R, N, k)
    top_logprobs: Tensor  # (R, N, k)


def likelihood(
    model: Stepper[S], prompt: Prompt, new: Tensor, lengths: Tensor, alternatives: int = 0
) -> SequenceLikelihood:
    """Read new tokens (R, N) of these lengths behind their prompts, all at once."""
    parts = []
    for start in range(0, len(new), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        ids, start_ids = prompt.input_ids[part], None if prompt.start_ids is None else prompt.start_ids[part]
        mask = None if prompt.attention_mask is None else prompt.attention_mask[part]
        written = torch.cat([ids if start_ids is None else start_ids, new[part]], dim=1)[:, :-1]
        hidden, _ = model.hidden_step(written, model.start(ids, mask, length=written.shape[1]))
        logs = model.logits(hidden[:, -new.shape[1] :]).float().log_softmax(-1)  # (R, N, V)
        own = logs.gather(2, new[part, :, None])[..., 0]
        parts.append((own, *logs.topk(min(alternatives, logs.shape[-1]))))
    own, values, ids = (torch.cat(part) for part in zip(*parts, strict=True))
    behind = torch.arange(new.shape[1], device=new.device) >= lengths[:, None]
    return SequenceLikelihood(own.masked_fill(behind, 0.0), ids, values)
