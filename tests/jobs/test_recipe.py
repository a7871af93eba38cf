"""Recipes: what was asked for, written down and read again, is the same; what is misspelt is told what is near."""

import re
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.files import read_toml
from glassformer.jobs.predict import pipeline
from glassformer.jobs.recipe import Recipe, changed, expanded, parsed, read_recipe, write_toml
from tasks.cases import NAMES, recipe_of

LEAST = {"task": "text-classification", "arch": "lstm", "data": "train.csv", "out": "runs/x"}
letters = st.characters(exclude_characters="\x7f", exclude_categories=["Cs"])
scalars = st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(letters)
values = scalars | st.lists(scalars, max_size=3)
names = st.text(letters, min_size=1, max_size=8)


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_comes_back_from_its_file(tmp_path, name):
    recipe = Recipe.of(recipe_of(name, columns={"text": "a column"}, lr=1e-5, epochs=2, clip=0.0, dev=["a", "b"]))
    (tmp_path / "recipe.toml").write_text(recipe.toml(), encoding="utf-8")
    again = Recipe.from_toml(tmp_path / "recipe.toml", {})
    assert again == recipe
    assert again.toml() == recipe.toml()


@given(plain=st.dictionaries(names, values, max_size=4), table=st.dictionaries(names, values, max_size=4))
def test_whatever_is_written_is_read(tmp_path, plain, table):
    wanted = {**plain, "table": table}
    (tmp_path / "any.toml").write_text(write_toml(wanted), encoding="utf-8")
    assert read_toml(tmp_path / "any.toml") == wanted


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("lr=1e-4", 1e-4),
        ("steps = 7", 7),
        ("compile=true", True),
        ("data=[\"a.csv\", 'b.csv']", ["a.csv", "b.csv"]),
        ("freeze=embeddings,layers.0-5", "embeddings,layers.0-5"),
        ("metric=-loss", "-loss"),
        ("out=runs/a=b", "runs/a=b"),
    ],
)
def test_settings_are_read_as_toml_or_else_as_text(text, value):
    assert parsed(text)[1] == value


@pytest.mark.parametrize("text", ["lr", "=3", " = 3"])
def test_what_sets_nothing_is_refused(text):
    with pytest.raises(ValueError, match="does not set anything; write name=value, e.g. lr=1e-4"):
        parsed(text)


def test_a_new_setting_takes_the_place_of_the_other_way_to_say_it():
    old = {"epochs": 3, "batch_tokens": 4096, "arch": "lstm", "config": {"a": 1, "b": 2}}
    new = changed(old, {"steps": 10, "batch_size": 8, "model": "folder", "config.b": 3})
    assert new == {"steps": 10, "batch_size": 8, "model": "folder", "config": {"a": 1, "b": 3}}
    assert old["config"] == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("batchsize", "batch_size"),
        ("learning_rate", "lr|label_smoothing"),
        ("max_lenght", "max_length"),
        ("freez", "freeze"),
    ],
)
def test_an_unknown_setting_names_those_near_it(wrong, near):
    with pytest.raises(ValueError, match=f"text-classification has no setting '{wrong}'; (near it|it has): .*({near})"):
        Recipe.of({**LEAST, wrong: 1})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "text-clasification"}, "there is no task 'text-clasification'; did you mean 'text-classification'"),
        ({"task": None}, "a run needs task"),
        ({"out": None, "task": None}, "a run needs task and out"),
        ({"data": None}, 'a run needs data: files, or "microworld"'),
        ({"model": "folder"}, "say what to train: model .* or arch .*, one of the two"),
        ({"arch": None}, "say what to train: model .* or arch .*, one of the two"),
    ],
)
def test_what_a_run_needs(changes, message):
    with pytest.raises(ValueError, match=message):
        Recipe.of({**LEAST, **changes})


def test_lessons_need_no_data():
    assert Recipe.of({"task": "copy", "arch": "lstm", "out": "runs/x"}).data == ("microworld",)


def test_variables_in_file_names(monkeypatch):
    monkeypatch.setenv("WHERE_DATA_IS", "/data")
    monkeypatch.delenv("WHERE_DATA_IS_NOT", raising=False)
    assert expanded(["$WHERE_DATA_IS/train.csv", "dev.csv"]) == ["/data/train.csv", "dev.csv"]
    with pytest.raises(ValueError, match="set the environment variable \\$WHERE_DATA_IS_NOT to the folder"):
        expanded(["$WHERE_DATA_IS_NOT/train.csv"])


def test_a_recipe_that_is_none(tmp_path):
    with pytest.raises(ValueError, match="nowhere.toml is not there; give a recipe file or the name of a task"):
        read_recipe(tmp_path / "nowhere.toml")
    (tmp_path / "bad.toml").write_text("task = ")
    with pytest.raises(ValueError, match="bad.toml is not TOML: "):
        read_recipe(tmp_path / "bad.toml")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("lr = 'fast'", "lr is 'fast'; it must be a number above 0"),
        ("max_length = -3", "max_length is -3; it must be a whole number"),
        ("limit = 0", "limit is 0; it must be a whole number from 1"),
        ("leaning_rate = 1", "text-classification has no setting 'leaning_rate'"),
        ("config = 3", "config is 3; it must be an object of names and values"),
        ("config = {hidden_size = 'wide'}", "config.hidden_size is 'wide'; it must be a whole number"),
        ("config = {hiden_size = 3}", "glassformer-rnn has no setting 'hiden_size'"),
    ],
)
def test_a_wrong_value_in_a_recipe_names_the_file_and_the_key(glassformer, tmp_path, monkeypatch, wrong, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.csv").write_text("text,label\n" + "some text,good\nother text,bad\n" * 9)
    (tmp_path / "mine.toml").write_text(write_toml(LEAST) + wrong + "\n")
    code, _, told = glassformer("train", "mine.toml")
    assert code == 1
    assert told.startswith(f"error: mine.toml: {said}")
    assert told.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_a_wrong_value_that_stands_in_no_file_names_the_key_alone(glassformer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(write_toml(LEAST | {"lr": 1e-3, "config": {"hidden_size": 3}}))
    for setting, said in (("lr=fast", "lr is 'fast'; "), ("config.hidden_size=x", "config.hidden_size is 'x'; ")):
        assert glassformer("train", "mine.toml", "--set", setting)[2].startswith(f"error: {said}")
    (tmp_path / "mine.toml").write_text(write_toml(LEAST) + "config = 3\n")
    told = glassformer("train", "mine.toml", "--set", "config.hidden_size=3")[2]
    assert told.startswith("error: mine.toml: config is 3; it must be an object")


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [("task", "none", "there is no task 'none'"), ("max_length", "x", "max_length is 'x'; it must be a whole number")],
)
def test_a_wrong_value_in_the_recipe_of_a_run_names_the_file_and_the_key(trained, tmp_path, key, value, said):
    folder = shutil.copytree(trained("text-classification/lstm"), tmp_path / "run")
    path = folder / "recipe.toml"
    path.write_text(write_toml({**read_toml(path), key: value}))
    with pytest.raises(ValueError, match=re.escape(f"{path}: {said}")):
        pipeline("text-classification", folder)
