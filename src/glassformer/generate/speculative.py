"""Speculative decoding (Leviathan et al. 2023): several tokens are guessed cheaply, and read by the model at once.

L tokens so far, n guesses, V vocabulary. One text at a time.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, Protocol

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from glassformer.blocks.state import S
from glassformer.engine.prepare import prepared
from glassformer.models.contract import Stepper, as_generative

from . import pick
from .job import Job, check
from .search import Ledger, Token


class Guesser(Protocol):
    """Whoever proposes the next tokens."""

    def guess(self, text: Tensor, number: int) -> tuple[Tensor, Tensor | None]:
        """At most `number` ids (n,) after a text (1, L), and the chances (n, V) they were drawn by; None: certain."""
        ...


def speculative(model: Stepper[S], job: Job) -> Iterator[Token]:
    """The very tokens of greedy search, or draws from the very distribution of sampling, in fewer steps."""
    guesser, ledger, state = _guesser(job), Ledger(job), job.begin(model)
    number, new = job.settings.prompt_lookup_num_tokens or job.settings.num_assistant_tokens, job.prompt.written
    while True:
        guesses, chances = guesser.guess(ledger.written, min(number, job.max_new_tokens - ledger.count - 1))
        fed = torch.cat([new, guesses[None]], dim=1)
        logits, after = model.step(fed, state)
        check(logits)
        held = new.shape[1] - 1  # how many of the fed tokens prove right
        for place, scores in enumerate(logits[0, held:].float()):
            held += 1
            guess = guesses[place] if place < len(guesses) else None
            own = None if chances is None or guess is None else chances[place]
            picked = _verdict(job, job.filters(ledger.written, scores[None]), guess, own)
            token, running = ledger.write(picked)
            yield token, running
            if ledger.finished or not bool(running):
                return
            if guess is None or int(token) != int(guess):
                break
        state = _cut(model, fed, held, state, after)
        new = token[:, None]


def _verdict(job: Job, scores: Tensor, guess: Tensor | None, chances: Tensor | None) -> Tensor:
    """(1,): the guess where the model agrees, and else its own token.

    A drawn guess is kept with probability p/q; what is drawn instead comes from max(0, p - q). So the outcome has
    the model's distribution p, whatever the guesser's q is.
    """
    if guess is None or not job.settings.do_sample:
        return job.choose(scores)
    real = scores[0].softmax(-1)  # (V,)
    chances = one_hot(guess, len(real)).to(real) if chances is None else chances
    luck = torch.rand((), device=real.device, generator=job.generator)
    if bool(luck * chances[guess] < real[guess]):
        return guess[None]
    rest = (real - chances).clamp(min=0)
    rest = rest if bool(rest.any()) else real  # equal but for rounding
    return pick.draw(rest.log()[None], job.generator)


def _cut(model: Stepper[S], fed: Tensor, count: int, before: S, after: S) -> S:
    """The state after the first `count` of the tokens fed."""
    state = after.rewind(fed.shape[1] - count)
    return model.step(fed[:, :count], before)[1] if state is None else state


def _guesser(job: Job) -> Guesser:
    settings = job.settings
    if settings.assistant_model is None:
        return Lookup(settings.max_matching_ngram_size, job.stop.ends)
    return Draft(prepared(as_generative(settings.assistant_model), 1), job)


@dataclass
class Draft(Generic[S]):
    """A smaller model, which draws by the same settings."""

    model: Stepper[S]
    job: Job
    text: Tensor = field(init=False)  # (1, L): what it last took the text for
    states: list[tuple[int, S]] = field(init=False)  # by how many tokens had been read

    def __post_init__(self) -> None:
        self.text = self.job.prompt.shown
        self.states = [(0, self.job.begin(self.model))]

    def guess(self, text: Tensor, number: int) -> tuple[Tensor, Tensor | None]:
        job, known = self.job, min(text.shape[1], self.text.shape[1])
        same = int((text[:, :known] == self.text[:, :known]).cumprod(1).sum())
        same = min(same, text.shape[1] - 1)  # at least one token is read again, or nothing follows
        while self.states[-1][0] > same:
            self.states.pop()
        read, state = self.states[-1]
        self.states, size = [(read, state)], text.shape[1]
        chances: list[Tensor] = []
        while len(chances) < number and not (chances and bool(job.stop(text))):
            logits, state = self.model.step(text[:, read:], state)
            read = text.shape[1]
            self.states.append((read, state))
            scores = job.filters(text, logits[:, -1].float())
            text = torch.cat([text, job.choose(scores)[:, None]], dim=1)
            chances.append(scores[0].softmax(-1))
        self.text = text
        return text[0, size:], torch.stack(chances) if chances and job.settings.do_sample else None


@dataclass(frozen=True)
class Lookup:
    """What followed the last few tokens where they stood before in the text."""

    longest: int  # how many tokens to look for at most
    ends: Tensor

    def guess(self, text: Tensor, number: int) -> tuple[Tensor, Tensor | None]:
        words = text[0]
        start = self.match(words)
        found = words[start : start + number] if start else words[:0]
        ended = torch.isin(found, self.ends).nonzero()[:, 0]
        return (found if not len(ended) else found[: int(ended[0])]), None

    def match(self, words: Tensor) -> int:
        """Behind the first place that has most of the last tokens before it; 0 where none has any."""
        behind, last = torch.arange(1, len(words), device=words.device), len(words) - 1
        found = 0
        for size in range(min(self.longest, last)):
            behind = behind[(behind > size) & (words[behind - 1 - size] == words[last - size])]
            if not len(behind):
                break
            found = int(behind[0])
        return found
