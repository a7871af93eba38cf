"""Loading and saving: what is in a folder, what is wrong with it, and what it costs."""

import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

import glassformer as gf
from families import CASES, SMALL_BERT, SMALL_GPT, random_model, same_outputs
from glassformer.hub.registry import ARCHITECTURES
from glassformer.hub.weights import tensors_of
from hub.changes import edit_config, rewrite
from inspect_cases import plainest

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()


def test_load_gives_eval_mode_and_a_report(folder):
    model = gf.load(folder)
    assert not model.training
    assert model.load_report.new == []
    assert model.load_report.unused == []
    assert "embeddings.token.weight" in model.load_report.loaded
    assert model.head.decoder.weight is model.embeddings.token.weight


@pytest.mark.parametrize("legacy", [False, True])
def test_pickled_weights_load_without_running_code(folder, legacy):
    model = gf.load(folder)
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(tensors, folder / "pytorch_model.bin", _use_new_zipfile_serialization=not legacy)
    same_outputs(model, gf.load(folder))


def test_a_malicious_pickle_is_refused(folder, tmp_path):
    mark = tmp_path / "ran"

    class Evil:
        def __reduce__(self):
            return (Path.touch, (mark,))

    (folder / "model.safetensors").unlink()
    with (folder / "pytorch_model.bin").open("wb") as file:
        pickle.dump({"a": Evil()}, file)
    with pytest.raises(ValueError, match="refused: loading it could run code"):
        gf.load(folder)
    torch.save({"a": Evil()}, folder / "pytorch_model.bin")
    with pytest.raises(ValueError, match="refused: loading it could run code"):
        gf.load(folder)
    assert not mark.exists()


@pytest.mark.parametrize("suffix", ["safetensors", "bin"])
def test_sharded_weights_load(folder, suffix):
    model = gf.load(folder)
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    stem = "model" if suffix == "safetensors" else "pytorch_model"
    names = sorted(tensors)
    weight_map = {}
    for number, part in enumerate((names[::2], names[1::2]), 1):
        file = f"{stem}-{number:05}-of-00002.{suffix}"
        shard = {name: tensors[name] for name in part}
        save_file(shard, folder / file) if suffix == "safetensors" else torch.save(shard, folder / file)
        weight_map |= dict.fromkeys(part, file)
    index = folder / f"{stem}.{suffix}.index.json"
    index.write_text(json.dumps({"weight_map": weight_map}))
    same_outputs(model, gf.load(folder))
    (folder / f"{stem}-00002-of-00002.{suffix}").unlink()
    with pytest.raises(ValueError, match=f"names 1 files that are not there: {stem}-00002"):
        gf.load(folder)
    index.write_text(json.dumps({"weight_map": {"a": "../../etc/passwd"}}))
    with pytest.raises(ValueError, match="outside its folder"):
        gf.load(folder)


@pytest.mark.parametrize("keep", [0, 4, 100, -1])
def test_a_cut_file_is_a_one_line_error(folder, keep):
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[:keep])
    with pytest.raises(ValueError, match=r"cannot be read .*fetch it again") as caught:
        gf.load(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("keep", [0, 4, 100, -100])
def test_a_cut_pickle_is_a_one_line_error(folder, keep):
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    content = (folder / "pytorch_model.bin").read_bytes()
    (folder / "pytorch_model.bin").write_bytes(content[:keep])
    with pytest.raises(ValueError, match="pytorch_model.bin") as caught:
        gf.load(folder)
    assert "\n" not in str(caught.value)


def test_all_that_is_wrong_is_said_at_once(folder):
    def spoil(tensors):
        tensors.pop("bert.encoder.layer.1.attention.self.key.bias")
        tensors["bert.embeddings.LayerNorm.weight"] = torch.ones(13)
        return tensors | {"bert.encoder.layer.7.surprise": torch.ones(1)}

    rewrite(folder, spoil)
    with pytest.raises(ValueError, match="do not fit") as caught:
        gf.load(folder)
    text = str(caught.value)
    assert "bert.encoder.layer.7.surprise" in text
    assert "layers.1.attention.key.bias" in text
    assert "bert.embeddings.LayerNorm.weight: [13] in the file, [12] by config.json" in text


def test_shapes_are_checked_before_memory_is_taken(folder):
    """A config that asks for terabytes is refused by the shapes alone."""
    edit_config(folder, vocab_size=10**8)
    with pytest.raises(ValueError, match=r"\[100000000, 12\] by config.json"):
        gf.load(folder)


def test_old_files_load(folder):
    """gamma and beta, buffers of long ago, an extra head, tied copies written out."""
    model = gf.load(folder)

    def age(tensors):
        aged = {
            name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
            for name, tensor in tensors.items()
        }
        return aged | {
            "bert.embeddings.position_ids": torch.arange(40)[None],
            "cls.predictions.decoder.weight": tensors["bert.embeddings.word_embeddings.weight"].clone(),
            "cls.seq_relationship.weight": torch.randn(2, 12),
            "cls.seq_relationship.bias": torch.randn(2),
            "bert.pooler.dense.weight": torch.randn(12, 12),
            "bert.pooler.dense.bias": torch.randn(12),
        }

    rewrite(folder, age)
    old = gf.load(folder)
    same_outputs(model, old)
    assert sorted(old.load_report.unused) == [
        "bert.pooler.dense.bias",
        "bert.pooler.dense.weight",
        "cls.seq_relationship.bias",
        "cls.seq_relationship.weight",
    ]


def test_a_bare_file_may_lack_or_have_the_prefix(tmp_path):
    model = random_model("bert", None, SMALL_BERT)
    folder = gf.save(model, tmp_path)
    assert "embeddings.word_embeddings.weight" in load_file(folder / "model.safetensors")
    rewrite(folder, lambda tensors: {f"bert.{name}": tensor for name, tensor in tensors.items()})
    same_outputs(model, gf.load(folder))


def test_a_bare_model_without_a_pooler(folder):
    model = gf.load(folder, head=None)
    assert model.pooler is None
    assert model(input_ids=torch.tensor([[5, 6]]))._fields == ("last_hidden_state",)


def test_a_fresh_head_is_asked_for_and_reported(folder, caplog):
    model = gf.load(folder, head="text-classification", labels=["no", "maybe", "yes"])
    assert model(input_ids=torch.tensor([[5, 6]])).logits.shape == (1, 3)
    assert sorted(model.load_report.new) == [
        "head.output.bias",
        "head.output.weight",
        "pooler.dense.bias",
        "pooler.dense.weight",
    ]
    assert "cls.predictions.bias" in model.load_report.unused
    assert model.config.id2label == {0: "no", 1: "maybe", 2: "yes"}
    assert "4 new with random values" in caplog.text
    assert not any(p.is_meta for p in model.parameters())


@pytest.mark.parametrize(("model_type", "head"), [case for case in CASES if None in ARCHITECTURES[case[0]].heads])
def test_a_fresh_head_leaves_the_loaded_weights_alone(model_type, head, tmp_path):
    """Whatever the file holds is what the model holds, tied or not."""
    chosen = plainest(model_type) | {"tie_word_embeddings": True, "bidirectional": False}
    bare = random_model(model_type, None, chosen)
    model = gf.load(gf.save(bare, tmp_path), head=head)
    before, after = tensors_of(bare), tensors_of(model)
    if head == "feature-extraction":  # an encoder alone
        before = {name.removeprefix("encoder."): tensor for name, tensor in before.items()}
    shared = [name for name in before if name in after]
    assert len(shared) >= 5
    for name in shared:
        assert_close(after[name], before[name], atol=0, rtol=0)
    assert not any(tensor.is_meta for tensor in after.values())


def test_layers_too_many_in_the_file_are_an_error(folder):
    edit_config(folder, num_hidden_layers=1)
    with pytest.raises(ValueError, match="in the file but unknown: bert.encoder.layer.1"):
        gf.load(folder)


def test_a_gpt2_with_a_foreign_head_loads_without_it(tmp_path):
    folder = gf.save(random_model("gpt2", None, SMALL_GPT), tmp_path)
    rewrite(folder, lambda tensors: tensors | {"score.weight": torch.randn(2, 12)})
    assert gf.load(folder, head=None).load_report.unused == ["score.weight"]


@pytest.mark.parametrize("head", ["text-generation", "text-classification"])
def test_a_recurrent_network_is_read_without_its_head(tmp_path, head):
    model = gf.build("glassformer-rnn", head, vocab_size=20, hidden_size=8, embedding_size=8, pooling="attention")
    gf.save(model, tmp_path)
    bare = gf.load(tmp_path, head=None)
    assert set(bare.load_report.unused) == model.state_dict().keys() - bare.state_dict().keys()
    ids = torch.tensor([[3, 4, 5]])
    torch.testing.assert_close(bare(ids).last_hidden_state, model.eval().hidden(ids))


def test_a_recurrent_language_model_becomes_a_classifier_whose_pooling_is_new(tmp_path):
    sizes = {"vocab_size": 20, "hidden_size": 8, "embedding_size": 8, "pooling": "attention"}
    gf.save(gf.build("glassformer-rnn", "text-generation", **sizes), tmp_path)
    new = gf.load(tmp_path, head="text-classification").load_report.new
    assert any(name.startswith("pooling.") for name in new)
    assert all(name.startswith(("pooling.", "head.")) for name in new)


def test_what_a_config_leaves_out_is_as_transformers_has_it(tmp_path):
    chosen = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 16, "vocab_size": 30, "pad_token_id": 0}
    chosen |= {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "decoder_start_token_id": 0}
    peer = transformers.BartModel(transformers.BartConfig(**chosen)).eval()
    peer.save_pretrained(tmp_path)
    edit_config(tmp_path, scale_embedding="REMOVE", activation_function="REMOVE", encoder_ffn_dim="REMOVE")
    ids = torch.tensor([[5, 6, 7]])
    with torch.no_grad():
        ours = gf.load(tmp_path)(input_ids=ids, decoder_input_ids=ids).last_hidden_state
        assert_close(ours, peer(input_ids=ids, decoder_input_ids=ids).last_hidden_state)


def test_labels_dtypes_and_devices_are_checked(folder):
    for labels in ("good", 0, ["a", "a"], []):
        with pytest.raises(ValueError, match="labels must be some different names"):
            gf.load(folder, head="text-classification", labels=labels)
    with pytest.raises(ValueError, match="labels are for classification heads, not for None"):
        gf.load(folder, head=None, labels=3)
    with pytest.raises(ValueError, match="dtype torch.int32 is not one of"):
        gf.load(folder, dtype=torch.int32)
    with pytest.raises(ValueError, match="device 'nonsense' cannot be used"):
        gf.load(folder, device="nonsense")


def test_settings_of_a_folder_can_be_changed(folder):
    assert gf.load(folder, config={"hidden_dropout_prob": 0.37}).config.hidden_dropout_prob == 0.37
    with pytest.raises(ValueError, match="bert has no setting 'dropout'; it has: .*hidden_dropout_prob"):
        gf.load(folder, config={"dropout": 0.1})
    with pytest.raises(ValueError, match="shape"):
        gf.load(folder, config={"hidden_size": 24})


def test_more_labels_than_the_file_has_is_a_fresh_head(tmp_path):
    folder = gf.save(random_model("bert", "text-classification", SMALL_BERT), tmp_path)
    assert gf.load(folder, labels=5).head.output.weight.shape == (5, 12)
    assert gf.load(folder, labels=2).load_report.new == []


def test_a_missing_head_that_nobody_asked_for_is_an_error(folder):
    edit_config(folder, architectures=["BertForSequenceClassification"])
    with pytest.raises(ValueError, match=r"missing from the file: .*head.output.weight"):
        gf.load(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "REMOVE"}, 'has no "model_type"; add one of: bert'),
        ({"model_type": "mamba"}, "model_type 'mamba' is not supported; supported: bert"),
        ({"architectures": ["BertForMultipleChoice"]}, "BertForMultipleChoice, which is not supported"),
        ({"hidden_act": "golu"}, "unknown activation 'golu'"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type = 'relative_key', which is not"),
        ({"is_decoder": True}, "is_decoder = True, which is not supported"),
        ({"num_attention_heads": 5}, "a width of 12 cannot be shared by 5 heads"),
        ({"id2label": {"0": "a", "7": "b"}}, "must number the labels 0 to 1"),
        ({"id2label": ["a", "b"]}, r"id2label is \['a', 'b'\]; it must be an object"),
        ({"num_hidden_layers": "2"}, "num_hidden_layers is '2'; it must be a whole number from 1 to 1000"),
        ({"num_hidden_layers": -1}, "num_hidden_layers is -1; it must be"),
        ({"problem_type": "poetry"}, "problem_type is 'poetry'; it must be 'single_label_classification'"),
        ({"quantization_config": {"bits": 4}}, "quantization_config = .* is not supported"),
    ],
)
def test_a_config_that_cannot_be_carried_out_is_refused(folder, changes, message):
    edit_config(folder, **changes)
    with pytest.raises(ValueError, match=message):
        gf.load(folder)


def test_other_wrong_input_is_explained(folder, tmp_path):
    with pytest.raises(ValueError, match="bert has no head 'poetry'; it has: None, fill-mask"):
        gf.load(folder, head="poetry")
    with pytest.raises(ValueError, match="dtype 'int8' is not one of"):
        gf.load(folder, dtype="int8")
    with pytest.raises(ValueError, match=r"has no config\.json"):
        gf.load(tmp_path)
    with pytest.raises(ValueError, match="is a file; give the folder"):
        gf.load(folder / "config.json")
    with pytest.raises(ValueError, match="there is no folder"):
        gf.load(tmp_path / "nowhere")
    (folder / "config.json").write_text("{")
    with pytest.raises(ValueError, match="is not valid JSON"):
        gf.load(folder)
    (folder / "config.json").write_text('{"model_type": "bert"}')
    (folder / "model.safetensors").unlink()
    with pytest.raises(ValueError, match="holds no weights; looked for model.safetensors"):
        gf.load(folder)


def test_dtype_defaults_to_the_files_and_can_be_chosen(folder):
    half = gf.load(folder, dtype="bfloat16")
    assert {p.dtype for p in half.parameters()} == {torch.bfloat16}
    gf.save(half, folder)
    assert {p.dtype for p in gf.load(folder).parameters()} == {torch.bfloat16}
    assert {p.dtype for p in gf.load(folder, dtype=torch.float32).parameters()} == {torch.float32}


def test_unknown_names_of_the_package_are_explained():
    with pytest.raises(AttributeError, match="glassformer has no 'lode'; it has: "):
        gf.lode  # noqa: B018
    with pytest.raises(ValueError, match="bert has no setting .hidden.; it has: model_type, vocab_size"):
        gf.build("bert", hidden=3)


PEAK = """
import resource, sys, torch, glassformer as gf
import glassformer.hub.load
from pathlib import Path
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
model = gf.load(sys.argv[1])
total = sum(float(p.sum()) for p in model.parameters())  # every page is touched
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
weights = sum(p.numel() * p.element_size() for p in model.parameters())
print((after - before) * 1024 / weights)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model_type", "settings"),
    [
        ("bert", {"vocab_size": 20000, "num_hidden_layers": 8}),
        ("gpt2", {"vocab_size": 20000, "n_layer": 8}),
    ],
)
def test_loading_needs_no_second_copy(model_type, settings, tmp_path):
    """Peak memory at most 1.3 times the weights, transposed and split tensors included."""
    head = "fill-mask" if model_type == "bert" else "text-generation"
    folder = gf.save(gf.build(model_type, head, **settings), tmp_path)
    done = subprocess.run([sys.executable, "-c", PEAK, folder], capture_output=True, text=True, check=True)
    assert float(done.stdout) <= 1.3


def test_a_number_of_labels_beside_the_default_names_counts_as_in_transformers(tmp_path):
    folder = gf.save(gf.build("bert", "text-classification", **SMALL_BERT, num_labels=7), tmp_path)
    edit_config(folder, num_labels=7, id2label={"0": "LABEL_0", "1": "LABEL_1"}, label2id={"LABEL_0": 0, "LABEL_1": 1})
    assert gf.load(folder).config.id2label == transformers.BertConfig.from_pretrained(folder).id2label
    assert len(gf.load(folder).config.id2label) == 7


def test_a_folder_without_a_model_type_can_be_told_one(folder):
    whole = gf.load(folder)
    edit_config(folder, model_type="REMOVE")
    same_outputs(whole, gf.load(folder, config={"model_type": "bert"}))


def test_a_head_is_offered_where_the_class_is_unknown(folder):
    whole = gf.load(folder)
    edit_config(folder, architectures=["BertForEverything"])
    with pytest.raises(ValueError, match=r"BertForEverything.*gf.load\(…, head=H\), H one of None, 'fill-mask'"):
        gf.load(folder)
    same_outputs(whole, gf.load(folder, head="fill-mask"))
