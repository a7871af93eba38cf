"""Two machines do what one does, whichever of their processes is killed and though the cable is cut between them."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import mkdtemp

import pytest
from docs.generate import ROOT
from test_torchrun import STEADY, STILL, same_within_rounding, workers_of

from glassformer.jobs.recipe import Recipe
from glassformer.jobs.train import run
from glassformer.train import checkpoint
from machines import Machine
from pages import blocks, lines_of
from tasks.cases import WHERE, recipe_of

pytestmark = pytest.mark.slow
KILLS = int(os.environ.get("KILLS", "4"))  # KILLS=20 make test-all
PATIENCE = 600.0  # seconds; torch's rendezvous waits for up to a minute for one that is gone
LAYERS = {"batch_size": 8, "eval_every": 4, "accumulate": 2}  # a model that is sharded layer by layer
LONG = {"steps": 60 + 60 * KILLS, "lr": 1e-3, "batch_size": 4, "eval_every": 30, "save_every": 5, "log_every": 5}
CASE = "text-classification/lstm"
AGENT, MACHINE, WORKER = "agent", "agent and workers", "worker"
(SHOWN,) = [
    words for block in blocks(ROOT / "docs" / "scale.md", "sh") for words in lines_of(block) if "--nnodes" in words
]


class Job:
    """torchrun on both machines, as a scheduler runs it: what ends with an error is started again."""

    def __init__(
        self,
        machines: list[Machine],
        recipe: Recipe,
        folder: Path,
        *,
        each: int = 1,
        apart: bool = False,
        heartbeat: int = 2,
    ) -> None:
        """`apart`: each machine has a folder of its own to work in. An agent that is silent for three heartbeats, in
        seconds, counts as gone; torch's own are of five seconds."""
        self.machines, self.out, self.each, self.heartbeat = machines, Path(recipe.out), each, heartbeat
        self.folders = [folder / machine.name if apart else folder for machine in machines]
        self.logs = [folder / f"{machine.name}.txt" for machine in machines]
        self.recipe = folder / "recipe.toml"
        self.recipe.write_text(recipe.toml())
        self.agents = [self.start(place) for place in (0, 1)]

    def start(self, place: int) -> subprocess.Popen[bytes]:
        """The command of the docs, for this recipe."""
        at = SHOWN.index("torchrun")
        variables = dict(word.split("=") for word in SHOWN[:at])
        changed = {"--nproc-per-node": self.each, "--max-restarts": 100, "train": self.recipe}
        words = [changed.get(before, word) for before, word in pairwise(SHOWN[at : SHOWN.index("--out")])]
        words = ["--rdzv-conf", f"keep_alive_interval={self.heartbeat}", *words]
        with self.logs[place].open("ab") as log:
            return self.machines[place].start(
                [sys.executable, "-m", "torch.distributed.run", *words, "--resume"],
                stdout=log,
                stderr=log,
                cwd=self.folders[place],
                env=os.environ | variables,
            )

    def said(self, place: int) -> str:
        return self.logs[place].read_text(errors="replace")

    def steps(self) -> int:
        found = checkpoint.newest(self.out)
        return checkpoint.step_of(found) if found else 0

    def watch(self, until: Callable[[], bool]) -> None:
        """Start again what ends with an error, until something is so."""
        deadline = time.monotonic() + PATIENCE
        while not until():
            assert time.monotonic() < deadline, self.said(0)[-4000:] + self.said(1)[-4000:]
            for place, agent in enumerate(self.agents):
                if agent.poll():
                    self.agents[place] = self.start(place)
            time.sleep(0.01)

    def until_step(self, step: int) -> None:
        self.watch(lambda: self.steps() >= step or self.is_over())

    def is_over(self) -> bool:
        return all(agent.poll() == 0 for agent in self.agents)

    def kill(self, place: int, what: str) -> list[int]:
        """Those that are killed: of a machine without workers its agent.

        Without its agent a worker goes on. Another is stopped then, so that no step is taken until the machines begin
        anew: else the run might end before, to whose end no agent could come.
        """
        agent = self.agents[place]
        workers, others = ([] if one.poll() is not None else workers_of(one) for one in (agent, self.agents[1 - place]))
        victims = workers[-1:] if what == WORKER and workers else [agent.pid, *(workers if what == MACHINE else [])]
        held = others[:1] if what == AGENT else []
        for signalled, number in ((held, signal.SIGSTOP), (victims, signal.SIGKILL)):
            for one in signalled:
                with suppress(ProcessLookupError):  # it has just ended
                    os.kill(one, number)
        self.watch(lambda: all(map(is_asked_to_end, held)))
        for one in held:
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGCONT)
        return victims


def is_asked_to_end(process: int) -> bool:
    """Whether a process that is stopped has a SIGTERM to come, or is gone."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return True
    facts = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    return facts["State"][0] == "Z" or bool(int(facts["ShdPnd"], 16) >> (signal.SIGTERM - 1) & 1)


def recipe_for(case: str, out: Path, **changes: object) -> Recipe:
    arch = case.split("/")[1]
    still = STILL["rnn" if arch == "lstm" else arch]
    return Recipe.of(recipe_of(case, out=str(out), config=still, **{**STEADY, **changes}))


@cache
def unbroken(case: str, **changes: object) -> Path:
    """The run of one process."""
    folder = Path(mkdtemp(dir=WHERE.name)) / "run"
    run(recipe_for(case, folder, **changes), log=lambda _: None)
    return folder


@pytest.mark.parametrize(("parallel", "each"), [("ddp", 1), ("fsdp", 1), ("hsdp", 2)])
def test_two_machines_do_what_one_machine_and_one_process_do(machines, tmp_path, parallel, each):
    """With hsdp two processes of a machine share a model; so do two of four, where all are on one."""
    case, groups = "text-generation/gpt2", {"shard_size": 2} if parallel == "hsdp" else {}
    recipe = recipe_for(case, tmp_path / "two", **LAYERS, parallel=parallel)
    job = Job(machines, recipe, tmp_path, each=each, heartbeat=5)
    job.watch(job.is_over)
    said = job.said(0) + job.said(1)
    assert ("resuming after step" in said, said.count("this is the first step")) == (False, 1)  # nothing was begun anew
    (tmp_path / "one.toml").write_text(recipe_for(case, tmp_path / "one", **LAYERS, **groups, parallel=parallel).toml())
    words = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(2 * each)]
    ended = subprocess.run([*words, "-m", "glassformer", "train", "one.toml"], capture_output=True, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    same_within_rounding(tmp_path / "one", tmp_path / "two")
    same_within_rounding(unbroken(case, **LAYERS), tmp_path / "two")


@pytest.mark.parametrize(
    ("place", "what", "parallel"),
    [
        (1, WORKER, "fsdp"),
        (1, AGENT, "ddp"),  # its worker goes on, until the machines begin anew without it
        (1, MACHINE, "fsdp"),
        (0, MACHINE, "ddp"),  # node-a is where they meet, and rank 0's
    ],
)
def test_a_run_ends_as_the_unbroken_one_whoever_is_killed(machines, tmp_path, place, what, parallel):
    job = Job(machines, recipe_for(CASE, tmp_path / "run", **LONG, parallel=parallel), tmp_path)
    job.until_step(1)
    assert job.kill(place, what)
    job.watch(job.is_over)
    assert "resuming after step " in job.said(0) + job.said(1)
    same_within_rounding(unbroken(CASE, **LONG), tmp_path / "run")


def test_when_the_cable_is_cut_each_side_names_the_other(machines, tmp_path):
    changes = {**LONG, "deadline": 0.1}
    job = Job(machines, recipe_for(CASE, tmp_path / "run", **changes), tmp_path)
    job.until_step(1)
    names = [f"rank {rank} (process {workers_of(agent)[0]} on " for rank, agent in enumerate(job.agents)]
    machines[1].cable("down")
    wanted = [
        f"error: {names[other]}{machines[other].name}) did not answer for 0.1 minutes (deadline)" for other in (1, 0)
    ]
    job.watch(lambda: all(text in job.said(place) for place, text in enumerate(wanted)))
    machines[1].cable("up")
    job.watch(job.is_over)
    same_within_rounding(unbroken(CASE, **changes), tmp_path / "run")


def test_kill_9_at_random_moments_on_two_machines(machines, tmp_path):
    """In every second life some steps are done first; in the others it is killed wherever it is by then."""
    chance, killed = random.Random(20), []
    job = Job(machines, recipe_for(CASE, tmp_path / "run", **LONG, parallel="fsdp"), tmp_path)
    for number in range(KILLS):
        if number % 2 == 0:
            job.until_step(job.steps() + 1)
        then = time.monotonic() + chance.uniform(0, 0.5 if number % 2 == 0 else 15)
        job.watch(lambda then=then: time.monotonic() > then)
        assert not job.is_over()  # the law is put to the test
        place, what = chance.randrange(2), chance.choice([WORKER, AGENT, MACHINE])
        killed.append((job.steps(), job.machines[place].name, what, job.kill(place, what)))
    job.watch(job.is_over)
    print(*killed, sep="\n")
    same_within_rounding(unbroken(CASE, **LONG), tmp_path / "run")


def test_a_folder_that_the_machines_do_not_share_is_refused(machines, tmp_path):
    for machine in machines:
        (tmp_path / machine.name).mkdir()
    job = Job(machines, recipe_for(CASE, Path("run"), **LONG), tmp_path, apart=True)
    job.watch(lambda: all("run is not the same folder on all machines" in job.said(place) for place in (0, 1)))
    for machine, agent in zip(machines, job.agents, strict=True):
        machine.switch_off()
        agent.wait()
    assert [path.name for path in tmp_path.glob("node-?/run/*")] == []
