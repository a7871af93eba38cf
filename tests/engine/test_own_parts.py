"""A block, part or model of somebody's own is obeyed by the engine, whether it is there at first or comes later."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from engine.parts import Adapted
from families import SMALL_GPT, random_model
from glassformer.blocks.attention import MultiHeadAttention
from glassformer.blocks.transformer import FeedForward
from glassformer.engine.decoder import PreparedDecoder
from glassformer.engine.prepare import prepared
from glassformer.models.decoder import CausalDecoder


class Deaf(MultiHeadAttention):
    """A subclass whose forward is its own."""

    def forward(self, x, mask, **_):
        return torch.zeros_like(x)


class Louder(nn.Module):
    """A module in the place of another, which does more."""

    def __init__(self, inner=None):
        super().__init__()
        self.inner = nn.Identity() if inner is None else inner

    def forward(self, *args, **named):
        return 1.5 * self.inner(*args, **named)


def gated(feed_forward):
    """A block that was given a part it did not have."""
    feed_forward.gate = nn.Linear(12, 12).eval()
    plain = type(feed_forward).forward
    feed_forward.forward = lambda x: plain(feed_forward, x) * feed_forward.gate(x).sigmoid()


class Other(nn.Module):
    """Attention whose mask has another name."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x, attention_mask, *, cache=None, source=None):
        return 1.5 * self.inner(x, attention_mask, cache=cache, source=source)


def transpose(weight):
    """The same memory, seen otherwise."""
    weight.data = weight.data.t()


OWN_PARTS = {
    "a subclass": lambda layer: setattr(layer, "attention", Deaf(12, 3).eval()),
    "a forward": lambda layer: setattr(layer.feed_forward, "forward", torch.zeros_like),
    "a part more": lambda layer: gated(layer.feed_forward),
    "another norm": lambda layer: setattr(layer, "attention_norm", Louder(layer.attention_norm).eval()),
    "another feed-forward": lambda layer: setattr(layer, "feed_forward", Louder(layer.feed_forward).eval()),
    "a point that acts": lambda layer: setattr(layer.attention, "context", Louder().eval()),
    "neurons that act": lambda layer: setattr(layer.feed_forward, "neurons", Louder().eval()),
    "a dropout that acts": lambda layer: setattr(layer, "dropout", Louder().eval()),
    "a scale": lambda layer: setattr(layer.attention, "scale", 0.9),
    "an activation": lambda layer: setattr(layer.feed_forward, "activation", torch.tanh),
    "the place of norms": lambda layer: setattr(layer, "pre_norm", not layer.pre_norm),
    "a forward of a query": lambda layer: setattr(layer.attention.query, "forward", lambda x: x.flip(-1)),
    "a forward of a point": lambda layer: setattr(layer.attention.context, "forward", lambda x: 2 * x),
    "a forward of a dropout": lambda layer: setattr(layer.dropout, "forward", lambda x: 2 * x),
    "a query without a bias": lambda layer: setattr(layer.attention.query, "bias", None),
    "a key transposed": lambda layer: transpose(layer.attention.value.weight),
    "another order of arguments": lambda layer: setattr(layer, "attention", Other(layer.attention).eval()),
    "a query of its own": lambda layer: setattr(layer.attention, "query", Adapted(layer.attention.query).eval()),
}


@pytest.mark.parametrize("seen", ["before", "after"])
@pytest.mark.parametrize("part", OWN_PARTS)
@torch.inference_mode()
def test_parts_of_somebodys_own_are_obeyed(part, seen):
    """Whether they are there when the model is prepared first, or come later."""
    model = random_model("gpt2", "text-generation", SMALL_GPT)
    prompt, request = torch.tensor([[5, 6, 7], [9, 8, 7]]), {"length": 6}
    first = prepared(model, 2)
    if seen == "before":
        model = random_model("gpt2", "text-generation", SMALL_GPT)
    before = model(prompt).logits
    OWN_PARTS[part](model.layers[0])
    expected = model(prompt).logits
    assert not torch.allclose(before, expected, atol=1e-6), "the part changes what is said"
    ready = prepared(model, 2)
    assert ready is not first
    logits, state = ready.step(prompt, ready.start(prompt, **request))
    assert_close(logits, expected, atol=1e-5, rtol=1e-5)
    more = torch.tensor([[3], [4]])
    logits, _ = ready.step(more, state)
    assert_close(logits[:, 0], model(torch.cat([prompt, more], dim=1)).logits[:, -1], atol=1e-5, rtol=1e-5)


@torch.inference_mode()
def test_layers_that_change_places_are_seen():
    model = random_model("gpt2", "text-generation", SMALL_GPT | {"n_layer": 3})
    first, _, last = model.layers
    model.layers[1] = first
    ids, before = torch.tensor([[5, 6, 7]]), prepared(model, 1)
    model.layers[1] = last
    ready = prepared(model, 1)
    assert ready is not before
    assert_close(ready.step(ids, ready.start(ids, length=3))[0], model(ids).logits, atol=1e-5, rtol=1e-5)


@torch.inference_mode()
def test_an_output_layer_that_has_become_smaller_is_seen():
    model = random_model("gpt2", "text-generation", SMALL_GPT | {"tie_word_embeddings": False})
    ids, _ = torch.tensor([[5, 6, 7]]), prepared(model, 1)
    model.head.weight = nn.Parameter(model.head.weight.data[:30])
    ready = prepared(model, 1)
    assert_close(ready.step(ids, ready.start(ids, length=3))[0], model(ids).logits, atol=1e-5, rtol=1e-5)


def test_a_hook_around_every_module_and_a_class_of_another_forward_are_obeyed(monkeypatch):
    model = random_model("gpt2", "text-generation", SMALL_GPT)
    handle = torch.nn.modules.module.register_module_forward_hook(lambda *_: None)
    try:
        assert prepared(model, 1) is model
    finally:
        handle.remove()
    ids, _ = torch.tensor([[5, 6, 7]]), prepared(model, 1)
    plain = FeedForward.forward
    monkeypatch.setattr(FeedForward, "forward", lambda self, x: 2 * plain(self, x))
    with torch.inference_mode():
        ready = prepared(model, 1)
        assert_close(ready.step(ids, ready.start(ids, length=3))[0], model(ids).logits, atol=1e-5, rtol=1e-5)


class Convolution(nn.Module):
    """A causal convolution in the place of attention: it reads the end of what its cache holds."""

    def __init__(self, width, heads):
        super().__init__()
        self.value, self.shape = nn.Linear(width, width), (heads, width // heads)

    def forward(self, x, mask, *, cache=None, source=None):
        value = self.value(x).unflatten(-1, self.shape)
        past, _ = (value, value) if cache is None else cache.append(value, value)
        tokens = torch.cat([torch.zeros_like(past[:, :1]), past], dim=1)
        return (tokens[:, -x.shape[1] - 1 : -1] + 0.5 * tokens[:, -x.shape[1] :]).flatten(-2)


@torch.inference_mode()
def test_a_block_that_reads_the_end_of_its_cache_is_not_captured():
    """A cache of fixed size has room behind its end."""
    model = random_model("gpt2", "text-generation", SMALL_GPT)
    assert prepared(model, 1).can_be_captured
    for layer in model.layers:
        layer.attention = Convolution(12, 3).eval()
    ids, ready = torch.tensor([[5, 6, 7, 8]]), prepared(model, 1)
    assert not ready.can_be_captured
    _, state = ready.step(ids[:, :2], ready.start(ids, length=4))
    assert_close(ready.step(ids[:, 2:], state)[0], model(ids).logits[:, 2:], atol=1e-5, rtol=1e-5)


class Colder(CausalDecoder):
    """A model whose scores are its own."""

    def logits(self, hidden):
        return super().logits(hidden) / 2


def test_a_model_whose_steps_are_its_own_is_taken_as_it_is():
    for change in (
        lambda model: setattr(model, "__class__", Colder),
        lambda model: setattr(model, "hidden_step", lambda ids, state: (torch.zeros(len(ids), 1, 12), state)),
    ):
        model = random_model("gpt2", "text-generation", SMALL_GPT)
        assert isinstance(prepared(model, 1), PreparedDecoder)
        change(model)
        assert prepared(model, 1) is model


@torch.inference_mode()
def test_layers_of_an_unknown_class_run_by_their_own_forward():
    model = random_model("gpt2", "text-generation", SMALL_GPT)
    model.layers[1] = Louder(model.layers[1]).eval()
    ids = torch.tensor([[5, 6, 7, 8]])
    ready = prepared(model, 1)
    assert isinstance(ready, PreparedDecoder)
    assert_close(ready.step(ids, ready.start(ids, length=5))[0], model(ids).logits, atol=1e-5, rtol=1e-5)
