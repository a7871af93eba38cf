"""LayerDrop: layers that are left out in training, as folders of M2M-100 and its kin say."""

import json

import pytest
import torch
import transformers
from torch import nn
from torch.testing import assert_close

import glassformer as gf
from families import VOCABULARY, random_model

SMALL = {"vocab_size": VOCABULARY, "d_model": 12, "encoder_layers": 4, "decoder_layers": 4, "encoder_ffn_dim": 8}
SMALL |= {"decoder_ffn_dim": 8, "encoder_attention_heads": 3, "decoder_attention_heads": 3, "dropout": 0.0}
DROPS = ("encoder_layerdrop", "decoder_layerdrop")
SMALL |= {"attention_dropout": 0.0, "activation_dropout": 0.0, "max_position_embeddings": 40, "pad_token_id": 1}


def runs_of(model: nn.Module, times: int) -> list[tuple[int, int]]:
    """How many layers of each side ran, so many times."""
    counted = []
    for side in (model.encoder, model.decoder):
        for layer in side.layers:
            layer.register_forward_hook(lambda *_, side=side: counted.append(side is model.encoder))
    ids, found = torch.arange(4, 12)[None], []
    for _ in range(times):
        counted.clear()
        model(input_ids=ids, decoder_input_ids=ids)
        found.append((sum(counted), len(counted) - sum(counted)))
    return found


@pytest.mark.parametrize("kind", ["m2m_100", "mbart", "bart", "pegasus", "marian"])
def test_layers_are_left_out_in_training_alone(kind):
    model = random_model(kind, "text2text-generation", SMALL | {"encoder_layerdrop": 0.5, "decoder_layerdrop": 0.0})
    assert set(runs_of(model.eval(), 5)) == {(4, 4)}
    torch.manual_seed(0)
    drawn = runs_of(model.train(), 60)
    assert {layers for _, layers in drawn} == {4}
    assert 1.6 < sum(layers for layers, _ in drawn) / 60 < 2.4  # two of four; a deviation of 0.13


def test_none_and_all():
    """Without any layer, what the embeddings say goes straight to the head, and what is learnt is theirs alone."""
    model = random_model("m2m_100", "text2text-generation", SMALL | dict.fromkeys(DROPS, 1.0)).train()
    ids = torch.arange(4, 12)[None]
    model(input_ids=ids, decoder_input_ids=ids).logits.square().sum().backward()
    assert {name for name, value in model.named_parameters() if value.grad is None} == {
        name for name, _ in model.named_parameters() if ".layers." in name
    } | {name for name, _ in model.encoder.final_norm.named_parameters(prefix="encoder.final_norm")}
    assert {
        layer for side in runs_of(random_model("m2m_100", None, SMALL | dict.fromkeys(DROPS)), 3) for layer in side
    } == {4}


def test_folders_keep_it(tmp_path):
    theirs = transformers.M2M100ForConditionalGeneration(transformers.M2M100Config(**SMALL, encoder_layerdrop=0.25))
    theirs.eval().save_pretrained(tmp_path / "theirs")
    model = gf.load(tmp_path / "theirs")
    assert (model.encoder.layers.layerdrop, model.decoder.layers.layerdrop) == (0.25, 0.05)  # which is their default
    gf.save(model, tmp_path / "ours")
    written = json.loads((tmp_path / "ours" / "config.json").read_text())
    assert [written[name] for name in DROPS] == [0.25, 0.05]
    again = transformers.M2M100ForConditionalGeneration.from_pretrained(tmp_path / "ours").eval()
    ids = torch.arange(4, 12)[None]
    with torch.no_grad():
        assert_close(
            model(input_ids=ids, decoder_input_ids=ids).logits,
            again(input_ids=ids, decoder_input_ids=ids).logits,
            atol=1e-5,
            rtol=1e-5,
        )
