"""Many processes do what one does: the same weights and the same metrics, also after a kill."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from torch.testing import assert_close

import glassformer as gf
from glassformer.jobs.recipe import Recipe
from glassformer.jobs.train import run
from glassformer.train import checkpoint
from tasks.cases import recipe_of

pytestmark = pytest.mark.slow
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
SEVERAL = """
import json, sys
import torch.distributed as dist
import glassformer as gf

dist.init_process_group("gloo")
for settings in json.loads(open(sys.argv[1]).read()):
    gf.train(**settings, log=lambda _: None)
dist.destroy_process_group()
"""
# Dropout is another draw in each process. Adam would blow up what rounding leaves of gradients that are nothing.
STEADY = {"steps": 8, "batch_tokens": None, "eval_every": 4, "log_every": 1, "eps": 1e-4, "lr": 1e-2}
WAYS = {"ddp": {}, "fsdp": {"parallel": "fsdp"}, "tensor": {"tensor_parallel": 2}, "context": {"context_parallel": 2}}
STILL = {
    "rnn": {"dropout": 0.0},
    "bert": {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
    "gpt2": {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0},
}
RUNS = {  # the classifier's batches leave one part of six empty
    "classifier": (
        "text-classification/lstm",
        "rnn",
        {"batch_size": 5, "accumulate": 3, "ema": 0.5},
    ),  # one part of six is empty
    "language model": ("text-generation/gpt2", "gpt2", {"batch_size": 6, "accumulate": 2}),
    "tagger": ("token-classification/bert/windows", "bert", {"batch_size": 7}),
    "vectors": ("sentence-similarity/bert/mean", "bert", {"batch_size": 8, "keep": "last"}),
    "translation": ("translation/gru", "rnn", {"batch_size": 6, "average": 2}),
    "masks": ("fill-mask/bert", "bert", {"batch_size": 6, "checkpointing": True}),
}
LAID_OUT = [(way, name) for way in WAYS for name in RUNS if way != "context" or name == "language model"]


def settings_of(name: str, folder: Path, **more: object) -> dict[str, object]:
    case, still, changes = RUNS[name]
    return recipe_of(case, out=str(folder / name), config=STILL[still], **{**STEADY, **changes, **more})


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Each run by one process, by two with all weights, by two that share them, and by two that compute together."""
    made = {name: tmp_path_factory.mktemp(name) for name in ("one", *WAYS)}
    runs = [settings_of(name, made[way], **WAYS[way]) for way, name in LAID_OUT]
    (made["ddp"] / "runs.json").write_text(json.dumps(runs))
    (made["ddp"] / "several.py").write_text(SEVERAL)
    words = [*TORCHRUN, made["ddp"] / "several.py", made["ddp"] / "runs.json"]
    ended = subprocess.run(words, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    for name in RUNS:
        gf.train(**settings_of(name, made["one"]), log=lambda _: None)
    return made


def metrics_of(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def same_within_rounding(one: Path, two: Path) -> None:
    ours, theirs = (checkpoint.load(checkpoint.newest(folder)) for folder in (two, one))
    assert_close(ours["model"], theirs["model"], rtol=1e-6, atol=1e-6)
    assert_close(gf.load(two).state_dict(), gf.load(one).state_dict(), rtol=1e-6, atol=1e-6)
    assert ours["progress"]["tokens"] == theirs["progress"]["tokens"]
    lines = list(zip(metrics_of(two), metrics_of(one), strict=True))
    for found, wanted in lines:
        assert found == pytest.approx(wanted, rel=1e-3, abs=1e-6)
    assert lines


@pytest.mark.parametrize(("way", "name"), LAID_OUT)
def test_two_processes_do_what_one_does(folders, name, way):
    one, two = folders["one"] / name, folders[way] / name
    same_within_rounding(one, two)
    files = [{str(path.relative_to(folder)) for path in folder.rglob("*")} for folder in (one, two)]
    if way in ("ddp", "context"):
        assert files[0] == files[1]
    else:  # the checkpoints are folders
        assert {Path(file).stem for file in files[0]} <= {Path(file).stem for file in files[1]}
    scores = [json.loads((folder / "run.json").read_text())["scores"]["dev"] for folder in (one, two)]
    assert scores[1] == pytest.approx(scores[0], rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("way", ["ddp", "fsdp"])
def test_two_processes_that_are_killed_go_on(tmp_path, way):
    changes = {
        **STEADY,
        "parallel": way,
        "steps": 200,
        "lr": 1e-3,
        "batch_size": 4,
        "accumulate": 2,
        "eval_every": 20,
        "log_every": 5,
    }
    recipes = [
        Recipe.of(recipe_of("text-classification/lstm", out=str(tmp_path / out), config=STILL["rnn"], **changes))
        for out in ("one", "two")
    ]
    (tmp_path / "two.toml").write_text(recipes[1].toml())
    words = [*TORCHRUN, "-m", "glassformer", "train", str(tmp_path / "two.toml"), "--resume", "--json"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    while process.poll() is None and checkpoint.newest(tmp_path / "two") is None:
        time.sleep(0.01)
    assert process.poll() is None  # it was killed in the middle
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    ended = subprocess.run(words, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    (line,) = ended.stdout.splitlines()  # one process speaks for both
    assert json.loads(line)["steps"] == 200
    run(recipes[0], log=lambda _: None)
    same_within_rounding(tmp_path / "one", tmp_path / "two")


def test_sigterm_to_two_processes_and_a_second_run_on_their_folder(tmp_path):
    """A scheduler tells torchrun to end: both stop after the same step. Until then the folder is theirs alone."""
    changes = {**STEADY, "steps": 100_000, "batch_size": 4, "eval_every": 1_000_000, "log_every": 1}
    recipe = Recipe.of(recipe_of("text-classification/lstm", out=str(tmp_path / "run"), **changes))
    (tmp_path / "recipe.toml").write_text(recipe.toml())
    words = [*TORCHRUN, "-m", "glassformer", "train", str(tmp_path / "recipe.toml")]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    metrics = tmp_path / "run" / "metrics.jsonl"
    while process.poll() is None and not (metrics.exists() and len(metrics.read_text().splitlines()) > 4):
        time.sleep(0.02)
    second = subprocess.run(words, capture_output=True, text=True, timeout=100)
    assert second.returncode == 1
    assert f"error: {tmp_path / 'run'} is another run's (process " in second.stderr
    assert process.poll() is None  # and the first goes on
    process.terminate()
    out, complaint = process.communicate(timeout=100)
    at = checkpoint.newest(tmp_path / "run")
    assert at is not None, complaint
    assert at.name.startswith("stopped-")
    assert f"stopped after step {checkpoint.step_of(at)} of 100000; go on with:" in out
    assert [*(tmp_path / "run").glob(".*")] == []


@pytest.mark.parametrize(
    ("case", "still", "layout"),
    [
        ("text-generation/gpt2", "gpt2", {}),
        ("text-classification/bert", "bert", {"tensor_parallel": 2}),
        ("text-generation/gpt2", "gpt2", {"context_parallel": 2}),
    ],
    ids=str,
)
def test_a_run_that_is_lengthened_again_and_again_on_other_numbers_of_processes(tmp_path, case, still, layout):
    """Shards of four processes are read by two, by one, and by four again, and the whole is as one long run."""
    changes = {**STEADY, "batch_size": 6, "eval_every": 2, "schedule": "constant", "warmup": 0}
    changes |= {"parallel": "fsdp", "ema": 0.5, **layout}

    def recipe(out: str, steps: int) -> Recipe:
        named = {"out": str(tmp_path / out), "config": STILL[still], "steps": steps}
        return Recipe.of(recipe_of(case, **{**changes, **named}))

    run(recipe("one", 16), log=lambda _: None)
    (tmp_path / "begin.toml").write_text(recipe("many", 4).toml())
    for steps, count in ((4, 4), (8, 2), (12, 1), (16, 4)):
        start = [*TORCHRUN[:-1], str(count)] if count > 1 else [sys.executable]
        what = ["begin.toml"] if steps == 4 else ["many", "--resume", "--steps", str(steps)]
        words = [*start, "-m", "glassformer", "train", *what]
        ended = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
        assert ended.returncode == 0, ended.stderr
        found = checkpoint.newest(tmp_path / "many")
        assert (checkpoint.step_of(found), found.is_dir()) == (steps, count > 1)
        assert f"steps = {steps}\n" in (tmp_path / "many" / "recipe.toml").read_text()
    same_within_rounding(tmp_path / "one", tmp_path / "many")
    shorter = subprocess.run([*words[:-1], "3"], capture_output=True, text=True, cwd=tmp_path)
    assert "16 steps of this run are done, and it is to have 3: give more epochs or steps" in shorter.stderr


def workers_of(process: subprocess.Popen) -> list[int]:
    """The processes that a torchrun has started, by rank."""
    text = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [int(one) for one in text.split() if b"glassformer" in Path(f"/proc/{one}/cmdline").read_bytes()]


def after_a_checkpoint(folder: Path, words: list[str]) -> subprocess.Popen:
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and checkpoint.newest(folder) is None:
        time.sleep(0.01)
    return process


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="it looks for its processes in /proc")
@pytest.mark.parametrize("rank", [0, 1])
def test_after_the_death_of_a_worker_torchrun_goes_on_from_the_last_checkpoint(tmp_path, rank):
    changes = {**STEADY, "steps": 150, "lr": 1e-3, "batch_size": 4, "eval_every": 20, "parallel": "fsdp"}
    recipes = [
        Recipe.of(recipe_of("text-classification/lstm", out=str(tmp_path / out), config=STILL["rnn"], **changes))
        for out in ("one", "two")
    ]
    (tmp_path / "two.toml").write_text(recipes[1].toml())
    words = [*TORCHRUN, "--max-restarts", "2", "-m", "glassformer", "train", str(tmp_path / "two.toml")]
    process = after_a_checkpoint(tmp_path / "two", words)
    os.kill(workers_of(process)[rank], signal.SIGKILL)
    out, complaint = process.communicate(timeout=200)
    assert process.returncode == 0, complaint
    assert "resuming after step " in out
    run(recipes[0], log=lambda _: None)
    same_within_rounding(tmp_path / "one", tmp_path / "two")


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="it looks for its processes in /proc")
def test_a_process_that_does_not_answer_is_named(tmp_path):
    changes = {**STEADY, "steps": 100_000, "batch_size": 4, "eval_every": 20, "deadline": 0.05}
    recipe = Recipe.of(recipe_of("text-classification/lstm", out=str(tmp_path / "run"), **changes))
    (tmp_path / "recipe.toml").write_text(recipe.toml())
    process = after_a_checkpoint(
        tmp_path / "run", [*TORCHRUN, "-m", "glassformer", "train", str(tmp_path / "recipe.toml")]
    )
    stopped = workers_of(process)[1]
    os.kill(stopped, signal.SIGSTOP)
    lines = []
    for line in process.stderr:
        lines.append(line)
        if line.startswith("error: "):
            os.kill(stopped, signal.SIGKILL)  # torchrun would wait half a minute for it
    process.communicate()
    assert process.returncode == 1
    (error,) = [line for line in lines if line.startswith("error: ")]
    assert error.startswith(f"error: rank 1 (process {stopped} on ")
    assert "did not answer for 0.05 minutes (deadline): look there, then go on with --resume" in error
