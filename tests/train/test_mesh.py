"""What a mesh would exchange and hold is what FSDP exchanges and autograd keeps."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from numpy.testing import assert_allclose

from glassformer.hub.registry import build
from glassformer.train.memory import made_up_loss, measured
from glassformer.train.mesh import Mesh, exchanges, flops_per_token, held, padded_sizes
from glassformer.train.plan import Plan
from train.many import found_by

SOME = ["text-generation/gpt2", "sentence-order-prediction/albert", "translation/transformer"]
DEALT = ["text-generation/gpt2", "text-generation/llama", "text-generation/gpt2/drawn", "fill-mask/bert"]
DEALT += ["sentence-order-prediction/albert", "text-classification/deberta-v2", "fill-mask/modernbert"]
SHARDED = ("all-gather of weights", "reduce-scatter of gradients", "all-reduce of gradients")
ROW = tuple(
    f"all-reduce of {what}"
    for what in (
        "what blocks and tables give",
        "gradients of what blocks read",
        "gradients of tables of distances",
        "what the loss sums over words",
        "gradients of what is scored",
    )
)
PLAN = Plan(steps=1, batch_tokens=4096)
MODELS = {
    "llama": {"hidden_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 704},
    "gpt2": {"n_embd": 256, "n_layer": 4, "n_head": 4, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0},
    "bert": {"hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024, "hidden_dropout_prob": 0.0}
    | {"attention_probs_dropout_prob": 0.0},
    "modernbert": {"hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 384},
}


def small(kind):
    sizes = MODELS[kind] if kind == "gpt2" else {**MODELS[kind], "num_hidden_layers": 4}
    head = "text-generation" if kind in ("llama", "gpt2") else "fill-mask"
    return build(kind, head, vocab_size=50, **sizes).train()


@pytest.mark.parametrize("kind", MODELS)
def test_activations_are_about_what_autograd_keeps(kind):
    model, rows, length = small(kind), 2, 128
    kept = measured(model, made_up_loss(model), rows, length).total
    said = held(model, PLAN, Mesh(1, 1), tokens=rows * length)
    assert said.activations == pytest.approx(kept, rel=0.15)
    less = held(model, replace(PLAN, checkpointing=True), Mesh(1, 1), tokens=rows * length)
    assert less.activations < said.activations / 2


COUNTED = [
    *((layout, 2, SOME) for layout in ("fsdp", "joined-again", "partly", "kept")),
    *((layout, 4, SOME) for layout in ("fsdp", "hsdp")),
    *((layout, size, DEALT) for layout, size in (("tensor", 2), ("tensor-fsdp", 4), ("tensor-again", 4))),
]


@cache
def counted(world_size):
    """What is counted of all layouts of so many processes."""
    asked = {f"count-{layout}": names for layout, size, names in COUNTED if size == world_size}
    with TemporaryDirectory() as folder:
        return found_by(world_size, "parallel_cases", Path(folder) / "found.json", json.dumps(asked))


@pytest.mark.slow
@pytest.mark.parametrize(("layout", "world_size", "names"), COUNTED, ids=lambda value: str(value)[:12])
def test_bytes_and_calls_are_those_of_a_real_step(layout, world_size, names):
    found = counted(world_size)[f"count-{layout}"]
    assert list(found) == names
    for name, step in found.items():
        assert "error" not in step, (name, step)
        said = {what: step["said"].get(what, [0, 0]) for what in (*SHARDED, *ROW)}
        found = step["found"]
        assert [said[what] for what in SHARDED] == [found["gathered"], found["scattered"], found["summed"]], name
        given, read, tables, summed, scored = (np.array(said[what]) for what in ROW)
        assert_allclose(given + read + tables + scored, np.add(found["forward"], found["backward"]), err_msg=name)
        assert_allclose(summed, found["loss"], err_msg=name)
        assert "again" in layout or (given == found["forward"]).all(), name
        assert step["held"] == pytest.approx(step["shards"], rel=0.01), name  # rows that do not come out even
        assert (said["all-gather of weights"] != [0, 0]) == (layout not in ("tensor", "tensor-again"))
        assert (given.sum() > 0) == layout.startswith("tensor")


@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm"])
def test_of_recurrent_layers_gates_and_states_are_kept(kind):
    sizes = {"hidden_size": 64, "embedding_size": 48, "num_layers": 2, "bidirectional": True}
    model, rows, length = (
        build("glassformer-rnn", "token-classification", vocab_size=50, kind=kind, **sizes).train(),
        2,
        128,
    )
    kept = measured(model, made_up_loss(model), rows, length).total
    assert held(model, PLAN, Mesh(1, 1), tokens=rows * length).activations == pytest.approx(kept, rel=0.2)


def test_of_what_is_frozen_there_are_no_gradients_and_no_moments():
    model, plan = small("bert"), replace(PLAN, parallel="fsdp")
    every = held(model, plan, Mesh(1, 4), tokens=0)
    for layer in model.layers[:2]:
        layer.requires_grad_(False)
    some = held(model, plan, Mesh(1, 4), tokens=0)
    share = sum(one.numel() for one in model.parameters() if one.requires_grad)
    share /= sum(one.numel() for one in model.parameters())
    assert some.weights == every.weights
    assert some.gradients / every.gradients == pytest.approx(share, rel=0.01)
    assert some.moments / every.moments == pytest.approx(share, rel=0.01)


def test_what_is_offloaded_is_held_by_the_cpu():
    plan = replace(PLAN, parallel="fsdp")
    here, there = (held(small("gpt2"), one, Mesh(1, 4), tokens=9) for one in (plan, replace(plan, offload=True)))
    assert there.offloaded == there.weights + there.gradients + there.moments
    assert there.total == here.total - there.offloaded == there.gathered + there.activations


@pytest.mark.parametrize("min_num_params", [0, 2**20, 2**30])
def test_never_more_is_gathered_than_there_is(min_num_params):
    model, plan = small("gpt2"), replace(PLAN, parallel="fsdp", min_num_params=min_num_params)
    some, every = (held(model, one, Mesh(1, 4), tokens=0).gathered for one in (plan, replace(plan, reshard=False)))
    assert some < every if min_num_params == 0 else some <= every


def test_without_other_processes_nothing_is_exchanged():
    model = small("gpt2")
    assert exchanges(model, PLAN, Mesh(1, 1)) == []
    assert sum(padded_sizes(model, PLAN, 1)) == sum(tensor.numel() for tensor in model.parameters())
    alone = held(model, PLAN, Mesh(1, 1), tokens=0)
    assert alone.total == 16 * sum(tensor.numel() for tensor in model.parameters())


def test_groups_gather_within_a_machine_and_sum_between():
    model, plan = small("gpt2"), replace(PLAN, parallel="hsdp")
    found = {one.what.split()[0]: one for one in exchanges(model, plan, Mesh(4, 8))}
    assert [one.between for one in found.values()] == [False, False, True]
    numbers = sum(padded_sizes(model, plan, 8))
    assert found["all-reduce"].bytes == pytest.approx(2 * 3 / 4 * numbers / 8 * 4)
    through = {one.what.split()[0]: one for one in exchanges(model, replace(plan, parallel="fsdp"), Mesh(4, 8))}
    assert all(one.between for one in through.values())
    assert "all-reduce" not in through


def test_a_row_of_processes_holds_its_share_of_blocks_and_words():
    model, plan = small("llama"), replace(PLAN, parallel="hsdp", tensor_parallel=2)
    mesh = Mesh(4, 8)
    assert (mesh.rows(plan), mesh.shard_size(plan)) == (16, 4)
    whole, share = (held(model, one, mesh, tokens=8, scored=8) for one in (replace(plan, tensor_parallel=1), plan))
    assert share.scores == whole.scores / 2
    assert 0.5 < share.activations / whole.activations < 0.7  # norms, and what blocks read, stay whole
    assert share.weights == pytest.approx(whole.weights, rel=0.01)  # half a model on four instead of all of it on eight
    found = [one for one in exchanges(model, plan, mesh, tokens=8, scored=8) if "blocks" in one.what]
    assert [one.between for one in found] == [False, False]
    with pytest.raises(ValueError, match="tensor_parallel is 3, and 8 processes of a machine do not fall into groups"):
        mesh.shard_size(replace(plan, tensor_parallel=3))


def test_a_token_costs_six_operations_a_weight_and_its_share_of_attention():
    model = small("llama")
    weights = sum(tensor.numel() for name, tensor in model.named_parameters() if "embeddings" not in name)
    per_token = 6 * weights + 4 * 12 * 256 * 128 / 2  # four layers; later tokens are not seen
    assert flops_per_token(model, length=128, checkpointing=False) == pytest.approx(per_token)
    assert flops_per_token(model, length=128, checkpointing=True) == pytest.approx(per_token * 4 / 3)


@pytest.mark.parametrize("text", ["8", "8x", "x8", "0x8", "2x-1", "two x eight"])
def test_what_is_no_mesh_is_refused(text):
    with pytest.raises(ValueError, match="is no mesh; write machines x GPUs on each, as 16x8"):
        Mesh.parse(text)


def test_the_command_counts_and_trains_nothing(glassformer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["train", "text-generation", "--arch", "llama", "--data", "nowhere.txt", "--parallel", "hsdp"]
    code, out, err = glassformer(*words, "--dry-run-mesh", "4x8")
    assert (code, err) == (0, "")
    assert "hsdp on 4 machines, 32 processes: S = 8 share one model, R = 4" in out
    assert "what breaks first: a process has 256 tokens of a step, less than one text of 512: raise batch_tokens" in out
    found = json.loads(glassformer(*words, "--dry-run-mesh", "4x8", "--json")[1])
    assert found["shard_size"] == 8
    assert found["held"]["total"] == pytest.approx(sum(v for k, v in found["held"].items() if k != "total"))
    assert list(tmp_path.iterdir()) == []
    out = glassformer(*words, "--dry-run-mesh", "4x8", "--tensor-parallel", "4")[1]
    assert "32 processes: N = 4 compute one model together, S = 2 share one model, R = 4" in out
    assert "all-reduce of gradients of what blocks read" in out
    code, _, err = glassformer(*words, "--dry-run-mesh", "4x8", "--set", "shard_size=5")
    assert code == 1
    assert "shard_size is 5, and 32 processes do not fall into groups of that" in err


def test_what_does_not_fit_is_told_what_would_help(glassformer):
    sizes = {"hidden_size": 8192, "num_hidden_layers": 80, "intermediate_size": 28672, "num_attention_heads": 64}
    more = [word for name, value in sizes.items() for word in ("--set", f"config.{name}={value}")]
    words = ["train", "text-generation", "--arch", "llama", "--data", "x.txt", "--dtype", "bf16", *more]
    assert "it does not fit by" in (told := glassformer(*words, "--dry-run-mesh", "1x8")[1])
    assert "parallel = fsdp" in told.splitlines()[-1]
    words += ["--parallel", "fsdp"]
    assert glassformer(*words, "--dry-run-mesh", "1x8")[1].splitlines()[-1].endswith(", or offload = true")
    told = glassformer(*words, "--dry-run-mesh", "1x1", "--set", "offload=true")[1]
    assert "TB in the memory of the CPU" in told
    assert "offload" not in told.splitlines()[-1]


def test_a_network_is_blamed_only_where_there_is_one(glassformer):
    words = [
        "train",
        "text-generation",
        "--arch",
        "llama",
        "--data",
        "x.txt",
        "--parallel",
        "fsdp",
        "--batch-tokens",
        8192,
    ]
    last = {mesh: glassformer(*words, "--dry-run-mesh", mesh)[1].splitlines()[-1] for mesh in ("1x8", "2x4")}
    assert "what breaks first: nothing within a machine" in last["1x8"]
    assert "what breaks first: the network" in last["2x4"]
