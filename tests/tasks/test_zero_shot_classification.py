"""Zero-shot classification: the labels and scores of transformers' pipeline, pairs in batches, and what is refused."""

import csv
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from vocabularies import TEXT, small_tokenizer

import glassformer as gf
from glassformer.data import microworld
from glassformer.data.examples import Labelled
from glassformer.jobs.predict import task_of
from glassformer.tasks.zero_shot_classification import ZeroShotClassification

TEXTS = TEXT.splitlines()[:2]
NAMES = ("entailment", "neutral", "contradiction")
ORDERS = {
    "roberta": ("contradiction", "neutral", "entailment"),
    "deberta": NAMES,
    "two": ("not_entailment", "Entailment"),
    "two the other way round": ("ENTAILMENT", "NOT_ENTAILMENT"),
}


def folder_of(path: Path, labels: tuple[str, ...]) -> Path:
    """A BERT with random weights and these labels, written by transformers."""
    transformers = pytest.importorskip("transformers")
    small_tokenizer("wordpiece").save(path)
    torch.manual_seed(0)
    sizes = {"hidden_size": 12, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 16}
    config = transformers.BertConfig(
        vocab_size=len(small_tokenizer("wordpiece")),
        initializer_range=0.7,
        id2label=dict(enumerate(labels)),
        label2id={label: number for number, label in enumerate(labels)},
        **sizes,
    )
    transformers.BertForSequenceClassification(config).save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return folder_of(tmp_path_factory.mktemp("nli"), NAMES)


@pytest.mark.parametrize("labels", ORDERS)
@pytest.mark.parametrize(
    "options",
    [
        {"candidate_labels": ["old", "new", "far away"]},
        {"candidate_labels": "old, new ,far away", "multi_label": True},
        {"candidate_labels": ["old", "new"], "hypothesis_template": "It is about something {}"},
        {"candidate_labels": "old"},
    ],
    ids=str,
)
def test_labels_and_scores_are_those_of_transformers(tmp_path, labels, options):
    transformers = pytest.importorskip("transformers")
    path = folder_of(tmp_path, ORDERS[labels])
    theirs = transformers.pipeline("zero-shot-classification", model=str(path), device="cpu")
    ours = gf.pipeline("zero-shot-classification", path)
    for given in (TEXTS, TEXTS[0]):
        found, wanted = ours(given, **options), theirs(given, **options)
        for one, other in zip(*(side if isinstance(side, list) else [side] for side in (found, wanted)), strict=True):
            assert (one["sequence"], one["labels"]) == (other["sequence"], other["labels"])
            assert one["scores"] == pytest.approx(other["scores"], abs=1e-5)


def test_labels_may_stand_behind_the_text_or_be_given_once(folder):
    pipe = gf.pipeline("zero-shot-classification", folder)
    wanted = pipe(TEXTS[0], candidate_labels=["old", "new"])
    assert pipe(TEXTS[0], ["old", "new"]) == wanted
    assert gf.pipeline("zero-shot-classification", folder, candidate_labels="old,new")(TEXTS[0]) == wanted
    assert pipe({"text": TEXTS[0]}, "old,new") == wanted
    several = pipe(TEXTS[0], "old,new", multi_label=True)
    assert pipe(TEXTS[0], "old,new", multi_class=True) == several != wanted


def test_a_contradiction_is_told_by_its_name(tmp_path):
    """By its place, as transformers takes it, "neutral" would be the opposite of entailment here."""
    pipe = gf.pipeline("zero-shot-classification", folder_of(tmp_path, ("neutral", "entailment", "contradiction")))
    logits = torch.tensor([[[9.0, 1.0, 1.0]]])
    assert float(pipe.task.label_scores(logits, multi_label=True)) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("inputs", "options", "message"),
    [
        (TEXTS[0], {}, "candidate_labels is None: give the classes to choose from"),
        (TEXTS[0], {"candidate_labels": []}, r"candidate_labels is \[\]: give the classes"),
        (TEXTS[0], {"candidate_labels": " , "}, "candidate_labels is ' , ': give the classes"),
        (TEXTS[0], {"candidate_labels": 3}, "candidate_labels is 3; it must be text or a list"),
        (TEXTS[0], {"candidate_labels": "a", "hypothesis_template": "so"}, "hypothesis_template is 'so': write {}"),
        (TEXTS[0], {"candidate_labels": "a", "hypothesis_template": "{label}"}, "is '{label}': write {} where"),
        (TEXTS[0], {"candidate_labels": "a", "hypothesis_template": "{{}}"}, "is '{{}}': write {} where"),
        (["a", " "], {"candidate_labels": "a"}, "text 1 is ' ', with nothing to classify"),
        ([7], {"candidate_labels": "a"}, "is wanted, not 7"),
        (TEXTS[0], {"candidate_labels": "a", "top_k": 2}, "has no option 'top_k'; a call can be told candidate_labels"),
    ],
)
def test_what_cannot_be_asked_is_named_in_one_line(folder, inputs, options, message):
    with pytest.raises(ValueError, match=message) as error:
        gf.pipeline("zero-shot-classification", folder)(inputs, **options)
    assert "\n" not in str(error.value)


def test_a_model_without_entailment_is_refused(tmp_path):
    with pytest.raises(ValueError, match="of the labels NEGATIVE, POSITIVE none begins with 'entail'"):
        gf.pipeline("zero-shot-classification", folder_of(tmp_path, ("NEGATIVE", "POSITIVE")))


@pytest.mark.parametrize(
    ("examples", "message"),
    [
        (
            [Labelled("a", label="entailment"), Labelled("b", label="neutral")],
            "has no second text: give --columns pair",
        ),
        ([Labelled("a", "b", "yes"), Labelled("b", "c", "no")], "of the labels no, yes none begins with 'entail'"),
    ],
)
def test_data_that_teaches_no_inference_is_refused(examples: list[Any], message):
    with pytest.raises(ValueError, match=message):
        ZeroShotClassification.spec_of_data(examples)


def test_texts_and_pairs_of_one_list_are_each_as_if_alone(folder):
    pipe = gf.pipeline("text-classification", folder)
    inputs = [TEXTS[0], {"text": TEXTS[0], "text_pair": TEXTS[1]}, (TEXTS[1], TEXTS[0]), TEXTS[1]]
    for one, together in zip(inputs, pipe(inputs, top_k=None), strict=True):
        alone = {found["label"]: found["score"] for found in pipe(one, top_k=None)}
        assert {found["label"]: found["score"] for found in together} == pytest.approx(alone, abs=1e-6)


@pytest.mark.parametrize("name", ["snli.jsonl", "mnli.csv"])
def test_one_command_trains_a_model_of_inference(tmp_path, glassformer, name):
    """Pairs that nobody agreed on (gold_label -) are left out, with a word; the folder then does zero-shot, too."""
    columns = (
        ("sentence1", "sentence2", "gold_label") if name.startswith("snli") else ("premise", "hypothesis", "label")
    )
    drawn = microworld.examples("nli", 60, short=True)
    rows = [dict(zip(columns, (one.text, one.pair, one.label), strict=True)) for one in drawn]
    if name.startswith("snli"):
        rows[7]["gold_label"] = "-"
    data, dev, run = tmp_path / name, tmp_path / f"dev-{name}", tmp_path / "run"
    for path, some in ((data, rows[:40]), (dev, rows[40:])):
        with path.open("w", encoding="utf-8", newline="") as file:
            if path.suffix == ".csv":
                table = csv.DictWriter(file, columns)
                table.writeheader()
                table.writerows(some)
            else:
                file.writelines(json.dumps(row) + "\n" for row in some)
    sizes = ["--set", "config.hidden_size=16", "--set", "config.num_hidden_layers=1", "--set", "vocab_size=200"]
    sizes += ["--set", "config.num_attention_heads=2", "--set", "config.intermediate_size=16"]
    code, out, _ = glassformer(
        *("train", "text-classification", "--arch", "bert", "--data", data, "--dev", dev, "--out", run),
        *("--steps", 2, "--device", "cpu", *sizes),
    )
    assert code == 0
    assert f"text: column '{columns[0]}'; pair: column '{columns[1]}'" in out
    assert ("no label" in out) == name.startswith("snli")
    assert gf.pipeline("text-classification", run).task.labels == ["contradiction", "entailment", "neutral"]
    code, out, _ = glassformer("eval", run, "--data", dev, "--json")
    assert code == 0
    assert {"accuracy", "f1"} <= json.loads(out.splitlines()[-1]).keys()
    code, out, _ = glassformer(
        "predict", run, json.dumps({"text": drawn[0].text, "text_pair": drawn[0].pair}), "--json"
    )
    (wanted,) = gf.pipeline("text-classification", run)([(drawn[0].text, drawn[0].pair)])
    assert json.loads(out)["output"] == {"label": wanted["label"], "score": pytest.approx(wanted["score"], abs=1e-5)}
    asked = ["--task", "zero-shot-classification", "--set", "candidate_labels=a trip,a game"]
    code, out, _ = glassformer("predict", run, "Anna played tennis.", *asked)
    assert code == 0
    assert re.search(r"a (trip|game) 0\.\d{4}  a (trip|game) 0\.\d{4}  \| Anna played tennis\.", out)


# A model of vectors.

VECTORS, LABELS = "zoo:embed-mini-en", ["music", "sport", "food"]
SAID = ["She sang two songs at the concert.", "The team won the match.", "We had pasta."]


def test_a_model_of_vectors_chooses_by_cosines_as_it_was_taught():
    pipe = gf.pipeline("zero-shot-classification", VECTORS)
    cosines = torch.from_numpy(gf.embed(SAID, VECTORS) @ gf.embed(LABELS, VECTORS).T)
    for multi_label, wanted in ((False, (20 * cosines).softmax(-1)), (True, cosines.clamp(min=0))):
        found = pipe(SAID, candidate_labels=LABELS, multi_label=multi_label)
        for text, one, row in zip(SAID, found, wanted.tolist(), strict=True):
            assert (one["sequence"], sorted(one["labels"])) == (text, sorted(LABELS))
            assert one["scores"] == sorted(one["scores"], reverse=True)
            assert dict(zip(one["labels"], one["scores"], strict=True)) == pytest.approx(
                dict(zip(LABELS, row, strict=True)), abs=1e-5
            )
    assert [one["labels"][0] for one in pipe(SAID[:2], LABELS)] == LABELS[:2]


def test_a_model_of_vectors_is_asked_as_a_model_of_inference_is():
    pipe = gf.pipeline("zero-shot-classification", VECTORS)
    plain = pipe(SAID[0], "music, food")
    assert gf.pipeline("sentence-embedding", VECTORS).at("zero-shot-classification")(SAID[0], "music, food") == plain
    assert plain == pipe(SAID[0], candidate_labels=["music", "food"])
    assert pipe(SAID[0], "music, food", hypothesis_template="This is about {}.")["scores"] != plain["scores"]
    assert len(pipe(SAID[0], "music")["scores"]) == 1
    with pytest.raises(ValueError, match="candidate_labels is None: give the classes"):
        pipe(SAID[0])
    with pytest.raises(ValueError, match="nothing to classify"):
        pipe(" ", "music")
    with pytest.raises(ValueError, match="write {} where the label goes"):
        pipe(SAID[0], "music", hypothesis_template="about it")


def test_what_a_classifier_lies_in_like_a_model_of_vectors_is_asked_as_a_classifier(folder, tmp_path):
    """Sentence-Transformers writes modules.json beside its cross-encoders, too."""
    shutil.copytree(folder, tmp_path / "nli")
    (tmp_path / "nli" / "modules.json").write_text('[{"idx": 0, "name": "0", "path": "", "type": "CrossEncoder"}]')
    asked = {"candidate_labels": ["old", "new"]}
    assert task_of(str(tmp_path / "nli")) == "text-classification"
    for text in TEXTS:
        ours, plain = (
            gf.pipeline("zero-shot-classification", one)(text, **asked) for one in (tmp_path / "nli", folder)
        )
        assert ours == plain


def test_a_model_of_vectors_in_memory_chooses_as_its_folder_does():
    model, tokenizer = gf.load("zoo:embed-mini-en"), gf.load_tokenizer("zoo:embed-mini-en")
    named, given = (
        gf.pipeline("zero-shot-classification", *one) for one in (["zoo:embed-mini-en"], [model, tokenizer])
    )
    asked = {"candidate_labels": ["music", "sport"]}
    assert given("She sang.", **asked)["labels"] == named("She sang.", **asked)["labels"]
    assert given("She sang.", **asked)["scores"] == pytest.approx(named("She sang.", **asked)["scores"], abs=1e-5)
    with pytest.raises(ValueError, match="^the model has the head None: load one with the head 'text-classification'$"):
        named.at("text-classification")


@pytest.mark.parametrize("option", ["label_smoothing", "problem_type", "r_drop"])
def test_a_model_of_vectors_has_no_options_of_a_classifier(option):
    with pytest.raises(ValueError, match=f"^zero-shot-classification has no option '{option}'; it has: .*pooling"):
        gf.pipeline("zero-shot-classification", **{option: 0.1})


def test_a_model_of_vectors_is_not_scored_by_labels_that_it_cannot_learn(glassformer, tmp_path):
    (tmp_path / "a.csv").write_text("text,label\nShe sang.,music\nThey won.,sport\n")
    code, out, err = glassformer(
        "eval", "zoo:embed-mini-en", "--task", "zero-shot-classification", "--data", tmp_path / "a.csv"
    )
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert "a model of sentence vectors learns nothing for zero-shot-classification" in err
    asked = ["--task", "zero-shot-classification", "--set", "candidate_labels=music,sport", "--format", "csv"]
    code, out, _ = glassformer("predict", "zoo:embed-mini-en", "--file", tmp_path / "a.csv", *asked)
    assert code == 0
    first, second = csv.DictReader(out.splitlines())
    assert json.loads(first["labels"]) == ["music", "sport"]
    assert json.loads(second["labels"]) == ["sport", "music"]
    (tmp_path / "b.csv").write_text("text,label\nShe sang.,1\nThey won.,2\n")
    code, _, err = glassformer(
        "eval", "zoo:embed-mini-en", "--task", "sentence-similarity", "--data", tmp_path / "b.csv"
    )
    assert code == 1
    assert "there is no second text: give --columns pair=NAME" in err
