"""A grid on a Ray cluster of two machines, one of which is lost: its cells go on on the other, to the same table."""

import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from subprocess import STDOUT
from tempfile import TemporaryDirectory

import pytest

from glassformer.train import checkpoint
from machines import ADDRESSES

pytestmark = pytest.mark.slow
GRID = ["compare", "schedules", "--data", "microworld", "--seeds", "1", "--budget", "200steps", "--device", "cpu"]
GRID += [
    "--set",
    "limit=200",
    "--set",
    "arch=gru",
    "--set",
    "rates=[0.001]",
    "--set",
    'contestants=["constant","linear"]',
]
RAY = [sys.executable, "-c", "from ray.scripts.scripts import main; main()", "start", "--block", "--num-cpus=1"]
RAY += ["--object-store-memory=100000000", "--disable-usage-stats"]
HEAD = f"{ADDRESSES['node-a']}:6379"
SETTINGS = os.environ | {"RAY_AUTH_MODE": "disabled"}  # nobody else is in this network


@pytest.fixture
def cluster(machines, tmp_path):
    """A core on each of the machines. Ray's sockets need a short path."""
    pytest.importorskip("ray")
    log, started = tmp_path / "ray.txt", []
    with TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as sockets, log.open("w") as out:
        head = ["--head", "--port=6379", "--include-dashboard=false", f"--temp-dir={sockets}"]
        for machine, address, more in zip(machines, ADDRESSES.values(), (head, [f"--address={HEAD}"]), strict=True):
            started.append(
                machine.start([*RAY, f"--node-ip-address={address}", *more], stdout=out, stderr=STDOUT, env=SETTINGS)
            )
            while log.read_text().count("Ray runtime started") < len(started):
                assert started[-1].poll() is None, log.read_text()
                time.sleep(0.1)
        yield machines
        for machine, agent in zip(machines, started, strict=True):
            machine.switch_off()
            agent.wait()


def rows(folder: Path):
    found = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    return [(one["contestant"], one["seed"], one["place"], one["state"], one["scores"]) for one in found]


def cell_of(machine: str, folder: Path):
    """A cell that is carried out there and has a checkpoint."""
    for lock in folder.glob("cells/*/run/.lock"):
        with suppress(FileNotFoundError):  # the cell has ended
            if lock.read_text().endswith(f" on {machine}") and checkpoint.newest(lock.parent):
                return lock.parents[1]
    return None


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")
def test_a_cell_whose_machine_is_lost_is_retried_on_the_other(cluster, glassformer, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    words = [sys.executable, "-m", "glassformer", *GRID, "--out", there, "--ray"]
    with (tmp_path / "grid.txt").open("w") as log:
        grid = cluster[0].start(words, stdout=log, stderr=STDOUT, env=SETTINGS | {"RAY_ADDRESS": HEAD})
    while (lost := cell_of("node-b", there)) is None and grid.poll() is None:
        time.sleep(0.01)
    assert lost is not None, (tmp_path / "grid.txt").read_text()
    cluster[1].switch_off()
    assert grid.wait(timeout=600) == 0, (tmp_path / "grid.txt").read_text()
    assert "resuming after step " in (lost / "log.txt").read_text()
    code, _, complaint = glassformer(*GRID, "--out", here, "--jobs", "0")
    assert code == 0, complaint
    assert rows(there) == rows(here)
    assert {state for _, _, _, state, _ in rows(here)} == {"done"}
