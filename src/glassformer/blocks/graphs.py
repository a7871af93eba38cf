"""Decoding on a GPU: the step of one token is recorded once as a CUDA graph, and then only replayed.

A graph has fixed shapes and fixed memory, so the cache is read over its whole room, as far as a counter on the GPU
says. B batch, N layers, L room, H heads, K head width.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic

import torch
import torch.nn.functional as F
from torch import Tensor

from .cache import KVCache
from .decode import Decoder
from .masks import first_kept
from .packing import flash_takes
from .state import S

LOG = logging.getLogger("glassformer")


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

    @cached_property
    def spans(self) -> tuple[Tensor, Tensor, Tensor]:
        """Of the flat cache (B·L): where each row's tokens begin and how many there are; and of queries, one a row."""
        rows = torch.arange(len(self.padding) + 1, dtype=torch.int32, device=self.used.device)
        return F.pad(self.padding, (0, 1)) + rows * self.room, (self.used + 1 - self.padding).int(), rows

    def attend(self, query: Tensor, key: Tensor, value: Tensor, *, scale: float, dropout: float) -> Tensor:
        """(B, 1, H, K) queries over (B, L, H, K) keys and values."""
        if flash_takes(query):
            starts, lengths, rows = self.spans
            flat = [x.flatten(0, 1) for x in (query, key, value)]
            mixed: Tensor = torch.ops.aten._flash_attention_forward(
                *flat, rows, starts, 1, self.room, dropout, False, False, scale=scale, seqused_k=lengths
            )[0]
            return mixed.view_as(query)
        query, key, value = (x.transpose(1, 2) for x in (query, key, value))
        return F.scaled_dot_product_attention(query, key, value, self.mask, dropout, scale=scale).transpose(1, 2)


class Replay:
    """A step of one token for one state's memory."""

    def __init__(self, step: Callable[[Tensor, Any], tuple[Tensor, Any]], state: Any) -> None:
        self.step = step
        self.cache = StaticCache(cache_of(state))
        self.state = with_cache(state, self.cache)
        self.ids = torch.zeros(len(self.cache.padding), 1, dtype=torch.long, device=self.cache.used.device)
        self.counted = -1  # what the counter on the GPU says, where it is known
        self.graph = torch.cuda.CUDAGraph()
        self._run()  # kernels make themselves ready the first time, which cannot be recorded
        with torch.cuda.graph(self.graph):
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


@dataclass(frozen=True)
class GraphState(Generic[S]):
    """A decoder's state, and the recorded step that works on its memory, once there is one."""

    state: S
    replay: Replay | None = None

    def select(self, rows: Tensor, *, within: int | None = None) -> "GraphState[S]":
        """The recorded step goes on as long as the memory stays where it is."""
        state = self.state.select(rows, within=within)
        return replace(self, state=state) if within is not None else GraphState(state)

    def rewind(self, tokens: int) -> "GraphState[S]":
        state = self.state.rewind(tokens)
        assert state is not None, "a cache can always be rewound"
        return replace(self, state=state)


class GraphDecoder(Decoder[Any]):
    """A Decoder that replays its steps of one token; prompts and several tokens at once run as they are."""

    can_record = True

    def start(self, input_ids: Tensor, attention_mask: Tensor | None = None, *, length: int) -> GraphState[Any]:
        return GraphState(super().start(input_ids, attention_mask, length=length))

    def hidden_step(self, ids: Tensor, state: GraphState[Any]) -> tuple[Tensor, GraphState[Any]]:
        cache = cache_of(state.state)
        replay = state.replay if ids.shape[1] > 1 or cache.used == 0 else state.replay or self._recorded(state.state)
        if ids.shape[1] > 1 or replay is None:
            hidden, after = super().hidden_step(ids, state.state)
            return hidden, GraphState(after, replay)
        cache.check_room(1)
        hidden = replay(ids, cache.used)
        return hidden, GraphState(with_cache(state.state, cache.advance(1)), replay)

    def _recorded(self, state: Any) -> Replay | None:
        """None where a graph is not possible; that is said once, and steps then run as they are."""
        if self.can_record:
            try:
                return Replay(super().hidden_step, state)
            except RuntimeError as error:
                LOG.warning("decoding without a CUDA graph: %s", str(error).splitlines()[0])
                self.can_record = False
        return None


def cache_of(state: Any) -> KVCache:
    """A decoder's own cache, alone or beside its sources."""
    return getattr(state, "cache", state)  # type: ignore[no-any-return]


def with_cache(state: Any, cache: Any) -> Any:
    return replace(state, cache=cache) if hasattr(state, "cache") else cache
