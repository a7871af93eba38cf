"""`data tokenize`: one folder of shards whoever makes it, done once, gone on with after kill -9, and trained on from
here and from elsewhere alike."""

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import glassformer as gf
from glassformer.data import microworld, shard_store
from glassformer.data.joined import JoinedShards
from glassformer.data.shard_writer import fingerprint
from glassformer.data.shards import Shards
from glassformer.jobs import tokenise
from glassformer.jobs.run_folder import RESULT
from glassformer.text.tokenizer import Tokenizer
from glassformer.text.train import train

FILES = 6
RAYS_OWN = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")
MODEL = {"n_layer": 1, "n_embd": 16, "n_head": 2}
LOOP = {"steps": 6, "batch_size": 4, "block_size": 16, "eval_every": 3, "lr": 1e-2, "config": MODEL, "device": "cpu"}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Files of texts, one of them compressed jsonl, and a tokenizer."""
    folder, stories = tmp_path_factory.mktemp("corpus"), microworld.examples("documents", 60)
    for number in range(FILES):
        own = stories[number::FILES]
        if number == 1:
            rows = "".join(json.dumps({"text": story.text}) + "\n" for story in own)
            (folder / f"{number}.jsonl").write_text(rows)
        else:
            (folder / f"{number}.txt").write_text("\n\n".join(story.text for story in own), encoding="utf-8")
    train(sorted(folder.glob("*.txt")), kind="bpe", vocab_size=400).save(folder / "tok")
    return folder


@pytest.fixture(autouse=True)
def small_groups(monkeypatch, tmp_path):
    """Groups of about two of the files; and a cache that nobody else uses."""
    monkeypatch.setattr(tokenise, "GROUP", 3000)
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(shard_store, "PAUSE", 0.0)


def words(corpus, out, *more, names=("*.txt", "*.jsonl")):
    files = [corpus / name for name in names]
    asked = ["data", "tokenize", *files, "--tokenizer", corpus / "tok", "--out", out, "--unit", "block"]
    return [*map(str, asked), "--shard-tokens", "400", "--jobs", "1", *map(str, more)]


def expected(corpus):
    """The ids of all blocks, each with its end."""
    tok, texts = Tokenizer.from_folder(corpus / "tok"), []
    for path in [*sorted(corpus.glob("*.txt")), corpus / "1.jsonl"]:
        if path.suffix == ".txt":
            texts += path.read_text(encoding="utf-8").split("\n\n")
        else:
            texts += [json.loads(line)["text"] for line in path.read_text().splitlines()]
    rows = [[*tok.encode(text.strip("\n"), add_special_tokens=False), tok.eos_token_id] for text in texts]
    return [token for row in rows for token in row], len(texts)


def contents(folder):
    return {str(one.relative_to(folder)): one.read_bytes() for one in sorted(folder.rglob("*")) if one.is_file()}


def test_the_ids_are_those_of_the_tokenizer(corpus, glassformer, tmp_path):
    code, out, _ = glassformer(*words(corpus, tmp_path / "tokens", "--json"))
    ids, documents = expected(corpus)
    found = json.loads(out)
    assert (code, found["tokens"], found["documents"]) == (0, len(ids), documents)
    shards = Shards(tmp_path / "tokens")
    assert shards[:].tolist() == ids
    assert found["shards"] == len(shards.shards) > 3
    assert len({name.partition("/")[0] for name in shards.names}) > 2  # several groups
    own = Tokenizer.from_folder(tmp_path / "tokens" / "tokenizer")
    assert shards.tokenizer == fingerprint(own) == fingerprint(Tokenizer.from_folder(corpus / "tok"))
    assert shards.frame.end_token_id == own.eos_token_id


@pytest.mark.parametrize(
    "more",
    [
        ["--jobs", "2"],
        pytest.param(["--ray"], marks=[pytest.mark.slow, RAYS_OWN]),
        pytest.param(["--jobs", "8"], marks=pytest.mark.slow),
    ],
)
def test_whoever_does_it_writes_the_same_files(more, corpus, glassformer, tmp_path):
    if "--ray" in more:
        pytest.importorskip("ray")
    assert glassformer(*words(corpus, tmp_path / "one"))[0] == 0
    code, out, err = glassformer(*words(corpus, tmp_path / "many", *more))
    assert (code, "Traceback" in err) == (0, False)
    assert "tokens of" in out
    assert contents(tmp_path / "many") == contents(tmp_path / "one")


def test_what_is_finished_is_not_done_again(corpus, glassformer, tmp_path, monkeypatch):
    fewer = words(corpus, tmp_path / "tokens", names=["0.txt", "2.txt", "3.txt"])
    assert glassformer(*fewer)[0] == 0
    done, real = [], tokenise.tokenise_to_shards
    monkeypatch.setattr(tokenise, "tokenise_to_shards", lambda *a, **k: done.append(1) or real(*a, **k))
    assert "were done before" in glassformer(*fewer)[1]
    assert done == []
    before = Shards(tmp_path / "tokens")[:].tolist()
    more = words(corpus, tmp_path / "tokens", names=["0.txt", "2.txt", "3.txt", "5.txt"])
    assert glassformer(*more)[0] == 0
    assert len(done) == 1
    assert Shards(tmp_path / "tokens")[:].tolist()[: len(before)] == before


def test_what_is_lost_or_left_over_is_mended(corpus, glassformer, tmp_path):
    asked, out = words(corpus, tmp_path / "tokens"), tmp_path / "tokens"
    assert glassformer(*asked)[0] == 0
    before = contents(out)
    next(out.glob("*/shard-00001.npy")).unlink()
    (out / ".shards.json.1.2.partial").write_text("{")
    assert glassformer(*asked)[0] == 0
    (out / ".shards.json.1.2.partial").unlink()
    assert contents(out) == before
    homes = {name.partition("/")[0] for name in Shards(out).names}
    code, _, err = glassformer(*words(corpus, out, names=["0.txt"]))
    (home,) = {name.partition("/")[0] for name in Shards(out).names}
    assert code == 0
    assert f"also holds {len(homes - {home})} folders of other files or settings" in err
    assert {one.name for one in out.iterdir()} == {*homes, home, "tokenizer", "shards.json"}  # no work is thrown away


@pytest.mark.slow
def test_no_process_of_a_job_that_was_killed_writes_on(corpus, tmp_path):
    script = "import sys; from glassformer.jobs import tokenise; tokenise.GROUP = 3000; "
    script += "from glassformer.cli.main import main; main()"
    asked = words(corpus, tmp_path / "out", "--jobs", "2")
    job = subprocess.Popen([sys.executable, "-c", script, *asked], stderr=subprocess.DEVNULL, start_new_session=True)
    while job.poll() is None and not list((tmp_path / "out").glob("*/*.npy")):
        time.sleep(0.002)
    job.kill()  # alone
    job.wait()
    ends = time.monotonic() + 60
    while of_session(job.pid) and time.monotonic() < ends:
        time.sleep(0.05)
    assert of_session(job.pid) == []


def of_session(session):
    """The processes of a session that are not over."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, *rest = stat.read_text().rpartition(")")[2].split()
            if rest[2] == str(session) and state != "Z":
                found.append(stat.parent.name)
    return found


@pytest.mark.slow
def test_killed_again_and_again_it_ends_with_the_same_bytes(corpus, glassformer, tmp_path):
    script = "import sys; from glassformer.jobs import tokenise; tokenise.GROUP = 3000; "
    script += "from glassformer.cli.main import main; main()"
    asked, out, kills = words(corpus, tmp_path / "killed", "--jobs", "2"), tmp_path / "killed", 0
    for files in (1, 5, 12, 30):  # killed as soon as so many are there
        job = subprocess.Popen(
            [sys.executable, "-c", script, *asked], stderr=subprocess.DEVNULL, start_new_session=True
        )
        while job.poll() is None and sum(one.is_file() for one in out.rglob("*")) < files:
            time.sleep(0.002)
        kills += job.poll() is None
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
    assert kills == 4
    assert glassformer(*asked)[0] == 0
    assert glassformer(*words(corpus, tmp_path / "whole"))[0] == 0
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


def test_training_is_the_same_from_text_from_here_and_from_elsewhere(corpus, glassformer, tmp_path):
    address = f"file://{tmp_path}/bucket/tokens"
    assert glassformer(*words(corpus, tmp_path / "tokens"))[0] == 0
    assert glassformer(*words(corpus, address))[0] == 0
    assert contents(tmp_path / "bucket" / "tokens") == contents(tmp_path / "tokens")
    weights, told = {}, []
    for name, data in (("here", tmp_path / "tokens"), ("there", address)):
        gf.train(task="text-generation", arch="gpt2", data=data, out=tmp_path / name, log=told.append, **LOOP)
        weights[name] = (tmp_path / name / "model.safetensors").read_bytes()
    assert weights["here"] == weights["there"]
    assert any(
        line.startswith("no dev data given: the last ") and line.endswith("tokens are held out") for line in told
    )
    model, tok = gf.load(tmp_path / "there"), gf.load_tokenizer(tmp_path / "there")
    assert len(gf.generate(model, tok, "Anna", max_new_tokens=3)) > 0


def test_a_run_goes_on_over_small_windows_to_the_same_weights(corpus, glassformer, tmp_path):
    address = f"file://{tmp_path}/tokens"
    assert glassformer(*words(corpus, tmp_path / "tokens"))[0] == 0
    run = {**LOOP, "task": "text-generation", "arch": "gpt2", "data": address, "shuffle_window": 500}
    quiet = {"log": lambda _: None}
    gf.train(**{**run, "steps": 3, "schedule": "constant"}, out=tmp_path / "cut", **quiet)
    gf.train(**{**run, "schedule": "constant"}, out=tmp_path / "cut", resume=True, **quiet)
    gf.train(**{**run, "schedule": "constant"}, out=tmp_path / "whole", **quiet)
    one, other = (gf.load(tmp_path / name).state_dict() for name in ("cut", "whole"))
    assert all((one[name] == other[name]).all() for name in one)


def two_corpora(corpus, glassformer, tmp_path):
    for name, files in (("a", ["0.txt", "2.txt"]), ("b", ["3.txt", "4.txt", "5.txt"])):
        assert glassformer(*words(corpus, tmp_path / name, names=files))[0] == 0
    return [f"file://{tmp_path}/a", str(tmp_path / "b")]


def test_several_corpora_are_learnt_by_their_weights_with_a_ledger(corpus, glassformer, tmp_path):
    places, told = two_corpora(corpus, glassformer, tmp_path), []
    run = {**LOOP, "task": "text-generation", "arch": "gpt2", "data": places, "steps": 40, "log_every": 10}
    gf.train(**run, weights=[3.0, 1.0], out=tmp_path / "run", log=told.append)
    ledger = json.loads((tmp_path / "run" / RESULT).read_text())["progress"]["sources"]
    assert list(ledger) == places
    assert sum(ledger.values()) == 40 * 4 * 16
    assert ledger[places[0]] / sum(ledger.values()) == pytest.approx(0.75, abs=0.06)
    assert any(line.startswith(f"{places[0]}: 75 % of what is learnt, seen ") for line in told)
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    logged = [line for line in lines if "loss" in line]
    assert logged[-1][f"tokens of {places[1]}"] == ledger[places[1]]
    gf.train(**{**run, "steps": 20}, weights=[3.0, 1.0], out=tmp_path / "cut", log=lambda _: None)
    half = json.loads((tmp_path / "cut" / RESULT).read_text())["progress"]["sources"]
    assert all(half[place] < ledger[place] for place in places)


def test_several_corpora_without_weights_are_one_text(corpus, glassformer, tmp_path):
    places = two_corpora(corpus, glassformer, tmp_path)
    joined = JoinedShards([Shards(place) for place in places])
    whole = np.concatenate([Shards(place)[:] for place in places])
    assert joined[:].tolist() == whole.tolist()
    for start in range(0, len(whole), 701):
        for stop in range(start, len(whole), 997):
            assert joined.tokens(start, stop).tolist() == whole[start:stop].tolist()
            assert joined.between(start, stop)[:].tolist() == whole[start:stop].tolist()
    assert pickle.loads(pickle.dumps(joined))[:].tolist() == whole.tolist()
    assert joined.ends()[-1] == len(whole)
    run = {**LOOP, "task": "text-generation", "arch": "gpt2", "out": tmp_path / "run", "log": lambda _: None}
    gf.train(**run, data=places, dev=places)
    ledger = json.loads((tmp_path / "run" / RESULT).read_text())["progress"]["sources"]
    assert sum(ledger.values()) == 6 * 4 * 16


@pytest.mark.parametrize("way", ["random_windows", "carry_state"])
def test_weights_go_with_shuffling_alone(way, corpus, glassformer, tmp_path):
    places = two_corpora(corpus, glassformer, tmp_path)
    arch = {"arch": "lstm", "config": {"hidden_size": 16}} if way == "carry_state" else {"arch": "gpt2"}
    run = {**LOOP, "task": "text-generation", **arch, "out": tmp_path / "run", "log": lambda _: None, way: True}
    with pytest.raises(ValueError, match="weights are kept by shuffling"):
        gf.train(**run, data=places, weights=[1.0, 2.0])


def test_shards_are_scored_and_what_is_not_finished_is_named(corpus, glassformer, tmp_path):
    tokens = tmp_path / "tokens"
    assert glassformer(*words(corpus, tokens))[0] == 0
    run = {"task": "text-generation", "arch": "gpt2", "data": tokens, "out": tmp_path / "run", "log": lambda _: None}
    known = gf.train(**{**run, **LOOP}, dev=tokens).scores["dev"]
    code, out, _ = glassformer("eval", tmp_path / "run", "--data", tokens, "--json")
    assert code == 0
    assert json.loads(out)["loss"] == pytest.approx(known["loss"], rel=1e-4)
    home = next(tokens.glob("*/shards.json")).parent
    with pytest.raises(ValueError, match="has no tokenizer beside it: name the folder above it"):
        gf.train(**{**run, **LOOP, "data": home, "out": tmp_path / "other"})
    (tokens / "shards.json").unlink()
    code, _, err = glassformer("eval", tmp_path / "run", "--data", tokens)
    assert code == 1
    assert "has no shards.json: tokenise to the end first" in err


@pytest.mark.parametrize(
    ("weights", "reason"),
    [([1.0], "weights has 1 numbers"), ([1.0, 0.0], "each must be above 0"), ([1.0, "x"], "weights")],
)
def test_wrong_weights_are_named(weights, reason, corpus, glassformer, tmp_path):
    run = {**LOOP, "task": "text-generation", "arch": "gpt2", "out": tmp_path / "run", "log": lambda _: None}
    with pytest.raises(ValueError, match=reason):
        gf.train(**run, data=two_corpora(corpus, glassformer, tmp_path), weights=weights)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tokenizer": "{corpus}/other"}, "was made with another tokenizer than the model's"),
        ({"task": "fill-mask", "arch": "bert", "config": {}}, "has no mask token"),
        ({"task": "text-classification", "arch": "bow", "config": {}}, "which text-classification does not learn from"),
        ({"limit": 5}, "limit counts documents, which shards hold tokenised: give steps"),
        ({"data": ["{tokens}", "{corpus}/0.txt"]}, "names shards and other data"),
        ({"random_windows": True, "data": "file://{tokens}"}, "these shards are not here: copy them"),
        ({"data": ["{tokens}", "{tokens}/"]}, "is named twice"),
        ({"data": "{tokens}", "weights": [1.0]}, "weights has 1 numbers: give one for each of several folders"),
        ({"data": "file://{tokens}/none"}, "from elsewhere only shards are read"),
    ],
)
def test_what_shards_are_not_for_is_said(changes, reason, corpus, glassformer, tmp_path):
    assert glassformer(*words(corpus, tmp_path / "tokens"))[0] == 0
    train([corpus / "0.txt"], kind="bpe", vocab_size=300).save(corpus / "other")
    run = {"task": "text-generation", "arch": "gpt2", "data": "{tokens}", **LOOP, **changes}

    def put(value):
        if isinstance(value, list):
            return [put(one) for one in value]
        return value.format(corpus=corpus, tokens=tmp_path / "tokens") if isinstance(value, str) else value

    run = {name: value for name, value in run.items() if name != "block_size" or run["task"] == "text-generation"}
    with pytest.raises(ValueError, match=reason):
        gf.train(out=tmp_path / "run", log=lambda _: None, **{name: put(value) for name, value in run.items()})


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (["--task", "ner"], "ner does not learn from running text"),
        (["--unit", "page"], "--unit page is not known: use one of file, article, block, line"),
        (["--columns", "label=team"], "without labels"),
        (["--task", "fill-mask"], "has no mask token"),
        (["--task", "pretraining"], "pretraining does not learn from running text"),
        (["--out", "{corpus}"], "holds other files, as 0.txt"),
        (["--out", "{corpus}/0.txt"], "is a file: name a folder"),
        (["--tokenizer", "{corpus}/none"], "none"),
        (["--jobs", "0"], "--jobs"),
    ],
)
def test_wrong_use_is_answered_in_a_line(more, reason, corpus, glassformer, tmp_path):
    code, _, err = glassformer(*words(corpus, tmp_path / "out", *(one.format(corpus=corpus) for one in more)))
    assert code != 0
    assert reason in err.replace("\n", " ")
    assert "Traceback" not in err
    assert not (tmp_path / "out").exists()


def test_a_file_without_a_text_is_named(corpus, glassformer, tmp_path):
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n")
    code, _, err = glassformer(*words(tmp_path, tmp_path / "out", "--tokenizer", corpus / "tok", names=["bad.csv"]))
    assert code == 1
    assert "bad.csv" in err
    assert "column" in err
