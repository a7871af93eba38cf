"""Layers that share their parameters: each is seen and ablated by itself, and the tensors stay one."""

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.testing import assert_close

import glassformer as gf
from families import SMALL_ALBERT, random_model, same_outputs, sequences
from glassformer.inspect.ablation import ablate
from glassformer.inspect.laws import pad
from glassformer.train.lora import add_lora, merge
from glassformer.train.optimiser import build_optimiser

TWO_GROUPS = SMALL_ALBERT | {"num_hidden_layers": 3, "num_hidden_groups": 2, "inner_group_num": 2}


def inputs_of(model):
    ids, mask = pad(sequences(), model)
    return {"input_ids": ids, "attention_mask": mask}


def test_recording_tells_the_first_layer_from_the_last():
    model = random_model("albert", None, SMALL_ALBERT)
    with torch.no_grad(), gf.record(model, "*") as seen:
        model(**inputs_of(model))
    assert len(seen.attentions) == 3
    x = seen["embeddings"]
    for number in range(3):  # each pattern is what its own layer makes of what entered it
        attention = model.layers[number].attention
        query, key = (part(x).unflatten(-1, (3, 4)).transpose(1, 2) for part in (attention.query, attention.key))
        scores = (query @ key.mT / 2).masked_fill(~inputs_of(model)["attention_mask"].bool()[:, None, None], -torch.inf)
        assert_close(seen[f"layers.{number}.attention.pattern"], scores.softmax(-1))
        x = seen[f"layers.{number}"]
    assert not torch.allclose(seen["layers.0.attention.pattern"], seen["layers.2.attention.pattern"], atol=1e-3)


def test_one_layer_is_ablated_and_not_its_twins():
    model = random_model("albert", None, SMALL_ALBERT)
    with torch.no_grad(), gf.record(model, "layers.*.attention.context") as before:
        model(**inputs_of(model))
    with (
        torch.no_grad(),
        gf.record(model, "layers.*.attention.context", edit=ablate(model, ["layers.1.attention:0"])) as after,
    ):
        model(**inputs_of(model))
    name = "layers.{}.attention.context"
    assert_close(after[name.format(0)], before[name.format(0)])
    assert not after[name.format(1)][:, :, 0].any()
    assert after[name.format(2)][:, :, 0].any()


def test_layers_of_a_group_are_modules_of_their_own_over_the_same_tensors():
    model = random_model("albert", None, TWO_GROUPS)
    assert model.config.places == [(0, 0), (0, 1), (0, 0), (0, 1), (1, 0), (1, 1)]
    weights = [id(layer.attention.query.weight) for layer in model.layers]
    assert len({id(layer.attention.pattern) for layer in model.layers}) == 6
    assert [weights.index(each) for each in weights] == [0, 1, 0, 1, 4, 5]


def test_a_shared_parameter_is_written_once_and_comes_back_shared(tmp_path):
    model = random_model("albert", "fill-mask", TWO_GROUPS)
    folder = gf.save(model, tmp_path / "one")
    queries = [name for name in load_file(folder / "model.safetensors") if name.endswith("attention.query.weight")]
    assert len(queries) == 4
    again = gf.load(folder)
    assert again.layers[0].attention.query.weight is again.layers[2].attention.query.weight
    assert len(list(again.parameters())) == len(list(model.parameters()))
    same_outputs(again, model)
    again.layers[2].attention.query.weight = nn.Parameter(again.layers[2].attention.query.weight.detach().clone())
    with pytest.raises(ValueError, match=r"layers.2.attention.query.weight is no longer tied to layers.0"):
        gf.save(again, tmp_path / "two")


def test_a_shared_parameter_learns_once_from_all_of_its_layers():
    model = random_model("albert", None, SMALL_ALBERT)
    optimiser = build_optimiser(model, 0.1, name="sgd", weight_decay=0.0, momentum=0.0)
    listed = [tensor for group in optimiser.param_groups for tensor in group["params"]]
    assert len(listed) == len({id(tensor) for tensor in listed}) == len(list(model.parameters()))
    apart = random_model("bert", None, {**SMALL_ALBERT, "hidden_act": "gelu_new"})  # the same without sharing
    apart.embeddings = model.embeddings
    apart.pooler = model.pooler
    for ours, theirs in zip(model.layers, apart.layers, strict=True):
        theirs.load_state_dict(ours.state_dict())
    model(**inputs_of(model)).last_hidden_state.tanh().sum().backward()
    shared = model.layers[0].feed_forward.up.weight
    found = shared.grad.clone()
    apart(**inputs_of(model)).last_hidden_state.tanh().sum().backward()
    assert_close(found, sum(layer.feed_forward.up.weight.grad for layer in apart.layers), atol=1e-5, rtol=1e-4)
    before = shared.detach().clone()
    shared.grad = found
    optimiser.step()
    assert_close(model.layers[2].feed_forward.up.weight.detach(), before - 0.1 * found)


def test_twins_share_one_adapter_that_is_merged_once(tmp_path):
    model = random_model("albert", "text-classification", SMALL_ALBERT)
    add_lora(model, "layers.1.attention.query", rank=2)
    first, last = (model.layers[number].attention.query for number in (0, 2))
    assert first.lora_up is last.lora_up
    nn.init.normal_(first.lora_up)
    with torch.no_grad():
        expected = model(**inputs_of(model)).logits
    folder = gf.save(merge(model), tmp_path)
    with torch.no_grad():
        assert_close(gf.load(folder)(**inputs_of(model)).logits, expected, atol=1e-5, rtol=1e-5)


def test_more_groups_than_layers_are_refused():
    with pytest.raises(ValueError, match="num_hidden_groups is 4, more than the 3 num_hidden_layers"):
        gf.build("albert", num_hidden_layers=3, num_hidden_groups=4)
    with pytest.raises(ValueError, match="num_hidden_layers x inner_group_num is 1200; at most 1000 are built"):
        gf.build("albert", num_hidden_layers=100, inner_group_num=12)
