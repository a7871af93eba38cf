"""Parallel texts: two files or one table, the same pairs; what has no other side is counted or refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reader_checks import balanced, give_stdin, one_line_error, skips

from glassformer.data.examples import Parallel
from glassformer.data.parallel import read_parallel

SIDE = st.text(st.characters(codec="utf-8", exclude_characters="\0\t\r\n"))
PAIRS = st.lists(st.tuples(SIDE, SIDE), min_size=1, max_size=8)


def written(tmp_path, content, name):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8", newline="")
    return path


@given(pairs=PAIRS, end=st.sampled_from(["\n", "\r\n"]), form=st.sampled_from(["files", "tsv", "jsonl", "nested"]))
def test_the_same_pairs_from_every_form(tmp_path, pairs, end, form):
    pairs = [("first", "erster"), *pairs]
    if form == "files":
        sources = [
            written(tmp_path, "".join(pair[side] + end for pair in pairs), name)
            for side, name in enumerate(["x.en", "x.de"])
        ]
    elif form == "tsv":
        sources = written(tmp_path, "".join(f"{a}\t{b}{end}" for a, b in [("source", "target"), *pairs]), "x.tsv")
    else:
        rows = [{"en": a, "de": b} for a, b in pairs]
        content = "".join(json.dumps({"translation": row} if form == "nested" else row) + end for row in rows)
        sources = written(tmp_path, content, "x.jsonl")
    read = balanced(read_parallel(sources))
    whole = [(a, b) for a, b in pairs if a.strip() and b.strip()]
    assert [(one.source, one.target) for one in read.examples] == whole
    assert sum(count for count, _ in skips(read).values()) == len(pairs) - len(whole)


@pytest.mark.parametrize(("left", "right"), [(3, 2), (2, 3), (1, 2000), (2000, 1)])
def test_files_of_unequal_length_are_refused_with_both_counts(tmp_path, left, right):
    sources = [written(tmp_path, "a\n" * left, "x.en"), written(tmp_path, "b\n" * right, "x.de")]
    with one_line_error(f"x.en has {left} lines", f"x.de has {right}"):
        read_parallel(sources)


def test_an_empty_side_is_counted_with_its_line(tmp_path):
    sources = [written(tmp_path, "a\n\nc\n", "x.en"), written(tmp_path, "A\nB\n \n", "x.de")]
    read = read_parallel(sources)
    assert read.examples == [Parallel("a", "A")]
    assert skips(read) == {"an empty side": (2, 2)}
    assert read.report.lines()[0] == f"read 3 rows from {sources[0]} and {sources[1]}"


@pytest.mark.parametrize(
    ("header", "taken"),
    [
        ("source\ttarget", ("source", "target")),
        ("target\tsource", ("source", "target")),
        ("id\tsrc\ttgt", ("src", "tgt")),
        ("en\tde", ("en", "de")),
        ("id\tde\ten", ("de", "en")),
        ("German\tEnglish", ("German", "English")),
    ],
)
def test_the_columns_of_a_table(tmp_path, header, taken):
    names = header.split("\t")
    rows = [[f"{row}" if name == "id" else f"{name} {row}" for name in names] for row in range(3)]
    path = written(tmp_path, "\n".join([header, *("\t".join(row) for row in rows)]), "x.tsv")
    read = balanced(read_parallel(path))
    assert read.examples == [Parallel(f"{taken[0]} {row}", f"{taken[1]} {row}") for row in range(3)]
    assert f"source: column {taken[0]!r}; target: column {taken[1]!r}" in read.report.taken


def test_the_first_two_columns_where_there_is_no_header(tmp_path):
    path = written(tmp_path, "Go.\tVa !\tCC-BY\nHi.\tSalut !\tCC-BY\n", "fra.txt")
    assert read_parallel(path).examples == [Parallel("Go.", "Va !"), Parallel("Hi.", "Salut !")]
    turned = read_parallel(path, {"source": 1, "target": 0})
    assert turned.examples == [Parallel("Va !", "Go."), Parallel("Salut !", "Hi.")]


def test_one_column_may_be_named_and_the_other_is_found(tmp_path):
    path = written(tmp_path, '{"translation": {"en": "a", "de": "b", "fr": "c"}}\n', "x.jsonl")
    assert read_parallel(path).examples == [Parallel("a", "b")]
    assert read_parallel(path, {"target": "fr"}).examples == [Parallel("a", "c")]
    assert read_parallel(path, {"source": "fr"}).examples == [Parallel("c", "a")]
    with one_line_error("no column 'it'", "'en', 'de', 'fr'"):
        read_parallel(path, {"target": "it"})


def test_rows_that_have_no_such_texts_are_counted(tmp_path):
    rows = [{"source": "a", "target": "b"}, {"source": "a"}, {"source": 3, "target": "b"}, {"target": "b"}]
    read = read_parallel(written(tmp_path, "".join(json.dumps(row) + "\n" for row in rows), "x.jsonl"))
    assert read.examples == [Parallel("a", "b")]
    assert skips(read) == {"a side that is not a text": (3, 2)}


def test_sources_alone_are_for_prediction(tmp_path, monkeypatch):
    path = written(tmp_path, "one\n\nthree\n", "x.en")
    assert read_parallel(path, require_target=False).examples == [Parallel("one"), Parallel(""), Parallel("three")]
    give_stdin(monkeypatch, b"one\n")
    assert read_parallel("-", require_target=False).examples == [Parallel("one")]
    with one_line_error("x.en is plain text", "two such files"):
        read_parallel(path)
    table = written(tmp_path, "a\tb\n", "x.tsv")
    with one_line_error("x.en is plain text"):
        read_parallel([path, table], require_target=False)
    with one_line_error("--columns target=NAME"):
        read_parallel(written(tmp_path, '{"source": "a"}\n', "x.jsonl"))


def test_tables_follow_one_another(tmp_path):
    paths = [written(tmp_path, "a\tb\n", "x.tsv"), written(tmp_path, "c\td\n", "y.txt")]
    assert read_parallel(paths).examples == [Parallel("a", "b"), Parallel("c", "d")]
