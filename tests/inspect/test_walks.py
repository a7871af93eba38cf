"""Each block class has its walk, found by type; a new block brings its own, and nothing else is touched."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from families import CASES, SMALL_BERT, SMALL_GPT, random_model
from glassformer.blocks.point import FeaturePoint, Point, StepPoint
from glassformer.inspect.formulas import Formula
from glassformer.inspect.recompute import recompute
from glassformer.inspect.walk import WALKS, registered, walks
from glassformer.models.outputs import Hidden
from inspect_cases import inputs_of, plainest

# What has no walk because that of its parent covers it.
COVERED = {
    Point: "an identity: what passes it is what a step is compared with",
    StepPoint: "the same, in a time loop",
    FeaturePoint: "the same, of features that can be ablated",
    nn.ModuleDict: "the directions of a recurrent layer, which Recurrent's walk goes through",
    nn.RNN: "torch's kernel holds the weights of a Recurrent, whose walk reads them",
    nn.GRU: "as nn.RNN",
    nn.LSTM: "as nn.RNN",
}
# The model itself and its sides are put together by walks/models.py from the names that all architectures share.
SIDES = ("", "encoder", "decoder", "bridge")
KINDS = {
    "glassformer-rnn": [{"kind": kind} for kind in ("rnn", "gru", "lstm")],
    "glassformer-seq2seq": [
        {"kind": "gru", "attention": name, "bidirectional": name == "general"}
        for name in (None, "additive", "dot", "general", "concat", "scaled_dot")
    ],
    "glassformer-transformer": [{"positions": "sinusoidal"}, {"positions": "learned", "norm_embedding": True}],
}


@pytest.mark.parametrize(("model_type", "head"), CASES)
def test_every_block_class_has_its_walk(model_type, head):
    for more in KINDS.get(model_type, [{}]):
        model = random_model(model_type, head, plainest(model_type) | more)
        inside = {type(part) for name, part in model.named_modules() if name not in SIDES}
        without = {kind for kind in inside if kind not in WALKS} - set(COVERED)
        assert not without, f"write the walks of {without} in src/glassformer/inspect/walks"


def test_what_parents_cover_has_no_walk_of_its_own():
    assert not set(COVERED) & set(WALKS)


class GatedFeedForward(nn.Module):
    """down(tanh(gate(x)) · up(x))"""

    def __init__(self, width):
        super().__init__()
        self.gate, self.up, self.down = (nn.Linear(width, width, bias=False) for _ in range(3))

    def forward(self, x):
        return self.down(torch.tanh(self.gate(x)) * self.up(x))


GATED = Formula("tanh(g) · u", r"\tanh(g) \odot u", lambda g, u: g.tanh() * u)


def walk_gated(walk, name, x):
    operands = {"g": walk.block(f"{name}.gate", x), "u": walk.block(f"{name}.up", x)}
    return walk.block(f"{name}.down", walk.add(f"{name}.neurons", GATED, operands, walk.fed(f"{name}.down")))


@pytest.fixture
def own_walks():
    """Walks registered in a test are gone after it."""
    before = dict(WALKS)
    yield
    WALKS.clear()
    WALKS.update(before)


def with_gates():
    model = random_model("gpt2", "text-generation", SMALL_GPT)
    for layer in model.layers:
        layer.feed_forward = GatedFeedForward(12)
    return model


@pytest.mark.usefixtures("own_walks")
def test_a_new_block_brings_its_walk():
    walks(GatedFeedForward)(walk_gated)
    model = with_gates()
    inputs = inputs_of(model)
    found = recompute(model, inputs)
    assert {row.verdict for row in found.rows(1e-5)} <= {"holds", "-"}
    assert found.unused == []
    name = "layers.1.feed_forward.neurons"
    assert found.step(name).formula.text == "tanh(g) · u"
    before = found.scratch["layers.1.feed_forward_norm"]
    part = model.layers[1].feed_forward.double()
    assert_close(found.scratch[name], torch.tanh(part.gate(before)) * part.up(before))


def test_a_block_without_a_walk_is_named():
    model = with_gates()
    with pytest.raises(ValueError, match=r"layers.0.feed_forward is a GatedFeedForward, .* register a walk"):
        recompute(model, inputs_of(model))


class HalfNorm(nn.LayerNorm):
    """Half of what a layer norm gives."""

    def forward(self, x):
        return super().forward(x) / 2


@pytest.mark.usefixtures("own_walks")
def test_a_subclass_has_its_parents_walk_until_it_has_its_own():
    model = random_model("bert", None, SMALL_BERT)
    model.layers[0].attention_norm.__class__ = HalfNorm
    inputs = inputs_of(model)
    name = "layers.0.attention_norm"
    assert registered(HalfNorm) is registered(nn.LayerNorm)
    assert {row.name for row in recompute(model, inputs).rows(1e-5) if row.verdict == "BREACH"} == {name}

    @walks(HalfNorm)
    def walk_half(walk, name, x):
        whole = WALKS[nn.LayerNorm](walk, name, x)
        step = walk.steps.pop()
        walk.add(f"{name}.whole", step.formula, step.operands)
        return walk.add(name, Formula("x / 2", "x / 2", lambda x: x / 2), {"x": f"{name}.whole"}, walk.out(whole))

    assert {row.verdict for row in recompute(model, inputs).rows(1e-5)} <= {"holds", "-"}


class Doubled(nn.Module):
    """A model whose parts are called otherwise than in all architectures."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(41, 4)

    def forward(self, input_ids):
        return Hidden(self.table(input_ids) * 2)


@pytest.mark.usefixtures("own_walks")
def test_a_model_of_other_names_has_a_walk_of_its_own():
    model, inputs = Doubled().eval(), {"input_ids": torch.tensor([[1, 2]])}

    @walks(Doubled)
    def walk_doubled(walk, inputs):
        found = walk.block("table", walk.give("ids", inputs["input_ids"]))
        formula = Formula("2 x", "2 x", lambda x: 2 * x)
        yield "last_hidden_state", walk.add("doubled", formula, {"x": found})

    found = recompute(model, inputs)
    assert found.names == ["table", "doubled", "last_hidden_state"]
    assert {row.verdict for row in found.rows(1e-6)} <= {"holds", "-"}
