"""Modules of this folder that are run under torchrun, and what they find."""

import json
import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]


def found_by(world_size, module, out, *words):
    """What a module of tests/train writes into OUT under torchrun."""
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(world_size)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    ended = subprocess.run(
        [*start, "-m", f"train.{module}", out, *words], capture_output=True, text=True, env=environment
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    return json.loads(out.read_text())
