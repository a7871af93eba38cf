"""The flow of a trace: the model's graph laid out with what is open, small pictures of its values, and its source.

T tokens, S tokens looked at, H heads.
"""

from base64 import b64encode
from collections.abc import Collection
from dataclasses import asdict, dataclass, field, replace
from math import ceil
from typing import Any

import numpy as np
from fastapi import APIRouter, Response
from torch import Tensor

from glassformer.blocks.recurrent import Recurrent
from glassformer.inspect.flow import FlowEdge, FlowGraph, FlowNode, flow_graph
from glassformer.inspect.flow_tour import VECTORS, TourStop, tour
from glassformer.jobs.flow import first_layers, flow_layout, flow_svg, opened, shape_text, states
from glassformer.models.contract import as_model
from glassformer.view.flow_cells import Steps, cells, state_arrows
from glassformer.view.flow_layout import PlacedBox, Wire
from glassformer.web.safe import SafeJSONResponse

from .answers import TraceAnswers
from .app_state import Missing, Studio
from .tensors import array, found, furthest, scale_of
from .traces import Trace

ROWS, COLUMNS = 64, 48  # cells of a small picture at most
ROW, LEAST, MOST = 20.0, 84.0, 240.0  # pixels of a token's row, and of all of them
SAID = 6  # choices of an answer


@dataclass(frozen=True)
class FlowPicture:
    """A value as rows of colour steps, pooled."""

    rows: int
    columns: int
    scale: tuple[float, float, bool]
    steps: bytes


@dataclass(frozen=True)
class TraceFlow:
    """The graph of a trace, and the pictures of it that have been asked for."""

    graph: FlowGraph
    between: set[str]  # values that no module gives
    tour: list[TourStop]
    pictures: dict[str, FlowPicture] = field(default_factory=dict)

    def tensor(self, name: str) -> str | None:
        """What a node's value is called among the tensors of the trace."""
        value = self.graph.nodes[name].gives or name
        return f"flow.{value}" if value in self.between else value if self.graph.nodes[value].recorded else None


def router(studio: Studio) -> APIRouter:
    routes = APIRouter()

    @routes.get("/traces/{trace_id}/flow")
    def flow(trace_id: str, expand: str | None = None) -> SafeJSONResponse:
        trace = studio.traces[trace_id]
        made = flow_of(studio, trace)
        return SafeJSONResponse(drawn(trace, made, chosen(made, expand)))

    @routes.get("/traces/{trace_id}/flow/svg")
    def svg(trace_id: str, expand: str | None = None) -> Response:
        made = flow_of(studio, studio.traces[trace_id])
        return Response(flow_svg(made.graph, expand=chosen(made, expand)), media_type="image/svg+xml")

    @routes.get("/traces/{trace_id}/flow/nodes/{name:path}")
    def node(trace_id: str, name: str) -> SafeJSONResponse:
        nodes = flow_of(studio, studio.traces[trace_id]).graph.nodes
        if name not in nodes:
            raise Missing(f"there is no {name!r} in this flow; GET …/flow names what there is")
        return SafeJSONResponse(asdict(nodes[name]))

    return routes


def flow_of(studio: Studio, trace: Trace) -> TraceFlow:
    """Made at the first asking."""
    if "flow" not in trace.kept:
        model = trace.loaded.model
        with studio.work() as deadline, trace.lock, trace.loaded.lock, deadline.watching(model, inside=True):
            studio.traces.reserve(trace, trace.sizes["recorded"], "the flow")
            trace.once("flow", lambda: made(trace))
    flow: TraceFlow = trace.kept["flow"]
    return flow


def made(trace: Trace) -> TraceFlow:
    graph = flow_graph(trace.loaded.model, trace.reading.inputs, trace.seen, trace.outputs)
    own = {name: value for name, value in graph.values.items() if name not in trace.seen}
    trace.keep("flow_values", own)
    whole, loaded = _with_ends(graph, trace), trace.loaded
    stops = tour(whole, loaded.model, reads_text=loaded.tokenizer is not None)
    return TraceFlow(replace(whole, values={}), set(own), stops)


def pictured(trace: Trace, flow: TraceFlow, name: str) -> dict[str, Any] | None:
    """A small picture of a node's value."""
    tensor = flow.tensor(name)
    if tensor is None:
        return None
    if name not in flow.pictures:
        flow.pictures[name] = picture(flow.graph.nodes[name], found(trace, tensor))
    return _sent(flow.pictures[name])


def picture(node: FlowNode, value: Tensor) -> FlowPicture:
    """Tokens down, numbers across; of the heads of an attention the strongest."""
    whole = array(value[0].float() if value.dim() > 1 else value.float())
    if node.token_dim == 2:  # (H, T, ·)
        whole = furthest(whole.transpose(1, 2, 0).reshape(whole.shape[1], -1), 1, whole.shape[0])
    return _picture(whole.reshape(whole.shape[0], -1) if node.token_dim == 1 else np.atleast_2d(whole))


def _picture(values: np.ndarray[Any, Any]) -> FlowPicture:
    values = values.reshape(values.shape[0], -1)
    pooled = furthest(values, ceil(values.shape[0] / ROWS), ceil(values.shape[1] / COLUMNS))
    scale = scale_of(None, pooled)
    rows, columns = pooled.shape
    return FlowPicture(rows, columns, (scale.low, scale.high, scale.root), scale.steps(pooled).tobytes())


def _with_ends(graph: FlowGraph, trace: Trace) -> FlowGraph:
    """Before the ids the text that they stand for, and behind the outputs what they say."""
    nodes, edges = dict[str, FlowNode](), list(graph.edges)
    for name, node in graph.nodes.items():
        if name.endswith("input_ids"):
            text = name.replace("input_ids", "text")
            nodes[text] = replace(node, name=text, kind="text", shape=(), token_dim=None, source=None)
            edges.append(FlowEdge(text, name, node.shape))
        nodes[name] = node
    last = [node for node in graph.nodes.values() if node.name.endswith("logits") and node.parent is None]
    if last and as_model(trace.loaded.model).head_name not in VECTORS:
        rows = last[-1].token_dim if any(one["row"] is not None for one in said(trace)) else None
        answer = replace(last[-1], name="answer", kind="answer", token_dim=rows)
        nodes["answer"] = replace(answer, step=None, formula="", source=None)
        edges += [FlowEdge(node.name, "answer", node.shape) for node in last]
    return replace(graph, nodes=nodes, edges=edges)


def chosen(flow: TraceFlow, expand: str | None) -> set[str]:
    """The modules that are open: those that were asked for, or at first the outermost."""
    if expand is None:
        return opened(flow.graph)
    if expand == "layer":
        return opened(flow.graph) | first_layers(flow.graph)
    return {name for name in expand.split(",") if name in flow.graph.groups}


def drawn(trace: Trace, flow: TraceFlow, expand: Collection[str]) -> dict[str, Any]:
    """Boxes, wires and pictures of what is seen."""
    length = max(len(side.ids) for side in trace.reading.tokens.values())
    layout = flow_layout(flow.graph, expand, rows=min(MOST, max(LEAST, ROW * length)))
    boxes = {placed.box.name: placed.box for placed in layout.boxes if not placed.is_frame}
    unrolled = {name: box.steps for name, box in boxes.items() if box.steps}
    shown = {*boxes, *(state for name in unrolled for state in states(flow.graph, name).values())}
    return {
        "tour": [asdict(stop) for stop in flow.tour],
        "causal": causal(trace),
        "width": layout.width,
        "height": layout.height,
        "rows": layout.rows,
        "open": sorted(expand),
        "boxes": [_box(flow, placed) for placed in layout.boxes],
        "wires": [_wire(flow.graph, wire) for wire in layout.wires],
        "cells": {name: _cells(flow.graph, name, steps, layout.rows) for name, steps in unrolled.items()},
        "pictures": {name: pictured(trace, flow, name) for name in shown},
        "looks": _looks(trace, flow, boxes),
        "said": said(trace),
    }


def _box(flow: TraceFlow, placed: PlacedBox) -> dict[str, Any]:
    node, box = flow.graph.nodes[placed.box.name], placed.box
    return {
        "name": box.name,
        "parent": box.parent,
        "title": box.title,
        "caption": box.caption,
        "formula": node.formula,
        "kind": box.kind,
        "x": placed.x,
        "y": placed.y,
        "width": placed.width,
        "height": placed.height,
        "middle": placed.middle,
        "frame": placed.is_frame,
        "loops": placed.loops,
        "leaf": node.name not in flow.graph.groups,
        "shape": list(node.shape),
        "shape_text": shape_text(node.shape) if node.shape else "",
        "side": node.side,
        "token_dim": node.token_dim,
        "tensor": flow.tensor(node.name),
    }


def _cells(graph: FlowGraph, layer: str, steps: Steps, rows: float) -> dict[str, Any]:
    """The cells of a recurrent layer, the states that go from one to the next, and the values these are."""
    return {
        "backward": steps.backward,
        "values": list(states(graph, layer).values()),
        "cells": [asdict(cell) for cell in cells(steps, rows)],
        "arrows": [asdict(arrow) for arrow in state_arrows(steps, rows)],
    }


def _wire(graph: FlowGraph, wire: Wire) -> dict[str, Any]:
    node = graph.nodes[wire.value]
    straight = wire.kind == "ribbon" and node.token_dim is not None
    ends = [{"to": end, "path": path} for end, path in wire.paths]
    where = {"x": wire.x, "y": wire.y, "span": list(wire.span), "side": node.side}
    return {"kind": wire.kind, "rows": straight, "value": wire.value, "ends": ends, "text": wire.text, **where}


def _sent(one: FlowPicture) -> dict[str, Any]:
    steps = b64encode(one.steps).decode()
    return {"rows": one.rows, "columns": one.columns, "scale": list(one.scale), "steps": steps}


def _looks(trace: Trace, flow: TraceFlow, shown: Collection[str]) -> dict[str, Any]:
    """For every closed box the attention inside it by which tokens look at each other, the mean of its heads."""
    looks: dict[str, Any] = {}
    for name, node in flow.graph.nodes.items():
        if not name.endswith(".attention.pattern") or node.token_dim != 2 or max(node.shape[-2:]) > ROWS:
            continue
        box = name
        while box not in shown and "." in box:
            box = box.rpartition(".")[0]
        if box in shown and box != name and box not in looks:
            looks[box] = _sent(_picture(array(trace.seen[name][0].float().mean(0))))
    return looks


def said(trace: Trace) -> list[dict[str, Any]]:
    """What the model answers: at every token the likeliest, or of a whole text the likeliest few."""
    if as_model(trace.loaded.model).head_name in VECTORS:
        return []
    answers = TraceAnswers(trace)
    shares = answers.shares(answers.scores)
    if len(answers.places) == 1 or answers.choices == "tokens":
        return [
            {"row": None, "of": place, "text": answers.name(int(number)), "share": float(share)}
            for place, row in zip(answers.places, shares, strict=True)
            for share, number in zip(*row.topk(min(SAID // len(answers.places), len(row))), strict=True)
        ]
    best, numbers = shares.max(-1)
    return [
        {"row": row, "of": "", "text": answers.name(int(number)), "share": float(share)}
        for row, (share, number) in enumerate(zip(best, numbers, strict=True))
    ]


def causal(trace: Trace) -> list[str]:
    """The sides whose tokens know nothing of later ones."""
    model = as_model(trace.loaded.model)
    both = model.config.is_encoder_decoder
    reader = model.get_submodule("encoder") if both else model
    networks = [part for part in reader.modules() if isinstance(part, Recurrent)]
    forwards = bool(networks) and all(part.directions == 1 for part in networks)
    return ["read"] * (forwards or (model.is_causal and not both)) + ["fed"] * both
