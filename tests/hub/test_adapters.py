"""Folders with a LoRA adapter, as PEFT writes them: the base with the correction merged."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import glassformer as gf

RANK, ALPHA = 3, 6.0
QUERY = "bert.encoder.layer.1.attention.self.query"
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}


@pytest.fixture
def base(tmp_path):
    torch.manual_seed(0)
    return gf.save(gf.build("bert", "fill-mask", vocab_size=40, **SIZES), tmp_path / "base")


def adapter(base: Path, folder: Path, **changes: object) -> Path:
    """A classifier over the base: one layer corrected, and a head of its own."""
    torch.manual_seed(1)
    model = gf.load(base, head="text-classification", labels=["no", "yes"])
    gf.save(model, folder)
    heads = {name: value for name, value in load_file(folder / "model.safetensors").items() if "encoder" not in name}
    (folder / "model.safetensors").unlink()
    tensors = {f"base_model.model.{name}": value for name, value in heads.items() if "embeddings" not in name}
    tensors[f"base_model.model.{QUERY}.lora_A.weight"] = torch.randn(RANK, 16)
    tensors[f"base_model.model.{QUERY}.lora_B.weight"] = torch.randn(16, RANK)
    save_file(tensors, folder / "adapter_model.safetensors")
    config = {"base_model_name_or_path": str(base), "peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA} | changes
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder


def test_an_adapter_is_its_base_with_the_correction_added(base, tmp_path):
    folder = adapter(base, tmp_path / "adapter")
    found, halves = gf.load(folder), load_file(folder / "adapter_model.safetensors")
    down, up = (halves[f"base_model.model.{QUERY}.lora_{half}.weight"] for half in "AB")
    before = gf.load(base, head="text-classification", labels=["no", "yes"])
    expected = before.get_parameter("layers.1.attention.query.weight") + ALPHA / RANK * up @ down
    torch.testing.assert_close(found.get_parameter("layers.1.attention.query.weight"), expected)
    same = "layers.0.attention.query.weight"
    torch.testing.assert_close(found.get_parameter(same), before.get_parameter(same))
    head = halves["base_model.model.classifier.weight"]
    torch.testing.assert_close(found.get_parameter("head.output.weight").detach(), head)
    assert found(input_ids=torch.tensor([[1, 2, 3]])).logits.shape == (1, 2)
    gf.save(found, tmp_path / "merged")  # a folder with weights of its own
    torch.testing.assert_close(dict(gf.load(tmp_path / "merged").state_dict()), dict(found.state_dict()))


def test_rank_stabilised_adapters_are_scaled_by_the_root_of_their_rank(base, tmp_path):
    plain, other = (
        gf.load(adapter(base, tmp_path / str(flag), use_rslora=flag)).get_parameter("layers.1.attention.query.weight")
        for flag in (False, True)
    )
    start = gf.load(base, head=None).get_parameter("layers.1.attention.query.weight")
    torch.testing.assert_close(other - start, (plain - start) * RANK**0.5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"peft_type": "IA3"}, "peft_type"),
        ({"use_dora": True}, "use_dora"),
        ({"rank_pattern": {"query": 8}}, "rank_pattern"),
        ({"r": 0}, "r "),
    ],
)
def test_other_adapters_are_refused(base, tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        gf.load(adapter(base, tmp_path / "adapter", **changes))


def test_a_correction_of_a_layer_that_is_not_there_is_refused(base, tmp_path):
    folder = adapter(base, tmp_path / "adapter")
    tensors = load_file(folder / "adapter_model.safetensors")
    save_file(
        {name.replace("layer.1", "layer.7"): value for name, value in tensors.items()},
        folder / "adapter_model.safetensors",
    )
    with pytest.raises(ValueError, match="layer.7.attention.self.query, which its base or the other half of it lacks"):
        gf.load(folder)


def test_an_adapter_of_an_adapter_is_refused(base, tmp_path):
    first = adapter(base, tmp_path / "first")
    with pytest.raises(ValueError, match="which is an adapter itself"):
        gf.load(adapter_over(first, tmp_path / "second"))


def adapter_over(first: Path, folder: Path) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text((first / "config.json").read_text())
    config = json.loads((first / "adapter_config.json").read_text()) | {"base_model_name_or_path": str(first)}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return folder


# Tokens that were added, and layers whose weights lie the other way round.

GPT = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 12}
OLD, NEW = 30, (7, 30, 31)  # one token that was there, two that are new


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # peft's own
def test_what_peft_wrote_over_a_gpt2_is_what_peft_computes(tmp_path):
    peft, transformers = pytest.importorskip("peft"), pytest.importorskip("transformers")
    torch.manual_seed(0)
    theirs = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=OLD, **GPT)).eval()
    theirs.save_pretrained(tmp_path / "base")
    theirs.resize_token_embeddings(OLD + 2)
    wanted = peft.LoraConfig(
        r=RANK, lora_alpha=ALPHA, target_modules=["c_attn", "c_fc", "c_proj"], fan_in_fan_out=True,
        trainable_token_indices={"wte": list(NEW)}, init_lora_weights=False,
    )  # fmt: skip
    theirs = peft.get_peft_model(theirs, wanted).eval()
    with torch.no_grad():
        for name, tensor in theirs.named_parameters():
            if "trainable_tokens_delta" in name:
                tensor.normal_()
    theirs.peft_config["default"].base_model_name_or_path = str(tmp_path / "base")
    theirs.save_pretrained(tmp_path / "adapter")
    theirs.config.save_pretrained(tmp_path / "adapter")
    ids = torch.tensor([[1, *NEW, 5, 6]])
    with torch.no_grad():
        ours = gf.load(tmp_path / "adapter")
        torch.testing.assert_close(ours(input_ids=ids).logits, theirs(input_ids=ids).logits, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("tokens", [[30], [30, 32], [29, 33], [31, 31], [10**15, 30]])
def test_rows_of_unknown_tokens_are_refused(tmp_path, tokens):
    gf.save(gf.build("gpt2", "text-generation", vocab_size=OLD, **GPT), tmp_path / "base")
    gf.save(gf.build("gpt2", "text-generation", vocab_size=OLD + 2, **GPT), tmp_path / "adapter")
    (tmp_path / "adapter" / "model.safetensors").unlink()
    rows = {"base_model.model.transformer.wte.token_adapter.trainable_tokens_delta": torch.randn(2, 16)}
    save_file(rows, tmp_path / "adapter" / "adapter_model.safetensors")
    config = {"base_model_name_or_path": str(tmp_path / "base"), "peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA}
    config["trainable_token_indices"] = {"wte": tokens}
    (tmp_path / "adapter" / "adapter_config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="do not say of which tokens its 2 rows are"):
        gf.load(tmp_path / "adapter")
