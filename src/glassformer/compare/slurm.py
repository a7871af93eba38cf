"""Cells as a Slurm job array: each is a task of the array that carries out its folder, which all nodes must see.

`python -m glassformer.compare.slurm FILE` carries out the cell that $SLURM_ARRAY_TASK_ID counts in a list of folders.
"""

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from glassformer.files import write_text

from .cell import RESULT
from .cluster import carry_out_on_node

COMMAND = "{command}"  # where in a template the work is done
POLL = 5.0  # seconds between questions to Slurm, which many ask
ABSENT_POLLS = 3  # so often is a task not in the queue before its cell is lost: shared folders show results late
MAX_ARRAY = 1000  # tasks; MaxArraySize of slurm.conf is 1001 where nobody says otherwise
ALREADY_GONE = "Invalid job id specified"  # of a job that has ended a while ago


class SlurmExecutor:
    """Cells in job arrays, as many at once as Slurm lets run: `#SBATCH --array` in the template may not be.

    The template is a batch script with what the cluster needs (partition, GPUs, time, modules); the work is done where
    it says {command}, else at its end. A task that Slurm requeues goes on from the last checkpoint of its run.
    """

    capacity = sys.maxsize

    def __init__(self, template: Path, *, poll: float = POLL) -> None:
        try:
            self.template = template.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as problem:
            raise ValueError(f"{template} cannot be read as a batch script: {problem}") from None
        check_template(self.template, str(template))
        self.poll, self.asked = poll, 0.0
        self.waiting: list[Path] = []  # for the next array
        self.running: dict[str, Path] = {}  # by the id of their task, 17_3
        self.absent: dict[str, int] = {}  # polls at which a task was not in the queue

    def submit(self, folder: Path) -> None:
        self.waiting.append(folder)

    def finished(self) -> Iterator[tuple[Path, str]]:
        if self.waiting:
            self._adopt()
        while self.waiting:
            part, self.waiting = self.waiting[:MAX_ARRAY], self.waiting[MAX_ARRAY:]
            self._submit_array(part)
        for task in [task for task, folder in self.running.items() if (folder / RESULT).is_file()]:
            yield self.running.pop(task), ""
        if not self.running or time.monotonic() < self.asked + self.poll:
            return
        self.asked = time.monotonic()
        queued = self._queued(self.running)
        for task in list(self.running):
            self.absent[task] = 0 if task in queued else self.absent.get(task, 0) + 1
            if self.absent[task] >= ABSENT_POLLS:
                yield self.running.pop(task), f"the Slurm task {task} ended without a result: sacct -j {task} says why"

    def close(self) -> None:
        """Cancel what still waits or runs; a run goes on from its last checkpoint."""
        if jobs := sorted({task.partition("_")[0] for task in self.running}):
            _run("scancel", *jobs)

    def _adopt(self) -> None:
        """Cells that tasks of an earlier command, which was killed, still wait to do or do, are not asked for again."""
        wanted = {folder.resolve(): folder for folder in self.waiting}
        noted = {
            f"{path.read_text('utf-8')}_{place}": wanted.get(Path(folder))
            for path in _home(self.waiting[0]).glob("*.job")
            for place, folder in enumerate(path.with_suffix(".txt").read_text("utf-8").splitlines())
        }
        known = {task: folder for task, folder in noted.items() if folder is not None}
        self.running |= {task: known[task] for task in self._queued(known) & known.keys()}
        self.waiting = [folder for folder in self.waiting if folder not in self.running.values()]

    def _submit_array(self, folders: list[Path]) -> None:
        """One array; its script, its list of cells and its id stay beside the cells."""
        home = _home(folders[0])
        home.mkdir(exist_ok=True)
        number = len(list(home.glob("*.txt")))
        listed, script = home / f"{number}.txt", home / f"{number}.sh"
        write_text(listed, "".join(f"{folder.resolve()}\n" for folder in folders))
        command = shlex.join([sys.executable, "-m", "glassformer.compare.slurm", str(listed)])
        write_text(script, script_of(self.template, command))
        output = ["--output", str(home / "%A_%a.log"), "--array", f"0-{len(folders) - 1}"]
        job = _run("sbatch", "--parsable", *output, str(script)).strip().partition(";")[0]  # ID;CLUSTER
        write_text(listed.with_suffix(".job"), job)
        self.running |= {f"{job}_{place}": folder for place, folder in enumerate(folders)}
        self.asked = time.monotonic()

    def _queued(self, tasks: Iterable[str]) -> set[str]:
        """Those of the jobs of `tasks` that wait or run; all `tasks` where Slurm does not answer, which may pass."""
        queued: set[str] = set()
        for job in sorted({task.partition("_")[0] for task in tasks}):
            try:
                queued |= {*_run("squeue", "--noheader", "--array", "--format", "%i", "--jobs", job).split()}
            except ValueError as problem:
                if ALREADY_GONE not in str(problem):
                    return set(tasks)
        return queued


def _home(folder: Path) -> Path:
    """Where the arrays of the experiment that has this cell are noted."""
    return folder.resolve().parent.parent / "slurm"


def check_template(text: str, name: str) -> None:
    if not text.startswith("#!"):
        raise ValueError(f"{name} is no batch script: its first line is to be #!/bin/bash, then lines of #SBATCH")
    if found := re.search(r"^#SBATCH\s+(--array|-a)\b", text, re.MULTILINE):
        raise ValueError(f"{name} has {found[1]}: a task for each cell is asked for here, so leave the line out")
    if text.count(COMMAND) > 1:
        raise ValueError(f"{name} has {COMMAND} more than once: a task carries out one cell")


def script_of(template: str, command: str) -> str:
    return template.replace(COMMAND, command) if COMMAND in template else f"{template.rstrip()}\n\n{command}\n"


def _run(*words: str) -> str:
    """What a command of Slurm's says."""
    try:
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout
    except FileNotFoundError:
        raise ValueError(f"{words[0]} is not on this machine: --slurm is for a node that submits jobs") from None
    except subprocess.CalledProcessError as problem:
        said = " ".join(problem.stderr.split()) or f"it ended with code {problem.returncode}"
        raise ValueError(f"{words[0]}: {said}") from None


def main() -> None:
    folders = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    carry_out_on_node(folders[int(os.environ["SLURM_ARRAY_TASK_ID"])])


if __name__ == "__main__":
    main()
