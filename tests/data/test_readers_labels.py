"""Labels of every kind: classes as text, several at once in every spelling, scores that are numbers, one for a file."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reader_checks import as_csv, as_jsonl, balanced, one_line_error, pairs, skips, written

from glassformer.data.examples import Labelled
from glassformer.data.table import read_labelled


@pytest.mark.parametrize(
    ("cell", "label"),
    [(1, "1"), (1.0, "1"), (0.5, "0.5"), (True, "true"), (" a ", "a"), (None, None), (float("nan"), None), ([1], None)],
)
def test_classes_are_text(tmp_path, cell, label):
    read = read_labelled(written(tmp_path, as_jsonl([("a", cell), ("b", "x")]), "x.jsonl"))
    assert pairs(read) == [*([("a", label)] if label else []), ("b", "x")]


def test_a_text_that_is_no_string_is_counted(tmp_path):
    read = read_labelled(written(tmp_path, as_jsonl([(["a"], "x"), ({}, "x"), (5, "x"), (None, "x")]), "x.jsonl"))
    assert pairs(read) == [("5", "x")]
    assert skips(read) == {"the text is not a string": (2, 1), "an empty text": (1, 4)}


@given(scores=st.lists(st.floats() | st.sampled_from(["", "n/a", "3,5"]), min_size=1))
@pytest.mark.parametrize("name", ["x.csv", "x.jsonl"])
def test_scores_are_finite_numbers(tmp_path, scores, name):
    rows = [("a", score) for score in scores]
    path = written(tmp_path, as_csv(rows, ("text", "score")) if name == "x.csv" else as_jsonl(rows), name)
    good = [one for one in scores if isinstance(one, float) and abs(one) < float("inf")]
    if not good:
        with one_line_error("no example to use", f"skipped {len(scores)}: a score that is not a finite number"):
            read_labelled(path, kind="regression")
    else:
        read = read_labelled(path, kind="regression")
        assert [one.label for one in balanced(read).examples] == good


@given(labels=st.lists(st.lists(st.sampled_from(["joy", "fear", "big news"]), unique=True), min_size=1))
@settings(max_examples=25)
@pytest.mark.parametrize("separator", [",", "|", ";", "list", "written list", "flags"])
def test_several_labels_in_every_spelling(tmp_path, labels, separator):
    names = ["fear", "joy", "big news"]
    if separator == "list":
        content, name = as_jsonl([("a", one) for one in labels]), "x.jsonl"
    elif separator == "flags":
        flags = [(number, "a", *(int(name in one) for name in names)) for number, one in enumerate(labels, 2)]
        content, name = as_csv(flags, ("id", "text", *names)), "x.csv"
    else:
        spell = str if separator == "written list" else separator.join
        content, name = as_csv([("a", spell(one)) for one in labels]), "x.csv"
    read = read_labelled(written(tmp_path, content, name), kind="multi-label")
    assert [sorted(one.label) for one in balanced(read).examples] == [sorted(one) for one in labels]


@pytest.mark.parametrize(
    ("cell", "labels"),
    [("[sic], b", ("[sic]", "b")), ("a, a,", ("a",)), ("[1, 'b']", ("1", "b")), ("", ()), ("[]", ())],
)
def test_a_cell_of_several_labels(tmp_path, cell, labels):
    read = read_labelled(written(tmp_path, as_csv([("a", cell), ("b", "c,d")])), kind="multi-label")
    assert [one.label for one in read.examples] == [labels, ("c", "d")]


def test_label_columns_may_be_named(tmp_path):
    path = written(tmp_path, as_csv([("a", 1, 0, 1), ("b", 0, 0, 2)], ("text", "p", "q", "r")))
    read = read_labelled(path, {"label": "p+r"}, kind="multi-label")
    assert read.examples == [Labelled("a", None, ("p", "r"))]
    assert skips(read) == {"no labels that can be read": (1, 3)}
    with one_line_error("2 label columns (p+r)", "classes"):
        read_labelled(path, {"label": "p+r"})


def test_a_label_for_each_file(tmp_path):
    good, bad = written(tmp_path, "fine\nwell, done\n", "good.txt"), written(tmp_path, "poor\n", "bad.txt")
    read = read_labelled([f"pos={good}", f"neg={bad}"])
    assert pairs(read) == [("fine", "pos"), ("well, done", "pos"), ("poor", "neg")]
    assert read_labelled(f"x={good}", kind="multi-label").examples[0].label == ("x",)
    assert read_labelled(f"4.5={good}", kind="regression").examples[0].label == 4.5
    with one_line_error("pos=FILE", "finite number"):
        read_labelled(f"pos={good}", kind="regression")


def test_the_first_word_as_label(tmp_path):
    path = written(tmp_path, b"NUM:dist How far ?\r\nlonely\nHUM:ind Who\xf0 ?\n", "TREC.train")
    read = read_labelled(path, file_format="first-word")
    assert pairs(read) == [("How far ?", "NUM:dist"), ("Whoð ?", "HUM:ind")]
    assert skips(read) == {"an empty text": (1, 2)}
    assert [(tally.count, tally.first.number) for tally in read.report.noted.values()] == [(1, 3)]
