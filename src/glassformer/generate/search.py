"""Greedy search and sampling over any model that steps: one token for every text at a time.

B texts, P prompt length, N new tokens, V vocabulary.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from glassformer.blocks.state import S, Stepper

from .job import Found, Job, check

Token = tuple[Tensor, Tensor]
"""The next ids (B,), padding for texts that have ended, and which texts go on (B,) after them."""


class Ledger:
    """What has been written, and which texts are still in the batch."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.filters = job.filters
        self.written = job.prompt.shown  # (B, P + n)
        self.rows = torch.arange(len(self.written), device=self.written.device)  # the texts in the batch
        self.running = torch.ones_like(self.rows, dtype=torch.bool)  # (B,)
        self.count = 0

    @property
    def texts(self) -> Tensor:
        """What the texts in the batch are so far."""
        return self.written[self.rows]

    def write(self, picked: Tensor) -> Token:
        """Add one id to each text in the batch."""
        token = torch.full_like(self.written[:, 0], self.job.settings.padding)
        token[self.rows] = torch.where(self.running[self.rows], picked, token[self.rows])
        self.written = torch.cat([self.written, token[:, None]], dim=1)
        self.running = self.running & ~self.job.stop(self.written)
        self.count += 1
        return token, self.running

    @property
    def over(self) -> bool:
        return self.count == self.job.room or not bool(self.running.any()) or self.job.stop.late

    def leaving(self) -> Tensor | None:
        """Which of the batch's rows stay, once at least half of its texts have ended."""
        stay = self.running[self.rows]
        if 2 * int(stay.sum()) > len(stay):
            return None
        places = stay.nonzero()[:, 0]
        self.filters, self.rows = self.filters.select(places), self.rows[places]
        return places


def tokens(model: Stepper[S], job: Job) -> Iterator[Token]:
    """The best or a drawn token for every text, until all have ended."""
    ledger, state, new = Ledger(job), job.begin(model), job.prompt.written
    while True:
        hidden, state = model.hidden_step(new, state)
        logits = model.logits(hidden[:, -1])  # (B, V): of a prompt only the end matters
        check(logits)
        token, running = ledger.write(job.choose(ledger.filters(ledger.texts, logits.float())))
        yield token, running
        if ledger.over:
            return
        if (stay := ledger.leaving()) is not None:
            state = state.select(stay)
        new = token[ledger.rows, None]


def collect(steps: Iterator[Token], prompt: Tensor) -> Found:
    """All tokens of a search behind their prompts (B, P)."""
    new, going = zip(*steps, strict=True)
    lengths = 1 + torch.stack(going)[:-1].sum(0)  # a text has one token more than it went on after
    return Found(torch.cat([prompt, torch.stack(new, dim=1)], dim=1), lengths)
