"""Contrastive search (Su et al. 2022): likely tokens that do not repeat what the text already means.

B texts, k candidates, L tokens so far, D model width, V vocabulary.
"""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import normalize

from glassformer.blocks.state import S
from glassformer.models.contract import Stepper

from .job import Job, check
from .search import Ledger, Token


def contrastive(model: Stepper[S], job: Job) -> Iterator[Token]:
    """Of the k likeliest tokens the best by (1 - α) · probability - α · likeness to any token before.

    All k are read ahead, so a token is chosen by the hidden state that it leads to.
    """
    alpha, count = job.settings.penalty_alpha, job.settings.top_k
    assert alpha is not None
    assert count is not None
    hidden, state = model.hidden_step(job.prompt.written, job.begin(model))
    logits = model.logits(hidden[:, -1])  # (B, V)
    ledger, count = Ledger(job), min(count, logits.shape[-1])
    past = normalize(hidden.float(), dim=-1)  # (B, L, D)
    state = state.select(torch.arange(len(hidden), device=hidden.device).repeat_interleave(count))
    while True:
        check(logits)
        chances, likely = ledger.filters(ledger.texts, logits.float()).softmax(-1).topk(count)  # (B, k)
        ahead, state = model.hidden_step(likely.flatten()[:, None], state)  # (B·k, 1, D)
        vectors = normalize(ahead[:, 0].float(), dim=-1).unflatten(0, (-1, count))  # (B, k, D)
        best = ((1 - alpha) * chances - alpha * _likeness(vectors, past, ledger.texts)).argmax(
            -1, keepdim=True
        )  # (B, 1)
        token, running = ledger.write(likely.gather(1, best)[:, 0])
        yield token, running
        if ledger.finished:
            return
        past = torch.cat([past, vectors.take_along_dim(best[..., None], dim=1)], dim=1)
        chosen = best[:, 0] + torch.arange(len(best), device=best.device) * count  # (B,), of the B·k rows
        if (stay := ledger.leaving()) is not None:
            past, chosen = past[stay], chosen[stay]
        logits = model.logits(ahead[chosen, 0])
        state = state.select(chosen.repeat_interleave(count))


def _likeness(vectors: Tensor, past: Tensor, texts: Tensor) -> Tensor:
    """(B, k): the largest cosine with a token of the text; padding is none."""
    cosines = vectors @ past.mT  # (B, k, L)
    return cosines.masked_fill(texts[:, None] < 0, -torch.inf).amax(-1)
