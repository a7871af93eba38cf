"""What the tests of the loop share: a run of a case with all that it leaves, in this process or in one of its own."""

import copy
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import torch

from glassformer.jobs.progress import NullListener
from glassformer.jobs.recipe import Recipe
from glassformer.train import checkpoint
from glassformer.train.loop import Fit
from glassformer.train.plan import Plan
from tasks.cases import Case, case, recipe_of

SOON = Plan(steps=12, batch_size=8, lr=1e-2, eval_every=3, log_every=1)


class Run:
    """A run of the loop on a case, with all that it saves and says."""

    def __init__(self, name: str, folder: Path, one: Case | None = None, dev: bool = True, **plan: object) -> None:
        self.case = one or case(name)
        self.folder, self.saved, self.heard = folder, [], NullListener()
        self.dev = self.case.task.encode(self.case.splits.dev) if dev else None
        steps = {} if "epochs" not in plan else {"steps": None}
        self.fit = Fit(
            self.case.model,
            self.case.task,
            replace(SOON, **{**steps, **plan}),
            self.case.items,
            self.dev,
            folder=folder,
            save=lambda model: self.saved.append(copy.deepcopy(model.state_dict())),
            listener=self.heard,
        )
        self.outcome = self.fit.run()
        self.lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]

    def column(self, name: str) -> list[float]:
        return [line[name] for line in self.lines if name in line]

    def last_state(self) -> dict[str, torch.Tensor]:
        return checkpoint.load(checkpoint.newest(self.folder))["model"]


def in_a_process(folder: Path, name: str, *, env: dict[str, str] | None = None, **changes: object):
    """Run a case by the command line: (exit code, stdout, stderr)."""
    process = start(folder, name, env=env, **changes)
    out, complaint = process.communicate()
    return process.returncode, out, complaint


def start(folder: Path, name: str, *, env: dict[str, str] | None = None, **changes: object):
    """The run folder is folder/run; recipe.toml stands beside it."""
    plan = {"batch_size": 8, "batch_tokens": None, "log_every": 1, "eval_every": 5, "out": str(folder / "run")}
    recipe = Recipe.of(recipe_of(name, **{**plan, **changes}))
    (folder / "recipe.toml").write_text(recipe.toml())
    return command("train", folder / "recipe.toml", env=env)


def command(*words: object, env: dict[str, str] | None = None):
    """The command line in a process of its own, and out of the way of this one's Ctrl-C."""
    return subprocess.Popen(
        [sys.executable, "-m", "glassformer", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {})},
        start_new_session=True,
    )


class Steep(torch.autograd.Function):
    """The value itself, with a gradient beyond all bounds."""

    @staticmethod
    def forward(_, value):
        return value.clone()

    @staticmethod
    def backward(_, gradient):
        return gradient * torch.inf
