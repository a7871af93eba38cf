"""Law 7 over layouts: an update by many processes, each with a shard or all of the weights, is that of one process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tasks.cases import ONE_OF_EACH_TASK
from train.parallel_cases import FAMILIES, PARTS

pytestmark = pytest.mark.slow
TESTS = Path(__file__).parents[1]
SOME = [
    *ONE_OF_EACH_TASK,
    *(f"{task}/{arch}" for arch, (task, _) in FAMILIES.items()),
    "text-generation/lstm/carried",
    "translation/transformer",
    "text-classification/bert/r_drop",
]
WORLDS = [("fsdp", 2, PARTS), ("kept", 2, SOME), ("ddp", 4, SOME), ("fsdp", 4, SOME), ("hsdp", 4, SOME)]
CLOSE = {"loss": 1e-5, "gradient": 5e-6, "weights": 1e-6}  # losses are summed in float32


@pytest.mark.parametrize(("layout", "world_size", "names"), WORLDS, ids=lambda value: str(value)[:4])
def test_many_processes_take_the_steps_of_one(tmp_path, layout, world_size, names):
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(world_size)]
    words += ["-m", "train.parallel_cases", tmp_path / "found.json", layout, *names]
    path = os.pathsep.join([str(TESTS), *sys.path])
    ended = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
    assert ended.returncode == 0, ended.stderr[-2000:]
    found = json.loads((tmp_path / "found.json").read_text())
    assert list(found) == names
    far = {
        name: values
        for name, values in found.items()
        if "error" in values or any(values[what] > most for what, most in CLOSE.items())
    }
    assert far == {}
