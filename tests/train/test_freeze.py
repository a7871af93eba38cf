"""Freezing: a pattern means the tensors below the names it fits, tied ones included, and nothing else."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import glassformer as gf
from families import CASES, SMALL_BERT, SMALL_GPT, random_model, sequences, settings_of
from glassformer.inspect.laws import pad, some_target
from glassformer.train.freeze import Trained, freeze, trained

TWELVE = {**SMALL_BERT, "num_hidden_layers": 12}


def frozen_names(model):
    return {name for name, tensor in model.named_parameters(remove_duplicate=False) if not tensor.requires_grad}


def below(model, *prefixes):
    """Every name of every tensor that has a name below one of the modules, or is one."""
    named = list(model.named_parameters(remove_duplicate=False))
    tensors = {id(t) for name, t in named for p in prefixes if name == p or name.startswith(f"{p}.")}
    return {name for name, tensor in named if id(tensor) in tensors}


def parts_of(model):
    return [name for name, part in model.named_modules(remove_duplicate=False) if name and list(part.parameters())]


@pytest.mark.parametrize(("model_type", "head"), CASES)
@settings(max_examples=5)
@given(data=st.data())
def test_a_module_name_freezes_what_lies_below_it(model_type, head, data):
    model = random_model(model_type, head, data.draw(settings_of(model_type)))
    chosen = data.draw(st.lists(st.sampled_from(parts_of(model)), min_size=1, max_size=3))
    counted = freeze(model, ", ".join(chosen))
    assert frozen_names(model) == below(model, *chosen)
    learning = {id(tensor): tensor.numel() for tensor in model.parameters() if tensor.requires_grad}
    everything = {id(tensor): tensor.numel() for tensor in model.parameters()}
    assert counted == trained(model) == (sum(learning.values()), sum(everything.values()))


@pytest.mark.parametrize("start", ["*,", ""])
@pytest.mark.parametrize(("model_type", "head"), CASES)
@settings(max_examples=3)
@given(data=st.data())
def test_an_exception_leaves_all_else_frozen(model_type, head, start, data):
    model = random_model(model_type, head, data.draw(settings_of(model_type)))
    kept = data.draw(st.sampled_from(parts_of(model)))
    freeze(model, f"{start}!{kept}")
    everything = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    assert frozen_names(model) == everything - below(model, kept)


@given(first=st.integers(0, 11), more=st.integers(0, 11))
def test_a_range_is_each_of_its_numbers(first, more):
    last = min(11, first + more)
    model = gf.build("bert", None, **TWELVE)
    freeze(model, f"layers.{first}-{last}.attention")
    assert frozen_names(model) == below(model, *(f"layers.{number}.attention" for number in range(first, last + 1)))


QUERIES = {f"layers.{number}.attention.query" for number in range(12)}
NORMS = {f"layers.{number}.{name}" for number in range(12) for name in ("attention_norm", "feed_forward_norm")}


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("layers.1", {"layers.1"}, {}),  # and not layers.10 or layers.11
        ("layers.1?", {"layers.10", "layers.11"}, {}),
        ("layers.3.attention.key.weight", {"layers.3.attention.key.weight"}, {}),
        ("*.attention.query, layers.0-1, !layers.1", {"layers.0", *QUERIES}, {"layers.1"}),
        ("layers,!layers.11,!*norm", {"layers"}, {"layers.11", *NORMS}),
        ("!layers.11,embeddings,!pooler", {"embeddings", "layers", "pooler"}, {"layers.11", "pooler"}),
    ],
)
def test_patterns(pattern, inside, outside):
    model = gf.build("bert", None, **TWELVE)
    freeze(model, pattern)
    assert frozen_names(model) == below(model, *inside) - below(model, *outside)


@pytest.mark.parametrize(("model_type", "head"), CASES)
@settings(max_examples=3)
@given(data=st.data())
def test_frozen_tensors_get_no_gradient_and_dropout_goes_on(model_type, head, data):
    model = random_model(model_type, head, data.draw(settings_of(model_type))).train()
    last = [name for name, _ in model.named_parameters()][-1]
    freeze(model, f"{data.draw(st.sampled_from(parts_of(model)))},!{last}")
    assert all(part.training for part in model.modules())
    ids, mask = pad(sequences(), model)
    target = {"decoder_input_ids": some_target(model, len(ids))} if model.config.is_encoder_decoder else {}
    outputs = model(input_ids=ids, attention_mask=mask, **target)
    sum(value.square().sum() for value in outputs).backward()
    for tensor in model.parameters():
        assert tensor.requires_grad or tensor.grad is None


def test_a_tied_tensor_goes_by_each_of_its_names():
    model = gf.build("gpt2", "text-generation", **SMALL_GPT)
    freeze(model, "head")
    assert not model.embeddings.token.weight.requires_grad
    freeze(model, "embeddings,!head")
    assert frozen_names(model) == {"embeddings.position.weight"}


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("layer.0", "called 'layer.0'; near it: layers.0"),
        ("embedings", "called 'embedings'; near it: embeddings"),
        ("embeddings,layers.0-12", r"called 'layers.12' \(in 'layers.0-12'\); near it: .*layers.11"),
        ("layers.5-2", "'5-2' in 'layers.5-2' runs backwards; write 2-5"),
        ("embeddings,", "called ''"),
        ("!hed", "called 'hed'"),
        ("layers.0.dropout", "called 'layers.0.dropout'"),  # it holds no parameter
    ],
)
def test_a_pattern_that_means_nothing_is_named_and_changes_nothing(pattern, message):
    model = gf.build("bert", "text-classification", **TWELVE)
    with pytest.raises(ValueError, match=message):
        freeze(model, pattern)
    assert not frozen_names(model)


@pytest.mark.parametrize(
    ("trainable", "total", "line"),
    [
        (2_793_882, 22_713_986, "12.3 % of 22.7 M parameters are trained"),
        (0, 999, "0 % of 999 parameters are trained"),
        (1_500_000_000, 1_500_000_000, "100 % of 1.5 B parameters are trained"),
        (294_912, 124_734_720, "0.236 % of 125 M parameters are trained"),
        (1, 150_000_000, "under 0.01 % of 150 M parameters are trained"),
        (600, 12_000, "5 % of 12 k parameters are trained"),
        (999_600, 999_600, "100 % of 1 M parameters are trained"),
    ],
)
def test_the_line(trainable, total, line):
    assert str(Trained(trainable, total)) == line


def test_freezing_twice_adds_up():
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 5), torch.nn.Linear(5, 1))
    assert freeze(model, "0") == (26, 35)
    assert freeze(model, "1") == (6, 35)
