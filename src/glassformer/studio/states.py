"""The states of a trace in numbers: residual norms of a Transformer, saturation of a recurrent network."""

from typing import Any

from fastapi import APIRouter

from glassformer.inspect.norms import EDGE, ResidualNorms, needed, norms_of, residual_norms
from glassformer.inspect.saturation import Saturation, rules_of, saturation
from glassformer.web.safe import SafeJSONResponse

from .app_state import Studio
from .traces import Trace


def router(studio: Studio) -> APIRouter:
    routes = APIRouter()

    @routes.get("/traces/{trace_id}/norms")
    def norms(trace_id: str) -> SafeJSONResponse:
        trace = studio.traces[trace_id]
        with studio.work() as deadline, trace.loaded.lock, deadline.watching(trace.loaded.model):
            return SafeJSONResponse(trace.once("norms", lambda: states(trace)))

    return routes


def states(trace: Trace) -> dict[str, Any]:
    """Stacks of a Transformer, and gates of a recurrent network; a model has the ones or the others."""
    model = trace.loaded.model
    kept = {name: trace.seen[name] for name in rules_of(model) if name in trace.seen}
    whole = all(name in trace.seen for name in needed(model))  # else only some modules were captured
    stacks = norms_of(model, trace.seen) if whole else residual_norms(model, trace.reading.inputs)
    return {
        "edge": EDGE,
        "stacks": [_stack(one) for one in stacks],
        "gates": [_gate(one) for one in saturation(model, kept)],
    }


def _stack(norms: ResidualNorms) -> dict[str, Any]:
    return {
        "name": norms.stack,
        "side": "fed" if norms.stack.startswith("decoder") else "read",
        "rows": norms.names,
        "stream": norms.stream[:, 0].tolist(),
        "added": {part: value[:, 0].tolist() for part, value in norms.added.items()},
        "dead": norms.dead.tolist(),
        "focused": norms.focused.tolist(),
        "even": norms.even.tolist(),
        "python": f'seen["{norms.names[-1]}"][0].norm(dim=-1)',
    }


def _gate(found: Saturation) -> dict[str, Any]:
    return {
        "tensor": found.name,
        "rule": found.rule,
        "share": found.share,
        "low": found.low.tolist(),
        "high": found.high.tolist(),
    }
