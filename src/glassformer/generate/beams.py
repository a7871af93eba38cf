"""Beam search: the K best beginnings of each text go on together, in one group or in several that avoid each other.

B texts, K beams of a group, G groups, P prompt length, N new tokens, V vocabulary, O phrases of constraints.
"""

import math
from collections.abc import Generator
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from glassformer.blocks.state import S, Stepper

from .constraints import Phrases
from .job import Found, Job, check
from .pick import Filters
from .settings import Settings

NEVER = -1.0e9  # a score no text can have


def beams(model: Stepper[S], job: Job) -> Found:
    """The best texts by score over lengthᵖ; a prompt is read once, whatever K is."""
    steps = beam_steps(model, job)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


def beam_steps(model: Stepper[S], job: Job) -> "Generator[list[Group], None, Found]":
    """The search itself: the groups after every step, and the texts found as what the generator returns.

    With do_sample the beginnings are drawn instead of taken by rank. Of several groups each takes its words after
    the ones before it, and pays diversity_penalty for every time they took the same word (Vijayakumar et al. 2016).
    With constraints the beams are spread over how much of them is written (Post and Vilar 2018).
    """
    settings, prompt = job.settings, job.prompt
    state = job.begin(model, settings.num_beams)
    hidden, state = model.hidden_step(prompt.written, state)
    texts = torch.arange(len(prompt.written), device=prompt.written.device)  # the prompts in the batch
    each = texts.repeat_interleave(settings.num_beams)
    logits, state = model.logits(hidden[:, -1])[each], state.select(each)  # (B·K, V)
    groups = [Group.first(job) for _ in range(settings.num_beam_groups)]
    filters, left = job.filters, list[tuple[Tensor, Done]]()
    highest = torch.full((), -math.inf, device=texts.device)
    for number in range(1, job.room + 1):
        logs = logits.float().log_softmax(-1)
        due = number % job.patience == 0
        highest = torch.maximum(highest, logs[:, 0].amax())  # one NaN makes all of its row so, and stays
        last = number == job.room or job.stop.late
        if due or last:
            check(highest)
        groups = go_on(groups, logs.unflatten(0, (len(texts), -1)), filters, number, last, job)
        yield groups
        over = torch.stack([group.done.final(settings) for group in groups]).all(0)  # (B,)
        if last or (due and bool(over.all())):
            break
        parents = torch.cat([group.live.parents + place * group.width for place, group in enumerate(groups)], dim=1)
        rows = parents + torch.arange(len(texts), device=texts.device)[:, None] * settings.num_beams
        leaving = due and 2 * int(over.sum()) >= len(texts)
        if leaving:  # prompts that are done
            gone, stay = over.nonzero()[:, 0], (~over).nonzero()[:, 0]
            left.append((texts[gone], Done.joined([group.done.rows(gone) for group in groups])))
            texts, rows, filters = texts[stay], rows[stay], filters.select(stay)
            groups = [group.rows(stay) for group in groups]
        new = torch.cat([group.live.ids[..., -1] for group in groups], dim=1).flatten()
        within = None if leaving else settings.num_beams
        hidden, state = model.hidden_step(new[:, None], state.select(rows.flatten(), within=within))
        logits = model.logits(hidden[:, -1])
    left.append((texts, Done.joined([group.done for group in groups])))
    done = Done.stacked([part for _, part in left]).rows(torch.cat([places for places, _ in left]).argsort())
    return done.found(settings.num_return_sequences, prompt.written)


def go_on(groups: "list[Group]", scores: Tensor, filters: Filters, number: int, last: bool, job: Job) -> "list[Group]":
    """One more word for every beam of every group, by scores (B, G·K, V)."""
    penalty, gone_on = job.settings.diversity_penalty, []
    taken = torch.zeros_like(scores[:, 0])  # (B, V): how often the groups before took each word
    for group, own in zip(groups, scores.chunk(len(groups), dim=1), strict=True):
        own = own - penalty * taken[:, None] if penalty else own
        own = filters(group.live.ids.flatten(0, 1), own.flatten(0, 1)).view_as(own)
        gone_on.append(group.go_on(own, number, last, job))
        taken = gone_on[-1].count_into(taken, job.settings)
    return gone_on


@dataclass(frozen=True)
class Beams:
    """K beginnings of each text, by score."""

    ids: Tensor  # (B, K, length)
    scores: Tensor  # (B, K), summed log-probabilities
    parents: Tensor  # (B, K): which beam of the step before each comes from
    progress: Tensor  # (B, K, O): how much of each phrase has just been written

    @staticmethod
    def first(written: Tensor, width: int, phrases: int) -> "Beams":
        """The prompt K times over; only the first counts, or all beams would be the same."""
        scores = torch.full((len(written), width), NEVER, device=written.device)
        scores[:, 0] = 0.0
        ids, parents = written[:, None].expand(-1, width, -1), torch.zeros_like(scores, dtype=torch.long)
        return Beams(ids, scores, parents, parents[..., None].expand(-1, -1, phrases))

    def followed(self, place: Tensor, scores: Tensor, size: int, phrases: Phrases) -> "Beams":
        """These of the (B, K·V) ways to go on, over a vocabulary of this size."""
        parents, token = place // size, place % size
        ids, progress = (x.take_along_dim(parents[..., None], dim=1) for x in (self.ids, self.progress))
        ids = torch.cat([ids, token[..., None]], dim=2)
        return Beams(ids, scores, parents, phrases.after(progress, token))

    def take(self, place: Tensor) -> "Beams":
        parts = (getattr(self, field.name) for field in fields(self))
        return Beams(*(x.take_along_dim(place if x.dim() == 2 else place[..., None], dim=1) for x in parts))

    def rows(self, texts: Tensor) -> "Beams":
        return Beams(*(getattr(self, field.name)[texts] for field in fields(self)))


@dataclass(frozen=True)
class Offers:
    """The best ways to go on, of which the K beams of a step are taken."""

    ways: Beams  # (B, offers), best first
    over: Tensor  # (B, offers) bool: those with which a text ends
    kept: Tensor  # (B, K): the places of those that go on


@dataclass(frozen=True)
class Group:
    """One group of beams: those that go on, those that have ended, and what the last step chose from."""

    live: Beams
    done: "Done"
    phrases: Phrases
    offers: Offers | None = None

    @staticmethod
    def first(job: Job) -> "Group":
        settings, written = job.settings, job.prompt.shown
        batch, length = written.shape
        width, phrases = settings.num_beams // settings.num_beam_groups, Phrases.of(settings.phrases, written.device)
        phrases.check(job.room)
        done = Done.none(batch, width, length + job.room, settings.padding, written.device)
        return Group(Beams.first(written, width, len(phrases)), done, phrases)

    @property
    def width(self) -> int:
        return self.live.scores.shape[1]

    def rows(self, texts: Tensor) -> "Group":
        return replace(self, live=self.live.rows(texts), done=self.done.rows(texts))

    def go_on(self, scores: Tensor, number: int, last: bool, job: Job) -> "Group":
        """One more word for every beam, by scores (B, K, V)."""
        settings, width = job.settings, self.width
        best, place = self.offers_by(scores, max(2, 1 + len(settings.ends)) * width, job)
        offered = self.live.followed(place, best, scores.shape[-1], self.phrases)
        needed = self.phrases.needed(offered.progress)  # (B, offers)
        over = job.stop(offered.ids) | last
        done = self.done.take(offered, over, needed == 0, number, settings)
        going = replace(offered, scores=offered.scores + over * NEVER)
        if len(self.phrases):
            turns = self.phrases.turns(going.scores > NEVER / 2, needed, job.room - number)
            kept = turns.topk(width).indices.sort(dim=1).values  # offers are best first
        else:
            kept = going.scores.topk(width).indices
        live = going.take(kept)
        done = done.judge(live, number, job.room, settings)
        return Group(live, done, self.phrases, Offers(offered, over, kept))

    def offers_by(self, scores: Tensor, wanted: int, job: Job) -> tuple[Tensor, Tensor]:
        """The scores of at most so many ways to go on, and their places among all (B, K·V)."""
        wanted = min(wanted, scores[0].numel())
        if not job.settings.do_sample and not len(self.phrases):
            best, words = scores.topk(min(wanted, scores.shape[-1]))  # of each beam, before those of all are added up
            best, place = (best + self.live.scores[..., None]).flatten(1).topk(wanted)
            beam = place // words.shape[-1]
            return best, beam * scores.shape[-1] + words.flatten(1).gather(1, place)
        total = (self.live.scores[..., None] + scores).flatten(1)  # (B, K·V)
        if job.settings.do_sample:
            place = torch.multinomial(total.softmax(-1), wanted, generator=job.generator)
            return total.gather(1, place), place
        idle = total <= NEVER / 2  # the first step's idle beams say nothing new
        return self.phrases.spread(self.live.progress, total.masked_fill(idle, -math.inf), wanted)

    def count_into(self, taken: Tensor, settings: Settings) -> Tensor:
        """The words just taken, added up, for the texts that this group still works on."""
        works = (~self.done.final(settings))[:, None].expand_as(self.live.scores)
        return taken.scatter_add(1, self.live.ids[..., -1], works.to(taken.dtype))


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

    @staticmethod
    def stacked(parts: list["Done"]) -> "Done":
        """The prompts of all parts, one after another."""
        return Done(*(torch.cat([getattr(part, field.name) for part in parts]) for field in fields(Done)))

    @staticmethod
    def joined(groups: list["Done"]) -> "Done":
        """The ended texts of all groups, best first."""
        joined = Done(*(torch.cat([getattr(done, field.name) for done in groups], dim=1) for field in fields(Done)))
        order = joined.scores.argsort(dim=1, descending=True, stable=True)
        ids = joined.ids.take_along_dim(order[..., None], dim=1)
        scores, ended, lengths = (x.gather(1, order) for x in (joined.scores, joined.ended, joined.lengths))
        return Done(ids, scores, ended, lengths, joined.open.any(1, keepdim=True))

    def rows(self, texts: Tensor) -> "Done":
        return Done(*(getattr(self, field.name)[texts] for field in fields(self)))

    def take(self, offered: Beams, over: Tensor, whole: Tensor, number: int, settings: Settings) -> "Done":
        """Let in the texts that have just ended, if they are among the K best offers and better than what is here.

        A text is `whole` if nothing it must contain is missing; only whole ones count.
        """
        width = self.scores.shape[1]
        just = over & whole & (whole.cumsum(1) <= width)
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

    def final(self, settings: Settings) -> Tensor:
        """(B,): whether nothing better can come for a prompt."""
        return ~self.open[:, 0] | (self.ended.all(1) & (settings.early_stopping is True))

    def found(self, number: int, written: Tensor) -> Found:
        """The best `number` of each after what was written before, cut to the longest."""
        start, lengths, ended = written.shape[1], self.lengths[:, :number], self.ended[:, :number]
        if not bool(ended.all()):
            raise ValueError(
                f"for a prompt only {int(ended.sum(1).min())} of {number} texts were found that hold all that they "
                "must: ask for fewer, or give more beams, room or time"
            )
        new = self.ids[:, :number, start : start + int(lengths.max())].flatten(0, 1)
        sequences = torch.cat([written.repeat_interleave(number, dim=0), new], dim=1)
        return Found(sequences, lengths.flatten(), self.scores[:, :number].flatten())
