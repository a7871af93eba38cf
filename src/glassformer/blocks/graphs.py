"""Decoding on a GPU: the step of one token is recorded once as a CUDA graph, and then only replayed.

A graph has fixed shapes and fixed memory, so the cache is read over its whole room, as far as a counter on the GPU
says. B batch, N layers, L room, H heads, K head width.
"""

import logging
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from threading import Lock
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from . import kernels
from .cache import KVCache
from .decode import Decoder, Prepare
from .masks import first_kept
from .packing import Dense
from .state import S, Turn, follow_plainly

LOG = logging.getLogger("glassformer")
ROOM = 64  # tokens: rooms are multiples of it
WORTH_A_GRAPH = 32  # tokens: recording a step takes about as long as taking so many without

R = TypeVar("R")


class StaticCache:
    """A KVCache whose tokens are counted on its own device, for steps of one token."""

    def __init__(self, cache: KVCache) -> None:
        self.keys, self.values = cache.keys, cache.values  # (N, B, L, H, K)
        for x in (self.keys, self.values):
            x[:, :, cache.used :].zero_()  # what is masked is still multiplied, by zero
        self.used = torch.full((1,), cache.used, device=cache.keys.device)
        batch, self.room = self.keys.shape[1:3]
        self.padding = torch.zeros(batch, dtype=torch.int32, device=self.used.device)  # (B,), before each prompt
        if cache.keep is not None:
            self.padding = first_kept(cache.keep).int()

    def positions(self, tokens: int) -> Tensor:
        assert tokens == 1
        return self.used - self.padding[:, None]  # (B, 1)

    def scope(self, tokens: int) -> "Reach":
        assert tokens == 1
        return Reach(self.padding, self.used, self.room)

    def layers(self) -> list["StaticLayer"]:
        pairs = zip(self.keys.unbind(), self.values.unbind(), strict=True)
        return [StaticLayer(keys, values, self.used) for keys, values in pairs]

    def trade(self, rows: Tensor, within: int | None) -> None:
        """Rows trade places, in groups of so many."""
        if self.keys.is_cuda and within is not None and kernels.available():
            kernels.trade(self.keys, self.values, rows, within=within, used=self.used)
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

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        self.keys.index_copy_(1, self.used, key)
        self.values.index_copy_(1, self.used, value)
        return self.keys, self.values

    def attend(self, query: Tensor, key: Tensor, value: Tensor, scope: "Reach", *, scale: float) -> Tensor:
        """One new token of each row (B, 1, H, K) joins the others, and looks back."""
        if query.is_cuda and kernels.available():
            past, places = (self.keys, self.values), {"used": self.used, "padding": scope.padding}
            return kernels.attend_next(query, key, value, *past, **places, scale=scale)
        return scope.attend(query, *self.append(key, value), scale=scale, dropout=0.0)


@dataclass(frozen=True)
class Reach:
    """How far one new token of each row may look back: to the end of its padding."""

    padding: Tensor  # (B,)
    used: Tensor  # (1,)
    room: int

    @cached_property
    def mask(self) -> Tensor:
        places = torch.arange(self.room, device=self.used.device)
        return ((places >= self.padding[:, None]) & (places <= self.used))[:, None, None]  # (B, 1, 1, L)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, *, scale: float, dropout: float) -> Tensor:
        """(B, 1, H, K) queries over (B, L, H, K) keys and values."""
        return Dense(self.mask).attend(query, key, value, scale=scale, dropout=dropout)


class Lease:
    """Held by the states of one text batch: as long as one of them lives, their memory is theirs."""


class Replay:
    """A step of one token for one state's memory, which other states of the same shapes may take over later.

    With a turn, all that a search does around the step is in it as well, and its notes have their memory here.
    """

    def __init__(self, decoder: Decoder[Any], state: Any, turn: Turn | None) -> None:
        self.memory = state
        self.lease: Callable[[], Lease | None] = _nobody
        self.cache = StaticCache(cache_of(state))
        self.state = with_cache(state, self.cache)
        self.ids = torch.zeros(len(self.cache.padding), 1, dtype=torch.long, device=self.cache.used.device)
        self.turn = None if turn is None else replace(turn, notes=cloned(turn.notes))
        if self.turn is not None and self.turn.rows is not None:  # to record is to run once, and that must move nothing
            self.turn = replace(self.turn, rows=torch.arange(len(self.ids), device=self.ids.device))
        self.counted = -1  # what the counter on the GPU says, where it is known
        self.replay, self.result = recorded(lambda: self._run(decoder))

    def _run(self, decoder: Decoder[Any]) -> Any:
        turn = self.turn
        if turn is not None and turn.rows is not None:
            self.cache.trade(turn.rows, turn.within)
        hidden = Decoder.hidden_step(decoder, self.ids, self.state)[0]
        if turn is None:
            return hidden
        after = turn.then(turn.seen(decoder, hidden[:, -1]), turn.notes)
        if turn.notes is None:
            return after
        copy(after, turn.notes)
        return turn.notes

    def __call__(self, ids: Tensor, used: int, turn: Turn | None) -> Any:
        """What is made of these ids, which follow on `used` tokens."""
        if used != self.counted:
            self.cache.used.fill_(used)
        self.counted = used + 1
        self.ids.copy_(ids)
        if turn is not None and self.turn is not None:
            copy(turn.rows, self.turn.rows)
            if turn.notes is not self.turn.notes:
                copy(turn.notes, self.turn.notes)
        self.replay()
        return self.result

    def suits(self, state: Any, turn: Turn | None) -> bool:
        """Whether nobody works here, and a state would find its place."""
        return self.lease() is None and self.does(turn) and shapes(self.memory) == shapes(state)

    def does(self, turn: Turn | None) -> bool:
        """Whether this is what it records."""
        if turn is None or self.turn is None:
            return turn is self.turn
        if turn.notes is self.turn.notes is not None:  # they come from here
            return True
        mine, theirs = ([one.within, *shapes((one.rows, one.notes))] for one in (self.turn, turn))
        return self.turn.then == turn.then and mine == theirs

    def take_in(self, state: Any) -> Any:
        """The same state in this memory."""
        cache, used = cache_of(state), cache_of(state).used
        for here, there in zip(tensors(self.memory), tensors(state), strict=True):
            if there is cache.keys or there is cache.values:  # what lies behind was never written
                here, there = here[:, :, :used], there[:, :, :used]
            here.copy_(there)
        if cache.keep is not None:
            self.cache.padding.copy_(first_kept(cache.keep))
        self.counted = -1
        return with_cache(self.memory, replace(cache_of(self.memory), used=cache.used))


@dataclass(frozen=True)
class GraphState(Generic[S]):
    """A decoder's state, and the recorded step that works on its memory, once there is one."""

    state: S
    length: int  # tokens that will be read at most
    replay: Replay | None = None
    lease: Lease = field(default_factory=Lease)

    def select(self, rows: Tensor, *, within: int | None = None) -> "GraphState[S]":
        """The recorded step goes on as long as the memory stays where it is."""
        state = self.state.select(rows, within=within)
        stays = [x.data_ptr() for x in tensors(state)] == [x.data_ptr() for x in tensors(self.state)]
        return replace(self, state=state, replay=self.replay if stays else None)

    def rewind(self, tokens: int) -> "GraphState[S]":
        state = self.state.rewind(tokens)
        assert state is not None, "a cache can always be rewound"
        return replace(self, state=state)


class GraphDecoder(Decoder[Any]):
    """A Decoder that replays its steps of one token; prompts and several tokens at once run as they are."""

    multiple = 64  # odd sizes cost a GPU half its speed
    can_record = True
    last: Replay | None = None

    def __init__(self, model: Any, prepare: Prepare) -> None:
        super().__init__(model, prepare)
        self.lock, self.taken = Lock(), Counter[tuple[object, ...]]()

    def start(self, input_ids: Tensor, attention_mask: Tensor | None = None, *, length: int) -> GraphState[Any]:
        return GraphState(super().start(input_ids, attention_mask, length=self._roomy(length)), length)

    def state_bytes(self, rows: int, length: int, source: tuple[int, int]) -> int:
        """Twice: a state that is read into, and the memory of the recorded step."""
        return 2 * super().state_bytes(rows, self._roomy(length), source)

    def _roomy(self, length: int) -> int:
        """Rooms come in few sizes, so that one recording serves many prompts."""
        config = self.model.config
        most = getattr(config, "n_positions", None) or config.max_position_embeddings
        return max(length, min(int(most), -(-length // ROOM) * ROOM))

    def hidden_step(self, ids: Tensor, state: GraphState[Any]) -> tuple[Tensor, GraphState[Any]]:
        state, replay = self._replay(ids, state, None)
        if replay is not None:
            return self._replayed(replay, ids, state, None)
        hidden, after = super().hidden_step(ids, state.state)
        return hidden, replace(state, state=after)

    def follow(self, ids: Tensor, state: GraphState[Any], turn: Turn) -> tuple[Any, GraphState[Any]]:
        """As the function of this name; once recorded, all of it is one replay."""
        state, replay = self._replay(ids, state, turn)
        if replay is not None:
            return self._replayed(replay, ids, state, turn)
        return follow_plainly(self, ids, state, turn)

    def _replayed(self, replay: Replay, ids: Tensor, state: GraphState[Any], turn: Turn | None) -> tuple[Any, Any]:
        cache = cache_of(state.state)
        found = replay(ids, cache.used, turn)
        after = replace(state, state=with_cache(state.state, cache.advance(1)))
        return found.clone() if turn is None else found, after

    def _replay(self, ids: Tensor, state: GraphState[Any], turn: Turn | None) -> tuple[GraphState[Any], Replay | None]:
        """The recorded step, where one is possible and worth its time, and the state in its memory."""
        cache = cache_of(state.state)
        if ids.shape[1] > 1 or (turn is None and not cache.used) or not self.can_record:
            return state, None
        cache.check_room(1)
        if state.replay is None:
            kind = (turn is None, *shapes(state.state))
            self.taken[kind] += 1
            if self.taken[kind] + state.length - cache.used < WORTH_A_GRAPH:
                return state, None
            state = self._recorded(state, turn)
        return state, state.replay if state.replay is not None and state.replay.does(turn) else None

    def _recorded(self, state: GraphState[Any], turn: Turn | None) -> GraphState[Any]:
        """With a recorded step, where a graph is possible; where it is not, that is said once."""
        with self.lock:
            try:
                if self.last is None or not self.last.suits(state.state, turn):
                    self.last = None  # its memory first
                    self.last = Replay(self, state.state, turn)
            except RuntimeError as error:
                LOG.warning("decoding without a CUDA graph: %s", str(error).splitlines()[0])
                self.can_record = False
                return state
            self.last.lease = weakref.ref(state.lease)
            return replace(state, state=self.last.take_in(state.state), replay=self.last)


def recorded(function: Callable[[], R]) -> tuple[Callable[[], None], R]:
    """What does it again in the same memory, and the result there."""
    function()  # kernels make themselves ready the first time, which cannot be recorded
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        result = function()
    return graph.replay, result


def tensors(part: Any) -> Iterator[Tensor]:
    """All tensors of a state, in the order of its fields."""
    if isinstance(part, Tensor):
        yield part
    elif is_dataclass(part):
        part = [getattr(part, one.name) for one in fields(part)]
    if isinstance(part, (list, tuple)):
        for one in part:
            yield from tensors(one)


def shapes(part: Any) -> list[torch.Size]:
    return [tensor.shape for tensor in tensors(part)]


def copy(source: Any, target: Any) -> None:
    """All tensors into those of another of the same make, but for what is there already."""
    for there, here in zip(tensors(source), tensors(target), strict=True):
        if there is not here:
            here.copy_(there)


def cloned(part: Any) -> Any:
    """The same in memory of its own."""
    if isinstance(part, Tensor):
        return part.clone(memory_format=torch.contiguous_format)
    if isinstance(part, (list, tuple)):
        return [cloned(one) for one in part]
    if is_dataclass(part) and not isinstance(part, type):
        return replace(part, **{one.name: cloned(getattr(part, one.name)) for one in fields(part)})
    return part


def cache_of(state: Any) -> KVCache:
    """A decoder's own cache, alone or beside its sources."""
    return getattr(state, "cache", state)  # type: ignore[no-any-return]


def with_cache(state: Any, cache: Any) -> Any:
    return replace(state, cache=cache) if hasattr(state, "cache") else cache


def _nobody() -> None:
    return None
