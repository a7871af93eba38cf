"""Greedy search and sampling over any model that steps: one token for every text at a time.

B texts, P prompt length, N new tokens, V vocabulary.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from glassformer.blocks.state import S
from glassformer.engine import kernels
from glassformer.engine.search_step import SearchStep, step_eager, step_search
from glassformer.models.contract import Stepper

from . import pick
from .job import Job, SearchResult, check
from .stop import Stop

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
        self.going = len(self.running)  # how many run, as far as is known

    @property
    def written(self) -> Tensor:
        """(B, P + n): all texts so far."""
        return self.page[:, : self.prompt + self.count]

    @property
    def texts(self) -> Tensor:
        """What the texts in the batch are so far."""
        return self.written if self.rows is None else self.written[self.rows]

    def write(self, picked: Tensor, highest: Tensor | None = None) -> Token:
        """Add one id to each text in the batch; a model's highest score tells whether it has broken down."""
        if highest is not None:
            self.highest = torch.maximum(self.highest, highest.float())
        token = self._put(self._of_all(picked, 0).where(self.running, self.job.settings.padding))
        self.running = self.running & ~self.job.stop(self.written)
        self._look()
        return token, self.running

    def note(self, carry: "TokenCarry") -> Token:
        """The same, where the search itself knows what has ended; nothing is kept that it may write over."""
        self.highest = carry.highest
        token = self._put(self._of_all(carry.token, self.job.settings.padding))
        self.running = self._of_all(carry.running, 0).clone()
        self._look()
        return token, self.running

    def _of_all(self, x: Tensor, else_: int) -> Tensor:
        """(B,), of what is known of the texts in the batch."""
        everyone = self.page[:, 0]
        return x if self.rows is None else torch.full_like(everyone, else_, dtype=x.dtype).index_copy_(0, self.rows, x)

    def _put(self, token: Tensor) -> Tensor:
        if self.written.shape[1] == self.page.shape[1]:
            more = min(self.page.shape[1], self.job.max_new_tokens - self.count)
            self.page = pad(self.page, (0, more), value=self.job.settings.padding)
        self.count += 1
        self.written[:, -1] = token
        return self.written[:, -1]

    def _look(self) -> None:
        """Now and then see what became of the texts: every look waits for a GPU."""
        if self.due or self.count == self.job.max_new_tokens:
            highest, going = torch.stack([self.highest.double(), self.running.sum()]).cpu()
            check(highest)
            self.going = int(going)

    @property
    def due(self) -> bool:
        """Whether it is time to look at what became of the texts."""
        return self.count % self.job.patience == 0

    @property
    def finished(self) -> bool:
        return self.count == self.job.max_new_tokens or self.job.stop.late or self.going == 0

    def leaving(self) -> Tensor | None:
        """Which of the batch's rows stay, once at least half of its texts have ended."""
        if 2 * self.going > len(self.running if self.rows is None else self.rows):
            return None
        stay = self.running if self.rows is None else self.running[self.rows]
        places = stay.nonzero()[:, 0]
        self.filters, self.rows = self.filters.select(places), places if self.rows is None else self.rows[places]
        return places


def tokens(model: Stepper[S], job: Job) -> Iterator[Token]:
    """The best or a drawn token for every text, until all have ended."""
    alike = all(job.settings.do_sample and isinstance(each, pick.WARPERS) for each in job.filters.each)
    return captured(model, job) if alike and not job.stop.strings else filtered(model, job)


def filtered(model: Stepper[S], job: Job) -> Iterator[Token]:
    """With all that may change the scores, or end a text."""
    ledger, state, new = Ledger(job), job.begin(model), job.prompt.written
    while True:
        (logits, highest), state = step_search(model, new, state, SearchStep(scored))
        token, running = ledger.write(job.choose(ledger.filters(ledger.texts, logits)), highest)
        yield token, running
        if ledger.finished:
            return
        if (stay := ledger.leaving()) is not None:
            state = state.select(stay)
        new = token.where(running, 0)  # padding need not be a word that the model knows
        new = (new if ledger.rows is None else new[ledger.rows])[:, None]


def scored(logits: Tensor, _: None) -> tuple[Tensor, Tensor]:
    """All scores (B, V), and the highest."""
    return logits.float(), logits.amax()


def captured(model: Stepper[S], job: Job) -> Iterator[Token]:
    """By the scores of the model alone: every step is the same tensor operations, and a GPU may capture them."""
    ledger, state, new = Ledger(job), job.begin(model), job.prompt.written
    warpers = job.filters.each if job.settings.do_sample else None
    update = TokenUpdate(job.settings.padding, job.settings.ends, warpers, job.stop)
    carry = TokenCarry(new[:, -1].clone(), ledger.running, ledger.highest, new[:, -1:].clone())  # it is written over
    if warpers is None:
        carry, state = step_search(model, new, state, SearchStep(update, carry))
    else:
        logits, state = step_eager(model, new, state, SearchStep(_unchanged))
        carry = update(logits, replace(carry, noise=pick.exponential(logits, job.generator)))
    while True:
        yield ledger.note(carry)
        if ledger.finished:
            return
        if (stay := ledger.leaving()) is not None:
            state, carry = state.select(stay), carry.of(stay)
        if carry.noise is not None:
            carry.noise.exponential_(generator=job.generator)  # outside of what is captured: a graph has no seed
        carry, state = step_search(model, carry.new, state, SearchStep(update, carry))


def _unchanged(logits: Tensor, _: None) -> Tensor:
    return logits


@dataclass(frozen=True)
class TokenCarry:
    """What greedy search or sampling knows of the texts in the batch after each token."""

    token: Tensor  # (B,)
    running: Tensor  # (B,)
    highest: Tensor  # ()
    new: Tensor  # (B, 1): what is read next, a word that the model knows even where padding is none
    noise: Tensor | None = None  # (B, V): the luck of the next draw

    def of(self, rows: Tensor) -> "TokenCarry":
        noise = None if self.noise is None else self.noise[: len(rows)]  # it is drawn anew anyway
        return TokenCarry(self.token[rows], self.running[rows], self.highest, self.new[rows], noise)


@dataclass(frozen=True)
class TokenUpdate:
    """The best word of each row, or one that is drawn. Equal ones do the same."""

    padding: int
    ends: list[int]
    warpers: Sequence[pick.Filter] | None  # before a draw; None: the best word
    stop: Stop = field(compare=False)

    def __call__(self, logits: Tensor, before: TokenCarry) -> TokenCarry:
        """What is known after one more token; a GPU writes it over what was known before."""
        words, highest = self.picked(logits, before.noise)
        if kernels.on_current_gpu(logits) and kernels.available():
            known = {"token": before.token, "running": before.running, "highest": before.highest, "new": before.new}
            kernels.write_tokens(words, highest, ends=self.stop.ends, padding=self.padding, **known)
            return before
        token = words.where(before.running, self.padding)
        running = before.running & ~self.stop(token[:, None])
        highest = torch.maximum(before.highest, highest.amax().float())
        return TokenCarry(token, running, highest, (token * running)[:, None], before.noise)

    def picked(self, logits: Tensor, noise: Tensor | None) -> tuple[Tensor, Tensor]:
        """(B,) words, and each row's highest score (B,)."""
        if self.warpers is None or noise is None:
            return pick.best(logits)
        return pick.sample(logits, self.warpers, noise)


def collect(steps: Iterator[Token], prompt: Tensor) -> SearchResult:
    """All tokens of a search behind their prompts (B, P)."""
    new, going = zip(*steps, strict=True)
    lengths = 1 + torch.stack(going)[:-1].sum(0)  # a text has one token more than it went on after
    return SearchResult(torch.cat([prompt, torch.stack(new, dim=1)[:, : int(lengths.max())]], dim=1), lengths)
