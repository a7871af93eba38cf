"""Beam search: the K best beginnings of each text go on together, in one group or in several that avoid each other.

B texts, K beams of a group, G groups, P prompt length, N new tokens, V vocabulary, O phrases of constraints.
"""

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from glassformer.blocks.state import S
from glassformer.engine.search_step import SearchStep, step_eager, step_search
from glassformer.models.contract import Stepper

from .constraints import Phrases
from .job import Job, SearchResult, check
from .pick import Filters, draw
from .settings import GenerationSettings
from .top import log_softmax, top

Step = Callable[[Stepper[S], Tensor, S, SearchStep], tuple[Any, S]]
NEVER = -1.0e9  # a score no text can have


def beams(model: Stepper[S], job: Job) -> SearchResult:
    """The best texts by score over lengthᵖ; a prompt is read once, whatever K is."""
    steps = beam_steps(model, job)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


def beam_steps(model: Stepper[S], job: Job, *, trace: bool = False) -> "Generator[list[Group], None, SearchResult]":
    """The search itself: the groups after every step, and the texts found as what the generator returns.

    With `trace` the groups also hold what else was offered at each step.

    With do_sample the beginnings are drawn instead of taken by rank. Of several groups each takes its tokens after
    the ones before it, and pays diversity_penalty for every time they took the same token (Vijayakumar et al. 2016).
    With constraints the beams are spread over how much of them is written (Post and Vilar 2018).
    """
    settings, prompt = job.settings, job.prompt
    update, left = BeamUpdate.first(job, trace=trace), list[tuple[Tensor, Done]]()
    texts = torch.arange(len(prompt.written), device=prompt.written.device)  # the prompts in the batch
    step = step_search if update.fixed else step_eager
    carry, state = first_tokens(model, job, update) if job.patience == 1 else first_alike(model, job, update, step)
    while True:
        yield carry.groups
        due, last = update.number % job.patience == 0, update.number == job.max_new_tokens or update.late
        if due or last:
            check(carry.highest)
        if last or (due and bool(carry.finished.all())):
            break
        if due and 2 * int(carry.finished.sum()) >= len(texts):  # prompts that are done
            gone, stay = carry.finished.nonzero()[:, 0], (~carry.finished).nonzero()[:, 0]
            left.append((texts[gone], Done.joined([group.done.rows(gone) for group in carry.groups])))
            state = state.select(carry.rows.view(len(texts), -1)[stay].flatten())
            texts, carry, update = texts[stay], carry.stay(stay), replace(update, filters=update.filters.select(stay))
        update = replace(update, number=update.number + 1, late=job.stop.late)
        search = SearchStep(update, carry, carry.rows, settings.num_beams, update.reduce)
        carry, state = step(model, carry.new, state, search)
    done = Done.joined([group.done for group in carry.groups])
    if left:
        places, parts = zip(*left, (texts, done), strict=True)
        done = Done.stacked(parts).rows(torch.cat(places).argsort())
    return done.found(settings.num_return_sequences, prompt.written)


def first_tokens(model: Stepper[S], job: Job, update: "BeamUpdate") -> "tuple[BeamCarry, S]":
    """A prompt is read once, whatever K is."""
    hidden, state = model.hidden_step(job.prompt.written, job.begin(model, job.settings.num_beams))
    each = job.prompt.each(job.settings.num_beams)
    return update(
        tuple(x[each] for x in update.reduce(model.logits(hidden[:, -1]))), BeamCarry.first(job)
    ), state.select(each)


def first_alike(model: Stepper[S], job: Job, update: "BeamUpdate", step: Step[S]) -> "tuple[BeamCarry, S]":
    """The same in a step like all others, of which a GPU captures one: each beam reads the last token itself."""
    state, before = job.begin(model, job.settings.num_beams), job.prompt.written[:, :-1]
    if before.shape[1]:
        _, state = model.hidden_step(before, state)
    state, carry = state.select(job.prompt.each(job.settings.num_beams)), BeamCarry.first(job)
    return step(model, carry.new, state, SearchStep(update, carry, carry.rows, job.settings.num_beams, update.reduce))


@dataclass(frozen=True)
class BeamCarry:
    """What the search knows after each token; all of fixed shape, for as long as no text leaves."""

    groups: "list[Group]"
    number: Tensor  # (): how many tokens are written
    highest: Tensor  # (): a score that is NaN as soon as any is
    new: Tensor  # (B·K, 1): the tokens to read next
    rows: Tensor  # (B·K,): which row of the step before each beam goes on from
    finished: Tensor  # (B,): the texts that are done

    @staticmethod
    def first(job: Job) -> "BeamCarry":
        """Before the first token, with the prompt's last to read."""
        groups = [Group.first(job) for _ in range(job.settings.num_beam_groups)]
        each = job.prompt.each(job.settings.num_beams)
        number, rows = each.new_zeros(()), torch.arange(len(each), device=each.device)
        finished = torch.zeros_like(job.prompt.written[:, 0], dtype=torch.bool)
        return BeamCarry(groups, number, number.float(), job.prompt.written[each, -1:], rows, finished)

    @staticmethod
    def of(groups: "list[Group]", number: Tensor, highest: Tensor, settings: GenerationSettings) -> "BeamCarry":
        parents = torch.cat([group.live.parents + place * group.width for place, group in enumerate(groups)], dim=1)
        rows = parents + torch.arange(len(parents), device=parents.device)[:, None] * settings.num_beams
        new = torch.cat([group.live.tokens for group in groups], dim=1)
        finished = torch.stack([group.done.final(settings) for group in groups]).all(0)
        return BeamCarry(groups, number, highest, new.view(-1, 1), rows.flatten(), finished)

    def stay(self, texts: Tensor) -> "BeamCarry":
        """For some of the texts, whose rows have moved up already."""
        groups, count = [group.rows(texts) for group in self.groups], len(self.finished)
        new = self.new.view(count, -1)[texts].view(-1, 1)
        rows = torch.arange(len(new), device=new.device)
        return replace(self, groups=groups, new=new, rows=rows, finished=self.finished[texts])


@dataclass(frozen=True)
class BeamUpdate:
    """One more token for every beam: what a step of the search makes of the scores. Equal ones do the same."""

    settings: GenerationSettings
    start: int  # where new tokens begin
    max_new_tokens: int
    trace: bool  # whether the offers of each step are kept
    job: Job = field(compare=False)
    filters: Filters = field(compare=False)
    number: int = field(default=1, compare=False)  # of the token, where it need not be taken from the carry
    late: bool = field(default=False, compare=False)

    @staticmethod
    def first(job: Job, *, trace: bool) -> "BeamUpdate":
        start = job.prompt.written.shape[1]
        return BeamUpdate(job.settings, start, job.max_new_tokens, trace, job, job.filters, late=job.stop.late)

    @property
    def fixed(self) -> bool:
        """Whether every step is the same tensor operations: then a GPU may capture them."""
        settings, seen = self.settings, self.trace or self.filters.each or self.job.stop.strings
        return not (seen or settings.do_sample or settings.phrases or settings.max_time is not None)

    @property
    def ranked(self) -> bool:
        """Whether ways to go on are taken by rank: then the best tokens of each beam are all that can be among them."""
        return not (self.settings.do_sample or self.settings.phrases)

    @property
    def offers(self) -> int:
        """How many ways to go on a group looks at: enough of them do not end a text."""
        return max(2, 1 + len(self.settings.ends)) * (self.settings.num_beams // self.settings.num_beam_groups)

    def reduce(self, logits: Tensor, owned: bool = False) -> tuple[Tensor, ...]:
        """Log-probabilities (B·K, V); or of each row the best, and their tokens (B·K, n), where that will do."""
        logs = log_softmax(logits, in_place=owned)
        changed = self.filters.each or self.settings.diversity_penalty
        return (logs,) if changed or not self.ranked else top(logs, self.offers)

    def __call__(self, seen: tuple[Tensor, ...], carry: BeamCarry) -> BeamCarry:
        """One more token for every beam of every group."""
        highest = torch.maximum(carry.highest, seen[0][:, 0].amax())  # one NaN makes all of its row so, and stays
        groups, number, gone_on = carry.groups, carry.number + 1, list[Group]()
        scores, *tokens = (x.unflatten(0, (len(carry.finished), -1)).chunk(len(groups), dim=1) for x in seen)
        penalty = self.settings.diversity_penalty
        taken = torch.zeros_like(scores[0][:, 0]) if penalty else None  # (B, V): how often each was taken
        for place, group in enumerate(groups):
            own, known = scores[place], tokens[0][place] if tokens else None
            own = own if taken is None else own - penalty * taken[:, None]
            if self.filters.each:
                written = group.live.ids[..., : self.start + self.number - 1]
                own = self.filters(written.flatten(0, 1), own.flatten(0, 1)).view_as(own)
            if known is None and self.ranked:
                own, known = top(own, self.offers)
            gone_on.append(group.go_on(own, known, number, self))
            taken = None if taken is None else gone_on[-1].count_into(taken, self.settings)
        return BeamCarry.of(gone_on, number, highest, self.settings)

    def ended(self, ways: "Beams", number: Tensor) -> Tensor:
        """(B, offers): with which ways to go on a text is over."""
        shown = ways.ids[..., : self.start + self.number] if self.job.stop.strings else ways.tokens[..., None]
        return self.job.stop(shown) | (number == self.max_new_tokens) | self.late


@dataclass(frozen=True)
class Beams:
    """K beginnings of each text, by score."""

    ids: Tensor  # (B, K, P + N), filled up with padding
    tokens: Tensor  # (B, K): the last of them
    scores: Tensor  # (B, K), summed log-probabilities
    parents: Tensor  # (B, K): which beam of the step before each comes from
    progress: Tensor  # (B, K, O): how much of each phrase has just been written

    @staticmethod
    def first(written: Tensor, width: int, max_new_tokens: int, phrases: int, padding: int) -> "Beams":
        """The prompt K times over; only the first counts, or all beams would be the same."""
        scores = torch.full((len(written), width), NEVER, device=written.device)
        scores[:, 0] = 0.0
        ids = pad(written, (0, max_new_tokens), value=padding)[:, None].expand(-1, width, -1)
        parents = torch.zeros_like(scores, dtype=torch.long)
        return Beams(ids, parents, scores, parents, parents[..., None].expand(-1, -1, phrases))

    def followed(self, parents: Tensor, tokens: Tensor, scores: Tensor, column: Tensor, phrases: Phrases) -> "Beams":
        """These ways to go on (B, offers); their tokens are written into a column (1,)."""
        ids = chosen(self.ids, parents).index_copy_(2, column, tokens[..., None])
        progress = phrases.after(chosen(self.progress, parents), tokens)
        return Beams(ids, tokens, scores, parents, progress)

    def take(self, place: Tensor) -> "Beams":
        return Beams(*(chosen(getattr(self, field.name), place) for field in fields(self)))

    def rows(self, texts: Tensor) -> "Beams":
        return Beams(*(getattr(self, field.name)[texts] for field in fields(self)))


def chosen(x: Tensor, place: Tensor) -> Tensor:
    """Of each text's beams (B, K, …) those at the places (B, k)."""
    return x.gather(1, place if x.dim() == 2 else place[..., None].expand(-1, -1, x.shape[2]))


@dataclass(frozen=True)
class Offers:
    """The best ways to go on, of which the K beams of a step are taken."""

    ways: Beams  # (B, offers), best first
    finished: Tensor  # (B, offers) bool: those with which a text ends
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
        phrases.check(job.max_new_tokens)
        done = Done.none(batch, width, length + job.max_new_tokens, settings.padding, written.device)
        return Group(Beams.first(written, width, job.max_new_tokens, len(phrases), settings.padding), done, phrases)

    @property
    def width(self) -> int:
        return self.live.scores.shape[1]

    def rows(self, texts: Tensor) -> "Group":
        return replace(self, live=self.live.rows(texts), done=self.done.rows(texts))

    def go_on(self, scores: Tensor, known: Tensor | None, number: Tensor, update: BeamUpdate) -> "Group":
        """One more token for every beam, by scores (B, K, V), or by those of known tokens (B, K, n)."""
        settings, width, job = update.settings, self.width, update.job
        column = (number + update.start - 1)[None]
        offered = self.live.followed(*self.offers_by(scores, known, update), column, self.phrases)
        needed = self.phrases.needed(offered.progress)  # (B, offers)
        finished = update.ended(offered, number)
        done = self.done.take(offered, finished, needed == 0, number, settings)
        going = replace(offered, scores=offered.scores + finished * NEVER)
        if len(self.phrases):
            turns = self.phrases.turns(going.scores > NEVER / 2, needed, job.max_new_tokens - update.number)
            kept = turns.topk(width).indices.sort(dim=1).values  # offers are best first
        else:
            kept = going.scores.topk(width).indices
        live = going.take(kept)
        done = done.judge(live, number, job.max_new_tokens, settings)
        return Group(live, done, self.phrases, Offers(offered, finished, kept) if update.trace else None)

    def offers_by(self, scores: Tensor, known: Tensor | None, update: BeamUpdate) -> tuple[Tensor, Tensor, Tensor]:
        """Some ways to go on: their beams, tokens and scores, (B, offers) each."""
        total = (self.live.scores[..., None] + scores).flatten(1)  # (B, K·n or K·V)
        size, wanted = scores.shape[-1], min(update.offers, total.shape[1])
        if known is not None:
            best, place = total.topk(wanted)
            return place // size, known.flatten(1).gather(1, place), best
        if update.settings.do_sample:
            place = draw(total, update.job.generator, wanted)
            best = total.gather(1, place)
        else:
            idle = total <= NEVER / 2  # the first step's idle beams say nothing new
            best, place = self.phrases.spread(self.live.progress, total.masked_fill(idle, -math.inf), wanted)
        return place // size, place % size, best

    def count_into(self, taken: Tensor, settings: GenerationSettings) -> Tensor:
        """The tokens just taken, added up, for the texts that this group still works on."""
        works = (~self.done.final(settings))[:, None].expand_as(self.live.scores)
        return taken.scatter_add(1, self.live.tokens, works.to(taken.dtype))


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
    def stacked(parts: Sequence["Done"]) -> "Done":
        """The prompts of all parts, one after another."""
        return Done(*(torch.cat([getattr(part, field.name) for part in parts]) for field in fields(Done)))

    @staticmethod
    def joined(groups: list["Done"]) -> "Done":
        """The ended texts of all groups, best first, as those of each are."""
        if len(groups) == 1:
            return groups[0]
        joined = Done(*(torch.cat([getattr(done, field.name) for done in groups], dim=1) for field in fields(Done)))
        order = joined.scores.argsort(dim=1, descending=True, stable=True)
        ids = chosen(joined.ids, order)
        scores, ended, lengths = (x.gather(1, order) for x in (joined.scores, joined.ended, joined.lengths))
        return Done(ids, scores, ended, lengths, joined.open.any(1, keepdim=True))

    def rows(self, texts: Tensor) -> "Done":
        return Done(*(getattr(self, field.name)[texts] for field in fields(self)))

    def take(
        self, offered: Beams, finished: Tensor, whole: Tensor, number: Tensor, settings: GenerationSettings
    ) -> "Done":
        """Let in the texts that have just ended, if they are among the K best offers and better than what is here.

        A text is `whole` if nothing it must contain is missing; only whole ones count.
        """
        width = self.scores.shape[1]
        just = finished & whole & (whole.cumsum(1) <= width)
        full = self.ended.all(1, keepdim=True) & (settings.early_stopping is True)
        allowed = just & self.open & ~full
        new = torch.where(allowed, offered.scores / number.double() ** settings.length_penalty, NEVER)
        scores, place = torch.cat([self.scores, new], dim=1).topk(width)
        return Done(
            chosen(torch.cat([self.ids, offered.ids], dim=1), place),
            scores,
            torch.cat([self.ended, just], dim=1).gather(1, place),
            torch.cat([self.lengths, number.expand_as(new)], dim=1).gather(1, place),
            self.open,
        )

    def judge(self, live: Beams, number: Tensor, max_new_tokens: int, settings: GenerationSettings) -> "Done":
        """Close the prompts whose live beams cannot do better than the worst ended text."""
        reach = (
            max_new_tokens if settings.early_stopping == "never" and settings.length_penalty > 0 else number.double()
        )
        hope = live.scores[:, :1] / reach**settings.length_penalty
        worst = torch.where(self.ended, self.scores.min(1, keepdim=True).values, NEVER)
        return replace(self, open=self.open & (hope > worst).any(1, keepdim=True))

    def final(self, settings: GenerationSettings) -> Tensor:
        """(B,): whether nothing better can come for a prompt."""
        return ~self.open[:, 0] | (self.ended.all(1) & (settings.early_stopping is True))

    def found(self, number: int, written: Tensor) -> SearchResult:
        """The best `number` of each after what was written before, cut to the longest."""
        start, lengths, ended = written.shape[1], self.lengths[:, :number], self.ended[:, :number]
        if not bool(ended.all()):
            raise ValueError(
                f"for a prompt only {int(ended.sum(1).min())} of {number} texts were found that hold all that they "
                "must: ask for fewer, or give more beams, room or time"
            )
        new = self.ids[:, :number, start : start + int(lengths.max())].flatten(0, 1)
        sequences = torch.cat([written.repeat_interleave(number, dim=0), new], dim=1)
        return SearchResult(sequences, lengths.flatten().clone(), self.scores[:, :number].flatten().clone())
