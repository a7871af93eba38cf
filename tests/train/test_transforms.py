"""Layers that are compiled, and layers that are run again: the same gradients, of one graph, with little kept."""

from copy import deepcopy
from functools import partial

import pytest
import torch
from torch._dynamo.utils import counters

from glassformer.hub.registry import build
from glassformer.train.memory import made_up_loss, measured
from glassformer.train.transforms import recomputing

pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # dynamo's own
SHAPES = {
    "llama": {"hidden_size": 32, "num_hidden_layers": 10, "num_attention_heads": 4, "intermediate_size": 48}
    | {"num_key_value_heads": 2},
    "gpt2": {"n_embd": 32, "n_layer": 10, "n_head": 4, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0},
    "t5": {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 3, "num_heads": 4, "dropout_rate": 0.0},
}


def model_of(kind):
    torch.manual_seed(0)
    head = "text2text-generation" if kind == "t5" else "text-generation"
    return build(kind, head, vocab_size=50, **SHAPES[kind]).train()


def gradients(model):
    model.zero_grad()
    made_up_loss(model)(2, 24).backward()
    return {name: tensor.grad for name, tensor in model.named_parameters()}


@pytest.fixture
def count_graphs(monkeypatch):
    """Compiled by everything but the compiler that writes code, which takes long; gives how many graphs there are."""
    torch.compiler.reset()
    counters.clear()
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    yield lambda: counters["stats"]["unique_graphs"]
    torch.compiler.reset()


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("compiles", [False, True])
def test_what_is_run_again_learns_the_same_and_keeps_less(kind, compiles, count_graphs):
    model = model_of(kind)
    plain, kept = gradients(model), measured(model, made_up_loss(model), 2, 24).total
    recomputing(model, compile=compiles)
    for name, tensor in gradients(model).items():
        torch.testing.assert_close(tensor, plain[name], rtol=1e-4, atol=1e-6)
    assert measured(model, made_up_loss(model), 2, 24).total < kept / 5
    assert count_graphs() == compiles * (2 if kind == "t5" else 1)  # of all layers; T5's have two kinds


@pytest.mark.parametrize("compiles", [False, True])
def test_a_copy_runs_its_own_layers(compiles, count_graphs):
    model = recomputing(model_of("t5"), compile=compiles)
    twin = deepcopy(model)
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.zero_()
    loss = made_up_loss(twin)(2, 24)
    loss.backward()
    assert float(made_up_loss(model)(2, 24).detach()) != pytest.approx(float(loss.detach()), abs=1e-3)
    assert all(tensor.grad is None for tensor in model.parameters())
    assert all(tensor.grad is not None for tensor in twin.parameters())
    assert count_graphs() == 2 * compiles


def test_a_model_without_layers_is_refused():
    with pytest.raises(ValueError, match="has no layers to compute again; leave checkpointing out"):
        recomputing(build("glassformer-bow", "text-classification", vocab_size=9))
