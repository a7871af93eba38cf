"""The lens of a trace: what the model would say after each layer, or after each token.

T places, V choices, R rows (layers).
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from fastapi import APIRouter
from torch import Tensor

from glassformer.inspect.laws import is_encoder_decoder
from glassformer.inspect.lens import Layers, decoder_layers, head_layers, logit_layers, prefix_lens
from glassformer.inspect.record import modules_of

from .answers import Answers, divergence, entropy
from .desk import Studio
from .traces import Trace

PYTHON = {  # the same in Python, for a model and its inputs
    "logit": "lens = gf.logit_lens(model, inputs)\nshares, words = lens.top({top})",
    "decoder": "lens = gf.decoder_lens(model, inputs)\nshares, words = lens.top({top})",
    "head": "from glassformer.inspect.lens import head_layers\n\nlens = head_layers(model, inputs).together()\n"
    "shares, classes = lens.top({top})",
    "prefix": "from glassformer.inspect.lens import prefix_lens\n\nshares = prefix_lens(model, inputs).softmax(-1)",
    "time": "shares, words = outputs.logits.softmax(-1).topk({top})",
}
Rows = list[tuple[str, Callable[[], Tensor]]]  # each row's name, and what gives its (T, V) scores


def router(studio: Studio) -> APIRouter:
    routes = APIRouter()

    @routes.get("/traces/{trace_id}/lens")
    def lens(trace_id: str, top: int = 5) -> dict[str, Any]:
        if not 1 <= top <= 50:
            raise ValueError(f"top={top}: ask for 1 to 50 predictions")
        trace = studio.traces[trace_id]
        with studio.work(), trace.loaded.lock:
            return trace.once(f"lens {top}", lambda: {"lenses": list(lenses(trace, top))})

    return routes


def lenses(trace: Trace, top: int) -> Iterator[dict[str, Any]]:
    """Every lens that suits the model: one, and of an encoder-decoder Transformer two."""
    answers, model, inputs = Answers(trace), trace.loaded.model, trace.reading.inputs
    names = modules_of(model)
    if "recurrent" in names or "encoder.recurrent" in names:
        yield _over_time(answers, top)
    elif is_encoder_decoder(model):
        yield _table(answers, "logit", _rows(logit_layers(model, inputs)), top)
        yield _table(answers, "decoder", _rows(decoder_layers(model, inputs)), top)
    elif hasattr(model, "step"):
        yield _table(answers, "logit", _rows(logit_layers(model, inputs)), top)
    else:
        yield _table(answers, "head", _rows(head_layers(model, inputs)), top)


def _rows(layers: Layers) -> Rows:
    return [(name, lambda name=name: layers.says(name)[0].float()) for name in layers.names]  # type: ignore[misc]


def _over_time(answers: Answers, top: int) -> dict[str, Any]:
    """One row: a classifier's answer to every beginning of the text, else what is said at every token."""
    if answers.side is not None:
        return _table(answers, "time", [("head", lambda: answers.scores)], top)
    found = prefix_lens(answers.model, answers.trace.reading.inputs).float()  # (T, C)
    return _table(answers, "prefix", [("head", lambda: found)], top, final=answers.scores.expand_as(found))


def _table(answers: Answers, kind: str, rows: Rows, top: int, final: Tensor | None = None) -> dict[str, Any]:
    """The likeliest choices in every cell, and how far each cell is from the model's last word."""
    final = answers.scores if final is None else final
    best = final.argmax(-1)  # (T,)
    following = _next(answers, kind)
    cells = [_row(answers, say(), final, best, following, top) for _, say in rows]
    named = {number for cell in cells for place in cell["ids"] for number in place} | set(best.tolist())
    named |= {number for number in following or () if number is not None}
    tokens = answers.trace.reading.tokens
    side = "read" if kind == "prefix" else answers.side
    return {
        "kind": kind,
        "choices": answers.choices,
        "count": final.shape[-1],
        "rows": [name for name, _ in rows],
        "side": side,
        "columns": answers.places if side is None else list(tokens[side].texts),
        "asked": list(range(len(final))) if kind == "prefix" else answers.asked,
        "names": {str(number): answers.name(number) for number in sorted(named)},
        "answers": best.tolist(),
        "next": following,
        "cells": cells,
        "python": PYTHON[kind].format(top=min(top, final.shape[-1])),
    }


def _next(answers: Answers, kind: str) -> list[int | None] | None:
    """The token that does come next, where a model guesses it; the last place has none."""
    if answers.choices != "words" or kind == "prefix" or answers.side is None:
        return None
    tokens = answers.trace.reading.tokens
    if "written" in tokens:
        return list(tokens["written"].ids)
    return [*tokens["read"].ids[1:], None] if hasattr(answers.model, "step") else None


def _row(
    answers: Answers, said: Tensor, final: Tensor, last: Tensor, following: list[int | None] | None, top: int
) -> dict[str, Any]:
    """One row: lists of T, or T lists of `top`."""
    shares = answers.shares(said)
    best = shares.topk(min(top, shares.shape[-1]), dim=-1)
    nothing = [None] * len(said)
    share, rank = _standing(said, shares, last)
    found: dict[str, Any] = {"share": share, "rank": rank}
    if following is not None:
        known = torch.tensor([0 if number is None else number for number in following])
        share, rank = _standing(said, shares, known)
        found |= {"next_share": _where(following, share), "next_rank": _where(following, rank)}
    return found | {
        "ids": best.indices.tolist(),
        "shares": best.values.tolist(),
        "entropy": _bits(entropy, said) if answers.exclusive else nothing,
        "kl": _bits(divergence, final, said) if answers.exclusive else nothing,
    }


def _standing(said: Tensor, shares: Tensor, wanted: Tensor) -> tuple[list[float], list[int]]:
    """The probability and the rank of one choice (T,) at every place; 0 is the likeliest."""
    rank = (said > said.gather(-1, wanted[:, None])).sum(-1)
    return shares.gather(-1, wanted[:, None])[:, 0].tolist(), rank.tolist()


def _where(known: list[int | None], values: list[Any]) -> list[Any]:
    return [None if one is None else value for one, value in zip(known, values, strict=True)]


def _bits(measure: Callable[..., Tensor], *logits: Tensor, rows: int = 64) -> list[float]:
    """A measure of some rows at a time: in float64 a large vocabulary takes much room."""
    parts = zip(*(one.split(rows) for one in logits), strict=True)
    return torch.cat([measure(*part) for part in parts]).tolist()  # type: ignore[no-any-return]
