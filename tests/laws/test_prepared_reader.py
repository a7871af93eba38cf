"""Prepared = model, for models that read: what a pipeline runs over many texts is the model as it is now."""

import gc
import weakref
from types import MethodType

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

import glassformer as gf
from families import CASES, SMALL_ALBERT, SMALL_BERT, random_model, sequences, settings_of
from glassformer.blocks.batch_masks import DenseMask
from glassformer.blocks.transformer import FeedForward, Layer
from glassformer.engine import native
from glassformer.engine.linear import quantised, supports_int8
from glassformer.engine.prepare import _readers, prepared_reader
from glassformer.inspect.laws import pad, run
from glassformer.jobs.predict import WORTH_PREPARING
from glassformer.models.encoder import Encoder

LENGTHS = (5, 11, 2, 8, 11, 1, 30)


@pytest.fixture(params=["kernels", "no kernels"])
def compiler(request, monkeypatch):
    if request.param == "no kernels":
        monkeypatch.setattr(native, "kernels", lambda: None)


def same(model, *, atol=1e-5):
    """A reader gives what its model gives, with padding on either side and without any."""
    reader = prepared_reader(model)
    for side in ("right", "left"):
        ids, mask = pad(sequences(0, LENGTHS), model)
        if side == "left":
            ids, mask = ids.flip(1), mask.flip(1)
        for given_mask in (mask, None):
            expected, found = run(model, ids, given_mask), run(reader, ids, given_mask)
            for name, value in expected.items():
                assert_close(found[name], value, atol=atol, rtol=1e-4, msg=lambda text, name=name: f"{name}: {text}")
    return reader


@pytest.mark.parametrize(("model_type", "head"), CASES)
@settings(max_examples=5)
@given(data=st.data())
@torch.inference_mode()
def test_a_reader_says_what_its_model_says(model_type, head, data):
    same(random_model(model_type, head, data.draw(settings_of(model_type))))


@pytest.mark.parametrize("model_type", ["bert", "albert", "modernbert"])
@settings(max_examples=5)
@given(data=st.data())
@torch.inference_mode()
def test_with_kernels_and_without(compiler, model_type, data):
    same(random_model(model_type, None, data.draw(settings_of(model_type))))


@pytest.mark.skipif(not supports_int8(), reason="8-bit weights need an x86 CPU")
@pytest.mark.parametrize("act", ["gelu", "relu", "gelu_new"])
@torch.inference_mode()
def test_in_eight_bits(compiler, act):
    model = quantised(random_model("bert", "fill-mask", SMALL_BERT | {"hidden_act": act}))
    assert same(model, atol=2e-2) is not model  # a number may be rounded to the next step


@torch.no_grad()
def test_any_change_is_seen():
    model = random_model("bert", None, SMALL_BERT)
    first = same(model)
    assert first is not model
    assert prepared_reader(model) is first, "nothing was changed"
    weight = model.layers[1].attention.key.weight.data
    weight.copy_(weight.flip(0))
    assert same(model) is not first
    model.layers[0].feed_forward = Doubled(model.layers[0].feed_forward)
    same(model)


class Doubled(FeedForward):
    """A block that nobody has prepared."""

    def __init__(self, like):
        super().__init__(like.up.in_features, like.up.out_features, like.activation)
        self.load_state_dict(like.state_dict())
        self.eval()

    def forward(self, x):
        return 2 * super().forward(x)


def test_models_that_learn_or_are_looked_into_are_left_alone():
    model = random_model("bert", None, SMALL_BERT)
    assert prepared_reader(model.train()) is model
    model.eval()
    handle = model.layers[0].attention.pattern.register_forward_hook(lambda *_: None)
    assert prepared_reader(model) is model
    handle.remove()
    reader, seen = prepared_reader(model), []
    assert reader is not model
    model.layers[0].attention.pattern.register_forward_hook(lambda *_: seen.append(1))
    reader(torch.tensor([[5, 6, 7]]))
    assert seen, "who listens later is heard, too"


class Curt(Layer):
    """A layer that takes no more than a Stack gives it."""

    def forward(self, x, mask, *, source=None, source_mask=None):
        return super().forward(x, mask, source=source, source_mask=source_mask) + 1


class ByHand(Encoder):
    """An encoder that runs its layers itself."""

    def hidden(self, input_ids, attention_mask=None, token_type_ids=None, position_ids=None):
        hidden = self.embeddings(input_ids, self.default_positions(input_ids, None), None)
        for number in range(len(self.layers)):
            hidden = self.layers[number](hidden, DenseMask())
        return hidden


@torch.no_grad()
def test_odd_parts_are_obeyed():
    model = random_model("bert", None, SMALL_BERT)
    model.layers[1].__class__ = Curt
    same(model)
    model.__class__ = ByHand
    ids = torch.tensor([[5, 6, 7]])
    assert_close(prepared_reader(model)(ids).last_hidden_state, model(ids).last_hidden_state)
    model = random_model("bert", None, SMALL_BERT)
    model.layers.forward = lambda x, *_, **__: 0 * x
    same(model)
    assert prepared_reader(model) is model


@torch.no_grad()
def test_a_model_in_a_wrapper_stays_whole():
    model = random_model("bert", None, SMALL_BERT)
    wrapped = torch.compile(model, backend="eager")
    prepared_reader(wrapped)
    assert list(dict(model.named_children())) == list(dict(wrapped._orig_mod.named_children()))
    assert model.embeddings is wrapped._orig_mod.embeddings
    same(model)


def test_models_are_let_go():
    model = random_model("bert", None, SMALL_BERT)
    model.forward = MethodType(Encoder.forward, model)
    prepared_reader(model)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_tied_layers_are_prepared_once():
    reader = prepared_reader(random_model("albert", None, SMALL_ALBERT))
    first, last = (reader.layers.forms[number].attention.project for number in (0, 2))
    assert first.project is last.project


def test_what_learns_keeps_no_copy():
    model = random_model("bert", None, SMALL_BERT)
    prepared_reader(model)
    assert model in _readers
    prepared_reader(model.train())
    assert model not in _readers


@torch.inference_mode()
def test_another_default_device_changes_nothing():
    model = random_model("bert", None, SMALL_BERT)
    ids = torch.tensor([[5, 6, 7], [8, 9, 10]])
    with torch.device("meta"):
        found = prepared_reader(model)(ids).last_hidden_state
    assert_close(found, model(ids).last_hidden_state)


def test_a_pipeline_says_the_same_of_many_texts_and_of_each(trained):
    pipe = gf.pipeline("text-classification", trained("text-classification/bert"))
    texts = [f"{'good ' * (number % 5)} text {number}" for number in range(2 * WORTH_PREPARING)]
    many, each = pipe(texts), [pipe(text) for text in texts]
    assert [one["label"] for one in many] == [one["label"] for (one,) in map(as_list, each)]
    assert_close([one["score"] for one in many], [one["score"] for (one,) in map(as_list, each)], atol=1e-4, rtol=1e-4)


def as_list(found):
    return found if isinstance(found, list) else [found]
