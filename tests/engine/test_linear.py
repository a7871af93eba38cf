"""Linear layers in 8 bits: how far they are from ordinary ones, and what they never depend on."""

import pickle
from copy import deepcopy
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

import glassformer as gf
from families import CASES, SMALL_ALBERT, random_model, sequences, settings_of
from glassformer.blocks.alignment import AlignmentName
from glassformer.engine.linear import STEPS, Int8Linear, fuse_linears, quantised
from glassformer.inspect.laws import pad, run

numbers = st.integers(1, 40)


def by_hand(linear, x):
    """Both sides rounded to their steps, then plain arithmetic in float64."""
    weight, x = linear.weight.double(), x.double()
    steps = weight.abs().amax(1, keepdim=True) / 127
    weight = (weight / steps).round() * steps
    largest = x.abs().amax(-1, keepdim=True).clamp(min=1e-300)
    x = (x / largest * STEPS).round() / STEPS * largest
    return nn.functional.linear(x, weight, None if linear.bias is None else linear.bias.double())


@settings(max_examples=60)
@given(width=numbers, out=numbers, rows=st.integers(1, 9), bias=st.booleans(), scale=st.floats(1e-3, 1e3))
@torch.inference_mode()
def test_eight_bits_are_rounded_weights_times_rounded_inputs(width, out, rows, bias, scale):
    torch.manual_seed(width * 41 + out)
    linear, x = nn.Linear(width, out, bias=bias), torch.randn(rows, width) * scale
    ours, expected = Int8Linear.of(linear)(x), by_hand(linear, x)
    step = x.abs().amax(-1, keepdim=True) / STEPS * linear.weight.abs().amax()  # a tie may be rounded either way
    assert ((ours - expected).abs() <= 1e-5 * scale + step).all()
    assert (ours - expected).abs().mean() <= 1e-4 * scale


@settings(max_examples=30)
@given(width=numbers, out=numbers, rows=st.integers(2, 9))
@torch.inference_mode()
def test_a_row_does_not_depend_on_its_neighbours(width, out, rows):
    layer = Int8Linear.of(nn.Linear(width, out))
    x = torch.randn(rows, width) * torch.logspace(-3, 3, rows)[:, None]
    assert_close(layer(x), torch.cat([layer(row[None]) for row in x]), atol=1e-6, rtol=1e-5)  # kernels differ by rows


@torch.inference_mode()
def test_fuse_linears_eight_bit_layers_are_the_same_layers():
    layers = [Int8Linear.of(nn.Linear(7, size)) for size in (3, 5, 2)]
    x = torch.randn(4, 7)
    assert_close(fuse_linears(layers)(x), torch.cat([layer(x) for layer in layers], dim=-1), atol=1e-6, rtol=1e-5)


@torch.inference_mode()
def test_zeros_stay_zero():
    assert_close(Int8Linear.of(nn.Linear(4, 3, bias=False))(torch.zeros(2, 4)), torch.zeros(2, 3))


@pytest.mark.few(6)
@pytest.mark.parametrize(("model_type", "head"), CASES)
@settings(max_examples=3)
@given(data=st.data())
def test_every_model_runs_in_eight_bits(model_type, head, data):
    """Within a tenth of what its outputs range over: these models are tiny, and tiny sums round badly."""
    model = random_model(model_type, head, data.draw(settings_of(model_type)))
    ids, mask = pad(sequences(0), model)
    before = {name: value.clone() for name, value in run(model, ids, mask).items()}
    for name, value in run(quantised(model), ids, mask).items():
        assert (value - before[name]).abs().mean() <= 0.1 * before[name].abs().amax(), name


@pytest.mark.parametrize("attention", get_args(AlignmentName))
@torch.inference_mode()
def test_every_attention_over_states_runs_in_eight_bits(attention):
    settings = {"attention": attention, "bidirectional": False, "vocab_size": 41, "hidden_size": 16}
    model = random_model("glassformer-seq2seq", "text2text-generation", settings)
    ids, mask = pad(sequences(0), model)
    before = run(model, ids, mask)["logits"].clone()
    assert (run(quantised(model), ids, mask)["logits"] - before).abs().mean() <= 0.1 * before.abs().amax()


@torch.inference_mode()
def test_weights_in_eight_bits_can_be_loaded():
    mine, other = (Int8Linear.of(nn.Linear(7, 3)) for _ in range(2))
    x = torch.randn(2, 7)
    mine.load_state_dict(other.state_dict())
    assert_close(mine(x), other(x))


@torch.no_grad()
def test_weights_in_eight_bits_may_be_changed_in_place():
    layer, x = Int8Linear.of(nn.Linear(7, 3, bias=False)), torch.randn(2, 7)
    before = layer(x)
    layer.weight.neg_()
    assert_close(layer(x), -before)
    layer.scale.mul_(2)
    assert_close(layer(x), -2 * before)


@torch.no_grad()
def test_layers_in_eight_bits_are_copied_and_pickled():
    layer, x = Int8Linear.of(nn.Linear(7, 3)), torch.randn(2, 7)
    for copy in (deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert_close(copy(x), layer(x))
        copy.weight.zero_()
    assert layer(x).ne(layer.bias).any()


def test_tied_layers_stay_one():
    shared = nn.Linear(3, 3)
    model = quantised(nn.ModuleDict({"a": shared, "b": nn.Sequential(shared)}))
    assert model["a"] is model["b"][0]
    assert isinstance(model["a"], Int8Linear)


def test_layers_with_one_weight_keep_one_of_eight_bits():
    model = quantised(random_model("albert", None, SMALL_ALBERT))
    first, last = (model.layers[number].attention.query for number in (0, 2))
    assert first is not last
    assert first.weight is last.weight
    assert first.prepacked is last.prepacked


def test_folders_load_in_eight_bits_and_are_not_saved_so(tmp_path):
    plain = random_model("gpt2", "text-generation", {"vocab_size": 41, "n_embd": 12, "n_head": 3, "n_layer": 2})
    folder = gf.save(plain, tmp_path / "plain")
    model = gf.load(folder, quant="int8")
    assert isinstance(model.layers[0].attention.query, Int8Linear)
    ids = torch.arange(9)[None]
    assert (model(ids).logits - plain(ids).logits).abs().mean() <= 0.05 * plain(ids).logits.abs().amax()
    with pytest.raises(ValueError, match="in 8 bits cannot be saved: load it without quant"):
        gf.save(model, tmp_path / "again")
    with pytest.raises(ValueError, match="quant is int8 or nothing, not 'int4'"):
        gf.load(folder, quant="int4")
    with pytest.raises(ValueError, match="quant=int8 is for CPUs, not for meta"):
        gf.load(folder, quant="int8", device="meta")
