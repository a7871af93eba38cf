"""However a run ends, by a number that is none, by Ctrl-C or a full disk, it says so in a line and is left whole."""

import json
import math
import os
import resource
import shlex
import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from runs import SOON, Run, Steep, command, start

from glassformer.data.batches import Schedule
from glassformer.jobs import train as jobs
from glassformer.jobs.progress import Silent
from glassformer.train import checkpoint
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


@pytest.mark.parametrize("what", SMALLEST)
def test_a_full_disk_leaves_the_last_checkpoint_whole(tmp_path, what):
    settings = recipe_of("text-classification/gru", batch_size=8, steps=9, eval_every=3, log_every=1, metric="-loss")
    settings |= {"batch_tokens": None, "lr": 1e-2, "schedule": "constant"}
    quiet = {"say": lambda _: None}
    jobs.train(**settings | {"out": str(tmp_path / "unbroken")}, **quiet)
    folder = tmp_path / "broken"
    settings["out"] = str(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Silent, "stepped", lambda _, at: signal.raise_signal(signal.SIGINT) if at.step == 3 else None)
        patch.setattr(jobs, "Teller", lambda *_, **__: Silent())
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
    jobs.train(**settings, say=lambda _: None)
    halves = [
        tmp_path / ".model.safetensors.1.2.partial",
        tmp_path / checkpoint.FOLDER / ".step-00000002.pt.1.2.partial",
    ]
    for half in halves:
        half.write_bytes(b"half")
    jobs.train(**settings, resume=True, say=lambda _: None)
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
        jobs.train(**recipe_of("text-classification/gru", out=str(tmp_path / where)), say=lambda _: None)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_is_read_only(tmp_path):
    (tmp_path / "run").mkdir(mode=0o500)
    with pytest.raises(ValueError, match="nothing can be written to .*run: Permission denied"):
        jobs.train(**recipe_of("text-classification/gru", out=str(tmp_path / "run")), say=lambda _: None)


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
        None,
        folder=tmp_path,
        save=lambda _: None,
        listener=Silent(),
    )
    with pytest.raises(ValueError, match=r"step-00000012.pt is of another model \(size mismatch .*\); choose another"):
        fit.run(resume=True)


def test_data_that_has_changed_since_is_refused(tmp_path):
    one = case("text-classification/gru")
    Run("", tmp_path, one=one)
    fewer = one.task.encode(one.splits.train[:-1])
    fit = Fit(one.model, one.task, SOON, fewer, None, folder=tmp_path, save=lambda _: None, listener=Silent())
    with pytest.raises(ValueError, match="the training data is not that of .*step-00000012.pt; bring it back"):
        fit.run(resume=True)
