"""Llama and its kin: what their folders say, and what is beyond the length they were trained on."""

import json

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

import glassformer as gf
from families import VOCABULARY, random_model, shake
from glassformer.models.llama import LlamaConfig
from glassformer.train.transforms import recomputing
from inspect_cases import inputs_of, plainest

SIZES = {"vocab_size": VOCABULARY, "hidden_size": 24, "num_attention_heads": 4, "num_key_value_heads": 2}
SIZES |= {"num_hidden_layers": 2, "intermediate_size": 20, "max_position_embeddings": 40, "pad_token_id": 0}
DYNAMIC = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}


def their_folder(tmp_path, **more):
    peer = shake(transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES, **more))).eval()
    peer.save_pretrained(tmp_path)
    return peer


def some_ids(rows, length):
    return torch.randint(4, VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(1))


def test_dynamic_scaling_begins_where_the_trained_length_ends(tmp_path):
    peer, ids = their_folder(tmp_path, rope_parameters=DYNAMIC), some_ids(2, 60)
    model = gf.load(tmp_path)
    assert_close(model(ids).logits, peer(ids).logits, atol=1e-5, rtol=1e-5)
    plain = gf.load(tmp_path, config={"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}})
    assert not torch.allclose(plain(ids[:, :40]).logits[:, 30], model(ids).logits[:, 30], atol=1e-4)
    mask = torch.ones_like(ids)
    mask[1, 20:] = 0  # each text has its own length, whatever stands beside it
    together = model(ids, mask).logits
    assert_close(together[:1], model(ids[:1]).logits)
    assert_close(together[1:, :20], model(ids[1:, :20]).logits)


@pytest.mark.parametrize("rope", [{"rope_type": "default", "rope_theta": 10000.0}, DYNAMIC])
def test_positions_go_on_beyond_those_of_training(tmp_path, rope):
    peer, ids = their_folder(tmp_path, rope_parameters=rope), some_ids(2, 130)
    model = gf.load(tmp_path)
    assert_close(model(ids).logits, peer(ids).logits, atol=1e-5, rtol=1e-5)
    assert model.config.max_positions == int(40 * rope.get("factor", 1))
    with pytest.raises(ValueError, match="130 tokens and the model"):  # what is written keeps to what it was trained on
        gf.generate(model, None, ids)


def test_positions_that_are_given_count_alone_as_in_a_batch(tmp_path):
    their_folder(tmp_path, rope_parameters=DYNAMIC)
    model, ids, places = gf.load(tmp_path), some_ids(2, 30), 3 * torch.arange(30).expand(2, -1)
    mask = torch.ones_like(ids)
    mask[1, 10:] = 0
    together = model(ids, mask, position_ids=places).logits[0]
    assert_close(together, model(ids[:1], position_ids=places[:1]).logits[0])


@pytest.mark.parametrize("same", [True, False])
def test_an_output_layer_in_the_file_is_its_own_only_if_it_differs(tmp_path, same, caplog):
    peer, ids = their_folder(tmp_path, tie_word_embeddings=False), some_ids(1, 9)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": True}))
    if same:
        weights = load_file(tmp_path / "model.safetensors")
        weights["lm_head.weight"] = weights["model.embed_tokens.weight"].clone()
        save_file(weights, tmp_path / "model.safetensors")
        peer.lm_head.weight = peer.model.embed_tokens.weight
    model = gf.load(tmp_path)
    assert_close(model(ids).logits, peer(ids).logits, atol=1e-5, rtol=1e-5)
    assert model.config.tie_word_embeddings == same
    assert ("its output layer is not its embeddings" in caplog.text) != same


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rope_parameters": {"rope_type": "longrope"}}, "says rope_type = 'longrope', which is not supported"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 2.0}}, "lack original_max_position_embeddings"),
        ({"rope_scaling": {"type": "linear"}}, "rope_parameters of type linear lack factor"),
        ({"rope_theta": 1.0}, "rope_theta"),
        ({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}, "only a part of each head"),
        ({"layer_types": ["full_attention"]}, "layer_types names 1 layers, and there are 2"),
    ],
)
def test_what_cannot_be_carried_out_is_named(changes, message):
    with pytest.raises(ValueError, match=message):
        LlamaConfig.from_hf({"model_type": "llama", **SIZES, **changes})


def test_keys_of_before_are_read():
    old = LlamaConfig.from_hf({**SIZES, "rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 4.0}})
    assert old.rope_parameters == {"rope_type": "linear", "rope_theta": 5e5, "factor": 4.0}
    assert old.to_hf()["rope_scaling"] == {"rope_type": "linear", "factor": 4.0}


@pytest.mark.parametrize(
    ("model_type", "head", "more"),
    [
        ("llama", "text-generation", {}),
        ("t5", "text2text-generation", {}),
        ("deberta-v2", "fill-mask", {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}),
        ("glassformer-decoder", "text-generation", {"positions": "relative"}),
        ("albert", "fill-mask", {}),
        ("modernbert", "fill-mask", {}),
    ],
)
def test_layers_that_are_run_again_learn_the_same(model_type, head, more):
    """Gradient checkpointing: what a batch remembers must not make a layer's second run another one."""
    found = []
    for change in (lambda model: model, recomputing):
        model = change(random_model(model_type, head, plainest(model_type) | more))
        model(**inputs_of(model)).logits.square().sum().backward()
        found.append({name: p.grad for name, p in model.named_parameters() if p.grad is not None})
    assert found[0].keys() == found[1].keys()
    for name, gradient in found[0].items():
        assert_close(found[1][name], gradient, msg=lambda text, name=name: f"{name}: {text}")
