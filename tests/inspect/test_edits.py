"""Edits: each equals the same surgery on the weights, or the run it was taken from; nothing stays behind."""

import copy

import pytest
import torch
from torch.testing import assert_close

import glassformer as gf
from families import SMALL_BERT, SMALL_GPT, random_model
from glassformer.blocks.attention import MultiHeadAttention
from glassformer.blocks.transformer import FeedForward
from glassformer.inspect import edits
from inspect_cases import hooked, inputs_of, small

TRANSFORMERS = [
    ("bert", "fill-mask"),
    ("roberta", "text-classification"),
    ("distilbert", "question-answering"),
    ("gpt2", "text-generation"),
    ("marian", "text2text-generation"),
    ("bart", "text2text-generation"),
    ("glassformer-transformer", "text2text-generation"),
]


@pytest.fixture
def bert():
    return random_model("bert", "text-classification", SMALL_BERT)


def run(model, inputs, **edited):
    with torch.no_grad(), gf.record(model, **edited):
        return model(**inputs)[0]


@pytest.mark.parametrize(("model_type", "head"), TRANSFORMERS)
def test_zeroing_heads_and_neurons_is_surgery(model_type, head):
    model = small(model_type, head)
    inputs = inputs_of(model)
    plain = run(model, inputs)
    for name, part in model.named_modules():
        if isinstance(part, MultiHeadAttention):
            change = edits.head(name, part.heads - 1)
            width = part.output.in_features // part.heads
            columns, target = slice(-width, None), f"{name}.output"
        elif isinstance(part, FeedForward):
            change = edits.neuron(f"{name}.neurons", 2)
            columns, target = slice(2, 3), f"{name}.down"
        else:
            continue
        edited = run(model, inputs, edit=change)
        operated = copy.deepcopy(model)
        with torch.no_grad():
            operated.get_submodule(target).weight[:, columns] = 0.0
        assert_close(edited, run(operated, inputs), atol=1e-5, rtol=1e-5)
        assert (edited - plain).abs().max() > 1e-5
    assert not hooked(model)
    assert_close(run(model, inputs), plain, atol=0, rtol=0)


@pytest.mark.parametrize(("model_type", "head"), TRANSFORMERS)
def test_zeroing_a_layer_is_surgery(model_type, head):
    model = small(model_type, head)
    inputs = inputs_of(model)
    name = "decoder.layers.0" if "text2text" in head else "layers.0"
    operated = copy.deepcopy(model)
    for inner in operated.get_submodule(name).modules():
        for last in [inner.output] if isinstance(inner, MultiHeadAttention) else []:
            torch.nn.init.zeros_(last.weight), torch.nn.init.zeros_(last.bias)
        for last in [inner.down] if isinstance(inner, FeedForward) else []:
            torch.nn.init.zeros_(last.weight), torch.nn.init.zeros_(last.bias)
    assert_close(run(model, inputs, edit=edits.layer(name)), run(operated, inputs), atol=1e-5, rtol=1e-5)


def test_several_heads_at_once(bert):
    inputs = inputs_of(bert)
    both = run(bert, inputs, edit=edits.heads({"layers.0.attention": [0, 2], "layers.1.attention": [1]}))
    with torch.no_grad():
        bert.layers[0].attention.output.weight[:, :4] = 0.0
        bert.layers[0].attention.output.weight[:, 8:] = 0.0
        bert.layers[1].attention.output.weight[:, 4:8] = 0.0
    assert_close(both, run(bert, inputs), atol=1e-5, rtol=1e-5)


def test_the_mean_is_over_real_tokens(bert):
    inputs = inputs_of(bert)
    keep, name = inputs["attention_mask"], "layers.0.attention.context"
    with torch.no_grad(), gf.record(bert, name) as before:
        bert(**inputs)
    with torch.no_grad(), gf.record(bert, name, edit=edits.head("layers.0.attention", 1, "mean", keep=keep)) as after:
        bert(**inputs)
    mean = before[name][keep.bool()].mean(0)[1]
    assert_close(after[name][:, :, 1], mean.expand_as(after[name][:, :, 1]))
    assert_close(after[name][:, :, [0, 2]], before[name][:, :, [0, 2]], atol=0, rtol=0)


def test_a_position_is_replaced(bert):
    inputs = inputs_of(bert)
    value = torch.arange(12.0)
    with torch.no_grad(), gf.record(bert, "layers.0", edit=edits.position("layers.0", 1, value)) as seen:
        bert(**inputs)
    assert_close(seen["layers.0"][:, 1], value.expand(3, 12))


def test_a_layer_is_replaced(bert):
    inputs = inputs_of(bert)
    value = torch.randn(3, 7, 12, generator=torch.Generator().manual_seed(0))
    with torch.no_grad(), gf.record(bert, "layers.*", edit=edits.layer("layers.0", value)) as seen:
        bert(**inputs)
    assert_close(seen["layers.0"], value, atol=0, rtol=0)
    with torch.no_grad():
        assert_close(seen["layers.1.attention.query"], bert.layers[1].attention.query(value))


def test_a_patched_layer_gives_the_other_run(bert):
    """Post-norm layers pass on all they know, so what follows a patched layer is the other run's."""
    one, other = inputs_of(bert, lengths=(6,), seed=1), inputs_of(bert, lengths=(6,), seed=2)
    with torch.no_grad(), gf.record(bert, "layers.0") as seen:
        theirs = bert(**other)[0]
    assert_close(run(bert, one, edit=edits.patch(seen, "layers.0")), theirs)
    part = run(bert, one, edit=edits.patch(seen, "layers.0", places=[2]))
    assert (part - theirs).abs().max() > 1e-4
    every = run(bert, one, edit=edits.patch(seen, "layers.0", places=range(6)))
    assert_close(every, theirs)


@pytest.mark.parametrize(
    ("model_type", "head", "more"),
    [
        ("bert", "fill-mask", {}),
        ("gpt2", "text-generation", {}),
        ("marian", "text2text-generation", {}),
        ("glassformer-seq2seq", "text2text-generation", {"attention": "additive"}),
        ("glassformer-seq2seq", "text2text-generation", {"attention": "general"}),
    ],
)
def test_frozen_attention_is_that_of_the_other_run(model_type, head, more):
    model = small(model_type, head, **more)
    one, other = inputs_of(model, lengths=(6,), seed=1), inputs_of(model, lengths=(6,), seed=2)
    with torch.no_grad():
        with gf.record(model, "*attention.pattern") as seen:
            model(**other)
        with gf.record(model, "*attention.pattern") as own:
            plain = model(**one)[0]
        with gf.record(model, "*attention.pattern", edit=edits.freeze_attention(seen)) as frozen:
            changed = model(**one)[0]
            again = model(**one)[0]
    for name, pattern in seen.items():
        assert_close(frozen[name], pattern, atol=0, rtol=0)
    assert (changed - plain).abs().max() > 1e-6
    assert_close(again, changed, atol=0, rtol=0)
    assert_close(run(model, one, edit=edits.freeze_attention(own)), plain)
    assert not hooked(model)


@pytest.mark.parametrize("to", ["zero", "mean"])
def test_a_unit_of_an_lstm(to):
    model = small("glassformer-rnn", "text-generation", kind="lstm", num_layers=1)
    name = "recurrent.layers.0.left_to_right.hidden"
    with torch.no_grad(), gf.record(model, name, edit=edits.neuron(name, 3, to)) as seen:
        model(**inputs_of(model))
    unit = seen[name][..., 3]
    assert_close(unit, torch.zeros_like(unit) if to == "zero" else unit.mean(0).expand_as(unit))
    assert seen[name][..., 2].std(0).min() > 0


@pytest.mark.slow
def test_compiled_models_are_edited():
    model = random_model("gpt2", "text-generation", SMALL_GPT)
    inputs = inputs_of(model)
    edited = run(model, inputs, edit=edits.head("layers.1.attention", 0))
    compiled = torch.compile(model, backend="eager")
    with torch.no_grad():
        plain = compiled(**inputs)[0]
        assert_close(run(compiled, inputs, edit=edits.head("layers.1.attention", 0)), edited, atol=1e-5, rtol=1e-5)
        assert_close(compiled(**inputs)[0], plain)


def test_wrong_edits_are_explained(bert):
    inputs = inputs_of(bert)
    with pytest.raises(ValueError, match="to 'zero', 'mean' or a tensor, not to 'none'"):
        run(bert, inputs, edit=edits.head("layers.0.attention", 0, "none"))
    with pytest.raises(ValueError, match="no module is called 'layers.9.attention.context'"):
        run(bert, inputs, edit=edits.head("layers.9.attention", 0))
    with pytest.raises(IndexError, match="out of bounds"):
        run(bert, inputs, edit=edits.head("layers.0.attention", 3))
    with gf.record(bert, "embeddings") as seen:
        bert(**inputs)
    with pytest.raises(ValueError, match="no attention was recorded"):
        edits.freeze_attention(seen)
    assert not hooked(bert)
