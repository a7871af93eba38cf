"""gf.flow: a text's way through a model as a graph, and that graph as a figure."""

from collections.abc import Collection, Sequence

import torch
from torch import nn

from glassformer.inspect.flow import FlowGraph, FlowNode, flow_graph
from glassformer.text.tokenizer import Tokenizer
from glassformer.view.flow import flow_drawing
from glassformer.view.flow_cells import MOST, Steps
from glassformer.view.flow_layout import FlowArrow, FlowBox, FlowLayout, arranged

from .inspect import resting
from .reading import reading

FIGURE = 40.0  # pixels of a box's middle where there is no picture in it
STATES = {"h": "hidden", "c": "cell"}  # as the formulas call them
TOKENS, SQUARE, ANSWER = 92.0, 96.0, 132.0  # pixels: a column of tokens, weights between tokens, what is said


def flow(
    model: nn.Module,
    tokenizer: Tokenizer | None,
    text: str | Sequence[int],
    pair: str | None = None,
    *,
    target: str | Sequence[int] | None = None,
) -> FlowGraph:
    """Run the model on one text, or on a pair: every value with its shape, its formula and what it is made from.

    Without a tokenizer, texts are lists of ids. An encoder-decoder writes `target`, or else what it wants to itself.
    """
    with resting(model), torch.inference_mode():
        return flow_graph(model, reading(model, tokenizer, text, pair, target=target).inputs)


def flow_svg(graph: FlowGraph, *, expand: Collection[str] | None = None) -> str:
    """A figure of the architecture. `expand` names the modules whose parts are drawn; by default the first layer.

    In the figure stand the names that the code has, the shape on every wire, and dashed what goes from step to step.
    """
    known = graph.groups
    chosen = {*opened(graph), *first_layers(graph)} if expand is None else set(expand)
    if unknown := sorted(chosen - known):
        raise ValueError(f"{unknown[0]!r} has no parts to be drawn; those that have: {', '.join(sorted(known))}")
    return flow_drawing(flow_layout(graph, chosen, rows=FIGURE), graph.model_type)


def opened(graph: FlowGraph) -> set[str]:
    """What is open at first: the sides of an encoder-decoder, and stacks of recurrent layers."""
    return {node.name for node in graph.nodes.values() if node.kind in ("side", "stack")}


def first_layers(graph: FlowGraph) -> set[str]:
    """The first layer of each side."""
    found: dict[str | None, str] = {}
    for node in graph.nodes.values():
        if node.kind in ("layer", "recurrent") and node.name in graph.groups:
            found.setdefault(node.parent, node.name)
    return set(found.values())


def flow_layout(graph: FlowGraph, expand: Collection[str], *, rows: float) -> FlowLayout:
    """Where everything goes with these modules open; `rows` is the height of what is drawn in a box."""
    shown = visible(graph, expand)
    return arranged([_box(graph, node) for node in shown.values()], arrows(graph, shown), rows=rows)


def visible(graph: FlowGraph, expand: Collection[str]) -> dict[str, FlowNode]:
    """The nodes that are seen: those inside open modules alone."""
    found: dict[str, FlowNode] = {}
    for node in graph.nodes.values():
        if node.parent is None or (node.parent in expand and node.parent in found):
            found[node.name] = node
    return found


def arrows(graph: FlowGraph, shown: Collection[str]) -> list[FlowArrow]:
    """The edges between what is seen; those inside a closed module are left out, but for what goes on in time."""

    def seen(name: str) -> str:
        while name not in shown:
            name = graph.nodes[name].parent or ""
        return name

    found = (
        FlowArrow(seen(edge.start), seen(edge.end), edge.start, shape_text(edge.shape), edge.recurrent)
        for edge in graph.edges
    )
    return list(dict.fromkeys(one for one in found if one.start != one.end or one.recurrent))


def shape_text(shape: Sequence[int]) -> str:
    """A shape as it stands beside a wire, without the batch."""
    return "×".join(map(str, shape[1:] or shape))


def _box(graph: FlowGraph, node: FlowNode) -> FlowBox:
    title = node.name if node.parent is None else node.name.removeprefix(f"{node.parent}.")
    caption = node.formula or node.class_name or node.kind
    inner = [one for one in graph.nodes.values() if one.name == node.name or one.name.startswith(f"{node.name}.")]
    lane = int(any(one.side == "fed" for one in inner))
    width = {"weights": SQUARE, "text": TOKENS, "answer": ANSWER}.get(node.kind, 0.0)
    width = TOKENS if node.name.endswith("input_ids") else width
    caption = caption[:26] + "…" * (len(caption) > 26)
    return FlowBox(node.name, node.parent, title, caption, node.kind, lane, width, _steps(graph, node))


def _steps(graph: FlowGraph, node: FlowNode) -> Steps | None:
    """The steps of a recurrent layer, unless there is one token or more of them than can be drawn."""
    if node.kind != "recurrent" or not 1 < node.shape[1] <= MOST:
        return None
    listed = tuple((symbol, str(graph.nodes[name].shape[-1])) for symbol, name in states(graph, node.name).items())
    return Steps(node.shape[1], listed, node.name.endswith("right_to_left"))


def states(graph: FlowGraph, layer: str) -> dict[str, str]:
    """What goes from each step of a recurrent layer to its next: "h", and of an LSTM "c", with the node of each."""
    inner = [name for name in graph.nodes if name.startswith(f"{layer}.")]
    back = {edge.start for edge in graph.edges if edge.recurrent and edge.start in inner and edge.end in inner}
    found = {symbol: [name for name in inner if name in back and name.endswith(end)] for symbol, end in STATES.items()}
    return {symbol: names[-1] for symbol, names in found.items() if names}
