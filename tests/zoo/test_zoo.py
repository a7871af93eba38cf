"""The built-in models: each at its task with sockets blocked, as its card says; names, defaults, sizes and sums."""

import json
import shutil
import socket
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
import torch

import glassformer as gf
from glassformer.hub.fetch import model_folder
from glassformer.jobs.tasks import ALIASES, TASKS, task_class

zoo = import_module("glassformer.zoo")  # gf.zoo is the function
ROOT = Path(__file__).parents[2]
CARDS = {card["name"]: card for card in gf.zoo()}
MOST = 40e6  # bytes of all of them
KEYS = {  # what an answer holds
    "text-classification": "label",
    "token-classification": "entity",
    "question-answering": "answer",
    "fill-mask": "token_str",
    "translation": "translation_text",
    "text-generation": "generated_text",
    "summarization": "summary_text",
}
ANNA, LOST = "Anna Stone met Leo in Paris.", "Sophie repaired a chair in the garden. Leo missed the train."
CALLED = {  # without a model: what each task is asked, and what is found in the answer; aliases are asked as their task
    "text-classification": (("A warm, funny film.",), {}, lambda found: found[0]["label"] == "positive"),
    "token-classification": ((ANNA,), {}, lambda found: found[0]["entity"] == "B-PER"),
    "question-answering": ((), {"question": "Who met Leo?", "context": ANNA}, lambda found: found["answer"] in ANNA),
    "fill-mask": (("She is reading a [MASK].",), {"top_k": 3}, lambda found: len(found) == 3),
    "text-generation": (("I have never",), {}, lambda found: found[0]["generated_text"].startswith("I have never")),
    "translation": (("Where is he?",), {}, lambda found: found[0]["translation_text"].startswith("Où")),
    "summarization": ((LOST,), {}, lambda found: found[0]["summary_text"] == "Sophie repaired a chair."),
    "text2text-generation": (("Where is he?",), {}, lambda found: found[0]["generated_text"].startswith("Où")),
    "zero-shot-classification": (
        ("The team won the match.", ["politics", "sport"]),
        {},
        lambda found: found["labels"] == ["sport", "politics"],
    ),
    "sentence-similarity": ((("I lost my keys.", "I can't find my keys."),), {}, lambda found: found > 0.5),
    "feature-extraction": (("A cat sat.",), {}, lambda found: len(found[0][0]) == 192),
    "sentence-embedding": (("A cat sat.",), {}, lambda found: len(found) == 192),
}
NOT_BUILT_IN = {  # tasks without a model of their own, and why
    "pretraining": "a way to learn; what it makes is used at fill-mask",
    "sentence-order-prediction": "a way to learn; what it makes is used at fill-mask",
    "replaced-token-detection": "a way to learn; what it makes is fine-tuned",
    "span-corruption": "a way to learn; what it makes is fine-tuned",
    **dict.fromkeys(("copy", "reverse", "parity", "adding"), "a lesson, learnt in seconds by whoever takes it"),
}


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def refuse(*_args, **_kwargs):
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """A zoo of its own, with one model in it."""
    monkeypatch.setattr(zoo, "HOME", tmp_path)
    shutil.copytree(ROOT / "src" / "glassformer" / "zoo" / "lstm-sentiment", tmp_path / "lstm-sentiment")
    return tmp_path / "lstm-sentiment"


@pytest.mark.few(6)
@pytest.mark.parametrize("name", CARDS)
def test_a_model_does_its_task(name):
    task = CARDS[name]["task"]
    pipe = gf.pipeline(model=f"zoo:{name}")
    assert pipe.task.name == task
    for one in CARDS[name]["examples"]:
        if task == "sentence-embedding":
            assert gf.embed(list(one.values()), f"zoo:{name}").shape == (2, pipe.model.config.hidden_size)
            continue
        asked = task == "question-answering"
        more = {"condition": one["condition"]} if "condition" in one else {}
        found = pipe(question=one["inputs"], context=one["pair"]) if asked else pipe(one["inputs"], **more)
        found = found if isinstance(found, list) else [found]
        assert found
        assert all(KEYS[task] in row for row in found)
    assert gf.load(f"zoo:{name}").num_parameters() == CARDS[name]["parameters"]
    assert gf.load(f"zoo:{name}").dtype == torch.float32
    assert len(gf.load_tokenizer(f"zoo:{name}")) <= pipe.model.config.vocab_size


@pytest.mark.parametrize("name", CARDS)
def test_a_card_is_whole(name):
    card, folder = CARDS[name], model_folder(f"zoo:{name}")
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert there == {"card.toml", *card["files"]}
    assert {"text", "licence", "attribution", "split", "test"} <= card["data"].keys()
    assert card["scores"][card["metric"]] == card["score"]
    worse, better = sorted([card["score"], card["baseline"]])
    assert (worse if card["metric"] == "perplexity" else better) == card["score"]
    assert card["task"] in TASKS
    assert len(card["examples"]) >= 3
    assert (ROOT / card["recipe"]["file"]).is_file()
    assert card["command"] == f"make zoo ONLY={name}"


def test_what_is_promised_of_them_is_on_their_cards():
    """The scores are found again from the data by the tests below."""
    sentiment = CARDS[zoo.default_for("text-classification").removeprefix("zoo:")]
    assert sentiment["metric"] == "accuracy"
    assert sentiment["score"] >= 0.77
    assert any("IMDB" in where for where in sentiment["elsewhere"])
    french = CARDS[zoo.default_for("translation", ("en", "fr")).removeprefix("zoo:")]
    assert french["metric"] == "bleu"
    assert french["score"] >= 35
    poems = CARDS["gpt-poems-zh"]
    assert poems["metric"] == "perplexity"
    assert poems["score"] < poems["baseline"] / 10


def test_a_score_in_the_micro_world_says_so():
    assert " in the micro-world (baseline" in zoo.score_of(CARDS["en-de"])
    assert "micro-world" not in zoo.score_of(CARDS["en-fr"])


@pytest.mark.parametrize(
    ("task", "name", "own"),
    [
        ("ner", "lstm-sentiment", "text-classification"),
        ("token-classification", "bert-mini-en-sentiment", "text-classification"),
        ("text-classification", "bilstm-ner", "token-classification"),
        ("question-answering", "bert-mini-en-ner", "token-classification"),
    ],
)
def test_a_classifier_of_another_kind_is_refused_in_one_line(glassformer, task, name, own):
    words = ["--question", "Who?", "--context", "Anna."] if task.startswith("question") else ["Anna lives in Rome."]
    code, out, err = glassformer("predict", f"zoo:{name}", "--task", task, *words)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert f"zoo:{name} was trained for {own}, not for " in err


@pytest.mark.parametrize("texts", [[""], ["   "], ["a warm , funny film .", "", "\n"]])
def test_a_text_without_a_word_has_an_answer_alone_and_beside_others(texts):
    pipe = gf.pipeline("sentiment-analysis", top_k=None)
    together = pipe(texts)
    for text, found in zip(texts, together, strict=True):
        (alone,) = pipe([text])
        assert {one["label"]: one["score"] for one in found} == pytest.approx(
            {one["label"]: one["score"] for one in alone}, abs=1e-6
        )
        assert sum(one["score"] for one in found) == pytest.approx(1)


def test_all_of_them_are_small():
    size = sum(
        path.stat().st_size for path in zoo.HOME.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")
    )
    assert 0 < size <= MOST
    assert sum(card["bytes"] for card in gf.zoo()) <= size


@pytest.mark.slow
@pytest.mark.parametrize("name", CARDS)
def test_the_score_of_a_card_is_found_again(name, data, tmp_path, monkeypatch):
    """On what was held out, prepared anew from the data."""
    monkeypatch.syspath_prepend(ROOT / "recipes" / "zoo")
    splits, pack = import_module("splits"), import_module("pack")
    card = CARDS[name]
    tests = [file.replace("runs/zoo/data", str(tmp_path)) for file in card["data"]["test"].split(", ")]
    splits.prepare(data, tmp_path, {Path(file).parent.name for file in tests})
    found = pack.scores(f"zoo:{name}", tests, device="cpu")
    for metric, value in card["scores"].items():
        assert found[metric] == pytest.approx(value, rel=0.01, abs=0.003), metric


CONDITIONED = [name for name, card in CARDS.items() if "conditions" in card]


@pytest.mark.slow
@pytest.mark.parametrize("name", CONDITIONED)
def test_the_worth_of_conditions_is_found_again(name, data, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "recipes" / "zoo")
    splits, conditions = import_module("splits"), import_module("conditions")
    card = CARDS[name]
    tests = [file.replace("runs/zoo/data", str(tmp_path)) for file in card["data"]["test"].split(", ")]
    splits.prepare(data, tmp_path, {Path(file).parent.name for file in tests})
    found = conditions.worth(f"zoo:{name}", tests, base=card["base"])
    assert found == pytest.approx(card["conditions"], rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, card in CARDS.items() if "choices" in card])
def test_choices_are_found_again(name, data, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "recipes" / "zoo")
    splits, choices = import_module("splits"), import_module("choices")
    listed = tomllib.loads((ROOT / "recipes" / "zoo" / "cards.toml").read_text("utf-8"))[name]["choices"]
    files = {what: file.replace("runs/zoo/data", str(tmp_path)) for what, file in listed.items()}
    splits.prepare(data, tmp_path, {Path(file).parent.name for file in files.values()})
    assert choices.worth(f"zoo:{name}", files) == pytest.approx(CARDS[name]["choices"], abs=0.005)


def test_a_condition_is_worth_something_and_changes_what_is_written(glassformer):
    """A text is less surprising after its condition than after another or none, and than to the base."""
    assert len(CONDITIONED) == 2
    for name in CONDITIONED:
        right, *others = CARDS[name]["conditions"].values()
        assert right < min(others)
        prompt, pipe = CARDS[name]["examples"][0]["inputs"], gf.pipeline(model=f"zoo:{name}")
        drawn = {"do_sample": True, "max_new_tokens": 20}
        written = [
            [pipe(prompt, condition=condition, seed=seed, **drawn) for seed in range(4)]
            for condition in pipe.task.conditions[:2]
        ]
        assert written[0] != written[1]
        words = ("generate", f"zoo:{name}", prompt, "--max-new-tokens", "5")
        code, out, _ = glassformer(*words, "--condition", pipe.task.conditions[0])
        assert code == 0
        assert out.startswith(prompt)
        code, _, err = glassformer(*words, "--condition", "nobody")
        assert code == 1
        assert "the model knows no condition 'nobody'; it knows " in err


@pytest.mark.parametrize("task", [*TASKS, *ALIASES])
def test_every_task_has_a_model_that_answers_or_a_reason_why_not(task):
    """With sockets refused, as in all tests here."""
    own = task_class(task).name
    if own in NOT_BUILT_IN:
        with pytest.raises(
            ValueError, match=r"there is no built-in model for .*: name a folder, a hub name, or one of zoo:"
        ):
            gf.pipeline(task)
        return
    pipe, (inputs, options, right) = gf.pipeline(task), CALLED[own]
    assert pipe.folder == zoo.HOME / zoo.default_for(own).removeprefix("zoo:")
    assert right(pipe(*inputs, **options))


@pytest.mark.parametrize("name", [name for name, card in CARDS.items() if card["task"] == "translation"])
def test_a_translation_is_named_by_its_languages(name):
    source, target = CARDS[name]["languages"]
    (found,) = gf.pipeline(f"translation_{source}_to_{target}")(CARDS[name]["examples"][0]["inputs"])
    assert found["translation_text"]


def test_the_preferred_model_is_the_default(copied):
    other = copied.parent / "a-better-one"
    shutil.copytree(copied, other)
    text = (other / "card.toml").read_text("utf-8").replace("lstm-sentiment", "a-better-one")
    (other / "card.toml").write_text(text.replace("default = false", "default = true"), "utf-8")
    zoo._cards.cache_clear()
    assert zoo.default_for("text-classification") == "zoo:a-better-one"
    assert zoo.default_for("text-classification", ("en",)) == "zoo:a-better-one"
    with pytest.raises(ValueError, match="no built-in model for translation from en to fr: name a folder"):
        gf.pipeline("translation_en_to_fr")


def test_a_built_in_name_without_its_zoo_is_told_the_whole_of_it(glassformer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    code, _, err = glassformer("predict", "lstm-sentiment", "a fine film .")
    assert code == 1
    assert "near it: zoo:lstm-sentiment" in err
    code, _, err = glassformer("translate", "hello")
    assert code == 1
    assert err.startswith("hello is taken for a model's name; if it is a text, name the model before it\n")


def test_names_that_are_not_there():
    with pytest.raises(ValueError, match="there is no built-in model zoo:lstm-sentimant; near it: zoo:lstm-sentiment"):
        gf.load("zoo:lstm-sentimant")
    with pytest.raises(
        ValueError, match=r"there is no built-in model zoo:xyz; there are: .*zoo:lstm-sentiment \(text-class"
    ):
        gf.load_tokenizer("zoo:xyz")
    with pytest.raises(ValueError, match="no built-in model zoo:../x"):
        gf.pipeline("text-classification", "zoo:../x")


@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer.json"])
def test_a_damaged_file_is_refused(copied, file):
    content = bytearray((copied / file).read_bytes())
    content[len(content) // 2] ^= 1
    (copied / file).write_bytes(content)
    with pytest.raises(ValueError, match=f"{file} is damaged: install glassformer again, or build it with make zoo"):
        gf.load("zoo:lstm-sentiment")
    (copied / file).unlink()
    with pytest.raises(ValueError, match=f"{file} is missing"):
        gf.load_tokenizer("zoo:lstm-sentiment")


# The command line.


def test_models_are_listed(glassformer, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    code, out, _ = glassformer("models", tmp_path)
    assert code == 0
    for word in ("zoo:lstm-sentiment", "rt-polarity", "CC BY 4.0", "accuracy 0.7"):
        assert word in out
    listed = json.loads(glassformer("models", tmp_path, "--json")[1])
    assert [one["name"] for one in listed] == [f"zoo:{card['name']}" for card in gf.zoo()]
    assert {one["where"] for one in listed} == {"built-in"}


@pytest.mark.parametrize("name", ["lstm-sentiment", "zoo:lstm-sentiment"])
def test_a_card_is_shown(glassformer, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    assert json.loads(glassformer("models", name, "--json")[1]) == CARDS["lstm-sentiment"]
    _, out, _ = glassformer("models", name)
    assert "Bo Pang and Lillian Lee" in out
    assert CARDS["lstm-sentiment"]["files"]["model.safetensors"] in out


@pytest.mark.parametrize("words", [("models", "zoo:lstm-s"), ("show", "zoo:lstm-s"), ("predict", "zoo:lstm-s", "a")])
def test_a_name_that_is_not_there_is_one_line(glassformer, words):
    code, out, err = glassformer(*words)
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert "there is no built-in model zoo:lstm-s; near it: zoo:lstm-sentiment" in err


def test_predict_without_a_model(glassformer):
    code, out, err = glassformer("predict", "a warm , funny and moving film .", "a dull , lifeless and boring mess .")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["positive", "negative"]
    name = zoo.default_for("text-classification")
    assert err == f"{name}, the built-in model: {zoo.card_of(name)['about']}\n"


def test_a_command_takes_what_can_be_no_name_for_a_text(glassformer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = glassformer("predict", "no-such-folder/at/all", "a text")
    assert code == 1
    assert "there is no folder 'no-such-folder/at/all'" in err
    code, _, err = glassformer("translate", "One text.", "Another text.")
    assert code == 1
    assert "there are two texts, 'One text.' and 'Another text.'" in err


def test_translate_without_a_model_by_the_language_that_is_asked_for(glassformer):
    if not any(card["languages"] == ["en", "de"] for card in CARDS.values()):
        pytest.skip("no built-in model translates from English to German")
    code, out, err = glassformer("translate", "Emma bought a book at the market.", "--tgt-lang", "de")
    assert code == 0
    assert out.strip()
    assert "the built-in model" in err
    code, _, err = glassformer("translate", "Emma bought a book at the market.", "--tgt-lang", "xx")
    assert code == 1
    assert "there is no built-in model for translation from en to xx" in err


def test_generate_without_a_model(glassformer):
    able = any(card["task"] == "text-generation" for card in CARDS.values())
    code, out, err = glassformer("generate", "Once upon a time", "--max-new-tokens", 3)
    assert code == (0 if able else 1)
    assert out.startswith("Once upon a time") if able else "there is no built-in model for text-generation" in err


def test_the_studio_takes_a_built_in_model():
    pytest.importorskip("fastapi", reason="pip install 'glassformer[studio]'")
    from glassformer.studio.app_state import ModelStore

    store = ModelStore(["zoo:lstm-sentiment"])
    assert [one["name"] for one in store.entries] == ["lstm-sentiment"]
    assert store["lstm-sentiment"].pipeline("a dull film .")[0]["label"] == "negative"
    assert store.folders == {"lstm-sentiment": zoo.HOME / "lstm-sentiment"}


@pytest.mark.parametrize("words", [("show",), ("verify",), ("eval", "--data", "microworld")])
def test_commands_take_a_built_in_model(glassformer, words):
    command, *more = words
    name = "zoo:gru-attention-en-de" if command == "eval" else "zoo:lstm-sentiment"
    code, out, err = glassformer(command, name, *more, "--json")
    assert code == 0, err
    assert json.loads(out.splitlines()[-1])
