"""A run on shards is the run in memory: same batches, same weights; what is tokenised once is not tokenised again."""

import json
import os

import pytest
import torch

from glassformer.data import corpus as corpora
from glassformer.data import microworld, shard_writer
from glassformer.hub.load import load_tokenizer
from glassformer.jobs.train import train

SMALL = {
    "text-generation": {"arch": "gpt2", "block_size": 16, "config": {"n_embd": 16, "n_head": 2, "n_layer": 1}},
    "fill-mask": {
        "arch": "bert",
        "max_length": 16,
        "config": {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 32},
    },
}


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A text of many blocks to learn from, and one to be judged by."""
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path / "cache"))
    for number, name in enumerate(("train", "dev")):
        documents = microworld.examples("documents", 30, seed=number, language="en")
        (tmp_path / f"{name}.txt").write_text("\n\n".join(one.text for one in documents), encoding="utf-8")
    return {name: str(tmp_path / f"{name}.txt") for name in ("train", "dev")}


def run(folder, task, files, **settings):
    said: list[str] = []
    settings = {"unit": "block", "steps": 4, "batch_size": 4, "vocab_size": 300, "device": "cpu", **settings}
    ended = train(task=task, data=files["train"], out=str(folder), log=said.append, **SMALL[task], **settings)
    return ended, said


def rows(ended):
    """The lines of the run's metrics."""
    return [json.loads(line) for line in (ended.folder / "metrics.jsonl").read_text().splitlines()]


def forbid_tokenising(monkeypatch):
    def rows(*_):
        raise AssertionError("tokenised again")

    monkeypatch.setattr(shard_writer.DocumentStream, "rows", rows)


@pytest.mark.few(2)
@pytest.mark.parametrize("task", list(SMALL))
def test_shards_change_nothing_and_are_made_once(tmp_path, files, task, monkeypatch):
    known, _ = run(tmp_path / "memory", task, files, dev=files["dev"], shards=False)
    found, said = run(tmp_path / "shards", task, files, dev=files["dev"], shards=True)
    assert any("tokens in shards" in line for line in said)
    assert any(line.startswith("train: read ") for line in said)
    forbid_tokenising(monkeypatch)
    again, repeated = run(tmp_path / "again", task, files, dev=files["dev"], shards=True)
    assert [line for line in repeated if line.startswith("train:")] == [
        line for line in said if line.startswith("train:")
    ]
    for other in (found, again):
        assert other.scores.keys() == known.scores.keys()
        for split, scores in known.scores.items():
            assert other.scores[split] == pytest.approx(scores)
        for one, line in zip(rows(other), rows(known), strict=True):
            assert one == pytest.approx(line)
        torch.testing.assert_close(other.load().state_dict(), known.load().state_dict())
    with pytest.raises(AssertionError, match="tokenised again"):  # by another tokenizer
        run(tmp_path / "other", task, files, dev=files["dev"], shards=True, vocab_size=290)


def test_files_that_differ_in_their_text_alone_have_shards_of_their_own(tmp_path, files):
    text = (tmp_path / "train.txt").read_text()
    losses = []
    for name, some in (("a", text), ("b", text.translate(str.maketrans("aeiou", "eioua")))):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.txt").write_text(some)
        os.utime(tmp_path / name / "train.txt", ns=(1, 1))
        given = {"train": str(tmp_path / name / "train.txt")}
        run(tmp_path / f"memory {name}", "text-generation", given, dev=files["dev"], shards=False)
        settings = {"dev": files["dev"], "shards": True, "tokenizer": str(tmp_path / "memory a")}
        found, _ = run(tmp_path / f"run {name}", "text-generation", given, **settings)
        losses.append(found.scores["dev"]["loss"])
    assert losses[0] != losses[1]


@pytest.mark.parametrize("task", list(SMALL))
def test_without_dev_data_the_end_of_the_text_is_held_out(tmp_path, files, task):
    ended, said = run(tmp_path / "run", task, files, shards=True)
    size = len((tmp_path / "train.txt").read_bytes()) // 10
    assert f"no dev data given: the last {size:,} characters of the text are held out" in said
    facts = json.loads((ended.folder / "run.json").read_text())["preflight"]
    assert facts["dev_bytes"] == size
    assert "dev" in ended.scores


def test_files_over_the_threshold_are_streamed_unasked(tmp_path, files, monkeypatch):
    monkeypatch.setattr(corpora, "LARGE", 1)
    _, said = run(tmp_path / "run", "text-generation", files)
    assert sum("tokens in shards" in line for line in said) == 2
    for number, kept in enumerate(({"packing": False}, {"shards": False})):
        _, said = run(tmp_path / str(number), "text-generation", files, **kept)
        assert not any("tokens in shards" in line for line in said)


def labelled(tmp_path):
    """Texts of two kinds: as two files with labels in their names, and as a table with a column of them."""
    kinds = {
        "short": microworld.examples("documents", 12, seed=5),
        "long": microworld.examples("documents", 12, seed=6),
    }
    names, lines = [], []
    for kind, documents in kinds.items():
        path = tmp_path / f"{kind}.txt"
        path.write_text("\n\n".join(one.text.replace("\n", " ") for one in documents), encoding="utf-8")
        names.append(f"{kind}={path}")
        lines += [json.dumps({"text": one.text.replace("\n", " "), "kind": kind}) for one in documents]
    (tmp_path / "table.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return names, {"data": str(tmp_path / "table.jsonl"), "columns": {"label": "kind"}, "conditions": ["long", "short"]}


@pytest.mark.parametrize("table", [False, True])
def test_labelled_texts_go_to_shards_with_their_conditions(tmp_path, files, table):
    names, rows_of_kinds = labelled(tmp_path)
    given = rows_of_kinds if table else {"data": names}
    loop = {"steps": 4, "batch_size": 4, "vocab_size": 300, "device": "cpu", "unit": "block", "log": lambda _: None}
    found = {}
    for name, shards in (("memory", False), ("shards", True)):
        dev = given["data"]
        settings = {**SMALL["text-generation"], **loop, **given, "dev": dev, "shards": shards}
        found[name] = train(task="text-generation", out=str(tmp_path / f"run {name}"), **settings)
    assert found["shards"].scores["dev"] == pytest.approx(found["memory"].scores["dev"])
    torch.testing.assert_close(found["shards"].load().state_dict(), found["memory"].load().state_dict())
    tok = load_tokenizer(found["shards"].folder)
    assert {"<|long|>", "<|short|>"} <= set(tok.get_vocab())


def test_what_cannot_go_to_shards_is_refused(tmp_path, files):
    names, table = labelled(tmp_path)
    given, columns = {"train": table["data"]}, {"columns": table["columns"], "dev": table["data"]}
    with pytest.raises(ValueError, match=r"give dev data of its own \(--dev\)"):
        run(tmp_path / "labels", "text-generation", {"train": names}, shards=True)
    with pytest.raises(ValueError, match="set conditions to them"):
        run(tmp_path / "unknown", "text-generation", given, shards=True, **columns)
    with pytest.raises(ValueError, match="knows no condition 'short'"):
        run(tmp_path / "another", "text-generation", given, shards=True, conditions=["long"], **columns)
    with pytest.raises(ValueError, match="leave packing on"):
        run(tmp_path / "rows", "text-generation", files, shards=True, packing=False)
