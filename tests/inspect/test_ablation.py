"""Ablation: what is ablated by name is what the edits of the same parts do."""

import pytest
import torch
from torch.testing import assert_close

import glassformer as gf
from glassformer.inspect import edits, switches
from glassformer.inspect.ablation import ablate, ablation_targets, python_of, select_targets
from inspect_cases import hooked, inputs_of, small

FAMILIES = [
    ("bert", "text-classification", {}),
    ("gpt2", "text-generation", {}),
    ("glassformer-transformer", "text2text-generation", {}),
    ("glassformer-rnn", "text-classification", {"kind": "lstm", "bidirectional": True}),
    ("glassformer-rnn", "text-generation", {"kind": "gru"}),
    ("glassformer-rnn", "token-classification", {"kind": "rnn"}),
    ("glassformer-seq2seq", "text2text-generation", {"attention": "additive"}),
    ("glassformer-seq2seq", "text2text-generation", {"attention": "general"}),
]


def run(model, inputs, **edited):
    with torch.no_grad(), gf.record(model, **edited):
        return model(**inputs)[0]


@pytest.mark.parametrize(("model_type", "head", "more"), FAMILIES)
@pytest.mark.parametrize("to", ["zero", "mean"])
def test_every_target_does_something(model_type, head, more, to):
    model = small(model_type, head, **more)
    inputs = inputs_of(model, lengths=(6,))
    plain = run(model, inputs)
    for target in ablation_targets(model):
        name = target.name if target.size is None else f"{target.name}:{target.size - 1}"
        edited = run(model, inputs, edit=ablate(model, [name], to, inputs))
        assert edited.isfinite().all()
        if to == "zero" and not name.endswith("neurons:6"):  # relu's last neuron may be at zero already
            assert (edited - plain).abs().max() > 0, name
    assert not hooked(model)
    assert_close(run(model, inputs), plain, atol=0, rtol=0)


def test_names_are_the_edits_of_the_same_parts():
    model = small("glassformer-transformer", "text2text-generation")
    inputs = inputs_of(model)
    names = ["encoder.layers.0.attention:0", "decoder.layers.0", "encoder.layers.0.feed_forward.neurons:3"]
    by_hand = (
        edits.head("encoder.layers.0.attention", 0)
        | edits.layer("decoder.layers.0")
        | edits.neuron("encoder.layers.0.feed_forward.neurons", 3)
    )
    assert_close(run(model, inputs, edit=ablate(model, names)), run(model, inputs, edit=by_hand))


def test_the_mean_is_that_of_the_run_with_nothing_ablated():
    model = small("glassformer-rnn", "text-generation", kind="lstm")
    inputs = inputs_of(model, lengths=(6,))
    name = "recurrent.layers.0.left_to_right.hidden"
    with torch.no_grad(), gf.record(model, name) as before:
        model(**inputs)
    with torch.no_grad(), gf.record(model, name, edit=ablate(model, [f"{name}:1"], "mean", inputs)) as after:
        model(**inputs)
    assert_close(after[name][0, :, 1], before[name][0, :, 1].mean().expand(6))


@pytest.mark.parametrize("attention", ["additive", "general"])  # one is called token by token
@pytest.mark.parametrize("to", ["zero", "mean"])
def test_an_alignment_gives_no_context_or_always_its_mean(attention, to):
    model = small("glassformer-seq2seq", "text2text-generation", attention=attention)
    inputs = inputs_of(model, lengths=(5,))
    contexts = []
    hook = model.decoder.attention.register_forward_hook(lambda *given: contexts.append(given[-1]))
    run(model, inputs)
    hook.remove()
    mean = torch.cat(contexts, 1).mean((0, 1)) * (to == "mean")
    by_hand = {"decoder.attention": lambda value: mean.expand_as(value)}
    wanted = run(model, inputs, edit=by_hand)
    assert_close(run(model, inputs, edit=ablate(model, ["decoder.attention"], to, inputs)), wanted)


def test_the_python_that_is_shown_runs():
    model = small("bert", "text-classification")
    inputs = inputs_of(model, lengths=(5,))
    for to in ("zero", "mean"):
        names = ["layers.0.attention:0", "layers.0"]
        scope = {"gf": gf, "model": model, "inputs": inputs}
        exec(python_of(names, to), scope)
        assert_close(scope["edited"][0], run(model, inputs, edit=ablate(model, names, to, inputs)))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("layers.7.attention:0", "nothing called 'layers.7.attention' can be put out; near it: layers.0.attention"),
        ("layers.0.attention:9", "has the heads 0 to 0; write 'layers.0.attention:0'"),
        ("layers.0.attention", "has the heads 0 to 0"),
        ("layers.0:1", "goes out whole: write 'layers.0' without"),
    ],
)
def test_wrong_names_are_explained(name, message):
    with pytest.raises(ValueError, match=message):
        select_targets(small("bert", "text-classification"), [name])


def test_wrong_ways_out_are_explained():
    model = small("bert", "text-classification")
    with pytest.raises(ValueError, match="not to 'one'"):
        ablate(model, [], "one")
    with pytest.raises(ValueError, match="give its inputs"):
        ablate(model, ["layers.0"], "mean")


@pytest.mark.parametrize(("old", "new"), [("off", ablate), ("switches", ablation_targets)])
def test_old_names_work_with_a_warning(old, new):
    with pytest.warns(DeprecationWarning, match=rf"switches.{old} is now glassformer.inspect.ablation.{new.__name__}"):
        assert getattr(switches, old) is new
