"""Law 8: a run stopped or killed at any moment, and resumed, ends as the unbroken one: weights, metrics, scores."""

import json
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from glassformer.jobs import train as jobs
from glassformer.jobs.progress import NullListener
from glassformer.train import checkpoint
from tasks.cases import WHERE, recipe_of

SOON = {"limit": 24, "batch_size": 7, "batch_tokens": None, "steps": 14, "eval_every": 4, "log_every": 3}
RUNS = {
    "text-classification/lstm": {"ema": 0.9, "schedule": "plateau", "epochs": 2.5, "eval_every": None},
    "text-classification/gru": {"lr": 1e-9, "patience": 2, "eval_every": 3},
    "text-classification/bert": {"lora": 2, "accumulate": 2, "precision": "fp16"},
    "token-classification/bert": {"freeze": "embeddings,layers.0", "layer_decay": 0.8, "keep": "last"},
    "translation/transformer": {"average": 3, "schedule": "inverse_sqrt", "warmup": 5, "save_minutes": 1e-9},
    "fill-mask/bert": {"save_every": 5, "checkpointing": True, "schedule": "cosine", "clip": None},
    "text-classification/transformer": {"optimiser": "muon", "layer_decay": 0.9, "precision": "fp16"},
    "translation/transformer/r_drop": {"accumulate": 2},
    "translation/gru/bpe_dropout": {"r_drop": 1.0, "max_length": 12},
    "text-classification/cnn": {"optimiser": "adafactor", "lr": 1e-2},
    "text-classification/rnn": {"optimiser": "sgd", "momentum": 0.8},
    "text-generation/lstm/carried": {
        "accumulate": 2,
        "config": {"locked_dropout": True, "num_layers": 2},
        "save_every": 3,
    },
    "text-generation/gpt2/drawn": {"save_every": 3, "eval_every": 5, "keep": "last", "ema": 0.8},
}
MOMENTS = ("after a step", "after a line", "in a checkpoint", "asked to stop")


class Death(BaseException):
    """Nothing is tidied up after it."""


class Mortal(NullListener):
    """Hears how a run goes, and ends it."""

    def __init__(self, moment: str, number: int) -> None:
        self.moment, self.left = moment, number

    def reached(self, moment: str) -> bool:
        self.left -= moment == self.moment
        return moment == self.moment and self.left == 0

    def stepped(self, progress):
        if self.reached("after a step"):
            raise Death
        if self.reached("asked to stop"):
            signal.raise_signal(signal.SIGINT)

    def line(self, line):
        if self.reached("after a line"):
            raise Death

    def write(self, path: Path, state: object) -> None:
        """In the place of the checkpoints' own: half of a file is written, and that is all."""
        write(path, state)
        if self.reached("in a checkpoint"):
            path.write_bytes(path.read_bytes()[:100])
            raise Death


write = checkpoint._write


@contextmanager
def ending(moment: str, number: int):
    mortal = Mortal(moment, number)
    with (
        patch.object(jobs, "ConsoleListener", lambda *_, **__: mortal),
        patch.object(checkpoint, "_write", mortal.write),
    ):
        yield


def run(name: str, folder: Path, *, resume: bool = False) -> bool:
    """Whether the run came to its end."""
    settings = recipe_of(name, out=str(folder), **{**SOON, **RUNS[name]})
    if "epochs" in settings:
        del settings["steps"]
    try:
        return not jobs.train(resume=resume, log=lambda _: None, **settings).outcome.stopped
    except Death:
        return False


@cache
def unbroken(name: str) -> Path:
    folder = Path(mkdtemp(dir=WHERE.name))
    with ending("never", 1):
        assert run(name, folder)
    return folder


def same_end(one: Path, other: Path) -> None:
    """Everything a run leaves that does not tell the time."""
    for file in ("model.safetensors", "metrics.jsonl", "config.json", "tokenizer.json", "curves.svg"):
        assert (one / file).read_bytes() == (other / file).read_bytes(), file
    runs = [json.loads((folder / "run.json").read_text()) for folder in (one, other)]
    for found in runs:
        del found["progress"]["seconds"], found["progress"]["waited"], found["preflight"]["memory_available"]
    assert runs[0] == runs[1]
    files = [sorted(str(path.relative_to(folder)) for path in folder.rglob("*")) for folder in (one, other)]
    assert files[0] == files[1]
    states = [checkpoint.load(checkpoint.newest(folder)) for folder in (one, other)]
    for state in states:
        del state["progress"]
        for group in (group for part in state["optimiser"].get("parts", []) for group in part["param_groups"]):
            group.pop("adjust_lr_fn", None)  # a word, which assert_close does not take
    assert states[0].pop("data") == states[1].pop("data")
    assert_close(states[0], states[1], rtol=0, atol=0, equal_nan=True)


@pytest.mark.few(4)
@pytest.mark.parametrize("name", RUNS)
@settings(max_examples=2)
@given(moments=st.permutations(MOMENTS), numbers=st.lists(st.integers(1, 5), min_size=4, max_size=4))
def test_a_run_broken_off_anywhere_ends_as_the_unbroken_one(name, moments, numbers):
    folder = Path(mkdtemp(dir=WHERE.name))
    for place, (moment, number) in enumerate(zip(moments, numbers, strict=True)):
        with ending(moment, number):
            run(name, folder, resume=place > 0)
    with ending("never", 1):
        assert run(name, folder, resume=True)
    same_end(folder, unbroken(name))


@pytest.mark.parametrize("step", [12, *(pytest.param(step, marks=pytest.mark.slow) for step in (8, 13))])
def test_the_checkpoint_of_a_stop_is_none_of_those_that_are_averaged(step):
    folder = Path(mkdtemp(dir=WHERE.name))
    with ending("asked to stop", step):
        assert not run("translation/transformer", folder)
    assert int(checkpoint.newest(folder).stem[-8:]) == step + 1  # the step under way was finished
    with ending("never", 1):
        assert run("translation/transformer", folder, resume=True)
    same_end(folder, unbroken("translation/transformer"))


@pytest.mark.parametrize("name", ["text-classification/lstm", "translation/transformer"])
def test_resuming_what_is_over_changes_nothing(name):
    folder = unbroken(name)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.suffix in (".safetensors", ".jsonl", ".pt")}
    with ending("never", 1):
        assert run(name, folder, resume=True)
    assert {path: path.read_bytes() for path in before} == before


def test_early_stopping_is_part_of_the_law():
    lines = (unbroken("text-classification/gru") / "metrics.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["step"] == 9  # the best was the first of three evaluations


# The real thing: a process of its own, and a signal that nobody can catch.

COMMAND = [sys.executable, "-m", "glassformer", "train"]
LONG = {"batch_size": 4, "batch_tokens": None, "steps": 120, "eval_every": 10, "log_every": 5, "save_every": 7}


def started(*words: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*COMMAND, *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def steps_done(folder: Path) -> int:
    found = checkpoint.newest(folder)
    return int(found.stem[-8:]) if found else 0


@pytest.mark.slow
def test_kill_9_at_random_moments(tmp_path):
    """Each time the process is let go on beyond some step, and for some random time more."""
    chance, kills = random.Random(8), 0
    name = "text-classification/gru"
    jobs.train(log=lambda _: None, **recipe_of(name, out=str(tmp_path / "unbroken"), ema=0.9, **LONG))
    recipe = jobs.Recipe.of(recipe_of(name, out=str(tmp_path / "broken"), ema=0.9, **LONG))
    (tmp_path / "recipe.toml").write_text(recipe.toml())
    for target in (1, 30, 60, 90):
        process = started(tmp_path / "recipe.toml", "--resume")
        while process.poll() is None and steps_done(tmp_path / "broken") < target:
            time.sleep(0.005)
        time.sleep(chance.uniform(0, 0.05))
        kills += process.poll() is None
        process.kill()
        process.communicate()
    assert kills >= 3  # the law is put to the test
    last = started(tmp_path / "recipe.toml", "--resume")
    _, complaint = last.communicate()
    assert last.returncode == 0, complaint.decode()
    same_end(tmp_path / "broken", tmp_path / "unbroken")
