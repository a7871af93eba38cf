"""Parquet files and hub data sets: the same rows, with classes by name, and no network."""

import json
import sys

import pyarrow
import pytest
from pyarrow import parquet
from reader_checks import balanced, give_stdin, one_line_error, skips

from glassformer.data.conll import read_tagged
from glassformer.data.documents import read_documents
from glassformer.data.examples import Document, Labelled, Parallel, SquadAnswer, SquadExample, Tagged
from glassformer.data.parallel import read_parallel
from glassformer.data.squad import read_asked
from glassformer.data.table import read_labelled

ROWS = {"text": ["a", "b", None], "label": [1, None, 0], "tags": [["x"], [], ["x", "y"]]}


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "x.parquet"
    parquet.write_table(pyarrow.table(ROWS), path)
    return path


def test_parquet_rows(rows, monkeypatch):
    read = read_labelled(rows)
    assert read.examples == [Labelled("a", None, "1")]
    assert skips(read) == {"no label": (1, 2), "an empty text": (1, 3)}
    assert read.report.as_dict()["skipped"]["no label"] == {"count": 1, "file": str(rows), "row": 2}
    several = read_labelled(rows, {"label": "tags"}, kind="multi-label", require_target=False)
    assert [one.label for one in several.examples] == [("x",), (), ("x", "y")]
    assert read_documents(rows).examples == [Document("a"), Document("b")]
    give_stdin(monkeypatch, rows.read_bytes())
    assert read_labelled("-", file_format="parquet").examples == read.examples


def test_class_names_in_a_parquet_file_of_an_older_kind(tmp_path):
    names = {"names": ["O", "B-PER"], "_type": "ClassLabel"}
    features = {"words": [{"dtype": "string"}], "tags": [names], "label": names, "info": {"names": {"dtype": "string"}}}
    rows = {"words": [["a", "b"]], "tags": [[0, 1]], "label": [1], "info": [{"names": "n"}]}
    written = {"huggingface": json.dumps({"info": {"features": features}})}
    path = tmp_path / "x.parquet"
    parquet.write_table(pyarrow.table(rows).replace_schema_metadata(written), path)
    assert read_tagged(path).examples == [Tagged(("a", "b"), ("O", "B-PER"))]
    assert read_labelled(path, {"text": "label", "label": "label"}).examples == [Labelled("B-PER", None, "B-PER")]


def test_a_broken_parquet_file_is_refused(tmp_path, rows):
    path = tmp_path / "cut.parquet"
    path.write_bytes(rows.read_bytes()[:-20])
    with one_line_error(str(path), "is it whole?"):
        read_labelled(path)


@pytest.mark.parametrize(("package", "source"), [("pyarrow.parquet", "x.parquet"), ("datasets", "hub:x")])
def test_an_extra_that_is_not_installed_is_named(rows, monkeypatch, package, source):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.chdir(rows.parent)
    with one_line_error(source, f"needs {package}", "pip install 'glassformer[data]'"):
        read_labelled(source)


@pytest.fixture
def datasets(tmp_path, monkeypatch):
    package = pytest.importorskip("datasets")
    monkeypatch.setattr(package.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    package.disable_progress_bars()
    return package


@pytest.fixture
def labelled(datasets):
    features = datasets.Features(
        text=datasets.Value("string"),
        label=datasets.ClassLabel(names=["bad", "good"]),
        tokens=datasets.List(datasets.Value("string")),
        ner_tags=datasets.List(datasets.ClassLabel(names=["O", "B-PER", "I-PER"])),
    )
    rows = {
        "text": ["one", "two", "three"],
        "label": [1, 0, -1],  # -1 is how a hub data set says that there is none
        "tokens": [["a", "b"], ["c"], ["d"]],
        "ner_tags": [[1, 2], [0], [1]],
    }
    return datasets.Dataset.from_dict(rows, features=features)


@pytest.mark.parametrize("form", ["parquet file", "folder", "saved", "saved dict"])
def test_classes_have_their_names_in_every_form(tmp_path, datasets, labelled, form):
    folder = tmp_path / "set"
    if form == "saved":
        labelled.save_to_disk(folder)
    elif form == "saved dict":
        datasets.DatasetDict({"train": labelled}).save_to_disk(folder)
    else:
        folder.mkdir()
        labelled.to_parquet(folder / "train.parquet")
    source = folder / "train.parquet" if form == "parquet file" else f"hub:{folder}"
    read = read_labelled(source)
    assert read.examples == [Labelled("one", None, "good"), Labelled("two", None, "bad")]
    assert skips(read) == {"no label": (1, 3)}
    tagged = balanced(read_tagged(source))
    assert tagged.examples[0] == Tagged(("a", "b"), ("B-PER", "I-PER"))


def test_splits_and_errors_of_the_hub(tmp_path, datasets, labelled):
    folder = tmp_path / "set"
    folder.mkdir()
    labelled.to_parquet(folder / "train.parquet")
    labelled.select([0]).to_parquet(folder / "test.parquet")
    assert len(read_labelled(f"hub:{folder}::test").examples) == 1
    assert len(read_labelled(f"hub:{folder}::train[:2]").examples) == 2
    with one_line_error(f"hub:{folder}::dev cannot be loaded"):
        read_labelled(f"hub:{folder}::dev")
    with one_line_error("hub:nobody/nothing cannot be loaded"):
        read_labelled("hub:nobody/nothing")


def test_nested_rows_of_the_hub(tmp_path, datasets):
    asked = {
        "id": ["q"],
        "question": ["Who?"],
        "context": ["A cat."],
        "answers": [{"text": ["cat"], "answer_start": [2]}],
    }
    translated = {"translation": [{"en": "cat", "de": "Katze"}]}
    for name, content in (("asked", asked), ("translated", translated)):
        datasets.Dataset.from_dict(content).save_to_disk(tmp_path / name)
    assert read_asked(f"hub:{tmp_path}/asked").examples == [
        SquadExample("q", "Who?", "A cat.", (SquadAnswer("cat", 2),))
    ]
    assert read_parallel(f"hub:{tmp_path}/translated").examples == [Parallel("cat", "Katze")]
