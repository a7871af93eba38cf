"""Greedy search and sampling over any model that steps: one token for every text at a time.

B texts, P prompt length, N new tokens, V vocabulary.
"""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import pad

from glassformer.blocks.state import S, Stepper, Turn, follow

from .job import Found, Job, check

Token = tuple[Tensor, Tensor]
"""The next ids (B,), padding for texts that have ended, and which texts go on (B,) after them."""


class Ledger:
    """What has been written, and which texts are still in the batch."""

    def __init__(self, job: Job) -> None:
        self.job, self.filters, self.count = job, job.filters, 0
        self.page, self.prompt = job.prompt.shown, job.prompt.shown.shape[1]  # (B, P + n and some room)
        self.highest = torch.zeros((), device=self.page.device)  # score of any word so far; NaN stays NaN
        self.rows: Tensor | None = None  # the texts in the batch, once some have left
        self.running = torch.ones_like(self.page[:, 0], dtype=torch.bool)  # (B,)

    @property
    def written(self) -> Tensor:
        """(B, P + n): all texts so far."""
        return self.page[:, : self.prompt + self.count]

    @property
    def texts(self) -> Tensor:
        """What the texts in the batch are so far."""
        return self.written if self.rows is None else self.written[self.rows]

    def write(self, picked: Tensor) -> Token:
        """Add one id to each text in the batch."""
        if self.rows is not None:
            picked = torch.zeros_like(self.page[:, 0]).index_copy_(0, self.rows, picked)
        token = picked.where(self.running, self.job.settings.padding)
        if self.written.shape[1] == self.page.shape[1]:
            more = min(self.page.shape[1], self.job.room - self.count)
            self.page = pad(self.page, (0, more), value=self.job.settings.padding)
        self.count += 1
        self.written[:, -1] = token
        self.running = self.running & ~self.job.stop(self.written)
        return token, self.running

    def check(self, highest: Tensor) -> None:
        """Stop where a model has broken down, by its highest score; on a GPU at the next look."""
        self.highest = torch.maximum(self.highest, highest.float())
        if self.due or self.count + 1 == self.job.room:
            check(self.highest)

    @property
    def due(self) -> bool:
        """Whether it is time to look at what became of the texts."""
        return self.count % self.job.patience == 0

    @property
    def over(self) -> bool:
        return self.count == self.job.room or self.job.stop.late or (self.due and not bool(self.running.any()))

    def leaving(self) -> Tensor | None:
        """Which of the batch's rows stay, once at least half of its texts have ended."""
        if not self.due:
            return None
        stay = self.running if self.rows is None else self.running[self.rows]
        if 2 * int(stay.sum()) > len(stay):
            return None
        places = stay.nonzero()[:, 0]
        self.filters, self.rows = self.filters.select(places), places if self.rows is None else self.rows[places]
        return places


def tokens(model: Stepper[S], job: Job) -> Iterator[Token]:
    """The best or a drawn token for every text, until all have ended."""
    ledger, state, new = Ledger(job), job.begin(model), job.prompt.written
    turn = Turn(scored if job.settings.do_sample or ledger.filters.each else best)
    while True:
        (found, highest), state = follow(model, new, state, turn)
        ledger.check(highest)
        picked = found if turn.then is best else job.choose(ledger.filters(ledger.texts, found))
        token, running = ledger.write(picked)
        yield token, running
        if ledger.over:
            return
        if (stay := ledger.leaving()) is not None:
            state = state.select(stay)
        new = token.where(running, 0)  # padding need not be a word that the model knows
        new = (new if ledger.rows is None else new[ledger.rows])[:, None]


def best(logits: Tensor, _: None) -> tuple[Tensor, Tensor]:
    """The best word of each row (B,), and the highest score of all."""
    highest, words = logits.max(-1)
    return words, highest.amax()


def scored(logits: Tensor, _: None) -> tuple[Tensor, Tensor]:
    """All scores (B, V), and the highest."""
    return logits.float(), logits.amax()


def collect(steps: Iterator[Token], prompt: Tensor) -> Found:
    """All tokens of a search behind their prompts (B, P)."""
    new, going = zip(*steps, strict=True)
    lengths = 1 + torch.stack(going)[:-1].sum(0)  # a text has one token more than it went on after
    return Found(torch.cat([prompt, torch.stack(new, dim=1)[:, : int(lengths.max())]], dim=1), lengths)
