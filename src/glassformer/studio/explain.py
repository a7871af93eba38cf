"""Recomputed: every step of a trace judged, and one number of it explained, operand by operand."""

import re
from collections import Counter
from typing import Any

from fastapi import APIRouter
from torch import Tensor, nn

from glassformer.blocks.attention import MultiHeadAttention
from glassformer.inspect.explain import Explanation, explained
from glassformer.inspect.heads import attentions_of
from glassformer.inspect.recompute import (
    TOLERANCE,
    Recomputed,
    RecomputedRow,
    folded,
    kind,
    recompute,
    recompute_attention,
)
from glassformer.web.safe import SafeJSONResponse

from .app_state import Studio
from .traces import Trace

WORK = 2e9  # weights × tokens, and
WEIGHTS = 4e6  # numbers in all attention patterns, up to which a whole pass takes seconds and not minutes
WIDER = 4  # times as large as what was recorded: each value twice, in float64
NUMBERS = 4096  # shown of an operand


def router(studio: Studio) -> APIRouter:
    routes = APIRouter()

    @routes.get("/traces/{trace_id}/steps")
    def steps(trace_id: str, of: str | None = None, block: str | None = None) -> SafeJSONResponse:
        found, part = recomputed(studio, studio.traces[trace_id], block or of or "")
        rows = found.rows()
        shown = folded(rows) if of is None else [row for row in rows if kind(row.name) == of]
        if not shown:
            raise ValueError(f"no step is called {of!r}; ask for a name that …/steps lists")
        counts = Counter(kind(row.name) for row in rows)
        made = {step.name for step in found.walk.steps if step.formula.number is not None}
        judgements = [
            judged(row, counts[row.name] if of is None else 1) | {"numbers": row.name in made} for row in shown
        ]
        return SafeJSONResponse({"part": part, "tolerance": TOLERANCE, "rows": judgements, "unused": found.unused})

    @routes.get("/traces/{trace_id}/explain")
    def explain(trace_id: str, step: str, cell: str | None = None) -> SafeJSONResponse:
        found, part = recomputed(studio, studio.traces[trace_id], step)
        return SafeJSONResponse(as_json(explained(found, step, place(cell))) | {"part": part})

    return routes


def recomputed(studio: Studio, trace: Trace, step: str) -> tuple[Recomputed, str | None]:
    """The whole pass or, where that would take minutes, only the attention that a step is of; and its name then."""
    model, inputs = trace.loaded.model, trace.reading.inputs
    name = None if is_small(trace) else attention_of(model, step)
    kept: dict[str | None, Recomputed] = trace.kept.get("recomputed", {})
    if name not in kept:
        with studio.work() as deadline, trace.lock, trace.loaded.lock, deadline.watching(model, inside=True):
            kept = trace.kept.get("recomputed", {})  # another may have been quicker
            if name not in kept:
                parts = 1 if name is None else len(attentions_of(model))
                studio.traces.reserve(trace, WIDER * trace.sizes["recorded"] // parts, "the recomputed pass")
                again: dict[str, Any] = {"on_progress": deadline.check}
                found = (
                    recompute(model, inputs, **again)
                    if name is None
                    else recompute_attention(model, inputs, name, **again)
                )
                kept = trace.keep("recomputed", {name: found})  # one alone: of a long text it is a hundred megabytes
    return kept[name], name


def is_small(trace: Trace) -> bool:
    """Whether the whole pass can be recomputed while someone waits; a network without attention always is."""
    model, tokens = trace.loaded.model, max(len(listed.ids) for listed in trace.reading.tokens.values())
    heads = sum(part.heads for part in model.modules() if isinstance(part, MultiHeadAttention))
    weights = sum(weight.numel() for weight in model.parameters())
    return heads == 0 or (weights * tokens <= WORK and heads * tokens**2 <= WEIGHTS)


def attention_of(model: nn.Module, step: str) -> str:
    """The attention that a step belongs to; without a step, the first one."""
    names = list(attentions_of(model))
    found = next((name for name in names if f"{step}.".startswith(f"{name}.")), None)
    if step and found is None:
        raise ValueError(
            f"this text is too long to recompute {step!r} from the ids on; ask for a step of an attention, e.g. "
            f"{names[0]}.head.0, or for a shorter text"
        )
    return found or names[0]


def place(cell: str | None) -> tuple[int, int] | None:
    if cell is None:
        return None
    found = re.fullmatch(r"(\d+),(\d+)", cell)
    if found is None:
        raise ValueError(f"cell is two numbers, a row and a column, e.g. 4,2, not {cell!r}")
    return int(found[1]), int(found[2])


def judged(row: RecomputedRow, count: int) -> dict[str, Any]:
    """One line of the table; `count` steps are folded into it."""
    return {
        "name": row.name,
        "formula": row.formula,
        "shape": list(row.shape),
        "error": row.error,
        "own_error": row.own_error,
        "verdict": row.verdict,
        "count": count,
    }


def as_json(found: Explanation) -> dict[str, Any]:
    return {
        "step": found.step,
        "formula": found.formula,
        "latex": found.latex,
        "operands": [
            {"symbol": symbol, "name": found.names.get(symbol), **values(value)}
            for symbol, value in found.operands.items()
        ],
        "value": values(found.value),
        "seen": None if found.seen is None else values(found.seen),
        "error": found.error,
    }


def values(value: Tensor) -> dict[str, Any]:
    """The numbers of a tensor in reading order, or the first of very many."""
    return {"shape": list(value.shape), "values": value.flatten()[:NUMBERS].tolist()}
