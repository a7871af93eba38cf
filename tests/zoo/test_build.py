"""How the zoo is made: data parted without leaks, corrections that are what was trained, and nothing built twice."""

import random
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
import torch

import glassformer as gf
from glassformer.hub.tensors import WeightFiles
from glassformer.jobs.predict import pipeline
from tasks.cases import case

ROOT = Path(__file__).parents[2]
ZOO = ROOT / "recipes" / "zoo"
CARDS = tomllib.loads((ZOO / "cards.toml").read_text("utf-8"))


@pytest.fixture(autouse=True)
def _tools(monkeypatch):
    monkeypatch.syspath_prepend(ZOO)


def rows(path):
    return [tuple(line.split("\t")) for line in path.read_text("utf-8").split("\n")[1:] if line]


def test_every_recipe_has_a_card_and_a_base_comes_first():
    assert set(CARDS) == {path.stem for path in ZOO.glob("*.toml")} - {"cards"}
    for name, about in CARDS.items():
        if (base := about.get("base")) is not None:
            assert list(CARDS).index(base.removeprefix("zoo:")) < list(CARDS).index(name)
            assert tomllib.loads((ZOO / f"{name}.toml").read_text("utf-8"))["model"] == base


def test_a_sentence_is_held_out_by_its_own_text():
    splits = import_module("splits")
    texts = [f"sentence {number}" for number in range(4000)]
    found = {text: splits.split_of(text, test=10, dev=15) for text in texts}
    assert found == {text: splits.split_of(f" {text.upper()} ", test=10, dev=15) for text in texts}
    assert list(found.values()).count("test") == pytest.approx(400, rel=0.15)
    assert list(found.values()).count("dev") == pytest.approx(240, rel=0.2)


@pytest.mark.slow
def test_nothing_that_is_held_out_is_learnt_from(data, tmp_path):
    splits = import_module("splits")
    splits.prepare(data, tmp_path, ["reviews", "en-fr", "en-zh", "english", "paraphrases", "poems"])
    for name in ("reviews", "paraphrases"):
        parts = {
            part: {cell for row in rows(tmp_path / name / f"{part}.tsv") for cell in row[:2]}
            for part in ("train", "test")
        }
        assert not parts["train"] & parts["test"] - {"negative", "positive"}
    for name in ("en-fr", "en-zh"):
        train, test = (list(zip(*rows(tmp_path / name / f"{part}.tsv"), strict=True)) for part in ("train", "test"))
        assert not set(train[0]) & set(test[0])
        assert not set(train[1]) & set(test[1])
        assert len(test[0]) == len(set(test[0])) > 200
    text = (tmp_path / "english" / "train.txt").read_text("utf-8")
    held = [row[0] for row in rows(tmp_path / "reviews" / "test.tsv")]
    assert not [one for one in held if len(one.split()) > 5 and one in text]
    poems = [(tmp_path / "poems" / f"{part}.jsonl").read_text("utf-8").split("\n") for part in ("train", "test")]
    assert not set(poems[0]) & set(poems[1]) - {""}


def test_topics_are_words_that_are_frequent_in_an_article_and_rare_elsewhere():
    topics, words = import_module("topics"), ["house", "river", "train", "horse"]
    articles = [[f"The {word} is near Paris. " * 3, f"She saw the {word} in Paris."] for word in words]
    assert topics.topics_of(articles) == [[word] for word in words]
    for row in topics.choices(articles, 20, random.Random(0)):
        assert row["label"] in row["text"]
        assert sorted(row["labels"]) == sorted(words)


def test_a_correction_is_what_was_trained(tmp_path):
    """A run with adapters, packed over its base and loaded, gives what the run gives."""
    pack = import_module("pack")
    one = case("fill-mask/bert", lowercase=True)
    base = gf.save(one.model.to(torch.bfloat16), tmp_path / "base", tokenizer=one.task.tokenizer)
    run = gf.train(
        task="text-classification", model=str(base), tokenizer=str(base), data="microworld", limit=64, steps=8,
        batch_size=8, lr=1e-2, lora=2, lora_targets="*attention.query,*feed_forward*", out=tmp_path / "run",
        device="cpu", log=lambda _: None,
    )  # fmt: skip
    pack.pack(run.folder, tmp_path / "packed", str(base))
    small, whole = (
        sum(p.stat().st_size for p in folder.glob("*.safetensors")) for folder in (tmp_path / "packed", run.folder)
    )
    assert small < whole / 2
    texts = ["Paul is glad .", "Anna is sad ."]
    first, second = (pipeline("text-classification", folder)(texts) for folder in (run.folder, tmp_path / "packed"))
    assert [one["label"] for one in first] == [one["label"] for one in second]
    for before, after in zip(first, second, strict=True):
        assert after["score"] == pytest.approx(before["score"], abs=0.02)
    with pytest.raises(ValueError, match="has changed by more than a correction of rank 1"):
        pack.corrections(WeightFiles(run.folder), WeightFiles(base), 1)


@pytest.mark.slow
def test_what_is_built_and_unchanged_stays(tmp_path):
    command = [sys.executable, str(ZOO / "build.py"), "bilstm-ner", "--home", str(tmp_path / "zoo")]
    few = [word for one in ("limit=32", "epochs=1", "vocab_size=300") for word in ("--set", one)]
    (tmp_path / "recipes").symlink_to(ROOT / "recipes")

    def build():
        return subprocess.run([*command, *few], cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    assert "bilstm-ner: f1 " in build()
    card = tomllib.loads((tmp_path / "zoo" / "bilstm-ner" / "card.toml").read_text("utf-8"))
    assert card["baseline_of"] == "the same shape, untrained"
    assert set(card["files"]) >= {"config.json", "model.safetensors", "recipe.toml", "tokenizer.json"}
    made = (tmp_path / "zoo" / "bilstm-ner" / "model.safetensors").stat().st_mtime_ns
    assert build() == "bilstm-ner: built, and unchanged\n"
    assert (tmp_path / "zoo" / "bilstm-ner" / "model.safetensors").stat().st_mtime_ns == made
    wrong = subprocess.run([*command[:2], "xyz"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "there is no xyz in" in wrong.stderr
