"""What a run leaves: a folder that loads here and in transformers, with labels, scores, curves, recipe and card."""

import json
import math
from xml.etree import ElementTree

import pytest
import torch
from torch.testing import assert_close

import glassformer as gf
from families import random_model
from glassformer.jobs.recipe import Recipe
from tasks.cases import ONE_OF_EACH_TASK, VOCABULARY, case

IN_TRANSFORMERS = {
    "text-classification/bert": "AutoModelForSequenceClassification",
    "text-classification/distilbert": "AutoModelForSequenceClassification",
    "text-classification/bert/multi-label": "AutoModelForSequenceClassification",
    "token-classification/bert": "AutoModelForTokenClassification",
    "question-answering/roberta": "AutoModelForQuestionAnswering",
    "fill-mask/bert": "AutoModelForMaskedLM",
    "pretraining/bert": "AutoModelForPreTraining",
    "sentence-order-prediction/albert": "AutoModelForPreTraining",
    "replaced-token-detection/electra": "AutoModelForPreTraining",
    "text-generation/gpt2": "AutoModelForCausalLM",
    "sentence-similarity/bert/mean": "AutoModel",
}
QUIET = {"log": lambda _: None}


@pytest.mark.few(4)
@pytest.mark.parametrize("name", ONE_OF_EACH_TASK)
def test_the_folder_holds_all_there_is_to_say(trained, name):
    folder = trained(name)
    run = json.loads((folder / "run.json").read_text())
    recipe = Recipe.from_toml(folder / "recipe.toml", {})
    card = (folder / "README.md").read_text()
    assert run.keys() >= {"scores", "progress", "preflight", "data"}
    assert run["progress"]["step"] == 2
    assert recipe.task == name.split("/")[0]
    assert card.startswith("---\nlibrary_name: glassformer\npipeline_tag: ")
    assert f"```toml\n{recipe.toml()}```" in card
    for split, scores in run["scores"].items():
        assert f"**{split}**" in card
        for metric, value in scores.items():
            assert f"| {metric} | {value:.4f} |" in card
            assert math.isfinite(value)
    assert set(run["scores"]) == {"dev", "test"}
    picture = ElementTree.parse(folder / "curves.svg").getroot()
    assert picture.tag.endswith("svg")
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["step"] == 2
    assert not [*folder.rglob("*.partial")]


@pytest.mark.few(6)
@pytest.mark.parametrize("name", ONE_OF_EACH_TASK)
def test_the_scores_are_those_of_the_folder_as_anyone_loads_it(trained, name):
    folder, one = trained(name), case(name)
    pipe = gf.pipeline(one.task.name, folder)
    found = json.loads((folder / "run.json").read_text())["scores"]["dev"]
    again = pipe.score(one.splits.dev).compute()
    assert again == pytest.approx(found, rel=1e-4, abs=1e-5)


def test_intervals_and_signatures_are_on_the_card(trained):
    card = (trained("translation/transformer") / "README.md").read_text()
    assert "nrefs:1|case:mixed|eff:no|tok:" in card
    card = (trained("text-classification/bert") / "README.md").read_text()
    accuracy = next(line for line in card.splitlines() if line.startswith("| accuracy"))
    assert " – " in accuracy


@pytest.mark.parametrize("name", IN_TRANSFORMERS)
def test_the_folder_loads_in_transformers_with_the_same_numbers(trained, name):
    transformers = pytest.importorskip("transformers")
    folder, one = trained(name), case(name)
    ours, theirs = gf.load(folder), getattr(transformers, IN_TRANSFORMERS[name]).from_pretrained(folder).eval()
    texts = ["Paul is glad .", "Anna , who is sad , was in the old house ."]
    rows = transformers.AutoTokenizer.from_pretrained(folder)(texts, return_tensors="pt", padding=True)
    with torch.no_grad():
        wanted, found = theirs(**rows)[0], ours(**rows)[0]
    real = rows["attention_mask"].bool() if wanted.shape[:2] == rows["input_ids"].shape else ...
    assert_close(found[real], wanted[real], rtol=1e-4, atol=1e-5)
    mine = gf.load_tokenizer(folder)(texts, return_tensors="pt", padding=True)
    assert_close(mine["input_ids"], rows["input_ids"])
    assert mine.keys() == rows.keys()
    assert getattr(one.task, "labels", None) in (None, list(theirs.config.id2label.values()))


def test_marian_is_fine_tuned_and_loads_in_transformers(tmp_path):
    """Its own sentencepiece files are not needed: any tokenizer that fits will do."""
    transformers = pytest.importorskip("transformers")
    tokenizer = case("translation/transformer").task.tokenizer
    sizes = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "max_position_embeddings": 64}
    marks = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
    marks |= {"decoder_start_token_id": tokenizer.pad_token_id, "forced_eos_token_id": tokenizer.eos_token_id}
    model = random_model(
        "marian",
        "text2text-generation",
        {"vocab_size": len(tokenizer), **sizes, **heads, **marks, "bos_token_id": None},
    )
    gf.save(model, tmp_path / "marian", tokenizer=tokenizer)
    settings = {"task": "translation", "model": str(tmp_path / "marian"), "data": "microworld", "limit": 24}
    run = gf.train(**settings, out=str(tmp_path / "run"), steps=2, batch_size=8, device="cpu", **QUIET)
    theirs = transformers.MarianMTModel.from_pretrained(run.folder).eval()
    ids = torch.tensor([[7, 8, 9, tokenizer.eos_token_id]])
    with torch.no_grad():
        wanted = theirs(input_ids=ids, decoder_input_ids=ids).logits
        found = run.load()(input_ids=ids, decoder_input_ids=ids).logits
    assert_close(found, wanted, rtol=1e-4, atol=1e-4)
    assert any(
        not torch.equal(one, other) for one, other in zip(run.load().parameters(), model.parameters(), strict=True)
    )


# Labels.


@pytest.mark.parametrize("name", ["text-classification/gru", "text-classification/bert", "token-classification/bert"])
def test_labels_are_saved_in_the_order_of_the_outputs(trained, name):
    config, labels = json.loads((trained(name) / "config.json").read_text()), case(name).task.labels
    assert config["id2label"] == {str(number): label for number, label in enumerate(labels)}
    assert gf.pipeline(name.split("/")[0], trained(name)).task.labels == labels


def test_labels_that_the_model_does_not_know_are_named(trained, tmp_path, glassformer):
    (tmp_path / "other.csv").write_text("text,label\na,good\nb,positive\n")
    code, _, err = glassformer("eval", trained("text-classification/gru"), "--data", tmp_path / "other.csv")
    assert code == 1
    assert "error: label 'good' is not one of the model's (negative, neutral, positive)" in err.splitlines()[-1]


def test_fine_tuning_on_data_in_another_order_keeps_the_labels(trained, tmp_path):
    base = trained("text-classification/bert")
    rows = [f"text {number},{('positive', 'negative', 'neutral')[number % 3]}" for number in range(40)]
    (tmp_path / "data.csv").write_text("\n".join(["text,label", *rows]))
    settings = {"task": "text-classification", "model": str(base), "data": str(tmp_path / "data.csv")}
    run = gf.train(**settings, out=str(tmp_path / "run"), steps=1, lr=1e-12, device="cpu", **QUIET)
    assert run.load().config.id2label == gf.load(base).config.id2label
    assert_close(run.load().state_dict(), gf.load(base).state_dict(), rtol=0, atol=1e-8)


# Loading for a task.


def test_a_model_without_the_head_is_refused_by_the_pipeline(trained):
    with pytest.raises(ValueError, match="was not trained for question-answering: it has no .*; train it first"):
        gf.pipeline("question-answering", trained("fill-mask/bert"))
    with pytest.raises(ValueError, match="was trained for text-classification, not for question-answering: take"):
        gf.pipeline("question-answering", trained("text-classification/bert"))


def test_a_model_of_an_architecture_without_such_a_head_is_refused(trained):
    with pytest.raises(ValueError, match="is a glassformer-rnn, which cannot do question-answering; what can: "):
        gf.pipeline("question-answering", trained("text-classification/gru"))


def test_an_option_that_there_is_not_is_named(trained):
    with pytest.raises(ValueError, match="text-classification has no option 'max_lenght'; it has: .*max_length"):
        gf.pipeline("text-classification", trained("text-classification/gru"), max_lenght=3)


def test_a_vocabulary_that_does_not_fit_the_embedding_is_refused(trained, tmp_path):
    one = case("text-classification/bert")
    small = case("text-classification/bert", vocab_size=120)
    gf.save(small.model, tmp_path / "odd", tokenizer=one.task.tokenizer)
    message = "the tokenizer has 200 tokens and the model's embedding 120; they do not belong together"
    with pytest.raises(ValueError, match=message):
        gf.pipeline("text-classification", tmp_path / "odd")
    settings = {"task": "text-classification", "model": str(tmp_path / "odd"), "data": "microworld", "limit": 20}
    with pytest.raises(ValueError, match=message):
        gf.train(**settings, out=str(tmp_path / "run"), steps=1, **QUIET)


def test_tokens_that_were_added_have_room_made_for_them(tmp_path):
    """Conditions of a text are new tokens: a model that is fine-tuned grows by as many rows."""
    one = case("text-generation/gpt2")
    base = gf.save(one.model, tmp_path / "base", tokenizer=one.task.tokenizer)
    (tmp_path / "data.jsonl").write_text(
        "".join(json.dumps({"text": f"It was a {kind} day.", "label": kind}) + "\n" for kind in ("good", "bad") * 20)
    )
    settings = {
        "task": "text-generation",
        "model": str(base),
        "data": str(tmp_path / "data.jsonl"),
        "columns": {"label": "label"},
    }
    run = gf.train(**settings, out=str(tmp_path / "run"), steps=1, batch_size=2, device="cpu", **QUIET)
    assert run.load().config.vocab_size == one.model.config.vocab_size + 2
    pipe = gf.pipeline("text-generation", run.folder)
    assert pipe("It", condition="good", max_new_tokens=2)


@pytest.mark.parametrize("name", ["sentence-similarity/bert/cls", "sentence-similarity/bert/max"])
def test_how_texts_are_pooled_is_part_of_the_folder(trained, name):
    pipe = gf.pipeline("sentence-similarity", trained(name))
    assert pipe.task.pooling.pooling == name.split("/")[-1]


def test_vocabularies_that_are_learnt_are_the_same_each_time():
    for kind in VOCABULARY:
        learnt = [case("translation/gru", tokenizer=kind).task.tokenizer.get_vocab() for _ in range(3)]
        assert learnt[0] == learnt[1] == learnt[2]
