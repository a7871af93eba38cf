"""Checkpoints in shards: what is written is what was there when it was asked for, and reading them runs no code."""

import os
import pickle
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.testing import assert_close

from glassformer.train import checkpoint
from glassformer.train.layout import lay_out
from glassformer.train.processes import Processes
from glassformer.train.sharded_checkpoint import Writing, read
from tasks.cases import case

EXACT = {"rtol": 0, "atol": 0}


@pytest.fixture
def group():
    """A world of this process alone."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield dist.new_group(backend="gloo")
    dist.destroy_process_group()


@pytest.fixture
def state(group):
    mesh = init_device_mesh("cpu", (1,))
    weight = distribute_tensor(torch.randn(6, 3), mesh, [Shard(0)])
    moments = {0: {"exp_avg": weight * 2, "step": torch.tensor(3.0)}}
    return {"model": {"weight": weight, "plain": torch.arange(3)}, "optimiser": {"state": moments}, "best": 0.5}


def written(folder, state, group):
    path, then = checkpoint.path_of(folder, 7, ending=checkpoint.SHARDS), []
    writing = Writing(path, state, group, then=lambda: then.append(path.is_dir()))
    return path, writing, then


def test_what_is_trained_meanwhile_does_not_change_what_is_written(tmp_path, state, group):
    before = state["model"]["weight"].full_tensor().clone()
    path, writing, then = written(tmp_path, state, group)
    with torch.no_grad():
        state["model"]["weight"].add_(1)
    assert writing.settle(wait=True)
    assert then == [True]
    assert checkpoint.newest(tmp_path) == path
    found = checkpoint.load(path)
    assert_close(found["model"], {"weight": before, "plain": torch.arange(3)}, **EXACT)
    assert_close(found["optimiser"]["state"][0], {"exp_avg": before * 2, "step": torch.tensor(3.0)}, **EXACT)
    assert found["best"] == 0.5
    shard = read(path, lambda where: state["model"]["weight"] if where[-1] in ("weight", "exp_avg") else None)
    assert isinstance(shard["model"]["weight"], DTensor)
    assert_close(shard["optimiser"]["state"][0]["exp_avg"].full_tensor(), before * 2, **EXACT)


def test_one_that_was_cut_off_is_swept_away_and_never_taken(tmp_path, state, group):
    path, writing, _ = written(tmp_path, state, group)
    writing.future.result()
    assert writing.partial.is_dir()  # a kill now leaves this
    assert checkpoint.newest(tmp_path) is None
    checkpoint.sweep(tmp_path)
    assert list(path.parent.iterdir()) == []


def test_the_older_ones_go_when_a_newer_one_is_whole(tmp_path, state, group):
    for step in (1, 2, 3):
        path = checkpoint.path_of(tmp_path, step, ending=checkpoint.SHARDS)
        then = lambda path=path: checkpoint.remove_older(tmp_path, path, keep=2)  # noqa: E731
        assert Writing(path, state, group, then=then).settle(wait=True)
    assert [checkpoint.step_of(path) for path in checkpoint.found(tmp_path)] == [2, 3]


class Evil:
    def __reduce__(self):
        return os.mkdir, ("code-of-a-checkpoint-was-run",)


def test_a_description_that_asks_for_code_is_refused(tmp_path, state, group, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path, writing, _ = written(tmp_path, state, group)
    writing.settle(wait=True)
    refused = f"its description asks for {os.mkdir.__module__}.mkdir"
    for described, words in ((Evil(), refused), ([], "none of shards")):
        (path / ".metadata").write_bytes(pickle.dumps(described))
        with pytest.raises(ValueError, match=f"step-00000007.shards is not a whole checkpoint .*{words}"):
            checkpoint.load(path)
    assert not Path("code-of-a-checkpoint-was-run").exists()


def test_a_missing_part_is_one_line(tmp_path, state, group):
    path, writing, _ = written(tmp_path, state, group)
    writing.settle(wait=True)
    (path / "state.pt").unlink()
    with pytest.raises(ValueError, match="is not a whole checkpoint .*; delete it to go on from the one before"):
        checkpoint.load(path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"optimiser": "adafactor"}, "adafactor has no step for shards of weights: take adamw, or parallel = ddp"),
        ({"offload": True}, "offload keeps shards in the memory of the CPU, where this run has all of it"),
        ({"shard_size": 2}, "shard_size is 2, and parallel = fsdp takes all processes; take hsdp"),
        ({"parallel": "hsdp", "shard_size": 2}, "shard_size is 2, and 1 processes do not fall into groups of that"),
    ],
)
def test_what_cannot_be_sharded_is_refused_in_one_line(group, changes, words):
    one = case("text-classification/bert")
    with pytest.raises(ValueError, match=words):
        lay_out(one.model, one.task, replace(one.plan, **{"parallel": "fsdp", **changes}), Processes())
