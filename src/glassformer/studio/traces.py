"""Traces: a text's way through a model, recorded once and kept for a while."""

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from threading import RLock
from typing import Any, TypeVar

import torch
from fastapi import APIRouter
from pydantic import BaseModel
from torch import Tensor, nn

from glassformer.generate.prompts import request_of
from glassformer.inspect.record import record
from glassformer.jobs.inspect import boards
from glassformer.jobs.reading import TokenizedInputs, reading, reads_prompts
from glassformer.models.contract import as_generative, as_model
from glassformer.text.tokenizer import Tokenizer
from glassformer.view.board import Board
from glassformer.web.safe import SafeJSONResponse

from .app_state import Gone, Loaded, Missing, Studio
from .limits import SECONDS, Deadline, check_length, within
from .sizes import check_trace, held_bytes

T = TypeVar("T")
REMEMBERED = 10_000  # ids of traces that are gone


@dataclass
class Trace:
    """What was read, what every module gave, and what has been worked out from it since."""

    id: str
    loaded: Loaded
    text: str | list[int]
    pair: str | None
    target: str | list[int] | None
    reading: TokenizedInputs
    seen: Mapping[str, Tensor]
    outputs: dict[str, Tensor]
    expires_at: float = 0.0
    kept: dict[str, Any] = field(default_factory=dict)
    lock: AbstractContextManager[bool] = field(default_factory=RLock, repr=False)
    sizes: dict[str, int] = field(default_factory=dict)  # bytes: measuring takes too long for every look

    def __post_init__(self) -> None:
        self.sizes["recorded"] = held_bytes([self.seen, self.outputs])

    def once(self, key: str, make: Callable[[], T]) -> T:
        """What `make` gives, made at the first asking and kept with the trace."""
        with self.lock:
            return self.kept[key] if key in self.kept else self.keep(key, make())

    def keep(self, key: str, value: T) -> T:
        """Keep a value with the trace, instead of the one that was kept under this key."""
        with self.lock:
            self.kept[key], self.sizes[key] = value, held_bytes(value)
            return value

    @property
    def bytes(self) -> int:
        return sum(list(self.sizes.values()))  # a list, since others may be adding to it


class Traces:
    """As many traces as fit into `budget` bytes, each for `seconds` after it was last looked at."""

    def __init__(self, *, budget: int = 2 << 30, seconds: float = 1800, clock: Callable[[], float] = time.time) -> None:
        self.budget, self.seconds, self._clock = budget, seconds, clock
        self._kept: OrderedDict[str, Trace] = OrderedDict()  # the one looked at longest ago comes first
        self._gone: dict[str, int] = {}  # how large those were that had to make room
        self._lock = RLock()

    def add(self, trace: Trace) -> None:
        with self._lock:
            if trace.bytes > self.budget:
                raise ValueError(
                    f"this trace holds {trace.bytes / 1e6:.0f} MB, more than the {self.budget / 1e6:.0f} MB that the "
                    "studio keeps: give a shorter text, name fewer modules in capture, or start it with more --memory"
                )
            self._kept[trace.id] = trace
            self._touch(trace)

    def reserve(self, trace: Trace, needed: int, what: str) -> None:
        """Make room, before the work, for what will be worked out from a trace; refuse what can never be kept."""
        with self._lock:
            if trace.bytes + needed > self.budget:
                raise ValueError(
                    f"{what} of this trace would hold about {needed / 1e6:,.0f} MB beside its {trace.bytes / 1e6:,.0f} "
                    f"MB, and the studio keeps {self.budget / 1e6:,.0f} MB: give a shorter text, or start it with more "
                    "--memory"
                )
            self._make_room(trace, needed)

    def __getitem__(self, name: str) -> Trace:
        with self._lock:
            for one in list(self._kept.values()):
                if one.expires_at < self._clock():
                    self._drop(one, 0)
            if name in self._kept:
                self._touch(self._kept[name])
                return self._kept[name]
            raise self._why_not(name)

    def _why_not(self, name: str) -> Exception:
        """Why a trace is not here; of two that push each other out for ever, running it again would help nobody."""
        if name not in self._gone:
            return Missing(f"there is no trace {name!r}")
        newest = next(reversed(self._kept.values()), None)
        if newest is None or newest.bytes + self._gone[name] <= self.budget:
            return Gone("this trace has expired; run the text again")
        return ValueError(
            f"this trace made room for a newer one, for both do not fit into the {self.budget / 1e6:.0f} MB that the "
            "studio keeps: look at one at a time, or start it with more --memory"
        )

    def _touch(self, trace: Trace) -> None:
        """Keep a trace for longer; the oldest make room until the rest fits, and this one stays in any case."""
        trace.expires_at = self._clock() + self.seconds
        self._kept.move_to_end(trace.id)
        self._make_room(trace)

    def _make_room(self, trace: Trace, more: int = 0) -> None:
        """Drop the oldest of all others until the rest and so many more bytes fit."""
        for oldest in [one for one in self._kept.values() if one is not trace]:
            if sum(one.bytes for one in self._kept.values()) + more <= self.budget:
                return
            self._drop(oldest, oldest.bytes)

    def _drop(self, trace: Trace, size: int) -> None:
        del self._kept[trace.id]
        self._gone[trace.id] = size
        if len(self._gone) > REMEMBERED:
            del self._gone[next(iter(self._gone))]


def traced(
    loaded: Loaded,
    text: str | list[int],
    pair: str | None = None,
    target: str | list[int] | None = None,
    *,
    capture: Sequence[str] = ("*",),
    budget: int | None = None,
    deadline: Deadline | None = None,
) -> Trace:
    """Run the model once, and keep what its modules gave; a text that is too long, or for a budget, is not run."""
    model, deadline = loaded.model, deadline or Deadline.after(SECONDS)
    with loaded.lock, torch.inference_mode():
        settings = _limited(model, deadline) if as_model(model).config.is_encoder_decoder and target is None else {}
        read = reading(model, loaded.tokenizer, text, pair, target=target, check=check_length, **settings)
        deadline.check()
        if budget is not None:
            check_trace(loaded, capture, max(len(side.ids) for side in read.tokens.values()), budget)
        with record(model, capture) as seen, deadline.watching(model, inside=True):
            outputs = outputs_of(loaded, read)
    values = {name: seen[name].detach().cpu() for name in seen}
    return Trace(secrets.token_urlsafe(12), loaded, text, pair, target, read, values, outputs)


def _limited(model: nn.Module, deadline: Deadline) -> dict[str, Any]:
    """What a model is told that writes as its folder wishes: no more than the studio's limits."""
    try:
        settings = request_of(as_generative(model), {})
    except ValueError:  # it cannot write, which `reading` says with what to do about it
        return {}
    limited = within(settings, 1, explicit=False)
    cut = {"max_new_tokens": limited.max_new_tokens} if limited.max_new(1) < settings.max_new(1) else {}
    return {"max_time": deadline.left, **cut}


def outputs_of(loaded: Loaded, read: TokenizedInputs) -> dict[str, Tensor]:
    """What the model itself gives, by name."""
    given = loaded.model(**read.inputs)._asdict()
    return {name: value.detach().cpu() for name, value in given.items() if isinstance(value, Tensor)}


class TraceRequest(BaseModel):
    """What a trace is asked for."""

    model: str
    inputs: str | list[int]
    pair: str | None = None
    target: str | list[int] | None = None
    capture: list[str] | None = None


def router(studio: Studio) -> APIRouter:
    routes = APIRouter()

    @routes.get("/models")
    def models() -> list[dict[str, Any]]:
        return studio.models.entries

    @routes.post("/traces")
    def create(request: TraceRequest) -> SafeJSONResponse:
        with studio.work() as deadline:
            trace = traced(
                studio.models[request.model],
                request.inputs,
                request.pair,
                request.target,
                capture=request.capture or ("*",),
                budget=studio.traces.budget,
                deadline=deadline,
            )
            trace.once("boards", lambda: [board_entry(one) for one in boards(trace.seen, trace.reading.tokens)])
        studio.traces.add(trace)
        return SafeJSONResponse(described(trace))

    @routes.get("/traces/{trace_id}")
    def show(trace_id: str) -> SafeJSONResponse:
        return SafeJSONResponse(described(studio.traces[trace_id]))

    return routes


def described(trace: Trace) -> dict[str, Any]:
    """A trace as the page knows it: tokens and shapes, no values."""
    return {
        "trace_id": trace.id,
        "expires_at": trace.expires_at,
        "model": trace.loaded.name,
        "bytes": trace.bytes,
        "tokens": {side: token_rows(trace, side) for side in trace.reading.tokens},
        "languages": languages_of(trace.loaded.tokenizer),
        "boards": trace.kept["boards"],
        "outputs": {name: list(value.shape) for name, value in trace.outputs.items()},
        "python": python_of(trace),
    }


def languages_of(tokenizer: Tokenizer | None) -> dict[str, Any] | None:
    """The codes that a multilingual tokenizer knows, and those of sources and targets where nobody says others."""
    if tokenizer is None or tokenizer.settings.languages is None:
        return None
    codes, source = sorted(tokenizer.settings.languages.tokens), tokenizer.src_lang
    target = tokenizer.tgt_lang or next((code for code in codes if code != source), source)
    return {"codes": codes, "src_lang": source, "tgt_lang": target}


def token_rows(trace: Trace, side: str) -> list[dict[str, Any]]:
    """Tokens with their ids and, on the side that is read, the characters, segment and mask of each."""
    tokens = trace.reading.tokens[side]
    rows = [{"text": text, "id": number} for text, number in zip(tokens.texts, tokens.ids, strict=True)]
    if side != "read":
        return rows
    places, sides = offsets(trace)
    mask = trace.reading.inputs.get("attention_mask")
    kinds = trace.reading.inputs.get("token_type_ids")
    return [
        row
        | {"start": start, "end": end, "side": of}
        | {"segment": None if kinds is None else int(kinds[0, place])}
        | {"mask": 1 if mask is None else int(mask[0, place])}
        for place, (row, (start, end), of) in enumerate(zip(rows, places, sides, strict=True))
    ]


def offsets(trace: Trace) -> tuple[Sequence[tuple[int | None, int | None]], Sequence[int | None]]:
    """Which characters each token stands for, and of which text; nothing of a special token, or of ids."""
    count, tokenizer = len(trace.reading.tokens["read"].ids), trace.loaded.tokenizer
    if tokenizer is None:
        return [(None, None)] * count, [None] * count
    special = trace.pair is not None or not reads_prompts(trace.loaded.model)
    encoding = tokenizer(trace.text, trace.pair, add_special_tokens=special, return_offsets_mapping=True)
    before = count - len(encoding["input_ids"])  # the BOS of a prompt
    sides = [*[None] * before, *encoding.sequence_ids()]
    found = zip([(0, 0)] * before + encoding["offset_mapping"], sides, strict=True)
    return [(None, None) if side is None else (place[0], place[1]) for place, side in found], sides


def board_entry(board: Board) -> dict[str, Any]:
    """A grid of matrices: where each comes from, and what was measured of it."""
    return {
        "name": board.name,
        "kind": "attention" if board.attends else "states",
        "grid": board.grid,
        "rows": list(board.rows),
        "columns": list(board.columns),
        "axes": board.axes,
        "down": side_of(board, 0),
        "across": side_of(board, 1) if board.attends else None,
        "shape": list(board.values.shape),
        "scales": [[scale.low, scale.high, scale.root] for scale in board.scales],
        "cells": [{"tensor": one.name, "slice": ",".join(map(str, one.index))} for one in board.sources],
        "statistics": {name: values.ravel().tolist() for name, values in board.statistics.items()},
    }


def side_of(board: Board, axis: int) -> str:
    """Whose tokens stand along a side: those that are read, fed or written."""
    sides = {"cross": ("written", "read"), "alignment": ("written", "read"), "decoder": ("fed", "fed")}
    return sides.get(board.name, ("fed", "fed") if board.name.startswith("decoder") else ("read", "read"))[axis]


def python_of(trace: Trace) -> str:
    """The same trace in Python."""
    source = trace.loaded.source
    arguments = f"{trace.text!r}" if trace.pair is None else f"{trace.text!r}, {trace.pair!r}"
    if trace.loaded.tokenizer is None:
        inputs = f"inputs = {{'input_ids': torch.tensor([{trace.text!r}])}}"
    else:
        called = f"tok({arguments}, return_tensors='pt')"
        if trace.pair is None and reads_prompts(trace.loaded.model):
            called = f"{{'input_ids': torch.tensor(tok.encode_prompts([{arguments}]))}}"
        inputs = f"tok = gf.load_tokenizer({source!r})\ninputs = {called}"
    if "decoder_input_ids" in trace.reading.inputs:
        ids = trace.reading.inputs["decoder_input_ids"].tolist()
        inputs += f"\ninputs['decoder_input_ids'] = torch.tensor({ids})"
    return (
        "import torch\nimport glassformer as gf\n\n"
        f"model = gf.load({source!r})\n{inputs}\n"
        "with torch.inference_mode(), gf.record(model, '*') as seen:\n    outputs = model(**inputs)"
    )
