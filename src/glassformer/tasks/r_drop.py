"""R-Drop (Liang et al., 2021): the same batch through two dropouts, whose answers are to agree.

N targets, V choices.
"""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor


def r_drop_loss(logits: Callable[[], Tensor], loss: Callable[[Tensor], Tensor], alpha: float) -> Tensor:
    """½ (L₁ + L₂) + α/4 Σ (KL(p₁‖p₂) + KL(p₂‖p₁)), summed over targets.

    `logits` is a pass (N, V), drawn anew at each call; `loss` is the summed loss of one. This is half of the paper's
    sum, so that without dropout it is the plain loss, and lr and clip mean what they meant; alpha is the paper's.
    """
    one, other = logits(), logits()
    return (loss(one) + loss(other)) / 2 + alpha / 4 * symmetric_kl(one, other)


def symmetric_kl(one: Tensor, other: Tensor) -> Tensor:
    """Σ KL(p‖q) + KL(q‖p) over rows of logits (N, V): Σ (p - q) · (log p - log q)."""
    log_p, log_q = F.log_softmax(one.float(), -1), F.log_softmax(other.float(), -1)
    return ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum()
