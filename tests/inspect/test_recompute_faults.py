"""A fault of a model is found by recomputing its pass, and where it is."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from families import SMALL_BERT, SMALL_GPT, random_model
from glassformer.blocks.batch_masks import CausalMask, DenseMask
from glassformer.blocks.packing import PackedBatch
from glassformer.blocks.recurrent import LstmGates
from glassformer.inspect.recompute import recompute
from inspect_cases import WITHIN, inputs_of, small


def verdicts(found):
    return {row.name: row.verdict for row in found.rows(WITHIN)}


def break_pooler(model, monkeypatch):
    monkeypatch.setattr(model.pooler, "forward", lambda first: torch.relu(model.pooler.dense(first)))


def break_residual(model, monkeypatch):
    layer = model.layers[0]
    monkeypatch.setattr(layer, "residual", lambda norm, block, x: norm(0.999 * x + block(x)))


def break_norm(model, monkeypatch):
    norm = model.layers[0].attention_norm
    monkeypatch.setattr(norm, "forward", lambda x: F.layer_norm(x, x.shape[-1:], norm.weight, norm.bias, eps=0.01))


def break_output(model, monkeypatch):
    linear = model.layers[1].attention.output
    monkeypatch.setattr(linear, "forward", lambda x: F.linear(x, linear.weight))


def break_neurons(model, _):
    model.layers[0].feed_forward.activation = F.gelu
    model.layers[0].feed_forward.neurons = nn.ReLU()


FAULTS = {
    "layers.0.attention_residual": break_residual,
    "layers.0.attention_norm": break_norm,
    "layers.1.attention.output": break_output,
    "layers.0.feed_forward.neurons": break_neurons,
    "pooler": break_pooler,
}


@pytest.mark.parametrize("place", FAULTS)
def test_a_fault_is_found_where_it_is(place, monkeypatch):
    model = random_model("bert", "text-classification", SMALL_BERT)
    inputs = inputs_of(model)
    assert set(verdicts(recompute(model, inputs)).values()) <= {"holds", "-"}
    FAULTS[place](model, monkeypatch)
    judged = verdicts(recompute(model, inputs))
    breaches = [name for name, verdict in judged.items() if verdict == "BREACH"]
    assert breaches[0] == place
    before = list(judged)[: list(judged).index(place)]
    assert {judged[name] for name in before} <= {"holds", "-"}
    assert judged["logits"] == "carried on"  # it inherits the fault and adds none
    same_kind = {place, place.replace("layers.0.attention", "layers.0.feed_forward")}  # residual() makes both residuals
    assert set(breaches) <= same_kind


def test_a_mask_that_hides_nothing_is_found(monkeypatch):
    model = random_model("gpt2", "text-generation", SMALL_GPT)
    monkeypatch.setattr(CausalMask, "dense", None)
    judged = verdicts(recompute(model, inputs_of(model, lengths=(5,))))
    assert judged["layers.0.attention.mask"] == "BREACH"


@pytest.mark.parametrize(("scope", "lengths"), [(PackedBatch, (5, 7, 2)), (DenseMask, (5,))])
def test_a_fault_of_the_fast_path_alone_is_found(monkeypatch, scope, lengths):
    """What runs when nobody listens is checked as well: packed batches, and the fused kernel."""
    model = random_model("bert", None, SMALL_BERT)
    attend = scope.attend
    monkeypatch.setattr(scope, "attend", lambda *args, **more: 1.01 * attend(*args, **more))
    judged = verdicts(recompute(model, inputs_of(model, lengths=lengths)))
    assert judged.pop("last_hidden_state") == "BREACH"
    assert judged.pop("pooler_output") == "BREACH"
    assert set(judged.values()) <= {"holds", "-"}


def test_a_wrong_gate_is_found(monkeypatch):
    def step(self, given, recalled, past):
        i, f, g, o = (given + recalled).chunk(4, dim=-1)
        cell = self.cell(self.forget(f.sigmoid()) * past[1] + self.input(i.sigmoid()) * self.candidate(g.sigmoid()))
        return self.hidden(self.output(o.sigmoid()) * cell.tanh()), cell

    model = small("glassformer-rnn", "text-generation", kind="lstm", num_layers=1)
    monkeypatch.setattr(LstmGates, "step", step)
    rows = recompute(model, inputs_of(model, lengths=(4,))).rows(WITHIN)
    breaches = [row.name for row in rows if row.verdict == "BREACH"]
    assert breaches[:4] == [f"recurrent.layers.0.left_to_right.candidate.step.{time}" for time in range(4)]


# Explaining.
