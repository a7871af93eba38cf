"""However a run ends, by a number that is none, a signal or a full disk, it says so in a line and is left whole."""

import json
import math
import os
import resource
import shlex
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from runs import SOON, Run, Steep, command, start

from glassformer.data.batches import Schedule
from glassformer.jobs import train as jobs
from glassformer.jobs.progress import NullListener
from glassformer.train import checkpoint, signals
from glassformer.train.loop import Fit
from tasks.cases import case, recipe_of

POISONS = {"loss": lambda loss: loss * math.nan, "gradient": Steep.apply}


@pytest.mark.parametrize("what", POISONS)
@pytest.mark.parametrize("step", [1, 4, 6])
def test_numbers_that_are_none_stop_the_run_and_name_the_examples(tmp_path, monkeypatch, what, step):
    one, calls = case("text-classification/gru"), []
    sound = type(one.task).loss

    def poisoned(task, model, batch):
        calls.append(batch)
        loss = sound(task, model, batch)
        return POISONS[what](loss) if len(calls) == step else loss

    monkeypatch.setattr(type(one.task), "loss", poisoned)
    with pytest.raises(ValueError, match=rf"^the {what} of step {step} is (nan|inf): ") as caught:
        Run("", tmp_path, one=one, save_every=2)
    indices = next(Schedule(one.items.lengths, SOON.budget, seed=0).after(step - 1)).indices
    first = one.task.tokenizer.decode(one.items.rows[indices[0]], skip_special_tokens=True)
    assert f"training examples {', '.join(map(str, indices))} (counted from 0; the first reads" in str(caught.value)
    assert first[:20] in str(caught.value)
    assert "\n" not in str(caught.value)
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert all(json.loads(line)["step"] < step for line in lines)
    kept = checkpoint.newest(tmp_path)
    assert (kept is None) == (step == 1)
    if kept:  # and it is a good one
        assert int(kept.stem[-8:]) < step
        assert all(tensor.isfinite().all() for tensor in checkpoint.load(kept)["model"].values())


def lines_in(folder: Path) -> int:
    metrics = folder / "metrics.jsonl"
    return len(metrics.read_text().splitlines()) if metrics.exists() else 0


def interrupted(process: subprocess.Popen, folder: Path, lines: int) -> tuple[int, str, str]:
    """Press Ctrl-C once metrics.jsonl has so many lines."""
    while process.poll() is None and lines_in(folder) < lines:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, complaint = process.communicate()
    return process.returncode, out, complaint


@pytest.mark.slow
def test_ctrl_c_stops_cleanly_and_prints_the_command_that_goes_on(tmp_path):
    folder = tmp_path / "a run"  # with a blank to be quoted
    process = start(tmp_path, "text-classification/gru", steps=100_000, out=str(folder))
    code, out, complaint = interrupted(process, folder, 10)
    assert (code, complaint) == (130, "")
    *_, stopped, going_on = out.splitlines()
    at = checkpoint.newest(folder)
    assert stopped == f"stopped after step {int(at.stem[-8:])} of 100000; go on with:"
    name, *words = shlex.split(going_on)
    assert (name, words) == ("glassformer", ["train", str(folder / "recipe.toml"), "--resume"])
    before = lines_in(folder)
    code, out, complaint = interrupted(command(*words), folder, before + 10)
    assert (code, complaint) == (130, "")
    assert int(checkpoint.newest(folder).stem[-8:]) > int(at.stem[-8:])
    steps = [line["step"] for line in map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())]
    assert sorted(set(steps)) == list(range(1, max(steps) + 1))  # none is missing, and none came twice
    assert len([*folder.rglob(".*")]) == 0


SMALLEST = {"the checkpoint": 30_000, "the model": 15_000, "the metrics": 900}


@pytest.mark.few(1)
@pytest.mark.parametrize("what", SMALLEST)
def test_a_full_disk_leaves_the_last_checkpoint_whole(tmp_path, what):
    settings = recipe_of("text-classification/gru", batch_size=8, steps=9, eval_every=3, log_every=1, metric="-loss")
    settings |= {"batch_tokens": None, "lr": 1e-2, "schedule": "constant"}
    quiet = {"log": lambda _: None}
    jobs.train(**settings | {"out": str(tmp_path / "unbroken")}, **quiet)
    folder = tmp_path / "broken"
    settings["out"] = str(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            NullListener, "stepped", lambda _, at: signal.raise_signal(signal.SIGINT) if at.step == 3 else None
        )
        patch.setattr(jobs, "ConsoleListener", lambda *_, **__: NullListener())
        assert jobs.train(**settings, **quiet).outcome.stopped
    before = {path: path.read_bytes() for path in checkpoint.newest(folder).parent.iterdir()}
    with files_up_to(SMALLEST[what]), pytest.raises(OSError, match="nothing more can be written to") as caught:
        jobs.train(**settings, resume=True, **quiet)
    *_, newest = sorted(before)
    assert "File too large" in str(caught.value)
    assert str(caught.value).endswith(f"; {newest.name} is whole: free some space and go on with --resume")
    assert "\n" not in str(caught.value)
    assert {path: path.read_bytes() for path in newest.parent.iterdir()} == before  # and nothing half written
    jobs.train(**settings, resume=True, **quiet)
    for file in ("model.safetensors", "metrics.jsonl"):
        assert (folder / file).read_bytes() == (tmp_path / "unbroken" / file).read_bytes()


@pytest.mark.parametrize("state", [{"one": torch.zeros(100_000)}, {str(n): torch.zeros(1000) for n in range(100)}])
def test_a_checkpoint_that_does_not_fit_says_so_in_the_words_of_the_disk(tmp_path, state):
    checkpoint.save(tmp_path, 1, {"small": 1})
    with files_up_to(100_000), pytest.raises(OSError, match="File too large"):
        checkpoint.save(tmp_path, 2, state)
    assert [path.name for path in (tmp_path / checkpoint.FOLDER).iterdir()] == ["step-00000001.pt"]


def test_what_was_half_written_when_a_run_was_killed_is_swept_away(tmp_path):
    settings = recipe_of("text-classification/gru", out=str(tmp_path), steps=2, batch_size=8, batch_tokens=None)
    jobs.train(**settings, log=lambda _: None)
    halves = [
        tmp_path / ".model.safetensors.1.2.partial",
        tmp_path / checkpoint.FOLDER / ".step-00000002.pt.1.2.partial",
    ]
    for half in halves:
        half.write_bytes(b"half")
    jobs.train(**settings, resume=True, log=lambda _: None)
    assert not any(half.exists() for half in halves)


@contextmanager
def files_up_to(size: int):
    """As if the disk had no room for a larger file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("where", ["file", "file/below"])
def test_a_file_in_the_place_of_the_run_folder(tmp_path, where):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ValueError, match=r"nothing can be written to .*file.*: (File exists|Not a directory)"):
        jobs.train(**recipe_of("text-classification/gru", out=str(tmp_path / where)), log=lambda _: None)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_is_read_only(tmp_path):
    (tmp_path / "run").mkdir(mode=0o500)
    with pytest.raises(ValueError, match="nothing can be written to .*run: Permission denied"):
        jobs.train(**recipe_of("text-classification/gru", out=str(tmp_path / "run")), log=lambda _: None)


def test_half_a_checkpoint_is_told_from_a_whole_one(tmp_path):
    Run("text-classification/gru", tmp_path, average=2)
    *_, last = checkpoint.found(tmp_path)
    last.write_bytes(last.read_bytes()[:1000])
    with pytest.raises(ValueError, match=f"{last.name} is not a whole checkpoint .* delete it to go on from the one"):
        checkpoint.load(last)


def test_a_checkpoint_of_another_model_is_refused(tmp_path):
    one, other = case("text-classification/gru"), case("text-classification/lstm")
    Run("", tmp_path, one=one)
    fit = Fit(
        other.model,
        other.task,
        SOON,
        other.items,
        other.task.encode(other.splits.dev),
        folder=tmp_path,
        save=lambda _: None,
        listener=NullListener(),
    )
    with pytest.raises(ValueError, match=r"step-00000012.pt is of another model \(size mismatch .*\); choose another"):
        fit.run(resume=True)


def test_data_that_has_changed_since_is_refused(tmp_path):
    one = case("text-classification/gru")
    Run("", tmp_path, one=one)
    fewer = one.task.encode(one.splits.train[:-1])
    fit = Fit(one.model, one.task, SOON, fewer, None, folder=tmp_path, save=lambda _: None, listener=NullListener())
    with pytest.raises(ValueError, match="the training data is not that of .*step-00000012.pt; bring it back"):
        fit.run(resume=True)


def swapped(examples):
    """The same texts, each with the label of the next."""
    labels = [one.label for one in examples]
    return [replace(one, label=label) for one, label in zip(examples, [*labels[1:], labels[0]], strict=True)]


@pytest.mark.parametrize("side", ["training", "dev"])
def test_labels_that_have_changed_since_are_noticed(tmp_path, side):
    one = case("text-classification/gru")
    Run("", tmp_path, one=one)
    train, dev = one.splits.train, one.splits.dev
    sides = (swapped(train), dev) if side == "training" else (train, swapped(dev))
    items = [one.task.encode(examples) for examples in sides]
    fit = Fit(one.model, one.task, SOON, *items, folder=tmp_path, save=lambda _: None, listener=NullListener())
    with pytest.raises(ValueError, match=f"the {side} data is not that of .*step-00000012.pt; bring it back"):
        fit.run(resume=True)


def test_a_checkpoint_that_does_not_tell_its_data_is_refused(tmp_path):
    run = Run("text-classification/gru", tmp_path)
    path = checkpoint.newest(tmp_path)
    torch.save({**checkpoint.load(path), "data": 12345}, path)
    with pytest.raises(ValueError, match="step-00000012.pt is of an earlier version, .*; choose another --out"):
        run.fit.run(resume=True)


# SIGTERM: what schedulers and containers send, some seconds before they kill.


def terminated(process: subprocess.Popen, folder: Path, lines: int) -> tuple[int, str, str]:
    while process.poll() is None and lines_in(folder) < lines:
        time.sleep(0.02)
    process.terminate()
    out, complaint = process.communicate()
    return process.returncode, out, complaint


@pytest.mark.slow
def test_sigterm_in_the_first_epoch_loses_nothing(tmp_path):
    settings = {"steps": 60, "eval_every": 1000, "log_every": 1, "lr": 1e-3}
    process = start(tmp_path, "text-classification/gru", **settings)
    code, out, complaint = terminated(process, tmp_path / "run", 5)
    assert (code, complaint) == (143, "")
    at = checkpoint.newest(tmp_path / "run")
    assert at.name.startswith("stopped-")
    assert f"stopped after step {checkpoint.step_of(at)} of 60; go on with:" in out
    again = command("train", tmp_path / "run" / "recipe.toml", "--resume")
    out, complaint = again.communicate()
    assert (again.returncode, complaint) == (0, "")
    assert f"resuming after step {checkpoint.step_of(at)} ({at})" in out.splitlines()
    whole = recipe_of("text-classification/gru", out=str(tmp_path / "whole"), batch_size=8, batch_tokens=None)
    jobs.train(**{**whole, **settings}, log=lambda _: None)
    for file in ("model.safetensors", "metrics.jsonl"):
        assert (tmp_path / "run" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


WAITING = """
import os, sys, time
from glassformer.jobs import train as jobs
from glassformer.cli.main import main

def assemble(*_):
    print("tokenising", flush=True)
    time.sleep(60)

jobs.assemble = assemble
sys.argv = ["glassformer", *sys.argv[1:]]
main()
"""


@pytest.mark.slow
def test_sigterm_before_the_first_step_is_one_line(tmp_path):
    out = str(tmp_path / "run")
    words = ["train", "text-classification", "--arch", "gru", "--data", "microworld", "--out", out]
    process = subprocess.Popen(
        [sys.executable, "-c", WAITING, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "tokenising\n"
    process.terminate()
    said, complaint = process.communicate()
    assert (process.returncode, said, complaint) == (143, "", "stopped\n")
    assert [path.name for path in Path(out).iterdir()] == ["recipe.toml"]  # and no lock


def test_a_resume_with_nothing_to_resume_says_so(tmp_path):
    said: list[str] = []
    settings = recipe_of("text-classification/gru", out=str(tmp_path / "run"), steps=1)
    jobs.train(**settings, resume=True, log=said.append)
    assert f"{tmp_path / 'run'} holds no checkpoint to resume from: this is the first step" in said


@pytest.mark.parametrize(("number", "kind"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, signals.Terminated)])
def test_a_second_signal_stops_at_once(number, kind, monkeypatch):
    monkeypatch.setattr(signals, "SECONDS_OF_ONE", -1.0)
    before = signal.getsignal(number)
    with signals.stops() as asked:
        assert asked() == 0
        signal.raise_signal(number)
        assert asked() == number
        with pytest.raises(kind):
            signal.raise_signal(number)
    assert signal.getsignal(number) == before


def test_a_sigterm_that_comes_twice_from_two_senders_is_one(monkeypatch):
    with signals.stops() as asked:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert asked() == signal.SIGTERM


# Checkpoints by the clock.


def test_checkpoints_by_the_clock_are_kept_between_those_that_are_due(tmp_path):
    seen = []

    class Watching(NullListener):
        def stepped(self, progress):
            seen.append((progress.step, sorted(path.name[:-3] for path in (tmp_path / "checkpoints").iterdir())))

    one = case("text-classification/gru")
    plan = replace(SOON, steps=6, eval_every=4, save_minutes=1e-9)
    fit = Fit(one.model, one.task, plan, one.items, None, folder=tmp_path, save=lambda _: None, listener=Watching())
    fit.run()
    due = "step-00000004"
    assert [files for _, files in seen] == [
        ["timed-00000001"],
        ["timed-00000002"],
        ["timed-00000003"],
        [due],
        [due, "timed-00000005"],
        ["step-00000006"],
    ]


def test_without_minutes_there_are_none(tmp_path):
    Run("text-classification/gru", tmp_path, save_minutes=0, eval_every=100, steps=3)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-00000003.pt"]
    with pytest.raises(ValueError, match="save_minutes is -1; it must be a number of at least 0"):
        replace(SOON, save_minutes=-1)
