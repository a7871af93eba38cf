"""Attribution: equal to captum's, complete where it promises to be, and the same in every batch."""

import pytest
import torch
from torch.testing import assert_close

import glassformer as gf
from families import SMALL_BERT, SMALL_GPT, random_model
from inspect_cases import hooked, inputs_of, small

CLOSE = {"atol": 1e-5, "rtol": 1e-4}
METHODS = ("gradient_x_input", "integrated_gradients", "occlusion")


def first_class(outputs):
    return outputs.logits[:, 1]


@pytest.fixture(params=["bert", "gpt2", "glassformer-rnn"])
def case(request):
    if request.param == "gpt2":
        model = random_model("gpt2", "text-generation", SMALL_GPT)
        return model, lambda outputs: outputs.logits[:, -1, 7]
    if request.param == "bert":
        return random_model("bert", "text-classification", SMALL_BERT), first_class
    return small("glassformer-rnn", "text-classification", kind="lstm"), first_class


def test_equal_to_captum(case):
    attr = pytest.importorskip("captum.attr")
    model, score = case
    ids = inputs_of(model, lengths=(5, 5))["input_ids"]
    token, pad = model.embeddings.token, 3

    def forward(some):
        return score(model(input_ids=some))

    theirs = attr.LayerGradientXActivation(forward, token).attribute(ids)
    ours = gf.attribute(model, {"input_ids": ids}, score, method="gradient_x_input")
    assert_close(ours.vectors, theirs, **CLOSE)
    assert_close(ours.tokens, theirs.sum(-1), **CLOSE)

    theirs, gap = attr.LayerIntegratedGradients(forward, token).attribute(
        ids, torch.full_like(ids, pad), n_steps=20, method="gausslegendre", return_convergence_delta=True
    )
    ours = gf.attribute(model, {"input_ids": ids}, score, baseline=pad, steps=20)
    assert_close(ours.vectors, theirs, **CLOSE)
    assert_close(ours.gap, gap.abs(), **CLOSE)

    theirs = attr.FeatureAblation(forward).attribute(ids, baselines=pad)
    ours = gf.attribute(model, {"input_ids": ids}, score, method="occlusion", baseline=pad)
    assert_close(ours.tokens, theirs.to(ours.tokens), **CLOSE)
    assert not hooked(model)


def test_integrated_gradients_are_complete(case):
    model, score = case
    ids = inputs_of(model, lengths=(6, 6))["input_ids"]
    found = gf.attribute(model, {"input_ids": ids}, score, steps=200)
    assert_close(found.tokens.sum(1), found.score - found.baseline, atol=1e-3, rtol=1e-3)
    assert found.gap.max() < 1e-3
    rough = gf.attribute(model, {"input_ids": ids}, score, steps=1)
    assert rough.gap.max() > found.gap.max()


@pytest.mark.parametrize("method", METHODS)
def test_padding_has_no_part_in_it(method):
    model = random_model("bert", "text-classification", SMALL_BERT)
    inputs = inputs_of(model, lengths=(3, 6))
    both = gf.attribute(model, inputs, first_class, method=method, steps=5)
    alone = gf.attribute(
        model, {name: value[:1, :3] for name, value in inputs.items()}, first_class, method=method, steps=5
    )
    assert_close(both.tokens[0, :3], alone.tokens[0], **CLOSE)
    assert_close(both.tokens[0, 3:], torch.zeros(3), **CLOSE)


@pytest.mark.parametrize(
    ("model_type", "head"),
    [
        ("bert", "text-classification"),
        ("gpt2", "text-generation"),
        ("marian", "text2text-generation"),
        ("glassformer-seq2seq", "text2text-generation"),
        ("glassformer-rnn", "text-generation"),
    ],
)
@pytest.mark.parametrize("method", METHODS)
def test_without_a_score_it_is_what_the_model_says(model_type, head, method):
    model = small(model_type, head)
    inputs = inputs_of(model)
    found = gf.attribute(model, inputs, method=method, steps=3)
    with torch.no_grad():
        logits = model(**inputs).logits
    if logits.dim() == 3:
        keep = inputs["attention_mask"] if "decoder_input_ids" not in inputs else torch.ones_like(logits[..., 0])
        logits = logits[torch.arange(3), keep.sum(1).long() - 1]
    assert_close(found.score, logits.amax(-1), **CLOSE)
    assert found.tokens.shape == inputs["input_ids"].shape
    assert found.tokens.abs().max() > 0


def test_compiled_models():
    model = random_model("bert", "text-classification", SMALL_BERT)
    inputs = inputs_of(model)
    ours = gf.attribute(model, inputs, first_class, baseline=3, steps=4)
    compiled = torch.compile(model, backend="eager")
    assert_close(gf.attribute(compiled, inputs, first_class, baseline=3, steps=4).tokens, ours.tokens, **CLOSE)


def test_wrong_questions_are_explained():
    model = random_model("bert", "text-classification", SMALL_BERT)
    inputs = inputs_of(model)
    with pytest.raises(ValueError, match="there is no attribution 'magic'"):
        gf.attribute(model, inputs, method="magic")
    with pytest.raises(ValueError, match=r"one number for each of 3 texts, not of shape \(3, 2\)"):
        gf.attribute(model, inputs, lambda outputs: outputs.logits)
