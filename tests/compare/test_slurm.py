"""Cells as a Slurm array: the same results, lost tasks are rows, and no cell is asked for twice.

Slurm's commands are stood in for by a program of this file, since no test machine has a cluster: `sbatch` starts the
tasks of an array as processes, `squeue` names those that still run, `scancel` ends them.
"""

import os
import sys
import time
from pathlib import Path

import pytest

import glassformer as gf
from compare.test_grid import cells
from glassformer.compare.grid import InlineExecutor, run_grid
from glassformer.compare.slurm import SlurmExecutor

TEMPLATE = "#!/bin/bash\n#SBATCH --partition=all --time=5\necho begun\n"
STAND_IN = """#!{python}
import os, signal, subprocess, sys
from pathlib import Path
home, (name, *words) = Path({home!r}), (Path(sys.argv[0]).name, *sys.argv[1:])
def alive(path):
    state = Path("/proc", path.read_text(), "stat")
    return state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z"
if name == "sbatch":
    job = str(7 + len(list(home.glob("*_0"))))
    last = int(words[words.index("--array") + 1].split("-")[1])
    for task in range(last + 1):
        environment = {{**os.environ, "SLURM_ARRAY_TASK_ID": str(task)}}
        started = subprocess.Popen(["bash", words[-1]], env=environment, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, start_new_session=True)
        (home / f"{{job}}_{{task}}").write_text(str(started.pid))
    print(f"{{job}};cluster")
if name == "squeue":
    found = list(home.glob(words[words.index("--jobs") + 1] + "_*"))
    if not found:
        sys.exit("slurm_load_jobs error: Invalid job id specified")
    print("\\n".join(path.name for path in found if alive(path)))
if name == "scancel":
    for job in words:
        for path in filter(alive, home.glob(job + "_*")):
            os.killpg(int(path.read_text()), signal.SIGKILL)
"""


@pytest.fixture
def queue(tmp_path, monkeypatch):
    """Slurm's commands, and the folder in which they keep the tasks."""
    home, programs = tmp_path / "queue", tmp_path / "bin"
    home.mkdir()
    programs.mkdir()
    for name in ("sbatch", "squeue", "scancel"):
        (programs / name).write_text(STAND_IN.format(python=sys.executable, home=str(home)))
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    return home


def executor(folder, text=TEMPLATE):
    (folder / "cluster.sh").write_text(text)
    return SlurmExecutor(folder / "cluster.sh", poll=0.1)


def test_cells_of_an_array_are_those_of_this_machine(tmp_path, queue):
    here = run_grid(cells(), tmp_path / "here", InlineExecutor())
    there = run_grid(cells(), tmp_path / "there", executor(tmp_path))
    assert [one.scores for one in there] == [one.scores for one in here]
    assert sorted(path.name for path in queue.iterdir()) == ["7_0", "7_1"]  # one array
    script = (tmp_path / "there" / "slurm" / "0.sh").read_text()
    assert script.startswith(TEMPLATE)
    assert script.endswith("glassformer.compare.slurm " + str(tmp_path / "there" / "slurm" / "0.txt") + "\n")


def test_the_command_stands_where_the_template_says(tmp_path, queue):
    lost = "#!/bin/bash\nexit 0\n{command}\n"
    found = run_grid(cells(seeds=1), tmp_path / "out", executor(tmp_path, lost))
    assert found[0].state == "failed"
    assert "the Slurm task 7_0 ended without a result" in found[0].error
    again = run_grid(cells(seeds=1), tmp_path / "out", executor(tmp_path, "#!/bin/bash\n{command}\nexit 3\n"))
    assert again[0].state == "done"


def test_tasks_of_a_command_that_was_killed_are_waited_for(tmp_path, queue):
    slow = f"#!/bin/bash\nwhile [ ! -e {tmp_path}/go ]; do sleep 0.05; done\n"
    killed = executor(tmp_path, slow)
    folder = tmp_path / "out" / "cells"
    for cell in cells():
        (folder / cell.name).mkdir(parents=True)
        cell.write(folder / cell.name)
        killed.submit(folder / cell.name)
    assert list(killed.finished()) == []  # asked for, and nobody waits any more
    (tmp_path / "go").touch()
    found = run_grid(cells(seeds=3), tmp_path / "out", executor(tmp_path))
    assert [one.state for one in found] == ["done"] * 3
    assert sorted(path.name for path in queue.iterdir()) == ["7_0", "7_1", "8_0"]  # the third alone is new


def test_what_still_runs_is_cancelled_at_the_end(tmp_path, queue):
    running = executor(tmp_path, "#!/bin/bash\nsleep 600\n")
    (tmp_path / "out" / "cells" / "one").mkdir(parents=True)
    running.submit(tmp_path / "out" / "cells" / "one")
    assert list(running.finished()) == []
    running.close()
    state = Path("/proc", (queue / "7_0").read_text(), "stat")
    deadline = time.monotonic() + 60
    while state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("partition=all\n", "is no batch script"),
        ("#!/bin/bash\n#SBATCH --array=0-3\n", "has --array"),
        ("#!/bin/bash\n{command}\n{command}\n", "more than once"),
    ],
)
def test_templates_that_would_do_something_else_are_refused(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        executor(tmp_path, text)


def test_without_slurm_or_a_template_it_is_said(tmp_path, monkeypatch):
    (tmp_path / "cluster.sh").write_text(TEMPLATE)
    given = {"data": "microworld", "seeds": 1, "budget": "2steps", "set": {"device": "cpu"}, "sizes": [60]}
    with pytest.raises(ValueError, match=r"nothing\.sh cannot be read as a batch script"):
        gf.compare("ladder", out=str(tmp_path / "a"), slurm=tmp_path / "nothing.sh", **given)
    with pytest.raises(ValueError, match="one of the two"):
        gf.compare("ladder", out=str(tmp_path / "a"), slurm=tmp_path / "cluster.sh", ray=True, **given)
    assert not (tmp_path / "a").exists()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match="sbatch is not on this machine"):
        gf.compare("ladder", out=str(tmp_path / "a"), slurm=tmp_path / "cluster.sh", **given)
