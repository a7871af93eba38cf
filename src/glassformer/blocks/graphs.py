"""Decoding on a GPU: the step of one token is recorded once as a CUDA graph, and then only replayed.

A graph has fixed shapes and fixed memory, so the cache is read over its whole room, as far as a counter on the GPU
says. B batch, N layers, L room, H heads, K head width.
"""

import logging
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from threading import Lock
from typing import Any, Generic

import torch
from torch import Tensor

from . import kernels
from .cache import KVCache
from .decode import Decoder, Prepare
from .masks import first_kept
from .packing import Dense
from .state import S

LOG = logging.getLogger("glassformer")
ROOM = 64  # tokens: rooms are multiples of it


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
    """A step of one token for one state's memory, which other states of the same shapes may take over later."""

    def __init__(self, step: Callable[[Tensor, Any], tuple[Tensor, Any]], state: Any) -> None:
        self.step, self.memory = step, state
        self.lease: Callable[[], Lease | None] = _nobody
        self.cache = StaticCache(cache_of(state))
        self.state = with_cache(state, self.cache)
        self.ids = torch.zeros(len(self.cache.padding), 1, dtype=torch.long, device=self.cache.used.device)
        self.counted = -1  # what the counter on the GPU says, where it is known
        self.graph = torch.cuda.CUDAGraph()
        self._run()  # kernels make themselves ready the first time, which cannot be recorded
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            self.hidden = self._run()

    def _run(self) -> Tensor:
        return self.step(self.ids, self.state)[0]

    def __call__(self, ids: Tensor, used: int) -> Tensor:
        """The hidden states after these ids, which follow on `used` tokens."""
        if used != self.counted:
            self.cache.used.fill_(used)
        self.counted = used + 1
        self.ids.copy_(ids)
        self.graph.replay()
        return self.hidden.clone()

    def suits(self, state: Any) -> bool:
        """Whether nobody works here, and a state would find its place."""
        shapes = [[tensor.shape for tensor in tensors(one)] for one in (self.memory, state)]
        return self.lease() is None and shapes[0] == shapes[1]

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
        self.lock = Lock()

    def start(self, input_ids: Tensor, attention_mask: Tensor | None = None, *, length: int) -> GraphState[Any]:
        return GraphState(super().start(input_ids, attention_mask, length=self._roomy(length)))

    def state_bytes(self, rows: int, length: int, source: tuple[int, int]) -> int:
        """Twice: a state that is read into, and the memory of the recorded step."""
        return 2 * super().state_bytes(rows, self._roomy(length), source)

    def _roomy(self, length: int) -> int:
        """Rooms come in few sizes, so that one recording serves many prompts."""
        config = self.model.config
        most = getattr(config, "n_positions", None) or config.max_position_embeddings
        return max(length, min(int(most), -(-length // ROOM) * ROOM))

    def hidden_step(self, ids: Tensor, state: GraphState[Any]) -> tuple[Tensor, GraphState[Any]]:
        one = ids.shape[1] == 1
        if one:
            cache_of(state.state).check_room(1)
        if one and state.replay is None and cache_of(state.state).used:
            state = self._recorded(state)
        if state.replay is None or not one:
            hidden, after = super().hidden_step(ids, state.state)
            return hidden, replace(state, state=after)
        cache = cache_of(state.state)
        hidden = state.replay(ids, cache.used)
        return hidden, replace(state, state=with_cache(state.state, cache.advance(1)))

    def _recorded(self, state: GraphState[Any]) -> GraphState[Any]:
        """With a recorded step, where a graph is possible; where it is not, that is said once."""
        if not self.can_record:
            return state
        with self.lock:
            try:
                if self.last is None or not self.last.suits(state.state):
                    self.last = None  # its memory first
                    self.last = Replay(super().hidden_step, state.state)
            except RuntimeError as error:
                LOG.warning("decoding without a CUDA graph: %s", str(error).splitlines()[0])
                self.can_record = False
                return state
            self.last.lease = weakref.ref(state.lease)
            return replace(state, state=self.last.take_in(state.state), replay=self.last)


def tensors(part: Any) -> Iterator[Tensor]:
    """All tensors of a state, in the order of its fields."""
    if isinstance(part, Tensor):
        yield part
    elif is_dataclass(part):
        part = [getattr(part, one.name) for one in fields(part)]
    if isinstance(part, (list, tuple)):
        for one in part:
            yield from tensors(one)


def cache_of(state: Any) -> KVCache:
    """A decoder's own cache, alone or beside its sources."""
    return getattr(state, "cache", state)  # type: ignore[no-any-return]


def with_cache(state: Any, cache: Any) -> Any:
    return replace(state, cache=cache) if hasattr(state, "cache") else cache


def _nobody() -> None:
    return None
