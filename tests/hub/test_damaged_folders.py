"""Folders whose sizes, types or files cannot be right: refused before anything is built, or taken for what they are."""

import json
import os
import zipfile
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file
from torch.testing import assert_close

import glassformer as gf
from families import same_outputs
from hub.changes import edit_config, rewrite


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_hidden_layers": 100_000}, "num_hidden_layers is 100000; it must be a whole number from 1 to 1000"),
        ({"num_labels": 10**9}, "num_labels is 1000000000; it must be a number from 1 to 1000000"),
        ({"vocab_size": 2**62}, "vocab_size is 4611686018427387904; it must be"),
        ({"max_position_embeddings": 10**8}, r"\[100000000, 12\] by config.json"),
        ({"hidden_size": 10**7 * 3}, "30000000"),
        ({"hidden_dropout_prob": 7}, "hidden_dropout_prob is 7; it must be a number from 0 to 1"),
        ({"architectures": "BertModel"}, "architectures is 'BertModel'; it must be a list"),
        ({"model_type": 3}, "model_type is 3; it must be text"),
    ],
)
def test_absurd_sizes_are_refused_before_anything_is_built(folder, changes, message):
    edit_config(folder, **changes)
    with pytest.raises(ValueError, match=message):
        gf.load(folder)


def test_a_computed_table_has_bounds(tmp_path):
    folder = gf.save(
        gf.build("marian", "text2text-generation", d_model=16, encoder_layers=1, decoder_layers=1), tmp_path
    )
    edit_config(folder, max_position_embeddings=10**8)
    with pytest.raises(
        ValueError, match="max_position_embeddings is 100000000; it must be a whole number from 1 to 131072"
    ):
        gf.load(folder)


@pytest.mark.parametrize("dtype", [torch.int32, torch.bool, torch.uint8])
def test_weights_that_are_no_floats_are_refused(folder, dtype):
    rewrite(folder, lambda tensors: tensors | {"cls.predictions.bias": torch.zeros(41, dtype=dtype)})
    name = str(dtype).removeprefix("torch.")
    with pytest.raises(ValueError, match=rf"one of float64, float32.*cls.predictions.bias \({name}\)"):
        gf.load(folder)


def test_mixed_dtypes_load_as_the_widest_and_say_so(folder, caplog):
    whole = gf.load(folder)
    rewrite(folder, lambda tensors: {n: t.half() if "layer.0" in n else t for n, t in tensors.items()})
    mixed = gf.load(folder)
    assert {tensor.dtype for tensor in mixed.parameters()} == {torch.float32}
    assert "mixes float16, float32: all of it is loaded as float32" in caplog.text
    assert_close(mixed.state_dict(), whole.state_dict(), atol=1e-3, rtol=1e-3)
    assert {tensor.dtype for tensor in gf.load(folder, dtype="float16").parameters()} == {torch.float16}


def test_a_packed_archive_is_not_unpacked(folder):
    """A few kilobytes that would become a gigabyte."""
    (folder / "model.safetensors").unlink()
    with zipfile.ZipFile(folder / "pytorch_model.bin", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(10_000_000))
    with pytest.raises(ValueError, match=r"is packed: [\d,]+ bytes that claim to be 10,000,000"):
        gf.load(folder)


def test_a_tensor_larger_than_its_storage_is_refused(folder):
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    tensors["bert.embeddings.word_embeddings.weight"] = torch.zeros(1, 1).expand(10**6, 10**6)
    torch.save(tensors, folder / "pytorch_model.bin")
    with pytest.raises(ValueError, match="claims 1,000,000,000,000 numbers that the file does not hold"):
        gf.load(folder)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ({}, "lacks weight_map"),
        ({"weight_map": []}, r"weight_map is \[\]; it must be an object"),
        ({"weight_map": {"a": 3}}, "weight_map.a is 3; it must be text"),
        ({"weight_map": {"a": "../x"}}, "names files outside its folder"),
    ],
)
def test_an_index_that_is_none_is_explained(folder, index, message):
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ValueError, match=f"model.safetensors.index.json.*{message}"):
        gf.load(folder)


def test_an_id_beyond_the_embedding_is_named(folder):
    with pytest.raises(ValueError, match="a token has the id 41, and the model's table 41 rows"):
        gf.load(folder)(input_ids=torch.tensor([[3, 41, 2]]))


@pytest.mark.parametrize(
    "changes",
    [
        {"pad_token_id": -1},
        {"eos_token_id": [1, 2]},
        {"num_labels": 2.0},
        {"id2label": None, "label2id": {"a": "0", "b": "1"}},
        {"id2label": {"0": None, "1": "b"}},
    ],
)
def test_odd_values_that_transformers_takes_are_taken(folder, changes):
    whole = gf.load(folder)
    edit_config(folder, **changes)
    transformers.AutoConfig.from_pretrained(folder)
    same_outputs(whole, gf.load(folder))


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors", "generation_config.json"])
@pytest.mark.parametrize(("make", "said"), [(Path.mkdir, "a folder"), (os.mkfifo, "no regular file")])
def test_what_is_there_and_is_no_file_is_said_to_be_so(folder, name, make, said):
    (folder / name).unlink(missing_ok=True)
    make(folder / name)
    with pytest.raises(ValueError, match=f"{name} is {said}: a file is needed"):
        gf.load_tokenizer(folder) if name == "tokenizer.json" else gf.load(folder)


def test_an_archive_that_would_go_on_elsewhere_is_refused_in_one_line(folder):
    """A locator of a second disk before the end, as random bytes have made one."""
    (folder / "model.safetensors").unlink()
    locator = b"PK\x06\x07" + (1).to_bytes(4, "little") + bytes(8) + (2).to_bytes(4, "little")
    (folder / "pytorch_model.bin").write_bytes(bytes(40) + locator + b"PK\x05\x06" + bytes(18))
    with pytest.raises(ValueError, match="cannot be read"):
        gf.load(folder)
