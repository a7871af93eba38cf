"""The studio's own models: trained once, kept whole or not at all, and good for something."""

import os
import signal
import subprocess
import sys
import time

import pytest
from filelock import FileLock

import glassformer as gf
from glassformer.data import microworld
from glassformer.studio import demo
from glassformer.studio.demo import demo_models, make, recipes_hash
from glassformer.studio.example_inputs import EXAMPLE_INPUTS, example_inputs

pytestmark = pytest.mark.slow

TINY = {"embedding_size": 8, "hidden_size": 8}
FEW: dict = {
    "one": {"task": "text-classification", "data": "microworld", "limit": 64, "arch": "gru", "steps": 4}
    | {"batch_size": 16, "vocab_size": 200, "config": TINY},
    "two": {"task": "text-generation", "data": "microworld", "limit": 20, "block_size": 32, "arch": "rnn", "steps": 4}
    | {"batch_size": 8, "vocab_size": 300, "config": TINY},
}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def folders(home):
    said = []
    found = demo_models(FEW, log=said.append, home=home)
    assert said[0].startswith("training 2 small models")
    assert sorted(line.split(":")[0] for line in said[1:]) == ["one", "two"]
    return found


def test_the_folders_are_models_with_their_runs(folders):
    assert [folder.name for folder in folders] == ["one", "two"]
    for folder in folders:
        assert gf.load(folder).head_name == FEW[folder.name]["task"]
        assert {"recipe.toml", "metrics.jsonl", "run.json", "tokenizer.json"} <= {
            path.name for path in folder.iterdir()
        }
        assert str(folder) in (folder / "recipe.toml").read_text("utf-8")
        assert not (folder / "checkpoints").exists()
    assert [path.name for path in folders[0].parent.glob(".making")] == []


def test_a_second_start_trains_nothing(folders, home, monkeypatch):
    monkeypatch.setattr(demo, "_train", lambda *_: pytest.fail("trained again"))
    assert demo_models(FEW, log=pytest.fail, home=home) == folders


def test_only_what_is_missing_is_trained(folders, home, monkeypatch):
    asked = []
    monkeypatch.setattr(demo, "_train", lambda _, models, __: asked.extend(models))
    folders[1].rename(folders[1].with_name("elsewhere"))
    try:
        demo_models(FEW, home=home)
    finally:
        folders[1].with_name("elsewhere").rename(folders[1])
    assert asked == ["two"]


def test_another_recipe_is_another_folder():
    other = {**FEW, "one": {**FEW["one"], "steps": 5}}
    assert recipes_hash(other) != recipes_hash(FEW) == recipes_hash(dict(FEW))


def test_what_cannot_be_trained_says_which_and_why_and_leaves_nothing(tmp_path):
    with pytest.raises(ValueError, match="the model 'one' could not be trained: .*batch_sise"):
        demo_models({"one": {**FEW["one"], "batch_sise": 3}}, log=lambda _: None, home=tmp_path)
    (inside,) = tmp_path.iterdir()
    assert [path.name for path in inside.iterdir() if path.name != ".lock"] == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_stop_leaves_whole_models_and_no_process(tmp_path, how):
    long = {**FEW, "two": {**FEW["two"], "steps": 100_000}}
    call = f"demo_models({long!r}, home=Path({str(tmp_path)!r}))"
    code = (
        f"from pathlib import Path\nfrom glassformer.studio.demo import demo_models\nif __name__ == '__main__': {call}"
    )
    script = tmp_path / "start.py"
    script.write_text(code)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    running = subprocess.Popen(
        [sys.executable, script], env=environment, stderr=subprocess.DEVNULL, start_new_session=True
    )
    home = tmp_path / recipes_hash(long)
    try:
        wait_for(lambda: (home / "one").is_dir() and (home / ".making" / "two" / "metrics.jsonl").is_file())
        if how == signal.SIGINT:
            os.killpg(running.pid, how)  # as a terminal does: to all of them
        else:
            running.kill()
        assert running.wait(20) != 0
        wait_for(lambda: not alive(running.pid))
    finally:
        running.kill()
        running.wait()
    left = {path.name for path in home.iterdir()} - {".lock"}
    assert left == ({"one"} if how == signal.SIGINT else {"one", ".making"})
    with FileLock(home / ".lock", timeout=0):
        assert gf.load(home / "one").head_name == "text-classification"


def wait_for(happened, seconds=60):
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def alive(group):
    """Whether any process of a group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_studio_waits_for_another_that_trains(tmp_path, monkeypatch):
    home, said = tmp_path / recipes_hash(FEW), []
    home.mkdir()
    lock = FileLock(home / ".lock")
    lock.acquire()

    def waiting(line):
        said.append(line)
        for name in FEW:
            (home / name).mkdir()
        lock.release()

    monkeypatch.setattr(demo, "_train", lambda _, models, __: said.append(sorted(models)))
    demo_models(FEW, log=waiting, home=tmp_path)
    assert said == ["another studio is training its models: waiting for it", []]


@pytest.mark.parametrize("name", demo.MODELS)
def test_every_recipe_runs(name, tmp_path):
    settings = {**demo.MODELS[name], "steps": 1, "batch_size": 4, "limit": 40}
    settings.pop("batch_tokens", None)
    make(tmp_path / ".making" / name, tmp_path / name, settings)
    model, tokenizer = gf.load(tmp_path / name), gf.load_tokenizer(tmp_path / name)
    for one in example_inputs(settings["task"]):
        read = tokenizer(one["inputs"], one.get("pair"))["input_ids"]
        assert len(read) <= getattr(model.config, "max_position_embeddings", 128)


def test_examples_suit_their_tasks():
    assert all(one["inputs"] for task in EXAMPLE_INPUTS for one in example_inputs(task))
    assert "<mask>" in example_inputs("fill-mask", "<mask>")[0]["inputs"]
    assert all(one["pair"] for one in example_inputs("question-answering"))
    assert example_inputs("feature-extraction") == example_inputs(None) == []
    for task in ("text-classification", "translation"):  # a text's share says which seeds may draw it
        assert all(microworld.share_of(one["inputs"]) != 0 for one in example_inputs(task))
