"""Norms and saturation: each number is what plain torch makes of the recorded values."""

import pytest
import torch
from torch.testing import assert_close

import glassformer as gf
from glassformer.inspect.norms import residual_norms
from glassformer.inspect.saturation import rules_of, saturation
from inspect_cases import inputs_of, small


@pytest.mark.parametrize(
    ("model_type", "head", "stacks"),
    [
        ("bert", "text-classification", ["layers"]),
        ("gpt2", "text-generation", ["layers"]),
        ("glassformer-transformer", "text2text-generation", ["encoder.layers", "decoder.layers"]),
    ],
)
def test_norms_by_hand(model_type, head, stacks):
    model = small(model_type, head)
    inputs = inputs_of(model, lengths=(6,))
    found = residual_norms(model, inputs)
    with torch.no_grad(), gf.record(model, "*") as seen:
        model(**inputs)
    assert [one.stack for one in found] == stacks
    for one in found:
        for row, name in enumerate(one.names):
            assert_close(one.stream[row], seen[name].norm(dim=-1))
        for part, added in one.added.items():
            for number, values in enumerate(added):
                assert_close(values, seen[f"{one.stack}.{number}.{part}"].norm(dim=-1))
        neurons = seen[f"{one.stack}.0.feed_forward.neurons"]
        assert_close(one.dead[0], (neurons.amax((0, 1)) <= 0).float().mean())
    assert ("cross_attention" in found[-1].added) is (len(stacks) == 2)


def test_heads_that_look_at_one_token_or_at_all_alike():
    model = small("bert", "text-classification", num_attention_heads=2, hidden_size=8, num_hidden_layers=2)
    inputs = inputs_of(model, lengths=(6,))
    one, even = torch.eye(6).expand(1, 2, 6, 6), torch.full((1, 2, 6, 6), 1 / 6)
    shown = {"layers.0.attention.pattern": lambda _: one, "layers.1.attention.pattern": lambda _: even}
    with gf.record(model, edit=shown):
        (found,) = residual_norms(model, inputs)
    assert_close(found.focused, torch.tensor([1.0, 0.0]))
    assert_close(found.even, torch.tensor([0.0, 1.0]))


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn"])
def test_saturation_by_hand(kind):
    model = small("glassformer-rnn", "text-classification", kind=kind, bidirectional=True, num_layers=2)
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(8)
    with torch.no_grad(), gf.record(model, "recurrent.*") as seen:
        model(**inputs_of(model, lengths=(9,)))
    found = {one.name: one for one in saturation(model, seen)}
    assert set(found) == set(rules_of(model))
    assert len(found) == 4 * {"lstm": 6, "gru": 4, "rnn": 1}[kind]
    assert max(one.share for one in found.values()) > 0
    for name, one in found.items():
        value = seen[name][0]
        if one.rule == "gate":
            low, high = value < 0.05, value > 0.95
        else:
            squashed = value.tanh() if name.endswith("cell") else value
            low, high = squashed < -0.95, squashed > 0.95
        assert_close(one.low, low.float().mean(0))
        assert_close(one.high, high.float().mean(0))
        assert one.share == pytest.approx(float((low | high).double().mean()), abs=1e-6)


def test_a_relu_is_stuck_at_zero():
    model = small("glassformer-rnn", "text-classification", kind="rnn", nonlinearity="relu")
    name = "recurrent.layers.0.left_to_right.hidden"
    (found,) = saturation(model, {name: torch.tensor([[[0.0, 2.0], [1.0, 3.0]]])})
    assert found.rule == "relu"
    assert_close(found.low, torch.tensor([0.5, 0.0]))
    assert_close(found.high, torch.zeros(2))
