"""A job: what a search is given, and what it gives back.

B texts, R results a text, P prompt length, N new tokens.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from glassformer.blocks.memory import check_memory
from glassformer.blocks.state import S
from glassformer.models.contract import Stepper

from . import pick
from .settings import GenerationSettings
from .stop import Stop
from .token_masks import hide

PATIENCE = 8  # tokens
NOT_NUMBERS = "the model's scores are not numbers (NaN); its weights or its precision are at fault"


@dataclass(frozen=True)
class Prompt:
    """What is read before the first token is written."""

    input_ids: Tensor  # (B, P): the prompt, or an encoder-decoder's source
    attention_mask: Tensor | None = None
    start_ids: Tensor | None = None  # (B, 1): what an encoder-decoder begins with

    def repeated(self, times: int) -> "Prompt":
        """Each text several times over, one after another."""
        others = (self.attention_mask, self.start_ids)
        repeated = (None if part is None else part.repeat_interleave(times, dim=0) for part in others)
        return Prompt(self.input_ids.repeat_interleave(times, dim=0), *repeated)

    def each(self, times: int) -> Tensor:
        """(B·times,): the number of each text several times over."""
        return torch.arange(len(self.written), device=self.written.device).repeat_interleave(times)

    def alone(self, row: int) -> "Prompt":
        """One text without its padding."""
        ids = self.input_ids[row] if self.attention_mask is None else self.input_ids[row][self.attention_mask[row] != 0]
        return Prompt(ids[None], None, None if self.start_ids is None else self.start_ids[row : row + 1])

    @property
    def written(self) -> Tensor:
        """What the first step feeds."""
        return self.input_ids if self.start_ids is None else self.start_ids

    @property
    def shown(self) -> Tensor:
        """What the filters see of it: padding is -1, no token at all."""
        return hide(self.written, self.attention_mask if self.start_ids is None else None)


@dataclass(frozen=True)
class Job:
    """One prompt batch, the request, and what follows from both."""

    prompt: Prompt
    settings: GenerationSettings
    filters: pick.Filters
    stop: Stop
    generator: torch.Generator

    @staticmethod
    def of(prompt: Prompt, settings: GenerationSettings, decode: Callable[[list[int]], str] | None = None) -> "Job":
        device, length = prompt.written.device, prompt.written.shape[1]
        ends = torch.tensor(settings.ends, dtype=torch.long, device=device)
        deadline = float("inf") if settings.max_time is None else time.monotonic() + settings.max_time
        stop = Stop(ends, settings.stops, decode, length, deadline)
        seed = int(torch.randint(2**31, (1,))) if settings.seed is None else settings.seed
        return Job(prompt, settings, filters_of(prompt, settings), stop, torch.Generator(device).manual_seed(seed))

    def alone(self, row: int) -> "Job":
        """The same for one text, with the same clock and the same luck."""
        job = Job.of(self.prompt.alone(row), replace(self.settings, max_time=None), self.stop.decode)
        return replace(job, stop=replace(job.stop, deadline=self.stop.deadline), generator=self.generator)

    @cached_property
    def max_new_tokens(self) -> int:
        """How many tokens may be written."""
        return self.settings.max_new(self.prompt.written.shape[1])

    @property
    def patience(self) -> int:
        """After how many tokens a search looks what has ended: every look waits for all that a GPU has yet to do."""
        return 1 if self.prompt.written.device.type == "cpu" else PATIENCE

    @property
    def length(self) -> int:
        """How many tokens will be read at most."""
        return self.prompt.written.shape[1] + self.max_new_tokens - self.settings.unread

    def begin(self, model: Stepper[S], rows: int = 1) -> S:
        """The state before the prompt, once there is memory for `rows` sequences of each text."""
        shape = self.prompt.input_ids.shape
        needed = model.state_bytes(shape[0] * rows, self.length, (shape[0], shape[1]))
        check_memory(needed, self.prompt.input_ids.device, "the cache")
        return model.start(self.prompt.input_ids, self.prompt.attention_mask, length=self.length)

    def choose(self, scores: Tensor) -> Tensor:
        """(B,): one id a row, the best or drawn."""
        return pick.draw(scores, self.generator) if self.settings.do_sample else scores.argmax(-1)


@dataclass(frozen=True)
class SearchResult:
    """The texts found, best first for each prompt."""

    sequences: Tensor  # (B·R, P + N), filled up with padding
    lengths: Tensor  # (B·R,): how many of the N are written
    scores: Tensor | None = None  # (B·R,), of beams: log-probability over length to the power of length_penalty

    def new(self, row: int) -> list[int]:
        """The ids that were written, of one text."""
        start = self.sequences.shape[1] - int(self.lengths.max())
        return self.sequences[row, start : start + int(self.lengths[row])].tolist()


def filters_of(prompt: Prompt, settings: GenerationSettings) -> pick.Filters:
    """How scores are changed before a token is taken by them."""
    length = prompt.written.shape[1]
    changes = pick.processors(
        settings,
        prompt_length=length,
        max_length=length + settings.max_new(length),
        eos_token_id=settings.ends,
        source=None if prompt.start_ids is None else hide(prompt.input_ids, prompt.attention_mask),
    )
    if settings.do_sample:  # beams must have a way to go on beside the end
        changes += pick.warpers(settings, min_tokens_to_keep=1 if settings.num_beams == 1 else 1 + len(settings.ends))
    return pick.Filters(changes)


def check(logits: Tensor) -> None:
    """Stop where a model has broken down, instead of writing nonsense."""
    if bool(logits.isnan().any()):
        raise ValueError(NOT_NUMBERS)
