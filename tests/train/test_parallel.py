"""Law 7 over layouts: an update by many processes, each with a shard or all of the weights, is that of one process."""

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch

import glassformer as gf
from families import CASES
from glassformer.text.train import train
from tasks.cases import ONE_OF_EACH_TASK
from train.many import found_by
from train.parallel_cases import FAMILIES, PARTS

pytestmark = pytest.mark.slow
SOME = [
    *ONE_OF_EACH_TASK,
    *(f"{task}/{arch}" for arch, (task, _) in FAMILIES.items()),
    "text-generation/lstm/carried",
    "translation/transformer",
    "text-classification/bert/r_drop",
]
DECODERS = ("gpt2", "decoder", "llama")
EVEN = [name for name in SOME if "adding" not in name]  # of which something can be dealt out
WORLDS = [("fsdp", 2, PARTS), ("kept", 2, SOME), ("ddp", 4, [*ONE_OF_EACH_TASK]), ("fsdp", 4, SOME), ("hsdp", 4, SOME)]
LAYERED = ["text-generation/llama", "fill-mask/modernbert", "translation/transformer", "span-corruption/t5"]
WORLDS += [("joined", 2, SOME), ("partly", 2, LAYERED), ("joined-again", 2, LAYERED)]
WORLDS += [("tensor", 2, EVEN), ("tensor-fsdp", 4, EVEN)]
DEALT = [name for name in PARTS if name.split("/")[0] == "text-generation" and name.split("/")[1] in DECODERS]
TWO = ["text-generation/gpt2/rows", "text-generation/llama"]
WORLDS += [("context", 2, DEALT), ("context-fsdp", 4, TWO), ("context-hsdp", 4, TWO), ("context-tensor", 4, TWO)]
CLOSE = {"loss": 1e-5, "norm": 5e-6, "gradient": 5e-6, "weights": 1e-6}  # losses are summed in float32


@cache
def compared(world_size):
    """What is found of all layouts of so many processes: to start them takes as long as some layouts do."""
    asked = {layout: names for layout, size, names in WORLDS if size == world_size}
    with TemporaryDirectory() as folder:
        return found_by(world_size, "parallel_cases", Path(folder) / "found.json", json.dumps(asked))


@pytest.mark.parametrize(("layout", "world_size", "names"), WORLDS, ids=lambda value: str(value)[:12])
def test_many_processes_take_the_steps_of_one(layout, world_size, names):
    found = compared(world_size)[layout]
    assert list(found) == names
    far = {
        name: values
        for name, values in found.items()
        if "error" in values or any(values[what] > most for what, most in CLOSE.items())
    }
    assert far == {}


def test_in_half_precision_a_task_is_given_its_numbers_as_they_are(tmp_path):
    """Labels, weights and what is drawn are not rounded as weights are, and layers share what a batch has once."""
    found = found_by(2, "half_cases", tmp_path / "found.json")
    for layout, cases in found.items():
        for name, one in cases.items():
            assert one["same"], (layout, name)
            assert one["kinds"] in ([], ["torch.float32"]), (layout, name)
            assert one["rotations"] == one["batches"] * name.endswith("llama"), (layout, name)
    assert sum(one["floats"] > 0 for one in found["fsdp"].values()) >= 3


def test_heads_neurons_and_words_that_are_dealt_out_compute_what_the_whole_model_does(tmp_path):
    """In double precision: outputs, loss and gradients of every family and head."""
    found = found_by(2, "tensor_cases", tmp_path / "found.json")
    assert found.keys() == {f"{name}/{head}" for name, head in CASES}
    far = {
        name: values
        for name, values in found.items()
        if "error" in values or max(values[what] for what in ("outputs", "loss", "gradients")) > 1e-12
    }
    assert far == {}
    assert min(values["dealt"] for values in found.values()) > 0


@pytest.mark.parametrize("world_size", [2, 4])
def test_texts_that_are_dealt_out_teach_what_whole_ones_do_and_are_kept_in_less_memory(tmp_path, world_size):
    """In double precision, of every causal decoder; what is drawn in a text is drawn by each process for itself."""
    found = found_by(world_size, "context_cases", tmp_path / "found.json")
    far = {
        name: values
        for name, values in found["decoders"].items()
        if "error" in values or values["loss"] > 1e-7 or values["gradients"] > 1e-12
    }
    assert far == {}
    assert len(found["decoders"]) > 1
    for kept, recomputed in found["kept"].values():
        assert kept < 1 / world_size + 0.12  # keys and values that were gathered are on each process
        assert recomputed < 1.01 / world_size
    assert len({*found["draws"]["inside"]}) == world_size
    assert len({*found["draws"]["after"]}) == 1


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="only Linux tells mapped memory from a process's own"
)
def test_models_are_dealt_out_while_each_process_holds_little_more_than_its_shard(tmp_path):
    """From folders in 32 and in 16 bits, with tensors that are turned and split (GPT-2), and from nothing."""
    tokenizer = trained_on(["a b c"], tmp_path)
    llama = {"hidden_size": 640, "num_hidden_layers": 7, "intermediate_size": 2560, "num_attention_heads": 8}
    gpt2 = {"n_embd": 640, "n_layer": 9, "n_head": 8, "n_positions": 64}
    folders = []
    for kind, sizes in (("llama", llama), ("gpt2", gpt2)):
        model = gf.build(kind, "text-generation", vocab_size=300, **sizes)
        for dtype in (torch.float32, torch.bfloat16):
            folder = tmp_path / f"{kind} {str(dtype)[6:]}"
            folders.append(gf.save(model.to(dtype), folder, tokenizer=tokenizer))
    found = found_by(4, "loading_cases", tmp_path / "found.json", *folders)
    assert len(found) == 8
    for name, processes in found.items():
        for one in processes:
            assert one["model"] > 150e6
            assert one["shard"] < 0.26 * one["model"]
            assert one["difference"] == 0.0, name
            assert one["peak"] < 1.2 * one["shard"], (name, processes)


def trained_on(texts, folder):
    (folder / "texts.txt").write_text("\n".join(texts))
    return train([folder / "texts.txt"], kind="bpe", vocab_size=300)
