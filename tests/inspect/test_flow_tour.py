"""The guided tour of every registered architecture says only what is so of that model, and in both languages."""

import re

import pytest
import torch

from families import CASES
from glassformer.blocks.disentangled import DisentangledScores
from glassformer.blocks.recurrent import LstmGates, RnnGates
from glassformer.blocks.relative import RelativeBias
from glassformer.blocks.rotary import Rotary
from glassformer.inspect.flow import flow_graph
from glassformer.inspect.flow_source import HOME
from glassformer.inspect.flow_tour import tour
from glassformer.models.contract import label_names
from inspect_cases import inputs_of, small

WORDS = HOME / "glassformer" / "studio" / "page" / "i18n" / "flow.js"
POSITIONS = ["learned", "sinusoidal", "relative", "rotary", None]
OTHERS = [
    *(("glassformer-decoder", "text-generation", {"positions": kind, "n_embd": 8, "n_head": 2}) for kind in POSITIONS),
    *(("albert", None, {"num_hidden_layers": 4, "num_hidden_groups": groups}) for groups in (1, 2, 4)),
    ("bert", "text-classification", {"num_labels": 3, "problem_type": "multi_label_classification"}),
    ("bert", "text-classification", {"num_labels": 3}),
    ("bert", "token-classification", {"num_labels": 3}),
    ("bert", None, {"num_hidden_layers": 1}),
    ("bert", None, {"num_hidden_layers": 3}),
    ("gpt2", "text-classification", {"num_labels": 3}),
    ("gpt2", "text-generation", {"scale_attn_weights": True}),
    ("gpt2", "text-generation", {"scale_attn_weights": False}),
    *(("glassformer-rnn", "text-classification", {"kind": kind, "num_labels": 3}) for kind in ("rnn", "gru", "lstm")),
    ("glassformer-rnn", "text-classification", {"kind": "lstm", "bidirectional": True}),
    ("glassformer-seq2seq", "text2text-generation", {"attention": None, "kind": "lstm"}),
    ("glassformer-seq2seq", "text2text-generation", {"attention": None, "kind": "gru", "bidirectional": True}),
    ("glassformer-seq2seq", "text2text-generation", {"attention": "additive", "kind": "gru"}),
    ("glassformer-cnn", "text-classification", {"num_labels": 3}),
    ("glassformer-bow", "text-classification", {"num_labels": 3}),
    ("deberta-v2", None, {"position_biased_input": True, "relative_attention": True, "pos_att_type": ["c2p"]}),
]
EVERY = [(kind, head, {}) for kind, head in CASES] + OTHERS


def case(model_type, head, more):
    torch.manual_seed(0)
    model = small(model_type, head, **more).eval()
    inputs = inputs_of(model, lengths=(5,))
    graph = flow_graph(model, inputs)
    return model, inputs, graph, tour(graph, model)


def texts():
    """The texts of the tour in both languages."""
    english, chinese = WORDS.read_text("utf-8").split("export const zh")
    return [dict(re.findall(r'^  tour_(\w+): "([^"]+)",$', half, re.MULTILINE)) for half in (english, chinese)]


def has(model, *kinds):
    return any(isinstance(part, kinds) for part in model.modules())


def first_layer(model):
    """The name of the layer that the tour looks into."""
    return "decoder.layers.0" if model.config.is_encoder_decoder else "layers.0"


@pytest.mark.parametrize(("model_type", "head", "more"), EVERY)
def test_a_tour_stops_at_boxes_that_are_there_and_has_words_for_them(model_type, head, more):
    _, _, graph, stops = case(model_type, head, more)
    assert 5 <= len(stops) <= 14  # and the text before them, which the studio adds
    assert len({stop.say for stop in stops}) == len(stops)
    for stop in stops:
        assert stop.at in graph.nodes
        assert set(stop.open) <= graph.groups
        assert {name for name in graph.groups if stop.at.startswith(f"{name}.")} <= set(stop.open)
        for words in texts():
            assert len(words[stop.say]) <= 160
            assert len(set(re.findall(r"\{\d\}", words[stop.say]))) == len(stop.values)


def test_every_text_of_the_tour_is_said_of_some_model():
    said = {stop.say for one in EVERY for stop in case(*one)[3]} | {"text", "ids"}
    english, chinese = texts()
    assert set(english) == set(chinese) == said


@pytest.mark.parametrize(("model_type", "head", "more"), EVERY)
def test_what_is_said_of_places_is_so(model_type, head, more):
    model, inputs, graph, stops = case(model_type, head, more)
    said = {stop.say for stop in stops}
    tables = getattr(model, "encoder", model).embeddings
    placed = getattr(tables, "position", None) is not None
    segmented = getattr(tables, "segment", None) is not None
    assert said & {"position", "positionSegment"} == (
        {"positionSegment" if segmented else "position"} if placed else set()
    )
    assert ("rotary" in said) == has(model, Rotary)
    assert bool(said & {"distance", "distanceToo"}) == has(model, RelativeBias, DisentangledScores)
    assert "distance" not in said or not placed
    if not model.config.is_encoder_decoder:
        assert ("scoresSum" in said) == has(model, RelativeBias, DisentangledScores)
    if placed:  # the same word at another place is another vector
        same = {**inputs, "input_ids": inputs["input_ids"].new_full((1, 5), 7)}
        values = flow_graph(model, same).values
        found = values[next(name for name in values if name.endswith("embeddings.sum"))][0]
        assert not torch.allclose(found[1], found[3])
    elif "words" in said or "filtersAll" in said:
        assert not any("position" in name for name in graph.nodes)


@pytest.mark.parametrize(("model_type", "head", "more"), EVERY)
def test_what_is_said_of_layers_is_so(model_type, head, more):
    model, _, graph, stops = case(model_type, head, more)
    said = {stop.say: stop for stop in stops}
    names = [name for name in graph.nodes if re.fullmatch(r"layers\.\d+", name)]
    weights = {id(next(model.get_submodule(name).parameters())) for name in names}
    told = [said[one] for one in ("layer", "layerOne", "layerShared", "layerGroups") if one in said]
    if model.config.is_encoder_decoder or not names:
        assert told == []
        return
    (stop,) = told
    counts = {"layer": (len(weights), len(weights)), "layerOne": (1, 1)}
    counts |= {"layerShared": (*stop.values, 1), "layerGroups": stop.values}
    assert (len(names), len(weights)) == counts[stop.say]


@pytest.mark.parametrize(("model_type", "head", "more"), EVERY)
def test_a_block_only_adds_where_that_is_said(model_type, head, more):
    model, _, graph, stops = case(model_type, head, more)
    said, layer = {stop.say for stop in stops}, first_layer(model)
    assert len(said & {"stream", "residualNorm"}) == (layer in graph.nodes)
    if layer not in graph.nodes:
        return
    block = "cross_attention" if model.config.is_encoder_decoder else "attention"
    values = graph.values
    stream, made = values[f"{layer}.{block}_residual"], values[f"{layer}.feed_forward.down"]
    only_adds = torch.allclose(stream + made, values[f"{layer}.feed_forward_residual"], atol=1e-5)
    assert ("stream" in said) == only_adds
    after = [edge.end for edge in graph.edges if edge.start == f"{layer}.{block}_residual"]
    assert ("residualNorm" in said) == (after == [f"{layer}.{block}_norm"])
    assert ("feedForwardGated" in said) == (f"{layer}.feed_forward.gate" in graph.values)
    by_root = re.search(r"q kᵀ / √\d+$", graph.nodes[f"{layer}.attention.scores"].formula)
    assert "scores" not in said or by_root


@pytest.mark.parametrize(("model_type", "head", "more"), EVERY)
def test_who_is_said_not_to_see_later_tokens_does_not(model_type, head, more):
    model, inputs, graph, stops = case(model_type, head, more)
    said = {stop.say for stop in stops}
    attends = f"{first_layer(model)}.attention.mask" in graph.values
    assert ("later" in said) == (attends and (model.config.is_encoder_decoder or model.is_causal))
    if "later" in said:
        name = "decoder_input_ids" if model.config.is_encoder_decoder else "input_ids"
        changed = {**inputs, name: inputs[name].clone()}
        changed[name][0, -1] = (changed[name][0, -1] + 1) % 30 + 4
        before, after = (
            one.values[f"{first_layer(model)}.attention_residual"] for one in (graph, flow_graph(model, changed))
        )
        assert torch.allclose(before[:, :-1], after[:, :-1], atol=1e-5)
        assert not torch.allclose(before[:, -1], after[:, -1])


@pytest.mark.parametrize(("model_type", "head", "more"), [one for one in EVERY if "rnn" in one[0] or "seq2" in one[0]])
def test_what_is_said_of_cells_is_so(model_type, head, more):
    model, _, graph, stops = case(model_type, head, more)
    said = {stop.say for stop in stops}
    assert ("cellTwo" in said) == has(model, LstmGates)
    assert {"forget", "memoryCell"} & said == ({"forget", "memoryCell"} & said if has(model, LstmGates) else set())
    assert ("hiddenPlain" in said) <= has(model, RnnGates)
    assert not {"hidden", "candidate"} & said or not has(model, RnnGates)
    assert ("ways" in said) == any("right_to_left" in name for name in graph.nodes)
    looks = any(name.startswith("decoder.attention") for name in graph.nodes)
    assert ("memory" in said) == ("align" in said) == looks
    assert ("bottleneck" in said) == (model.config.is_encoder_decoder and not looks)
    if "memory" in said:  # the wires that it speaks of
        assert any(edge.start == "encoder.recurrent.outputs" and "decoder." in edge.end for edge in graph.edges)
    if "firstState" in said:
        ends = {edge.end for edge in graph.edges if edge.start.startswith("encoder.recurrent.layers.0")}
        assert any(end.startswith("decoder.recurrent.layers.0") for end in ends)


@pytest.mark.parametrize(("model_type", "head", "more"), EVERY)
def test_what_is_said_at_the_end_is_what_the_head_does(model_type, head, more):
    model, _, graph, stops = case(model_type, head, more)
    *_, before, last = stops
    if head in (None, "feature-extraction"):
        assert (last.say, last.at) == ("vectors", "last_hidden_state")
        assert "head" not in graph.nodes
        return
    assert before.at == "head"
    outputs = [value for name, value in graph.values.items() if name.endswith("logits")]
    labels = len(label_names(model.config)) if "classification" in head else 0
    assert (last.say == "number") == (labels == 1)
    assert (last.say == "each") == (labels > 1 and model.config.problem_type == "multi_label_classification")
    assert (last.say == "next") == (head in ("text-generation", "text2text-generation"))
    assert (last.say == "span") == (len(outputs) == 2 and head == "question-answering")
    assert (last.say == "filled") == (head in ("fill-mask", "pretraining"))
    assert (last.say == "replaced") == (head == "replaced-token-detection")
    if before.say == "headText":
        assert outputs[0].shape == (1, 2 if head == "next-sentence-prediction" else labels)
    if before.say == "headTags":
        assert outputs[0].shape[1:] == (5, labels)
    if before.say == "headWords":
        assert outputs[0].dim() == 3
        assert outputs[0].shape[-1] == 41
    if before.say == "headBias":
        assert graph.nodes["features"].shape[-1] == labels


def test_a_filter_is_bent_as_is_said():
    _, _, graph, stops = case("glassformer-cnn", "text-classification", {"num_labels": 3})
    (bent,) = [stop for stop in stops if stop.say == "bent"]
    assert graph.nodes[bent.at].formula == "relu(x)"
