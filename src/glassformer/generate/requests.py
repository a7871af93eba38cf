"""Requests of a continuous batch: what is handed in, what comes back token by token, and where each one stands.

n sequences of one prompt, L tokens so far, V vocabulary.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor

from .job import Job
from .pick import WARPERS
from .pieces import TextPieces
from .settings import GenerationSettings

FinishReason = Literal["stop", "length", "cancelled", "error"]


@dataclass(frozen=True)
class Ticket:
    """A request that was taken."""

    request_id: Hashable
    prompt_ids: list[int]
    settings: GenerationSettings  # with the model's own where the request was silent
    max_new_tokens: int

    @property
    def prompt_tokens(self) -> int:
        return len(self.prompt_ids)


@dataclass(frozen=True)
class TokenScore:
    """Log-probabilities under the model itself, before any filter."""

    logprob: float
    top: list[tuple[int, float]]  # the likeliest tokens in its place, best first


@dataclass(frozen=True)
class GenerationEvent:
    """What one step has brought one sequence: a token, an end, or both."""

    request_id: Hashable
    index: int  # which of num_return_sequences
    token_id: int | None = None
    text: str = ""  # certain by now; joined, the new text without its stop string
    score: TokenScore | None = None  # with return_dict_in_generate or top_logprobs
    finish_reason: FinishReason | None = None
    stop_string: str | None = None  # the one that ended the text
    error: str | None = None
    completion_tokens: int = 0  # so far
    cached_tokens: int = 0  # of the prompt, known from texts before


@dataclass(eq=False)
class ActiveSequence:
    """One text that is being written."""

    request: "ActiveRequest"
    index: int
    pieces: TextPieces | None  # None without a tokenizer
    ids: list[int] = field(default_factory=list)  # new ones
    running: bool = True


class ActiveRequest:
    """A request from its prompt to its end."""

    def __init__(self, request_id: Hashable, job: Job, decode: Callable[[list[int]], str] | None) -> None:
        self.request_id, self.job, self.count, self.cached_tokens = request_id, job, 0, 0
        self.failed = False
        self.prompt_ids: list[int] = job.prompt.input_ids[0].tolist()
        stops = job.settings.stops
        self.sequences = [
            ActiveSequence(self, index, decode and TextPieces(decode, context=self.prompt_ids, stops=stops))
            for index in range(len(job.prompt.written))
        ]
        # As in a batch of gf.generate, texts that have ended stay in the draw until half of them have.
        self.drawn, self.going = self.sequences, len(self.sequences)
        reads_text = any(not isinstance(each, WARPERS) for each in job.filters.each)
        self.texts = job.prompt.shown if reads_text else None  # (n, L) of `drawn`, where a filter looks at them

    @property
    def running(self) -> list[ActiveSequence]:
        return [one for one in self.sequences if one.running]

    @property
    def scored(self) -> bool:
        """Whether log-probabilities are asked for."""
        return self.job.settings.return_dict_in_generate or self.job.settings.top_logprobs > 0

    def write(self, picked: Tensor, tokens: list[int], scores: list[TokenScore] | None) -> list[GenerationEvent]:
        """One more token for each sequence in the draw, of which those that have ended are passed over.

        `tokens` are the `picked` ones (n,), which a GPU is asked for once for all requests.
        """
        self.count += 1
        known = [None] * len(tokens) if scores is None else scores
        rows = zip(self.drawn, tokens, known, strict=True)
        events = [self._written(one, token, score) for one, token, score in rows if one.running]
        if self.texts is not None:
            self.texts = torch.cat([self.texts, picked[:, None]], dim=1)
        self._leave_draw()
        return events

    def end(self, reason: FinishReason, error: str | None = None) -> list[GenerationEvent]:
        """All that still run, for a reason that is not their own."""
        self.failed = error is not None
        return [replace(self._ended(one, reason), error=error) for one in self.running]

    def _written(self, one: ActiveSequence, token: int, score: TokenScore | None) -> GenerationEvent:
        job = self.job
        one.ids.append(token)
        if one.pieces is not None:
            one.pieces.push(token)
        by_string = bool(job.stop.strings) and job.stop.has_stop_string(one.ids)
        if by_string or token in job.settings.ends:
            event = self._ended(one, "stop", by_string=by_string)
        elif self.count == job.max_new_tokens or job.stop.late:
            event = self._ended(one, "length")
        else:
            event = self._event(one, "" if one.pieces is None else one.pieces.take())
        return replace(event, token_id=token, score=score)

    def _ended(self, one: ActiveSequence, reason: FinishReason, *, by_string: bool = False) -> GenerationEvent:
        one.running = False
        text, stop = ("", None) if one.pieces is None else one.pieces.finish(stopped=by_string)
        return replace(self._event(one, text), finish_reason=reason, stop_string=stop)

    def _event(self, one: ActiveSequence, text: str) -> GenerationEvent:
        return GenerationEvent(
            self.request_id, one.index, text=text, completion_tokens=len(one.ids), cached_tokens=self.cached_tokens
        )

    def _leave_draw(self) -> None:
        """As Ledger.leaving: what is drawn depends on how many draw together."""
        if self.count % self.job.patience == 0:
            self.going = len(self.running)
        if 2 * self.going <= len(self.drawn):
            stay = [place for place, one in enumerate(self.drawn) if one.running]
            self.drawn = [self.drawn[place] for place in stay]
            self.texts = None if self.texts is None else self.texts[stay]
