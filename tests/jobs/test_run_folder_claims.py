"""A run folder is one run's at a time, and nothing is written over that this program did not make."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import filelock
import pytest

import glassformer as gf
from glassformer.jobs.recipe import Recipe
from glassformer.jobs.run_folder import LOCK, RECIPE_HEADER, WRITTEN
from tasks.cases import ONE_OF_EACH_TASK, SMALL, recipe_of

QUIET = {"log": lambda _: None}
SMALLEST = (word for name, size in SMALL["glassformer-rnn"].items() for word in ("--set", f"config.{name}={size}"))
GRU = (
    "text-classification",
    "--arch",
    "gru",
    *SMALLEST,
    "--data",
    "microworld",
    "--set",
    "limit=20",
    "--device",
    "cpu",
)
SHORT = ("--steps", "2", "--batch-size", "8")


def settings_of(folder: Path, **changes: object) -> dict[str, object]:
    return recipe_of("text-classification/gru", out=str(folder), batch_size=8, batch_tokens=None, **changes)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


# One run at a time.


@pytest.fixture
def running(tmp_path):
    """A long run in a process of its own, beyond its first steps."""
    folder = tmp_path / "run"
    (tmp_path / "recipe.toml").write_text(Recipe.of(settings_of(folder, steps=100_000, log_every=1)).toml())
    words = [sys.executable, "-m", "glassformer", "train", str(tmp_path / "recipe.toml")]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    metrics = folder / "metrics.jsonl"
    while process.poll() is None and not (metrics.exists() and metrics.stat().st_size):
        time.sleep(0.02)
    yield process, folder
    process.kill()
    process.wait()


@pytest.mark.slow
def test_two_runs_in_one_folder_and_a_lock_that_outlives_its_run(running):
    """The second gets a line; after kill -9 nothing is in the way of the next."""
    process, folder = running
    recipe = (folder / "recipe.toml").read_bytes()
    for changes in ({}, {"lr": 0.5}):
        for resume in (False, True):
            with pytest.raises(ValueError, match="another --out") as caught:
                gf.train(**settings_of(folder, steps=3, **changes), resume=resume, **QUIET)
            assert f"{folder} is another run's (process {process.pid} on " in str(caught.value)
            assert "\n" not in str(caught.value)
    assert process.poll() is None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert (folder / LOCK).exists()
    assert (folder / "recipe.toml").read_bytes() == recipe
    gf.train(**settings_of(folder, steps=2, log_every=1), **QUIET)
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "loss" in line] == [1, 2]  # of one run, and each once
    assert not (folder / LOCK).exists()


@pytest.mark.parametrize("reason", [OSError(errno.ENOLCK, "No locks available"), NotImplementedError("no flock")])
def test_a_file_system_without_locks_is_trained_on_all_the_same(tmp_path, monkeypatch, reason):
    def acquire(_):
        raise reason

    monkeypatch.setattr(filelock.FileLock, "_acquire", acquire)
    assert gf.train(**settings_of(tmp_path / "run", steps=1), **QUIET).scores


# What this program did not make.


@pytest.mark.parametrize("name", WRITTEN)
def test_a_file_of_another_program_is_not_written_over(here, glassformer, name):
    (here / name).write_text("mine")
    code, _, err = glassformer("train", *GRU, *SHORT, "--out", ".")
    assert (code, err.count("\n")) == (1, 1)
    assert "choose another --out" in err
    assert name == "config.json" or err.startswith(f"error: {name} was not written by a run, and would be lost")
    assert (here / name).read_text() == "mine"
    assert sorted(path.name for path in here.iterdir()) == [name]


def test_all_that_a_run_writes_is_asked_for(trained):
    folders = [trained(name) for name in (*ONE_OF_EACH_TASK, "translation/transformer", "text-generation/gpt2")]
    assert {path.name for folder in folders for path in folder.iterdir()} <= set(WRITTEN)


def test_an_empty_folder_and_one_with_other_files_are_fine(here, glassformer):
    (here / "data.csv").write_text("text,label\n")
    assert glassformer("train", *GRU, *SHORT, "--out", ".")[0] == 0
    assert (here / "recipe.toml").read_text().startswith(RECIPE_HEADER)
    assert (here / "data.csv").read_text() == "text,label\n"


def test_an_unset_variable_is_no_folder(here, glassformer):
    (here / "README.md").write_text("mine")
    code, _, err = glassformer("train", *GRU, *SHORT, "--out", "")
    assert (code, err) == (1, "error: out is empty, perhaps a variable that is not set: name the run folder\n")
    with pytest.raises(ValueError, match="out is empty"):
        gf.train(**settings_of(here) | {"out": " "}, **QUIET)
    assert sorted(path.name for path in here.iterdir()) == ["README.md"]


def test_a_readme_that_came_later_is_left(here):
    folder, said = here / "run", []
    gf.train(**settings_of(folder, steps=1), **QUIET)
    (folder / "README.md").write_text("my notes")
    gf.train(**settings_of(folder, steps=1), resume=True, log=said.append)
    assert (folder / "README.md").read_text() == "my notes"
    assert f"{folder / 'README.md'} is not one that a run wrote: it is left as it is" in said


def test_a_recipe_in_its_own_run_folder_keeps_its_comments(here, glassformer):
    recipe = Recipe.of(settings_of(here / "run", steps=1))
    (here / "run").mkdir()
    (here / "run" / "recipe.toml").write_text(text := "# why I do this\n" + recipe.toml())
    code, _, err = glassformer("train", "run/recipe.toml", "--lr", 0.5)
    assert (code, err.count("\n")) == (1, 1)
    assert "run/recipe.toml was not written by a run, and would be lost: choose another --out" in err
    assert glassformer("train", "run/recipe.toml")[0] == 0
    assert (here / "run" / "recipe.toml").read_text() == text


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"data": "some.csv", "columns": {"text": "c"}}, "no column"), ({"freeze": "nothing", "steps": 1}, "nothing")],
)
def test_a_run_that_is_refused_leaves_nothing_behind(here, monkeypatch, wrong, said):
    monkeypatch.chdir(here)
    (here / "some.csv").write_text("a,b\n1,2\n")
    before = sorted(here.rglob("*"))
    with pytest.raises(ValueError, match=said):
        gf.train(**settings_of(here / "runs" / "new", **wrong), **QUIET)
    assert sorted(here.rglob("*")) == before
    (here / "there").mkdir()
    (here / "there" / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=said):
        gf.train(**settings_of(here / "there", **wrong), **QUIET)
    assert [path.name for path in (here / "there").iterdir()] == ["notes.txt"]


def test_a_run_that_never_had_a_step_can_be_begun_otherwise(here):
    folder = here / "run"
    folder.mkdir()
    (folder / "recipe.toml").write_text(RECIPE_HEADER + Recipe.of(settings_of(folder, lr=0.5)).toml())
    assert gf.train(**settings_of(folder, steps=1), **QUIET).scores


# What else is written.


def test_a_saved_model_is_written_over_but_no_config_of_another_program(tmp_path, trained):
    model = gf.load(trained("text-classification/gru"))
    (tmp_path / "README.md").write_text("mine")
    for _ in range(2):
        gf.save(model, tmp_path)
    assert (tmp_path / "README.md").read_text() == "mine"
    (tmp_path / "config.json").write_text('{"port": 80}')
    with pytest.raises(ValueError, match=r"config.json is not a model's, and would be lost: choose another folder"):
        gf.save(model, tmp_path)
    assert (tmp_path / "config.json").read_text() == '{"port": 80}'
    with pytest.raises(ValueError, match="the name of the folder is empty"):
        gf.save(model, "")


FOREIGN = {
    "config.json": b'{"port": 80}',
    "model.safetensors": b"a text of mine",
    "generation_config.json": b'{"generation": 3}',
    "tokenizer.json": b'{"tokens": ["mine"]}',
    "tokenizer_config.json": b"[1]",
    "special_tokens_map.json": b"not json",
}


@pytest.mark.parametrize("name", FOREIGN)
def test_no_file_of_another_program_is_lost_to_a_saved_model(tmp_path, trained, name):
    folder = trained("text-generation/gpt2")
    model, tokenizer = gf.load(folder), gf.load_tokenizer(folder)
    model.generation_config = {"num_beams": 2}
    (tmp_path / name).write_bytes(FOREIGN[name])
    with pytest.raises(ValueError, match=f"{name} is not a model's, and would be lost: choose another folder"):
        gf.save(model, tmp_path, tokenizer=tokenizer)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [(name, FOREIGN[name])]
    (tmp_path / name).unlink()
    (tmp_path / name).mkdir()
    with pytest.raises(ValueError, match=f"{name} is a folder: a file is needed"):
        gf.save(model, tmp_path, tokenizer=tokenizer)


def test_what_transformers_saved_is_written_over(tmp_path, trained):
    transformers = pytest.importorskip("transformers")
    folder = trained("text-generation/gpt2")
    ours, tokenizer = gf.load(folder), gf.load_tokenizer(folder)
    ours.generation_config = {"repetition_penalty": 1.5}
    for _ in range(2):  # over nothing, and over itself
        gf.save(ours, tmp_path / "ours", tokenizer=tokenizer)
    transformers.AutoTokenizer.from_pretrained(tmp_path / "ours").save_pretrained(tmp_path / "theirs")
    gf.save(ours, tmp_path / "theirs", tokenizer=tokenizer)  # a tokenizer alone
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "ours")
    theirs.save_pretrained(tmp_path / "theirs")
    theirs.generation_config.save_pretrained(tmp_path / "settings")
    for name in ("theirs", "settings"):
        gf.save(ours, tmp_path / name, tokenizer=tokenizer)
    assert gf.load(tmp_path / "theirs").generation_config == {"repetition_penalty": 1.5}


def test_a_vocabulary_is_not_put_in_the_place_of_another(here, glassformer):
    (here / "some.txt").write_text("some words\n" * 9)
    words = ("tokenizer", "train", "some.txt", "--kind", "character", "--out")
    assert glassformer(*words, "new")[0] == 0
    before = (here / "new" / "tokenizer.json").read_bytes()
    code, _, err = glassformer(*words, "new", "--lowercase")
    assert (code, err) == (1, "error: new/tokenizer.json is there already: choose another --out, or delete it\n")
    assert (here / "new" / "tokenizer.json").read_bytes() == before
    (here / "model").mkdir()
    (here / "model" / "config.json").write_text("{}")
    assert glassformer(*words, "model")[0] == 1
    code, _, err = glassformer(*words, "")
    assert (code, err) == (1, "error: --out is empty, perhaps a variable that is not set: name a folder\n")


OUTS = {
    "page.html": ("inspect", "text-classification/bert", ("Paul is glad .",)),
    "page.svg": ("inspect", "text-classification/bert", ("Paul is glad .",)),
    "page.png": ("inspect", "text-classification/bert", ("Paul is glad .",)),
    "compared.html": ("compare", "text-generation/gpt2", ("--prompts", "prompts.txt", "--strategies", "greedy")),
    "lines.de": ("translate", "translation/transformer", ("Paul is glad .",)),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("name", OUTS)
def test_files_that_are_named_by_out(here, glassformer, trained, name):
    """What this program made may be made again; anything else stays, and nothing is done."""
    command, case, words = OUTS[name]
    if name.endswith("png"):
        pytest.importorskip("matplotlib")
    (here / "prompts.txt").write_text("Paul\n")
    given = (*([command, "decoding"] if command == "compare" else [command]), trained(case), *words, "--out")
    assert glassformer(*given, name)[0] == 0
    assert (glassformer(*given, name)[0] == 0) == (command != "translate")  # plain lines do not say who made them
    (here / name).write_text("mine")
    code, _, err = glassformer(*given, name)
    assert (code, err) == (1, f"error: {name} is there already and would be lost: choose another --out, or delete it\n")
    assert (here / name).read_text() == "mine"
    code, _, err = glassformer(*given, "")
    assert (code, err) == (1, "error: --out is empty, perhaps a variable that is not set: name a file\n")
    code, _, err = glassformer(*given, ".")
    assert (code, err) == (1, "error: --out . is a folder: name a file\n")
