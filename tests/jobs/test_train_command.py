"""`glassformer train` as a person types it: every kind of label, frozen parts, adapters, a look first, a recipe."""

import io
import json
import re
import sys
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

import glassformer as gf
from glassformer.data import microworld
from microworld_files import write_examples
from tasks.cases import SMALL

FEW = ("--steps", 3, "--batch-size", 8, "--device", "cpu", "--lr", 1e-2)
SIZES = {kind: [f"--set=config.{name}={size}" for name, size in sizes.items()] for kind, sizes in SMALL.items()}
GRU = ("--arch", "gru", *SIZES["glassformer-rnn"])


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The folder where the command is typed."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def scores_in(out: str) -> dict[str, dict[str, float]]:
    return json.loads(out.splitlines()[-1])["scores"]


@pytest.mark.few(1)
@pytest.mark.parametrize("dev", ["held out", "given"])
def test_scores_of_pairs(glassformer, here, dev):
    (path,) = write_examples(here / "train", "scored", 60)
    (other,) = write_examples(here / "dev", "scored", 30, seed=1)
    given = ("--dev", other, "--test", other) if dev == "given" else ()
    words = ["train", "text-classification", *GRU, *FEW, "--set", "problem_type=regression"]
    code, out, err = glassformer(*words, "--data", path, *given, "--out", "run", "--json")
    assert code == 0, err
    scores = scores_in(out)
    assert scores.keys() == ({"dev", "test"} if given else {"dev"})
    assert scores["dev"].keys() == {"loss", "mse", "pearson", "spearman"}
    assert scores["dev"]["loss"] == pytest.approx(scores["dev"]["mse"], rel=1e-5)
    config = json.loads(Path("run/config.json").read_text())
    assert (config["problem_type"], len(config["id2label"])) == ("regression", 1)
    code, out, _ = glassformer("predict", "run", "--file", other, "--json")
    assert all(isinstance(json.loads(line)["output"]["score"], float) for line in out.splitlines())
    assert len(out.splitlines()) == 30


def test_several_labels_a_text(glassformer, here):
    (path,) = write_examples(here, "multi-label", 60)
    words = ["train", "text-classification", *GRU, *FEW, "--set", "problem_type=multi_label_classification"]
    code, out, err = glassformer(*words, "--data", path, "--out", "run", "--json")
    assert code == 0, err
    assert {"f1", "f1_micro"} <= scores_in(out)["dev"].keys()
    config = json.loads(Path("run/config.json").read_text())
    assert config["problem_type"] == "multi_label_classification"
    labels = {label for one in microworld.examples("multi-label", 60) for label in one.label}
    assert set(config["id2label"].values()) == labels
    _, out, _ = glassformer("predict", "run", "We went to the match.", "--set", "top_k=20", "--json")
    assert {one["label"] for one in json.loads(out)["output"]} == labels
    _, out, _ = glassformer("eval", "run", "--data", path, "--json")
    assert "f1_micro" in json.loads(out)


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("task", "kind", "words"),
    [
        ("token-classification", "tagged", GRU),
        ("question-answering", "asked", ("--arch", "bert", *SIZES["bert"])),
        ("translation", "parallel", ("--arch", "transformer", *SIZES["glassformer-transformer"])),
        ("text-generation", "documents", ("--arch", "gpt2", *SIZES["gpt2"], "--set", "vocab_size=400")),
        ("pretraining", "documents", ("--arch", "bert", *SIZES["bert"], "--set", "unit=block")),
        ("sentence-order-prediction", "documents", ("--arch", "albert", *SIZES["albert"])),
        ("replaced-token-detection", "documents", ("--arch", "electra", *SIZES["electra"])),
        ("span-corruption", "documents", ("--arch", "t5", *SIZES["t5"], "--set", "vocab_size=150")),
        ("sentence-similarity", "scored", ("--arch", "bert", *SIZES["bert"], "--set", "loss=contrastive")),
    ],
)
def test_the_files_of_every_task(glassformer, here, task, kind, words):
    paths = write_examples(here, kind, 60)
    data = [word for path in paths for word in ("--data", path.name)]
    code, out, err = glassformer("train", task, *words, *FEW, *data, "--out", "run")
    assert code == 0, err
    assert "train: read " in out
    assert "no dev data given: " in out
    assert "the model is in run" in out
    assert gf.load("run")


def test_globs_stdin_and_labels_by_file(glassformer, here, monkeypatch):
    examples = microworld.examples("labelled", 60)
    for label in ("positive", "negative"):
        (here / f"{label}.txt").write_text("".join(f"{one.text}\n" for one in examples if one.label == label))
    words = ["train", "text-classification", *GRU, *FEW]
    code, _, err = glassformer(*words, "--data", "good=pos*.txt", "--data", "bad=neg*.txt", "--out", "a", "--json")
    assert code == 0, err
    assert json.loads(Path("a/config.json").read_text())["id2label"] == {"0": "bad", "1": "good"}
    rows = "text\tlabel\n" + "".join(f"{one.text}\t{one.label}\n" for one in examples)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(rows.encode())))
    code, _, err = glassformer(*words, "--data", "-", "--out", "b", "--json")
    assert code == 0, err


@pytest.mark.parametrize("how", ["names", "pairs", "file"])
def test_classes_that_are_numbers_are_given_names(glassformer, here, how):
    """In training, in the folder, and wherever the folder is used with the same kind of file."""
    rows = [f"text {number},{number % 2 + (how == 'pairs')}" for number in range(30)]
    (here / "data.csv").write_text("\n".join(["text,label", *rows]))
    (here / "names.txt").write_text("zero\nanother\n")
    names = {"names": "zero,another", "pairs": "1=zero,2=another", "file": "names.txt"}[how]
    words = ["train", "text-classification", *GRU, *FEW, "--data", "data.csv", "--labels", names]
    code, out, err = glassformer(*words, "--out", "run")
    assert code == 0, err
    assert re.search(r"^train: \d+ examples; (zero|another) \d+, (zero|another) \d+$", out, re.MULTILINE)
    assert json.loads(Path("run/config.json").read_text())["id2label"] == {"0": "zero", "1": "another"}
    (here / "names.txt").unlink()  # the run folder needs it no more
    code, out, err = glassformer("eval", "run", "--data", "data.csv")
    assert code == 0, err
    assert re.search(r"^zero .* 15$", out, re.MULTILINE)
    _, out, _ = glassformer("predict", "run", "text 1")
    assert out.split()[0] in ("zero", "another")


def test_one_class_for_everything_is_remarked_on(glassformer, here):
    rows = [f"the same text,{'ab'[number % 2]}" for number in range(40)]
    (here / "data.csv").write_text("\n".join(["text,label", *rows]))
    words = ["train", "text-classification", *GRU, *FEW, "--data", "data.csv", "--dev", "data.csv", "--out", "run"]
    code, out, err = glassformer(*words)
    assert code == 0, err
    assert re.search(r"^mind: dev: every example was given the class '[ab]'", out, re.MULTILINE)
    assert "Mind: every example was given the class" in Path("run/README.md").read_text()
    _, _, err = glassformer("eval", "run", "--data", "data.csv")
    assert "mind: every example was given the class" in err
    (here / "data.csv").write_text("\n".join(["text,label", *rows[0 if "'a'" in err else 1 :: 2]]))
    _, _, err = glassformer("eval", "run", "--data", "data.csv")  # where the data has one class only, it is right
    assert "mind" not in err


@pytest.mark.parametrize(
    ("task", "kind", "said"),
    [
        ("text-classification", "bert", "takes its encoder alone, as BERT arranges it; the model is a bert"),
        ("text-generation", "gpt2", "takes its decoder alone, as GPT-2 arranges it; the model is a gpt2"),
        ("translation", "glassformer-transformer", None),
    ],
)
def test_half_a_transformer_is_said_to_be_one(glassformer, here, task, kind, said):
    words = ["train", task, "--arch", "transformer", *SIZES[kind], *FEW, "--data", "microworld", "--set", "limit=20"]
    code, out, err = glassformer(*words, "--out", "run")
    assert code == 0, err
    assert ("arch transformer: " in out) == (said is not None)
    assert said is None or f"arch transformer: {task} {said}\n" in out
    assert said is None or json.loads(Path("run/config.json").read_text())["model_type"] == kind


@pytest.mark.parametrize("language", ["de", "zh"])
def test_other_languages_of_the_micro_world(glassformer, here, language):
    words = ["train", "text-classification", *GRU, *FEW, "--set", "limit=20", "--out", "run"]
    code, _, err = glassformer(*words, "--data", f"microworld:{language}")
    assert code == 0, err


# Less than the whole model.


def share_in(out: str) -> float:
    (share,) = re.findall(r"^([\d.]+) % of [\d.]+ [kMB]* ?parameters are trained$", out, re.MULTILINE)
    return float(share)


@pytest.fixture
def base(trained):
    return trained("text-classification/bert")


def test_frozen_parts_stay_as_they_are_and_the_share_is_printed(glassformer, here, base):
    words = ["train", "text-classification", "--model", base, *FEW, "--data", "microworld", "--set", "limit=20"]
    code, out, err = glassformer(*words, "--freeze", "embeddings,layers.0-0", "--out", "run")
    assert code == 0, err
    before, after = gf.load(base).state_dict(), gf.load("run").state_dict()
    frozen = {name for name in before if name.startswith(("embeddings", "layers.0."))}
    assert {name for name in before if torch.equal(before[name], after[name])} == frozen
    sizes = {name: tensor.numel() for name, tensor in gf.load(base).named_parameters()}
    learning = sum(size for name, size in sizes.items() if name not in frozen)
    assert share_in(out) == pytest.approx(100 * learning / sum(sizes.values()), rel=0.01)


def test_adapters_are_merged_into_a_plain_folder_and_the_share_is_printed(glassformer, here, base):
    words = ["train", "text-classification", "--model", base, *FEW, "--data", "microworld", "--set", "limit=20"]
    code, out, err = glassformer(*words, "--lora", 2, "--out", "run")
    assert code == 0, err
    before, after = gf.load(base).state_dict(), gf.load("run").state_dict()
    assert before.keys() == after.keys()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    adapted = {f"layers.{layer}.attention.{part}.weight" for layer in (0, 1) for part in ("query", "value")}
    assert adapted <= changed
    assert all(name in adapted or name.startswith(("head", "pooler")) for name in changed)
    assert share_in(out) < 10
    correction = after["layers.0.attention.query.weight"] - before["layers.0.attention.query.weight"]
    values = torch.linalg.svdvals(correction)
    assert int((values > 1e-3 * values[0]).sum()) == 2  # of the rank that was asked for
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained("run").eval()
    ids = torch.tensor([[2, 9, 10, 3]])
    with torch.no_grad():
        assert_close(theirs(ids).logits, gf.load("run")(ids).logits, rtol=1e-4, atol=1e-5)


# Looking before training, and recipes.


def test_a_look_trains_nothing_and_writes_nothing(glassformer, here):
    rows = [f"text {n},{'good' if n % 2 else 'bad'}" for n in range(40)]
    (here / "train.csv").write_text("\n".join(["text,label", *rows]))
    (here / "dev.csv").write_text("\n".join(["text,label", *rows[:3]]))
    words = ["train", "text-classification", *GRU, "--data", "train.csv", "--dev", "dev.csv", "--check"]
    code, out, err = glassformer(*words)
    assert code == 0, err
    for told in (
        "train: 40 examples; bad 20, good 20",
        "mind: 3 of the dev examples are also in the training data: scores will flatter",
        "% padding",
        "memory: needs about",
        "one batch learnt by heart: loss",
    ):
        assert told in out
    assert sorted(path.name for path in here.iterdir()) == ["dev.csv", "train.csv"]
    code, out, _ = glassformer(*words, "--json")
    facts = json.loads(out)
    assert facts["dev_seen_in_training"] == 3
    assert facts["overfit"]["after"] < facts["overfit"]["before"]


def test_a_recipe_with_changes(glassformer, here):
    (here / "recipe.toml").write_text(
        'task = "text-classification"\narch = "lstm"\ndata = ["microworld"]\nlimit = 20\n'
        'epochs = 50\nout = "not-here"\n'
        "[config]\nhidden_size = 12\nembedding_size = 12\n"
    )
    words = ["train", "recipe.toml", "--out", "run", "--steps", 2, "--set", "config.hidden_size=8", "--set", "arch=gru"]
    code, out, err = glassformer(*words, "--json")
    assert code == 0, err
    assert json.loads(out.splitlines()[-1])["steps"] == 2
    config = json.loads(Path("run/config.json").read_text())
    assert (config["kind"], config["hidden_size"], config["embedding_size"]) == ("gru", 8, 12)
    assert not Path("not-here").exists()
    assert "epochs" not in Path("run/recipe.toml").read_text()


def test_the_same_seed_is_the_same_run(glassformer, here):
    words = ["train", "text-classification", *GRU, *FEW, "--data", "microworld", "--set", "limit=20"]
    for out, seed in (("a", 5), ("b", 5), ("c", 6)):
        assert glassformer(*words, "--seed", seed, "--out", out)[0] == 0
    a, b, c = (Path(out, "model.safetensors").read_bytes() for out in "abc")
    assert a == b
    assert a != c


def test_json_alone_is_on_stdout(glassformer, here):
    words = ["train", "text-classification", *GRU, *FEW, "--data", "microworld", "--set", "limit=20", "--out", "run"]
    code, out, err = glassformer(*words, "--json")
    assert code == 0
    assert json.loads(out).keys() == {"folder", "scores", "steps"}
    assert "the model is in run" in err


def test_python_says_the_same(here):
    told = []
    settings = {"task": "text-classification", "arch": "gru", "config": SMALL["glassformer-rnn"], "limit": 20}
    run = gf.train(**settings, data="microworld", out=here / "run", steps=3, batch_size=8, log=told.append)
    assert run.folder == here / "run"
    assert run.scores["dev"]["accuracy"] >= 0
    assert told[-1] == f"the model is in {here / 'run'}"
    assert run.load().head_name == "text-classification"
    with pytest.raises(ValueError, match="text-classification has no setting 'epoch'; near it: epochs"):
        gf.train(**settings, data="microworld", out="x", epoch=3)
    with pytest.deprecated_call(match="say is called log"), pytest.raises(ValueError, match="no setting 'epoch'"):
        gf.train(**settings, data="microworld", out="x", epoch=3, say=told.append)
