"""Decoding on a GPU: the step of one token is captured once as a CUDA graph, and then only replayed.

A graph has fixed shapes and fixed memory, so the cache is read over its whole capacity, as far as a counter on the GPU
says. B batch, N layers, L capacity, H heads, K head width.
"""

import logging
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from threading import Lock
from typing import Any, TypeVar

import torch
from torch import Tensor

from glassformer.blocks.attention import AttentionMask
from glassformer.blocks.batch_masks import AttentionOptions, BatchMask, fused
from glassformer.blocks.cache import DecoderState, KVCache
from glassformer.blocks.masks import both, first_kept
from glassformer.blocks.relative import RelativeBias

from . import kernels
from .cache import HeadTransform
from .decoder import PreparedDecoder
from .search_step import SearchStep, step_eager

LOG = logging.getLogger("glassformer")
CAPACITY_MULTIPLE = 64  # tokens: capacities come in few sizes, so that one graph serves many prompts
VOCAB_MULTIPLE = 64  # odd sizes cost a GPU half its speed
WORTH_A_GRAPH = 32  # tokens: capturing a step takes about as long as running so many without

R = TypeVar("R")


class StaticCache:
    """A KVCache whose tokens are counted on its own device, for steps of one token."""

    def __init__(self, cache: KVCache) -> None:
        self.keys, self.values = cache.keys, cache.values  # (N, B, L, H, K)
        for x in (self.keys, self.values):
            x[:, :, cache.used :].zero_()  # what is masked is still multiplied, by zero
        self.used = torch.full((1,), cache.used, device=cache.keys.device)
        batch, self.capacity = self.keys.shape[1:3]
        self.padding = torch.zeros(batch, dtype=torch.int32, device=self.used.device)  # (B,), before each prompt
        if cache.keep is not None:
            self.padding = first_kept(cache.keep).int()
        self.tickets = torch.zeros(batch * self.keys.shape[3], dtype=torch.int32, device=self.used.device)

    def positions(self, tokens: int) -> Tensor:
        assert tokens == 1
        return self.used - self.padding[:, None]  # (B, 1)

    def mask(self, tokens: int, positions: Tensor) -> "StaticMask":
        assert tokens == 1
        return StaticMask(self.padding, self.used, self.capacity, positions=positions)

    def layers(self) -> "Sequence[StaticLayer]":
        pairs = zip(self.keys.unbind(), self.values.unbind(), strict=True)
        return [StaticLayer(keys, values, self.used, self.tickets) for keys, values in pairs]

    def reorder_cache(self, rows: Tensor, group_size: int | None) -> None:
        """Reorder rows, within groups of so many; a row may be taken twice."""
        if self.keys.is_cuda and group_size is not None and kernels.available():
            kernels.reorder_cache(self.keys, self.values, rows, group_size=group_size, used=self.used)
        else:
            for x in (self.keys, self.values):
                x.copy_(x[:, rows])

    def advance(self, tokens: int) -> "StaticCache":
        self.used += tokens
        return self


@dataclass(frozen=True)
class StaticLayer:
    """One layer's share of a StaticCache."""

    keys: Tensor  # (B, L, H, K)
    values: Tensor
    used: Tensor
    tickets: Tensor  # (B·H,)

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        self.keys.index_copy_(1, self.used, key)
        self.values.index_copy_(1, self.used, value)
        return self.keys, self.values

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: AttentionMask,
        options: AttentionOptions,
        transform: HeadTransform,
    ) -> Tensor:
        """One new token of each row (B, 1, H, K) is transformed and appended, and attends to all so far."""
        known = options.bias is None or type(options.bias) is RelativeBias
        if known and isinstance(mask, StaticMask) and kernels.on_current_gpu(query) and kernels.available():
            return self.in_one_kernel(query, key, value, mask, options, transform)
        query, key = transform(query, key, mask)
        return mask.attend(query, *self.append(key, value), options)

    def in_one_kernel(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: "StaticMask",
        options: AttentionOptions,
        transform: HeadTransform,
    ) -> Tensor:
        if transform.rms_norms is None:
            query, key = transform.normed(query, key)
        return kernels.attend_next(
            query,
            key,
            value,
            kernels.Past(self.keys, self.values, self.used, mask.padding, self.tickets),
            scale=options.scale,
            norms=transform.rms_norms,
            rotation=None if transform.rotary is None else mask.rotation(transform.rotary),
            before=None if options.window is None else options.window.before,
            bias=mask.position_bias(options.bias, query.transpose(1, 2), self.keys.transpose(1, 2)),
        )


@dataclass(frozen=True)
class StaticMask(BatchMask):
    """What one new token of each row may look at: all so far but the padding before its prompt."""

    padding: Tensor  # (B,)
    used: Tensor  # (1,)
    capacity: int

    @cached_property
    def dense(self) -> Tensor:
        places = torch.arange(self.capacity, device=self.used.device)
        return ((places >= self.padding[:, None]) & (places <= self.used))[:, None, None]  # (B, 1, 1, L)

    def distances(self, targets: int, sources: int, device: torch.device) -> Tensor:
        """(1, L): the new token stands where the counter says."""
        assert targets == 1
        return torch.arange(sources, device=device) - self.used[:, None]

    def attend(self, query: Tensor, key: Tensor, value: Tensor, options: AttentionOptions) -> Tensor:
        """(B, 1, H, K) queries over (B, L, G, K) keys and values."""
        query, key, value = (x.transpose(1, 2) for x in (query, key, value))
        keep = both(self.dense, self.order(1, self.capacity, query.device, options.window))
        mask = self.with_bias(keep, query, key, options)
        return fused(query, key, value, options=options, mask=mask).transpose(1, 2)


class Lease:
    """Held by the states of one batch: as long as one of them lives, their memory is theirs."""


class CapturedStep:
    """A step of one token for one state's memory, which other states of the same shapes may take over later.

    With a search step, all that a search does around the model's step is in it as well, and its carry has its memory
    here.
    """

    def __init__(self, decoder: PreparedDecoder, ids: Tensor, state: DecoderState, search: SearchStep | None) -> None:
        self.memory = state
        self.lease: Callable[[], Lease | None] = _nobody
        self.cache = StaticCache(state.cache)
        self.search = None if search is None else replace(search, carry=cloned(search.carry))
        self.ids = self._carried(ids, search)
        if self.search is not None and self.search.rows is not None:  # capturing runs once, and that must move nothing
            self.search = replace(self.search, rows=torch.arange(len(self.ids), device=self.ids.device))
        self.counted = -1  # what the counter on the GPU says, where it is known
        self.replay, self.result = capture_graph(lambda: self._run(decoder))

    def _carried(self, ids: Tensor, search: SearchStep | None) -> Tensor:
        """The carry's own tensor, where ids come from it: then each step leaves them where the next one reads them."""
        if search is not None and self.search is not None:
            for here, there in zip(tensors(self.search.carry), tensors(search.carry), strict=True):
                if there is ids:
                    return here
        return torch.zeros_like(ids, memory_format=torch.contiguous_format)

    def _run(self, decoder: PreparedDecoder) -> Any:
        search = self.search
        if search is not None and search.rows is not None:
            self.cache.reorder_cache(search.rows, search.group_size)
        hidden = decoder.hidden(self.ids, self.memory, self.cache)
        self.cache.advance(1)
        if search is None:
            return hidden
        after = search.update(search.reduced(decoder, hidden[:, -1]), search.carry)
        if search.carry is None:
            return after
        copy(after, search.carry)
        return search.carry

    def __call__(self, ids: Tensor, used: int, search: SearchStep | None) -> Any:
        """The result for these ids, which follow on `used` tokens."""
        if used != self.counted:
            self.cache.used.fill_(used)
        self.counted = used + 1
        if search is not None and self.search is not None:
            copy(search.rows, self.search.rows)
            if search.carry is not self.search.carry:
                copy(search.carry, self.search.carry)
        copy(ids, self.ids)
        self.replay()
        return self.result

    def suits(self, state: "GraphState", search: SearchStep | None) -> bool:
        """Whether nobody else works here, and a state would find its place."""
        free = self.lease() is None or self.lease() is state.lease
        return free and self.does(search) and shapes(self.memory) == shapes(state.state)

    def does(self, search: SearchStep | None) -> bool:
        """Whether this is what was captured."""
        if search is None or self.search is None:
            return search is self.search
        if search.carry is self.search.carry is not None:  # it comes from here
            return True
        mine, theirs = ([one.group_size, *shapes((one.rows, one.carry))] for one in (self.search, search))
        return self.search.update == search.update and mine == theirs

    def take_in(self, state: DecoderState) -> DecoderState:
        """The same state in this memory."""
        cache, used = state.cache, state.cache.used
        for here, there in zip(tensors(self.memory), tensors(state), strict=True):
            if there is cache.keys or there is cache.values:  # what lies behind was never written
                here, there = here[:, :, :used], there[:, :, :used]
            here.copy_(there)
        if cache.keep is not None:
            self.cache.padding.copy_(first_kept(cache.keep))
        self.counted = -1
        return replace(self.memory, cache=replace(self.memory.cache, used=cache.used))


@dataclass(frozen=True)
class GraphState:
    """A decoder's state, and the captured step that works on its memory, once there is one."""

    state: DecoderState
    length: int  # tokens that will be read at most
    step: CapturedStep | None = None
    lease: Lease = field(default_factory=Lease)

    def select(self, rows: Tensor, *, group_size: int | None = None) -> "GraphState":
        """The captured step goes on as long as the memory stays where it is."""
        state = self.state.select(rows, group_size=group_size)
        stays = [x.data_ptr() for x in tensors(state)] == [x.data_ptr() for x in tensors(self.state)]
        return replace(self, state=state, step=self.step if stays else None)

    def rewind(self, tokens: int) -> "GraphState":
        return replace(self, state=self.state.rewind(tokens))


class GraphDecoder:
    """A PreparedDecoder whose steps of one token are replayed; prefill and several tokens at once run as they are."""

    can_capture = True
    last: CapturedStep | None = None

    def __init__(self, decoder: PreparedDecoder, max_positions: int | None) -> None:
        self.decoder, self.max_positions = decoder, max_positions
        self.lock, self.taken = Lock(), Counter[tuple[object, ...]]()

    def start(self, input_ids: Tensor, attention_mask: Tensor | None = None, *, length: int) -> GraphState:
        return GraphState(self.decoder.start(input_ids, attention_mask, length=self._capacity(length)), length)

    def state_bytes(self, rows: int, length: int, source: tuple[int, int]) -> int:
        """Twice: a state that is read into, and the memory of the captured step."""
        return 2 * self.decoder.state_bytes(rows, self._capacity(length), source)

    def _capacity(self, length: int) -> int:
        rounded = -(-length // CAPACITY_MULTIPLE) * CAPACITY_MULTIPLE
        return rounded if self.max_positions is None else max(length, min(self.max_positions, rounded))

    def step(self, ids: Tensor, state: GraphState) -> tuple[Tensor, GraphState]:
        hidden, state = self.hidden_step(ids, state)
        return self.logits(hidden), state

    def logits(self, hidden: Tensor) -> Tensor:
        return self.decoder.logits(hidden)

    def hidden_step(self, ids: Tensor, state: GraphState) -> tuple[Tensor, GraphState]:
        state, captured = self._captured(ids, state, None)
        if captured is not None:
            return self._replayed(captured, ids, state, None)
        hidden, after = self.decoder.hidden_step(ids, state.state)
        return hidden, replace(state, state=after)

    def step_search(self, ids: Tensor, state: GraphState, search: SearchStep) -> tuple[Any, GraphState]:
        """As the function of this name; once captured, all of it is one replay."""
        state, captured = self._captured(ids, state, search)
        if captured is not None:
            return self._replayed(captured, ids, state, search)
        return step_eager(self, ids, state, search)

    def _replayed(
        self, captured: CapturedStep, ids: Tensor, state: GraphState, search: SearchStep | None
    ) -> tuple[Any, GraphState]:
        cache = state.state.cache
        found = captured(ids, cache.used, search)
        after = replace(state, state=replace(state.state, cache=cache.advance(1)))
        return found.clone() if search is None else found, after

    def _captured(
        self, ids: Tensor, state: GraphState, search: SearchStep | None
    ) -> tuple[GraphState, CapturedStep | None]:
        """The captured step, where one is possible and worth its time, and the state in its memory."""
        cache = state.state.cache
        if ids.shape[1] > 1 or (search is None and not cache.used) or not self.can_capture:
            return state, None
        cache.check_capacity(1)
        if state.step is None:
            kind = (search is None, *shapes(state.state))
            self.taken[kind] += 1
            if self.taken[kind] + state.length - cache.used < WORTH_A_GRAPH:
                return state, None
            state = self._capture(ids, state, search)
        return state, state.step if state.step is not None and state.step.does(search) else None

    def _capture(self, ids: Tensor, state: GraphState, search: SearchStep | None) -> GraphState:
        """With a captured step, where a graph is possible; where it is not, that is logged once."""
        with self.lock:
            try:
                if self.last is None or not self.last.suits(state, search):
                    self.last = None  # its memory first
                    self.last = CapturedStep(self.decoder, ids, state.state, search)
            except RuntimeError as error:
                LOG.warning("decoding without a CUDA graph: %s", str(error).splitlines()[0])
                self.can_capture = False
                return state
            self.last.lease = weakref.ref(state.lease)
            return replace(state, state=self.last.take_in(state.state), step=self.last)


def capture_graph(function: Callable[[], R]) -> tuple[Callable[[], None], R]:
    """What runs a function again in the same memory, and its result there."""
    function()  # kernels make themselves ready the first time, which cannot be captured
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        result = function()
    return graph.replay, result


def tensors(part: object) -> Iterator[Tensor]:
    """All tensors in dataclasses, lists and tuples, in the order of their fields."""
    if isinstance(part, Tensor):
        yield part
    elif is_dataclass(part):
        part = [getattr(part, one.name) for one in fields(part)]
    if isinstance(part, (list, tuple)):
        for one in part:
            yield from tensors(one)


def shapes(part: object) -> list[torch.Size]:
    return [tensor.shape for tensor in tensors(part)]


def copy(source: object, target: object) -> None:
    """All tensors into those of another of the same make, but for what is there already."""
    for there, here in zip(tensors(source), tensors(target), strict=True):
        if there is not here:
            here.copy_(there)


def cloned(part: object) -> Any:
    """The same in memory of its own."""
    if isinstance(part, Tensor):
        return part.clone(memory_format=torch.contiguous_format)
    if isinstance(part, (list, tuple)):
        return [cloned(one) for one in part]
    if is_dataclass(part) and not isinstance(part, type):
        return replace(part, **{one.name: cloned(getattr(part, one.name)) for one in fields(part)})
    return part


def _nobody() -> None:
    return None
