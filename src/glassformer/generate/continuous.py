"""Continuous batching: requests for generated text over one decoder-only model, which join and leave at any step.

n live rows, V vocabulary.
"""

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from glassformer.blocks.cache import DecoderState
from glassformer.blocks.memory import check_memory
from glassformer.engine.slots import PrefixCache, SlotCache, slot_decoder
from glassformer.models.contract import GenerativeModel, Stepper, as_generative
from glassformer.text.tokenizer import Tokenizer

from . import pick
from .job import NOT_NUMBERS, Job
from .needs import CHANGED, search_bytes
from .options import GenerationOptions
from .prompts import prompt_of, request_of
from .requests import ActiveRequest, ActiveSequence, GenerationEvent, Ticket, TokenScore

PREFILL_CHUNK = 256  # tokens
PREFIX_BYTES = 256 << 20


class ContinuousBatch:
    """Many requests, each written as `gf.generate` would write it alone, a token of every one at each step.

    Greedy search and sampling; every request has its own settings and seed. `add` requests at any time, and call `step`
    while it is not `idle`. Weights are looked at whenever it has been idle: they must not change while it is busy. All
    methods are for one thread at a time.
    """

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Tokenizer | None,
        *,
        max_rows: int,
        max_length: int,
        prefill_chunk: int = PREFILL_CHUNK,
        prefix_bytes: int = PREFIX_BYTES,
    ) -> None:
        """Reserve memory for `max_rows` sequences of at most `max_length` tokens, prompt included.

        Between two steps of those that are written, at most `prefill_chunk` tokens of prompts are read.
        `prefix_bytes` of keys and values are kept of texts before, so that a prompt that begins like one of them is
        read from there on. Refused where memory is too small, or the model is no decoder-only Transformer.
        """
        sizes = {"max_rows": (max_rows, 1), "max_length": (max_length, 1), "prefill_chunk": (prefill_chunk, 1)}
        for name, (value, least) in {**sizes, "prefix_bytes": (prefix_bytes, 0)}.items():
            if value < least:
                raise ValueError(f"{name} must be {least} or more, not {value}")
        self.model, self.tokenizer = as_generative(model), tokenizer
        self.max_rows, self.prefill_chunk = max_rows, prefill_chunk
        config = self.model.config
        self.max_length = min(max_length, config.max_positions or max_length)
        self.device = next(self.model.parameters()).device
        nothing = torch.zeros(1, 1, dtype=torch.long, device=self.device)
        like = None if config.is_encoder_decoder else self.model.start(nothing, length=1)
        if not isinstance(like, DecoderState):
            raise ValueError(f"a {config.model_type} is no decoder-only Transformer; use gf.generate for it")
        capacity = {"rows": max_rows, "length": self.max_length}
        needed = _reserved(self.model, like, prefix_bytes=prefix_bytes, **capacity)
        what, smaller = f"max_rows={max_rows} of max_length={self.max_length}", "give fewer rows, or shorter ones"
        check_memory(needed, self.device, what, smaller)
        self.slots = SlotCache(like.cache, **capacity)
        self.prefixes = PrefixCache(like.cache, max_bytes=prefix_bytes)
        self.decode = None if tokenizer is None else partial(tokenizer.decode, skip_special_tokens=True)
        self.decoder: Stepper[DecoderState] | None = None  # while there is something to do
        self.last_decoder: Stepper[DecoderState] | None = None  # whose keys and values are remembered
        self.requests: dict[Hashable, ActiveRequest] = {}  # that have not ended
        self.cancelled: set[Hashable] = set()
        self.waiting: deque[ActiveRequest] = deque()
        self.reading: tuple[ActiveRequest, DecoderState] | None = None  # whose prompt is being read
        self.rows: list[ActiveSequence] = []  # of the live rows of the slots

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do, and nothing to tell."""
        return not self.requests

    def add(self, request_id: Hashable, prompt: str | Sequence[int], **settings: Unpack[GenerationOptions]) -> Ticket:
        """Hand in a prompt, a text or its ids, with settings of `gf.generate`; it waits until there are rows for it.

        One that names no length gets at most 50 new tokens, or as many as fit into a row. A request that cannot be
        carried out is refused at once. max_time counts from here.
        """
        if request_id in self.requests:
            raise ValueError(f"the request {request_id!r} is there already; give each one an id of its own")
        if isinstance(prompt, str) and self.tokenizer is None:
            raise ValueError("a text needs a tokenizer; give one to ContinuousBatch, or give ids")
        prompts = [prompt] if isinstance(prompt, str) else torch.tensor([self._known_ids(prompt)])
        asked = request_of(self.model, {**settings})
        read, wanted = prompt_of(self.model, self.tokenizer, prompts, None, asked, row_length=self.max_length)
        if wanted.strategy not in ("greedy", "sample"):
            raise ValueError(f"the strategy {wanted.strategy!r} does not write token by token; use gf.generate for it")
        if (number := wanted.num_return_sequences) > self.max_rows:
            raise ValueError(f"num_return_sequences={number} is more than the {self.max_rows} rows of this batch")
        job = Job.of(replace(read, attention_mask=None).repeated(number), wanted, self.decode)
        self._check(job)
        request = ActiveRequest(request_id, job, self.decode)
        self.requests[request_id] = request
        self.waiting.append(request)
        return Ticket(request_id, request.prompt_ids, wanted, job.max_new_tokens)

    def cancel(self, request_id: Hashable) -> None:
        """End a request before the next step; one that is not there, or not any more, changes nothing."""
        if request_id in self.requests:
            self.cancelled.add(request_id)

    @torch.inference_mode()
    def step(self) -> list[GenerationEvent]:
        """Read some tokens of prompts, write one of each live row, and tell what came of it.

        A request's mistake is its own last event (`error`); the others go on.
        """
        events = self._drop_cancelled()
        if not self.idle:
            if self.decoder is None:
                self._wake()
            events += self._prefill()
            events += self._decode()
        for request_id in [key for key, request in self.requests.items() if not request.running]:
            del self.requests[request_id]
        if self.idle:
            self.decoder = None
        return events

    def _known_ids(self, ids: Sequence[int]) -> list[int]:
        """The ids of a prompt; refused where there are none, or one is not the model's."""
        size = self.model.config.vocab_size
        if not len(ids):
            raise ValueError("there is nothing to go on from: give a prompt that is not empty")
        if wrong := [id_ for id_ in ids if not isinstance(id_, int) or not 0 <= id_ < size]:
            raise ValueError(f"the id {wrong[0]!r} is not in the vocabulary; give whole numbers from 0 to {size - 1}")
        return list(ids)

    def _check(self, job: Job) -> None:
        """Refuse what does not fit into memory, and ids that the model does not know."""
        prompt, rows = job.prompt.input_ids, len(job.prompt.input_ids)
        self._known_ids(prompt[0].tolist())
        state = self.model.state_bytes(rows, prompt.shape[1] + job.max_new_tokens, (rows, prompt.shape[1]))
        beside = search_bytes(self.model, replace(job.prompt, input_ids=prompt[:1]), job.settings) - state
        check_memory(beside, self.device, f"the request, beside its {rows} rows,")
        if readers := [each for each in job.filters.each if not isinstance(each, pick.WARPERS)]:
            scores = torch.zeros(rows, self.model.config.target_vocab_size, device=self.device)
            pick.apply(readers, job.prompt.shown, scores)  # they look at their ids when they are called

    def _wake(self) -> None:
        """Take the weights as they are now; what was read with others is forgotten."""
        self.decoder = slot_decoder(self.model, self.max_rows)
        if self.decoder is not self.last_decoder or self.decoder is self.model:
            self.prefixes.clear()
        self.last_decoder = self.decoder

    def _drop_cancelled(self) -> list[GenerationEvent]:
        events = []
        for request in [self.requests.pop(request_id) for request_id in self.cancelled]:
            events += request.end("cancelled")
            if request in self.waiting:
                self.waiting.remove(request)
            if self.reading is not None and self.reading[0] is request:
                self.reading = None
        self.cancelled.clear()
        self._free_rows()
        return events

    def _prefill(self) -> list[GenerationEvent]:
        """Read a chunk of the prompts that wait, in their order."""
        assert self.decoder is not None
        left, events = self.prefill_chunk, list[GenerationEvent]()
        while self.reading is not None or self._admit():
            assert self.reading is not None
            request, state = self.reading
            used, length = state.cache.used, len(request.prompt_ids)
            if left < min(length - used, self.prefill_chunk):  # a small chunk takes about as long as a large one
                break
            ids = request.job.prompt.input_ids[:1, used : used + left]
            hidden, state = self.decoder.hidden_step(ids, state)
            left -= ids.shape[1]
            self.reading = request, state
            if state.cache.used == length:
                self.reading = None
                events += self._start(request, state, self.decoder.logits(hidden[:, -1]))
        return events

    def _admit(self) -> bool:
        """Begin with the next prompt, if there are rows for what follows it."""
        assert self.decoder is not None
        if not self.waiting or len(self.rows) + len(self.waiting[0].sequences) > self.max_rows:
            return False
        request = self.waiting.popleft()
        state = self.decoder.start(request.job.prompt.input_ids[:1], length=len(request.prompt_ids))
        cache = self.prefixes.restore(request.prompt_ids, state.cache)
        request.cached_tokens = cache.used
        self.reading = request, replace(state, cache=cache)
        return True

    def _start(self, request: ActiveRequest, state: DecoderState, logits: Tensor) -> list[GenerationEvent]:
        """The first token, by the scores (1, V) after the prompt; what goes on gets its rows."""
        events = self._write(logits, {request: [0] * len(request.sequences)})
        if request.failed:
            return events
        self.prefixes.put(request.prompt_ids, state.cache.keys[:, 0], state.cache.values[:, 0])
        if running := request.running:
            self.slots.join(state.cache, len(running))
            self.rows += running
        return events

    def _decode(self) -> list[GenerationEvent]:
        """One more token for every live row."""
        if not self.rows:
            return []
        assert self.decoder is not None
        ids = torch.tensor([one.ids[-1:] for one in self.rows], device=self.device)
        hidden, _ = self.decoder.hidden_step(ids, self.slots.state())
        self.slots.advance()
        place = {one: row for row, one in enumerate(self.rows)}
        places = {
            request: [place.get(one, place[request.running[0]]) for one in request.drawn]  # in the place of the ended
            for request in dict.fromkeys(one.request for one in self.rows)
        }
        events = self._write(self.decoder.logits(hidden[:, -1]), places)
        self._free_rows()
        return events

    def _write(self, logits: Tensor, places: Mapping[ActiveRequest, list[int]]) -> list[GenerationEvent]:
        """A token for each request, by the rows of logits (n, V) that are its own."""
        best, highest = pick.best(logits)
        broken = highest.isnan().tolist()
        wrong = {request: NOT_NUMBERS for request, rows in places.items() if any(broken[row] for row in rows)}
        picked, refused = _picked(logits, best, {one: rows for one, rows in places.items() if one not in wrong})
        events = [event for one, error in {**wrong, **refused}.items() for event in one.end("error", error)]
        tokens = iter(torch.cat(list(picked.values())).tolist() if picked else ())
        for request, ids in picked.items():
            scores = _scores(logits[places[request]], ids, request) if request.scored else None
            events += request.write(ids, list(islice(tokens, len(ids))), scores)
        return events

    def _free_rows(self) -> None:
        """Rows of sequences that have ended: what they hold is remembered, unless they failed."""
        for row in reversed(range(len(self.rows))):
            one = self.rows[row]
            if one.running:
                continue
            if not one.request.failed:
                self._remember(one, row)
            self.slots.leave(row, erase=one.request.failed)
            self.rows[row] = self.rows[-1]
            self.rows.pop()

    def _remember(self, one: ActiveSequence, row: int) -> None:
        keys, values = self.slots.row(row)
        ids = [*one.request.prompt_ids, *one.ids][: keys.shape[1]]  # the last one was not read
        self.prefixes.put(ids, keys, values)


def reserved_bytes(model: GenerativeModel[Any], *, rows: int, length: int, prefix_bytes: int) -> int:
    """What a ContinuousBatch of a decoder-only Transformer reserves; the model may be one without values (meta)."""
    nothing = torch.zeros(1, 1, dtype=torch.long, device=next(model.parameters()).device)
    like = model.start(nothing, length=1)
    assert isinstance(like, DecoderState)
    return _reserved(model, like, rows=rows, length=length, prefix_bytes=prefix_bytes)


def _reserved(model: GenerativeModel[Any], like: DecoderState, *, rows: int, length: int, prefix_bytes: int) -> int:
    slots = SlotCache.bytes(like.cache, rows=rows, length=length)
    reading = int(model.state_bytes(1, length, (1, 1)))  # of the prompt that is being read
    return slots + reading + prefix_bytes + rows * model.config.target_vocab_size * CHANGED


def _picked(
    logits: Tensor, best: Tensor, places: Mapping[ActiveRequest, list[int]]
) -> tuple[dict[ActiveRequest, Tensor], dict[ActiveRequest, str]]:
    """The next ids of each request: the best together, draws by equal warpers together, all else by itself.

    And the errors of those whose filters refuse.
    """
    found, refused = dict[ActiveRequest, Tensor](), dict[ActiveRequest, str]()
    groups: list[tuple[Sequence[pick.Filter], list[ActiveRequest]]] = []
    for request, rows in places.items():
        job = request.job
        if request.texts is not None:
            try:
                found[request] = job.choose(job.filters(request.texts, logits[rows].float()))
            except ValueError as error:
                refused[request] = str(error)
        elif not job.settings.do_sample:
            found[request] = best[rows]
        else:
            alike = [some for warpers, some in groups if warpers == job.filters.each]
            groups += [] if alike else [(job.filters.each, [])]
            (alike or [groups[-1][1]])[0].append(request)
    for warpers, some in groups:
        scores = [logits[places[request]] for request in some]
        noise = [pick.exponential(part, request.job.generator) for part, request in zip(scores, some, strict=True)]
        ids, _ = pick.sample(torch.cat(scores), warpers, torch.cat(noise))
        found.update(zip(some, ids.split([len(part) for part in scores]), strict=True))
    return found, refused


def _scores(logits: Tensor, picked: Tensor, request: ActiveRequest) -> list[TokenScore]:
    """What the model itself thinks of the tokens taken by logits (n, V), and of others."""
    logs = logits.float().log_softmax(-1)
    values, ids = logs.topk(min(request.job.settings.top_logprobs, logs.shape[-1]))
    own = logs.gather(1, picked[:, None])[:, 0].tolist()
    tops = [list(zip(*pair, strict=True)) for pair in zip(ids.tolist(), values.tolist(), strict=True)]
    return [TokenScore(*one) for one in zip(own, tops, strict=True)]
