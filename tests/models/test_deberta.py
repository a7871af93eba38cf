"""DeBERTa beyond the registry's tests: Microsoft's own files, gaps in a text, and configs that are refused."""

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

import glassformer as gf
from families import VOCABULARY, random_model, sequences
from glassformer.hub.load import model_facts
from glassformer.inspect.laws import pad, run
from hub.changes import edit_config

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
SMALL = {"vocab_size": VOCABULARY, "hidden_size": 12, "num_attention_heads": 3, "num_hidden_layers": 2}
SMALL |= {"intermediate_size": 16, "max_position_embeddings": 40, "relative_attention": True}
V3 = SMALL | {"position_buckets": 8, "pos_att_type": "p2c|c2p", "share_att_key": True, "norm_rel_ebd": "layer_norm"}
V3 |= {"position_biased_input": False, "type_vocab_size": 0}
V2 = V3 | {"conv_kernel_size": 3, "conv_act": "gelu", "attention_head_size": 4}


def folder_of(path, head, **settings):
    model = random_model("deberta-v2", head, {**V3, "legacy": False, **settings})
    return gf.save(model, path), model


def test_a_file_of_microsofts_has_heads_of_pretraining_and_a_config_that_is_silent(tmp_path):
    folder, model = folder_of(tmp_path, "fill-mask")
    tensors = load_file(folder / "model.safetensors")
    pretraining = {f"mask_predictions.{name}": torch.ones(12) for name in ("dense.weight", "LayerNorm.weight")}
    save_file({**tensors, **pretraining}, folder / "model.safetensors")
    edit_config(folder, architectures="REMOVE", legacy="REMOVE")
    words = gf.load(folder, head="fill-mask")
    ids, mask = pad(sequences(), model)
    assert_close(run(words, ids, mask)["logits"], run(model, ids, mask)["logits"])
    assert words.config.legacy is False
    assert words.load_report.new == []
    assert set(words.load_report.unused) == set(pretraining)
    bare = gf.load(folder)
    assert set(bare.load_report.unused) == {name for name in {**tensors, **pretraining} if "predictions" in name}


def test_an_older_head_stays_one_beside_a_newer(tmp_path):
    folder, model = folder_of(tmp_path, "fill-mask", legacy=True)
    tensors = load_file(folder / "model.safetensors")
    save_file({**tensors, "lm_predictions.lm_head.bias": torch.ones(VOCABULARY)}, folder / "model.safetensors")
    found = gf.load(folder)
    assert found.config.legacy is True
    ids, mask = pad(sequences(), model)
    assert_close(run(found, ids, mask)["logits"], run(model, ids, mask)["logits"])


@pytest.mark.parametrize("settings", [V3, V2, V2 | {"relative_attention": False}])
def test_a_gap_in_a_text_counts_as_in_transformers(settings, tmp_path):
    """Distances span it, and the convolution sees zeros there."""
    folder = gf.save(random_model("deberta-v2", None, settings), tmp_path)
    peer = transformers.DebertaV2Model.from_pretrained(folder).eval()
    ids = torch.randint(4, VOCABULARY, (2, 9), generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([[1, 1, 0, 0, 1, 1, 1, 0, 0], [0, 1, 1, 1, 1, 0, 1, 1, 1]])
    with torch.no_grad():
        expected = peer(input_ids=ids, attention_mask=mask).last_hidden_state
        found = gf.load(folder)(ids, mask).last_hidden_state
    assert_close(found[mask.bool()], expected[mask.bool()], atol=1e-5, rtol=1e-5)


def test_texts_longer_than_the_distances_that_are_told_apart(tmp_path):
    folder = gf.save(random_model("deberta-v2", None, V2 | {"max_position_embeddings": 300}), tmp_path)
    edit_config(folder, max_relative_positions=50)
    peer = transformers.DebertaV2Model.from_pretrained(folder).eval()
    ids = torch.randint(4, VOCABULARY, (1, 200), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected, found = peer(input_ids=ids).last_hidden_state, gf.load(folder)(ids).last_hidden_state
    assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("settings", [V3, V2, V3 | {"position_buckets": -1}, V3 | {"max_relative_positions": 12}])
def test_texts_longer_than_max_position_embeddings(settings, tmp_path):
    """Distances alone count, so that any length is read; padding is invisible there too."""
    folder = gf.save(random_model("deberta-v2", None, settings), tmp_path)
    peer, model = transformers.DebertaV2Model.from_pretrained(folder).eval(), gf.load(folder)
    ids, mask = pad(sequences(lengths=(170, 3, 90)), model)
    with torch.no_grad():
        expected = peer(input_ids=ids, attention_mask=mask).last_hidden_state
    found = run(model, ids, mask)["last_hidden_state"]
    assert_close(found[mask.bool()], expected[mask.bool()], atol=1e-5, rtol=1e-5)
    assert model.config.max_positions is None
    assert model_facts(folder).max_positions is None


def test_a_table_of_positions_ends(tmp_path):
    folder, model = folder_of(tmp_path, None, position_biased_input=True)
    with pytest.raises(ValueError, match="41 tokens do not fit into this model's 40 positions"):
        model(torch.full((1, 41), 5))
    assert model_facts(folder).max_positions == 40


@pytest.mark.parametrize(("kinds", "segments"), [(0, False), (2, True)])
def test_a_tokenizer_gives_segments_where_the_model_has_some(kinds, segments, tmp_path):
    folder, model = folder_of(tmp_path, None, type_vocab_size=kinds)
    assert model.config.has_segments is segments
    assert model_facts(folder).segments is segments


@pytest.mark.parametrize(
    ("model_type", "segments"), [("deberta-v2", None), ("bert", True), ("roberta", False), ("glassformer-rnn", False)]
)
def test_a_tokenizer_beside_a_config_that_is_refused(model_type, segments, tmp_path):
    """What every model of the kind does is known even so."""
    (tmp_path / "config.json").write_text(f'{{"model_type": "{model_type}", "vocab_size": "many"}}')
    assert model_facts(tmp_path).segments is segments


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pos_att_type": ["c2p", "p2p"]}, r"pos_att_type\[1\] is 'p2p'; it must be 'c2p' or 'p2c' or 'none'"),
        ({"pos_att_type": "p2p|c2p"}, r"pos_att_type\[0\] is 'p2p'"),
        ({"norm_rel_ebd": "batch_norm"}, "norm_rel_ebd is 'batch_norm'; it must be 'none' or 'layer_norm'"),
        ({"conv_kernel_size": 4}, "a convolution over 4 tokens has none in its middle"),
        ({"attention_head_size": 7}, "attention_head_size = 7, which is not supported; supported: 4"),
        ({"pooler_hidden_size": 7}, "pooler_hidden_size = 7, which is not supported; supported: 12"),
        ({"embedding_size": 5}, "legacy = false needs embeddings as wide as the model, 12, and embedding_size is 5"),
        ({"position_buckets": 1}, "1 buckets cannot hold distances up to 40"),
    ],
)
def test_a_config_that_cannot_be_carried_out_is_refused(changes, message, tmp_path):
    folder, _ = folder_of(tmp_path, "fill-mask")
    edit_config(folder, **changes)
    with pytest.raises(ValueError, match=message) as error:
        gf.load(folder)
    assert "\n" not in str(error.value)
