"""Search over any model that steps: greedy, sampling and beam search.

B texts, K beams, P prompt length, N new tokens, V vocabulary.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from glassformer.blocks.state import S, Stepper

from .pick import hide
from .settings import Settings

NEVER = -1.0e9  # a score no text can have

Adjust = Callable[[Tensor, Tensor], Tensor]
"""Changes scores (rows, V) given the ids (rows, length) so far."""
Choose = Callable[[Tensor], Tensor]
"""Takes one id (rows,) by scores (rows, V)."""


@dataclass(frozen=True)
class Prompt:
    """What is read before the first token is written."""

    input_ids: Tensor  # (B, P): the prompt, or an encoder-decoder's source
    attention_mask: Tensor | None
    start_ids: Tensor | None = None  # (B, 1): what an encoder-decoder begins with

    def repeated(self, times: int) -> "Prompt":
        """Each text several times over, one after another."""
        parts = (self.input_ids, self.attention_mask, self.start_ids)
        return Prompt(*(None if part is None else part.repeat_interleave(times, dim=0) for part in parts))  # type: ignore[arg-type]

    @property
    def written(self) -> Tensor:
        """What the first step feeds."""
        return self.input_ids if self.start_ids is None else self.start_ids

    @property
    def shown(self) -> Tensor:
        """What the filters see of it: padding is -1, no token at all."""
        return hide(self.written, self.attention_mask if self.start_ids is None else None)


@dataclass(frozen=True)
class Found:
    """The texts found, best first for each prompt, and their scores."""

    sequences: Tensor  # (B·R, P + N), filled up with padding
    scores: Tensor | None = None  # (B·R,), log-probability over length to the power of length_penalty


def tokens(
    model: Stepper[S], prompt: Prompt, settings: Settings, adjust: Adjust, choose: Choose
) -> Iterator[tuple[Tensor, Tensor]]:
    """One token for every text at a time: the ids (B,) and which texts go on (B,) after it.

    Texts that have ended leave the batch once they are half of it; for them the padding id is given.
    """
    written, new, device = prompt.shown, prompt.written, prompt.written.device
    room = settings.room(written.shape[1])
    by_source = settings.encoder_repetition_penalty or settings.encoder_no_repeat_ngram_size  # for all rows at once
    ends = torch.tensor(settings.ends, device=device)
    state = model.start(prompt.input_ids, prompt.attention_mask, length=written.shape[1] + room - 1)
    rows = torch.arange(len(written), device=device)  # the texts still in the batch
    running = torch.ones(len(written), dtype=torch.bool, device=device)
    for number in range(room):
        logits, state = model.step(new, state)
        check(logits)
        picked = choose(adjust(written[rows], logits[:, -1].float()))
        token = torch.full_like(written[:, 0], settings.padding)
        token[rows] = torch.where(running[rows], picked, settings.padding)
        running = running & ~torch.isin(token, ends)
        yield token, running
        if number + 1 == room or not running.any():
            return
        written = torch.cat([written, token[:, None]], dim=1)
        if not by_source and 2 * int(running[rows].sum()) <= len(rows):
            alive = running[rows].nonzero()[:, 0]
            rows, state = rows[alive], state.select(alive)
        new = token[rows, None]


def one_by_one(model: Stepper[S], prompt: Prompt, settings: Settings, adjust: Adjust, choose: Choose) -> Found:
    """Greedy or sampled texts, as `choose` takes the tokens."""
    new = [token for token, _ in tokens(model, prompt, settings, adjust, choose)]
    return Found(torch.cat([prompt.written, torch.stack(new, dim=1)], dim=1))


def beams(model: Stepper[S], prompt: Prompt, settings: Settings, adjust: Adjust, generator: torch.Generator) -> Found:
    """Beam search: the K best beginnings go on together; ended texts are kept by score over lengthᵖ.

    A prompt is read once, whatever K is. With do_sample the beginnings are drawn instead of taken by rank.
    """
    width, batch, length = settings.num_beams, len(prompt.written), prompt.written.shape[1]
    room, device = settings.room(length), prompt.written.device
    ends = torch.tensor(settings.ends, device=device)
    state = model.start(prompt.input_ids, prompt.attention_mask, length=length + room - 1)
    logits, state = model.step(prompt.written, state)
    each = torch.arange(batch, device=device).repeat_interleave(width)
    state, logits = state.select(each), logits[each]
    live = Beams.first(prompt.shown, width)
    done = Done.none(batch, width, length + room, settings.padding, device)
    for number in range(1, room + 1):
        check(logits)
        scores = adjust(live.ids.flatten(0, 1), logits[:, -1].float().log_softmax(-1))
        offered = live.offers(scores, max(2, 1 + len(ends)) * width, generator if settings.do_sample else None)
        over = torch.isin(offered.ids[..., -1], ends) | (number == room)
        done = done.take(offered, over, number, settings)
        live = offered.best(offered.scores + over * NEVER, width)
        done = done.judge(live, number, room, settings)
        if number == room or done.final(settings):
            break
        rows = (live.parents + torch.arange(batch, device=device)[:, None] * width).flatten()
        logits, state = model.step(live.ids.flatten(0, 1)[:, -1:], state.select(rows))
    return done.found(settings.num_return_sequences, prompt.written)


@dataclass(frozen=True)
class Beams:
    """K beginnings of each text, by score."""

    ids: Tensor  # (B, K, length)
    scores: Tensor  # (B, K), summed log-probabilities
    parents: Tensor  # (B, K): which beam of the step before each comes from

    @staticmethod
    def first(written: Tensor, width: int) -> "Beams":
        """The prompt K times over; only the first counts, or all beams would be the same."""
        scores = torch.full((len(written), width), NEVER, device=written.device)
        scores[:, 0] = 0.0
        ids = written[:, None].expand(-1, width, -1)
        return Beams(ids, scores, torch.zeros_like(scores, dtype=torch.long))

    def offers(self, scores: Tensor, number: int, generator: torch.Generator | None) -> "Beams":
        """The `number` best (or drawn) ways to go on, over all beams and words."""
        batch, width = self.scores.shape
        total = (self.scores[..., None] + scores.view(batch, width, -1)).flatten(1)  # (B, K·V)
        number = min(number, total.shape[1])
        if generator is None:
            best, place = total.topk(number)
        else:
            place = torch.multinomial(total.softmax(-1), number, generator=generator)
            best = total.gather(1, place)
        parents, token = place // scores.shape[-1], place % scores.shape[-1]
        ids = self.ids.take_along_dim(parents[..., None], dim=1)
        return Beams(torch.cat([ids, token[..., None]], dim=2), best, parents)

    def best(self, by: Tensor, width: int) -> "Beams":
        scores, place = by.topk(width)
        ids = self.ids.take_along_dim(place[..., None], dim=1)
        return Beams(ids, scores, self.parents.gather(1, place))


@dataclass(frozen=True)
class Done:
    """The K best ended texts of each prompt."""

    ids: Tensor  # (B, K, P + N)
    scores: Tensor  # (B, K), length counted
    ended: Tensor  # (B, K) bool: false where there is none yet
    lengths: Tensor  # (B, K): new tokens
    open: Tensor  # (B, 1) bool: whether a live beam may still do better

    @staticmethod
    def none(batch: int, width: int, length: int, padding: int, device: torch.device) -> "Done":
        ids = torch.full((batch, width, length), padding, device=device)
        scores = torch.full((batch, width), NEVER, device=device)
        ended = torch.zeros(batch, width, dtype=torch.bool, device=device)
        return Done(ids, scores, ended, torch.zeros_like(ended, dtype=torch.long), torch.ones_like(ended[:, :1]))

    def take(self, offered: Beams, over: Tensor, number: int, settings: Settings) -> "Done":
        """Let in the texts that have just ended, if they are among the K best offers and better than what is here."""
        width = self.scores.shape[1]
        just = over & (torch.arange(over.shape[1], device=over.device) < width)
        full = self.ended.all(1, keepdim=True) & (settings.early_stopping is True)
        allowed = just & self.open & ~full
        new = torch.where(allowed, offered.scores / number**settings.length_penalty, NEVER)
        rest = self.ids.shape[2] - offered.ids.shape[2]
        ids = torch.nn.functional.pad(offered.ids, (0, rest), value=settings.padding)
        scores, place = torch.cat([self.scores, new], dim=1).topk(width)
        return Done(
            torch.cat([self.ids, ids], dim=1).take_along_dim(place[..., None], dim=1),
            scores,
            torch.cat([self.ended, just], dim=1).gather(1, place),
            torch.cat([self.lengths, torch.full_like(new, number, dtype=torch.long)], dim=1).gather(1, place),
            self.open,
        )

    def judge(self, live: Beams, number: int, room: int, settings: Settings) -> "Done":
        """Close the prompts whose live beams cannot do better than the worst ended text."""
        reach = room if settings.early_stopping == "never" and settings.length_penalty > 0 else number
        hope = live.scores[:, :1] / reach**settings.length_penalty
        worst = torch.where(self.ended, self.scores.min(1, keepdim=True).values, NEVER)
        return replace(self, open=self.open & (hope > worst).any(1, keepdim=True))

    def final(self, settings: Settings) -> bool:
        """Whether nothing better can come for any prompt."""
        return not bool(self.open.any()) or (settings.early_stopping is True and bool(self.ended.all()))

    def found(self, number: int, written: Tensor) -> Found:
        """The best `number` of each after what was written before, cut to the longest."""
        start = written.shape[1]
        new = self.ids[:, :number, start : start + int(self.lengths[:, :number].max())].flatten(0, 1)
        return Found(
            torch.cat([written.repeat_interleave(number, dim=0), new], dim=1), self.scores[:, :number].flatten()
        )


def check(logits: Tensor) -> None:
    """Stop where a model has broken down, instead of writing nonsense."""
    if bool(logits[:, -1].isnan().any()):
        raise ValueError("the model's scores are not numbers (NaN); its weights or its precision are at fault")
