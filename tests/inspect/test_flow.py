"""The flow of every registered architecture: its nodes are what is recorded, its edges what is computed from what."""

from itertools import combinations
from xml.etree import ElementTree

import pytest
import torch
from torch.testing import assert_close

import glassformer as gf
from families import CASES
from glassformer.blocks.point import Point, StepPoint
from glassformer.inspect.flow import flow_graph
from glassformer.inspect.flow_source import HOME
from glassformer.inspect.record import modules_of
from glassformer.jobs.flow import flow_layout, opened
from glassformer.view.flow_cells import MOST, cells, state_arrows
from inspect_cases import hooked, inputs_of, small

SVG_TEXT = "{http://www.w3.org/2000/svg}text"
PICKED = [
    ("bert", "text-classification", {}),
    ("gpt2", "text-generation", {}),
    ("glassformer-rnn", "text-classification", {"kind": "lstm", "bidirectional": True, "num_layers": 2}),
    ("glassformer-seq2seq", "text2text-generation", {"attention": "additive", "kind": "gru"}),
    ("glassformer-seq2seq", "text2text-generation", {"attention": "general", "kind": "lstm"}),
    ("glassformer-transformer", "text2text-generation", {}),
    ("glassformer-cnn", "text-classification", {}),
]


def recorded(model, inputs):
    with torch.no_grad(), gf.record(model, "*") as seen:
        model(**inputs)
    return seen


@pytest.mark.parametrize(("model_type", "head"), CASES)
def test_every_architecture_has_a_flow_of_what_is_recorded(model_type, head):
    model = small(model_type, head).eval()
    inputs = inputs_of(model, lengths=(5, 3))
    seen = recorded(model, inputs)
    graph = flow_graph(model, inputs, seen)
    parts = modules_of(model)
    assert {name for name in seen if isinstance(parts[name], Point)} <= set(graph.values)
    assert set(model(**inputs)._asdict()) <= set(graph.values)
    for name, node in graph.nodes.items():
        assert node.parent is None or node.parent in graph.nodes
        if node.recorded:
            assert node.shape == tuple(seen[name].shape)
        if name in graph.values:
            assert node.shape == tuple(graph.values[name].shape)
            assert node.step is None or node.formula
        assert node.source is not None
        text = (HOME / node.source.file).read_text(encoding="utf-8").splitlines()
        assert text[node.source.first - 1].strip() == node.source.text.splitlines()[0].strip()
    for edge in graph.edges:
        assert edge.shape == graph.nodes[edge.start].shape
        assert edge.end in graph.values
    drawing = ElementTree.fromstring(gf.flow_svg(graph))
    drawn = {text.text for text in drawing.iter(SVG_TEXT)}
    assert drawn >= {name for name, node in graph.nodes.items() if node.parent is None}
    loops = any(isinstance(part, StepPoint) for part in parts.values())
    assert any(edge.recurrent for edge in graph.edges) == loops
    assert not hooked(model)


def after(graph, name):
    """What is made, in one or more steps, from a value."""
    found, left = set(), [name]
    while left:
        one = left.pop()
        if one not in found:
            found.add(one)
            left += [edge.end for edge in graph.edges if edge.start == one]
    return found


@pytest.mark.parametrize(("model_type", "head", "more"), PICKED)
def test_all_that_is_said_follows_from_the_tokens(model_type, head, more):
    model = small(model_type, head, **more).eval()
    graph = flow_graph(model, inputs_of(model, lengths=(5,)))
    begins = [name for name in graph.values if name.endswith("input_ids")]
    assert len(begins) == 1 + model.config.is_encoder_decoder
    for name in begins:
        assert "logits" in after(graph, name)
    if model.config.is_encoder_decoder:
        across = {node.name for node in graph.leaves if node.side == "fed" and node.name in after(graph, begins[0])}
        assert any("attention" in name for name in across)
        assert not {node.name for node in graph.leaves if node.side == "read"} & after(graph, begins[1])


def test_the_residual_stream_goes_around_attention():
    model = small("gpt2", "text-generation").eval()
    graph = flow_graph(model, inputs_of(model, lengths=(5,)))
    into = {edge.start for edge in graph.edges if edge.end == "layers.0.attention_residual"}
    assert into == {"embeddings.sum", "layers.0.attention.output"}
    stream, added = (graph.values[name] for name in sorted(into))
    assert_close(graph.values["layers.0.attention_residual"], stream + added)


def test_the_rows_of_tokens_are_found_where_heads_are_as_many():
    model = small("bert", None, num_attention_heads=3, hidden_size=12).eval()
    graph = flow_graph(model, inputs_of(model, lengths=(3,)))
    found = {name.rpartition(".")[2]: node.token_dim for name, node in graph.nodes.items() if "0.attention." in name}
    assert found["pattern"] == found["scores"] == 2
    assert found["context"] == found["query"] == found["output"] == 1


@pytest.mark.parametrize("kind", ["additive", "general", "concat"])
def test_what_is_called_at_every_step_shows_all_steps(kind):
    model = small("glassformer-seq2seq", "text2text-generation", attention=kind, kind="gru").eval()
    graph = flow_graph(model, inputs_of(model, lengths=(5,)))
    for name in graph.groups:
        rows = {"read": 5, "fed": 4}[graph.nodes[name].side]
        assert graph.nodes[name].shape[1] == rows, name
        parts = [graph.nodes[one].shape for one in graph.values if one.startswith(f"{name}.")]
        assert graph.nodes[name].shape == parts[-1], name  # as the wires behind it say


def test_a_model_in_training_is_refused():
    model = small("bert", None).train()
    with pytest.raises(ValueError, match="call model.eval"):
        flow_graph(model, inputs_of(model))


@pytest.mark.parametrize(("model_type", "head", "more"), PICKED)
@pytest.mark.parametrize("everything", [False, True])
def test_a_layout_has_no_boxes_on_one_another(model_type, head, more, everything):
    model = small(model_type, head, **more).eval()
    graph = flow_graph(model, inputs_of(model, lengths=(5,)))
    layout = flow_layout(graph, graph.nodes if everything else opened(graph), rows=80)
    boxes = {placed.box.name: placed for placed in layout.boxes}
    if everything:
        assert set(boxes) == set(graph.nodes)
    for one, other in combinations(boxes.values(), 2):
        apart = one.x + one.width <= other.x or other.x + other.width <= one.x
        apart |= one.y + one.height <= other.y or other.y + other.height <= one.y
        inside = other.box.name.startswith(f"{one.box.name}.") or one.box.name.startswith(f"{other.box.name}.")
        assert apart or inside, (one, other)
    for placed in boxes.values():
        if placed.box.parent:
            around = boxes[placed.box.parent]
            assert around.x < placed.x
            assert placed.x + placed.width < around.x + around.width
            assert around.y < placed.y
            assert placed.y + placed.height < around.y + around.height
        assert placed.x >= 0
        assert placed.y >= 0
        assert placed.x + placed.width <= layout.width
        assert placed.y + placed.height <= layout.height


@pytest.mark.parametrize(("model_type", "head", "more"), PICKED[:6])
def test_the_figure_names_every_block_and_every_shape(model_type, head, more):
    model = small(model_type, head, **more).eval()
    graph = flow_graph(model, inputs_of(model, lengths=(5,)))
    groups = set(graph.nodes) - set(graph.values)
    drawing = ElementTree.fromstring(gf.flow_svg(graph, expand=groups))
    words = [text.text for text in drawing.iter(SVG_TEXT)]
    for node in graph.nodes.values():
        assert node.name.removeprefix(f"{node.parent}.") in words
    for edge in graph.edges:
        assert "×".join(map(str, edge.shape[1:])) in words
    with pytest.raises(ValueError, match="'nothing' has no parts"):
        gf.flow_svg(graph, expand=["nothing"])
    assert "layers.0" in gf.flow_svg(graph) or "layers" not in "".join(graph.nodes)


@pytest.mark.parametrize(("kind", "states"), [("rnn", "h"), ("gru", "h"), ("lstm", "hc")])
def test_a_recurrent_layer_is_unrolled_into_a_cell_at_every_token(kind, states):
    model = small("glassformer-rnn", "text-classification", kind=kind, bidirectional=True, num_layers=2).eval()
    graph = flow_graph(model, inputs_of(model, lengths=(5,)))
    layout = flow_layout(graph, opened(graph), rows=40)
    unrolled = {placed.box.name: placed for placed in layout.boxes if placed.box.steps}
    ways = ("left_to_right", "right_to_left")
    assert set(unrolled) == {f"recurrent.layers.{number}.{way}" for number in (0, 1) for way in ways}
    for name, placed in unrolled.items():
        steps, hidden = placed.box.steps, graph.values[f"{name}.hidden"]
        assert (steps.count, steps.backward) == (5, name.endswith("right_to_left"))
        assert steps.states == tuple((one, str(hidden.shape[-1])) for one in states)
        column, high = cells(steps, layout.rows), layout.rows / 5
        assert all(one.y >= row * high and one.y + one.height <= (row + 1) * high for row, one in enumerate(column))
        arrows = state_arrows(steps, layout.rows)
        assert len(arrows) == 6 * len(states)
        assert max(arrow.x for arrow in arrows) < placed.width
        order = column[::-1] if steps.backward else column
        edge = [one.y + one.height * steps.backward for one in order]  # where a state enters a cell
        for number, arrow in enumerate(arrows):
            if number % 6 < 5:
                assert arrow.end == pytest.approx(edge[number % 6])
            assert (arrow.start > arrow.end) == steps.backward
            assert not any(one.y < (arrow.start + arrow.end) / 2 < one.y + one.height for one in column)
    drawn = list(ElementTree.fromstring(gf.flow_svg(graph, expand=["recurrent"])).iter(SVG_TEXT))
    words, numbers = ([text.text for text in drawn if text.get("font-size") == size] for size in ("9", "10"))
    width = graph.values["recurrent.layers.0.left_to_right.hidden"].shape[-1]
    for one in states:
        assert (words.count(one), words.count(f"{one} {width}")) == (4 * 3, 4)
    assert [numbers.count(str(number)) for number in range(1, 5 + 1)] == [4] * 5


def test_a_long_text_is_not_unrolled_and_an_open_layer_neither():
    model = small("glassformer-rnn", "text-classification", kind="gru", num_layers=2).eval()
    for length, unrolled in ((MOST, True), (MOST + 1, False)):
        graph = flow_graph(model, inputs_of(model, lengths=(length,)))
        layout = flow_layout(graph, opened(graph), rows=80)
        assert any(placed.box.steps for placed in layout.boxes) == unrolled
        assert (layout.rows > 80) == unrolled
        assert any(placed.loops for placed in layout.boxes)
    layers = {name for name, node in graph.nodes.items() if node.kind == "recurrent"}
    assert flow_layout(graph, opened(graph) | layers, rows=80).rows == 80
