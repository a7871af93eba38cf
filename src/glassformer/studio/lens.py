"""The lens of a trace: what the model would say after each layer, or after each token.

T places, V choices, R rows (layers).
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from fastapi import APIRouter, Response
from torch import Tensor

from glassformer.blocks.transformer import Layer
from glassformer.inspect.lens import Layers, decoder_layers, head_layers, logit_layers, prefix_lens
from glassformer.models.contract import can_generate
from glassformer.web.safe import SafeJSONResponse

from .answers import TraceAnswers
from .app_state import Studio
from .limits import Deadline
from .traces import Trace

PYTHON = {  # the same in Python, for a model and its inputs
    "logit": "lens = gf.logit_lens(model, inputs)\nshares, words = lens.top({top})",
    "decoder": "lens = gf.decoder_lens(model, inputs)\nshares, words = lens.top({top})",
    "head": "from glassformer.inspect.lens import head_layers\n\nlens = head_layers(model, inputs).together()\n"
    "shares, classes = lens.top({top})",
    "prefix": "from glassformer.inspect.lens import prefix_lens\n\nshares = prefix_lens(model, inputs).softmax(-1)",
    "time": "shares, words = outputs.logits.softmax(-1).topk({top})",
}
MOST = 128  # beginnings of a text that are judged, since each is a run of its own
PLACES = 16  # worked out together
TOGETHER = 1 << 16  # tokens of such beginnings that are read together
CELL = 32  # bytes of a number and its id as they are sent
Rows = list[tuple[str, Callable[[], Tensor]]]  # each row's name, and what gives its (T, V) scores


def router(studio: Studio) -> APIRouter:
    routes = APIRouter()

    @routes.get("/traces/{trace_id}/lens")
    def lens(trace_id: str, top: int = 5) -> Response:
        if not 1 <= top <= 50:
            raise ValueError(f"top={top}: ask for 1 to 50 predictions")
        trace = studio.traces[trace_id]
        with studio.work() as deadline, trace.lock, trace.loaded.lock, deadline.watching(trace.loaded.model):
            kept: dict[int, bytes] = trace.kept.get("lens", {})
            if top not in kept:
                studio.traces.reserve(trace, size_of(trace, top), "the lens")
                made = SafeJSONResponse({"lenses": list(lenses(trace, top, deadline))})
                kept = trace.keep("lens", {top: bytes(made.body)})  # one alone, and a fifth of what lists would take
            return Response(kept[top], media_type="application/json")

    return routes


def size_of(trace: Trace, top: int) -> int:
    """About how many bytes a lens will hold: numbers for every token and every layer."""
    layers = 1 + sum(isinstance(part, Layer) for part in trace.loaded.model.modules())
    return CELL * layers * max(len(side.ids) for side in trace.reading.tokens.values()) * (top + 8)


def lenses(trace: Trace, top: int, deadline: Deadline) -> Iterator[dict[str, Any]]:
    """Every lens that suits the model: one, and of an encoder-decoder Transformer two."""
    answers, inputs = TraceAnswers(trace, deadline), trace.reading.inputs
    model = trace.loaded.model
    if not any(isinstance(part, Layer) for part in model.modules()):
        yield _over_time(answers, top)
    elif answers.model.config.is_encoder_decoder:
        yield _table(answers, "logit", _rows(logit_layers(model, inputs)), top)
        yield _table(answers, "decoder", _rows(decoder_layers(model, inputs)), top)
    elif answers.model.is_causal:
        yield _table(answers, "logit", _rows(logit_layers(model, inputs)), top)
    else:
        yield _table(answers, "head", _rows(head_layers(model, inputs)), top)


def _rows(layers: Layers) -> Rows:
    return [(name, partial(_scores, layers, name)) for name in layers.names]


def _scores(layers: Layers, name: str) -> Tensor:
    """(T, V) that the head makes of one layer."""
    return layers.logits_of(name)[0].float()


def _over_time(answers: TraceAnswers, top: int) -> dict[str, Any]:
    """One row: a classifier's answer to every beginning of the text, else what is said at every token."""
    if answers.side is not None:
        return _table(answers, "time", [("head", lambda: answers.scores)], top)
    texts = answers.trace.reading.tokens["read"].texts
    lengths = sorted({math.ceil(len(texts) * part / MOST) for part in range(1, MOST + 1)})
    rows = max(1, min(64, TOGETHER // len(texts)))
    found = prefix_lens(answers.trace.loaded.model, answers.trace.reading.inputs, lengths, rows=rows).float()  # (T, C)
    table = _table(answers, "prefix", [("head", lambda: found)], top, final=answers.scores.expand_as(found))
    places = [length - 1 for length in lengths]
    return table | {"side": "read", "columns": [texts[place] for place in places], "asked": list(range(len(found)))}


def _table(answers: TraceAnswers, kind: str, rows: Rows, top: int, final: Tensor | None = None) -> dict[str, Any]:
    """The likeliest choices in every cell, and how far each cell is from the model's last word."""
    final = answers.scores if final is None else final
    following = _next(answers)
    sheet = _Sheet(answers, final.argmax(-1), final.log_softmax(-1), following, top)
    cells = [sheet.row(say()) for _, say in rows]
    named = {number for cell in cells for place in cell["ids"] for number in place} | set(sheet.last.tolist())
    named |= {number for number in following or () if number is not None}
    return {
        "kind": kind,
        "choices": answers.choices,
        "count": final.shape[-1],
        "rows": [name for name, _ in rows],
        "side": answers.side,
        "columns": answers.places,
        "asked": answers.answer_places,
        "names": {str(number): answers.name(number) for number in sorted(named)},
        "answers": sheet.last.tolist(),
        "next": following,
        "cells": cells,
        "python": PYTHON[kind].format(top=min(top, final.shape[-1])),
    }


def _next(answers: TraceAnswers) -> list[int | None] | None:
    """The token that does come next, where a model guesses it; the last place has none."""
    if answers.choices != "words":
        return None
    tokens = answers.trace.reading.tokens
    if "written" in tokens:
        return list(tokens["written"].ids)
    return [*tokens["read"].ids[1:], None] if can_generate(answers.model) else None


@dataclass(frozen=True)
class _Sheet:
    """What every row is compared with."""

    answers: TraceAnswers
    last: Tensor  # (T,): the model's own choice
    final: Tensor  # (T, V): the logarithms of its shares
    following: list[int | None] | None
    top: int

    def row(self, logits: Tensor) -> dict[str, list[Any]]:
        """One row of the table, of scores (T, V): lists of T. A few places at a time stay in the processor's cache."""
        parts = [self._part(logits[start : start + PLACES], start) for start in range(0, len(logits), PLACES)]
        return {name: [value for part in parts for value in part[name]] for name in parts[0]}

    def _part(self, logits: Tensor, start: int) -> dict[str, list[Any]]:
        self.answers.deadline.check()
        here = slice(start, start + len(logits))
        shares = self.answers.shares(logits)
        best = shares.topk(min(self.top, shares.shape[-1]), dim=-1)
        found: dict[str, list[Any]] = {"ids": best.indices.tolist(), "shares": best.values.tolist()}
        found["share"], found["rank"] = _standing(logits, shares, self.last[here])
        if self.following is not None:
            following = self.following[here]
            share, rank = _standing(logits, shares, torch.tensor([number or 0 for number in following]))
            found["next_share"], found["next_rank"] = _known(following, share), _known(following, rank)
        if not self.answers.exclusive:
            return found | {"entropy": [None] * len(logits), "kl": [None] * len(logits)}
        logs, final = logits.log_softmax(-1), self.final[here]
        kl = (final.exp() * (final - logs)).sum(-1).clamp(min=0.0)
        return found | {"entropy": (-torch.linalg.vecdot(shares, logs)).tolist(), "kl": kl.tolist()}


def _standing(logits: Tensor, shares: Tensor, wanted: Tensor) -> tuple[list[float], list[int]]:
    """The probability and the rank of one choice (T,) at every place; 0 is the likeliest."""
    rank = (logits > logits.gather(-1, wanted[:, None])).sum(-1, dtype=torch.int32)  # int64 takes thrice as long
    return shares.gather(-1, wanted[:, None])[:, 0].tolist(), rank.tolist()


def _known(following: list[int | None], values: list[Any]) -> list[Any]:
    """None where nothing follows."""
    return [None if number is None else value for number, value in zip(following, values, strict=True)]
