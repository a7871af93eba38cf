"""Tables to labelled texts: what was written is read, in every format; what is broken costs itself alone."""

import csv
import json
import shlex

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from reader_checks import (
    COMPRESS,
    as_csv,
    as_jsonl,
    balanced,
    give_stdin,
    notes,
    one_line_error,
    pairs,
    skips,
    written,
)

from glassformer.data.examples import Labelled
from glassformer.data.table import read_labelled

ANY = st.characters(codec="utf-8", exclude_characters="\0")
INLINE = st.characters(codec="utf-8", exclude_characters="\0\t\r\n")
LABEL = st.text(st.characters(codec="utf-8", categories=["L", "N", "P"], exclude_characters="\0"), min_size=1)


def rows_of(characters):
    text = st.text(characters, min_size=1).filter(lambda text: bool(text.strip()))
    return st.lists(st.tuples(text, LABEL), min_size=1, max_size=8)


@given(
    rows=rows_of(ANY),
    quoting=st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC]),
    delimiter=st.sampled_from([",", ";", "\t", "|"]),
)
@example(rows=[('a,b\n"c"\r\n;d\t|', "x")], quoting=csv.QUOTE_MINIMAL, delimiter=",")
def test_a_csv_is_read_as_it_was_written(tmp_path, rows, quoting, delimiter):
    path = written(tmp_path, as_csv(rows, quoting=quoting, delimiter=delimiter))
    assert pairs(read_labelled(path)) == rows


@given(rows=rows_of(INLINE), end=st.sampled_from(["\n", "\r\n"]), last=st.booleans())
def test_a_tsv_is_read_as_it_was_written(tmp_path, rows, end, last):
    lines = end.join(f"{text}\t{label}" for text, label in [("text", "label"), *rows])
    path = written(tmp_path, lines + end * last, "x.tsv")
    assert pairs(read_labelled(path)) == rows


@given(rows=rows_of(ANY), ascii_only=st.booleans(), name=st.sampled_from(["x.jsonl", "x.json"]))
def test_json_lines_are_read_as_they_were_written(tmp_path, rows, ascii_only, name):
    assume(name == "x.jsonl" or len(rows) > 1)
    path = written(tmp_path, as_jsonl(rows, ensure_ascii=ascii_only), name)
    assert pairs(read_labelled(path)) == rows


@given(
    rows=rows_of(ANY),
    indent=st.sampled_from([None, 2]),
    inside=st.booleans(),
    name=st.sampled_from(["x.json", "x.jsonl", "noname"]),
)
def test_a_json_array_is_read_as_it_was_written(tmp_path, rows, indent, inside, name):
    value = [{"text": text, "label": label} for text, label in rows]
    assume(not (inside and name == "x.jsonl"))
    path = written(tmp_path, json.dumps({"version": 1, "data": value} if inside else value, indent=indent), name)
    assert pairs(read_labelled(path)) == rows


@given(
    rows=rows_of(INLINE),
    suffix=st.sampled_from(list(COMPRESS)),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
def test_compression_and_encoding_do_not_change_a_table(tmp_path, rows, suffix, encoding):
    content = COMPRESS[suffix](as_csv(rows).encode(encoding))
    assert pairs(read_labelled(written(tmp_path, content, f"x.csv{suffix}"))) == rows


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (as_csv([("a b", "x"), ("c d", "y")]), "format: csv"),
        ("a b\tx\nc d\ty\n", "format: tsv"),
        (as_jsonl([("a b", "x"), ("c d", "y")]), "format: jsonl"),
        (json.dumps([{"text": "a b", "label": "x"}, {"text": "c d", "label": "y"}]), "format: json"),
    ],
)
def test_the_format_of_standard_input_is_found_out(monkeypatch, content, says):
    give_stdin(monkeypatch, content.encode())
    read = read_labelled("-")
    assert pairs(read) == [("a b", "x"), ("c d", "y")]
    assert says in read.report.taken


def test_plain_lines_are_texts(tmp_path):
    path = written(tmp_path, "Hello, world\n\n[sic] and, so, on\n", "x.txt")
    read = read_labelled(path, require_target=False)
    assert read.examples == [Labelled("Hello, world"), Labelled(""), Labelled("[sic] and, so, on")]
    with one_line_error(str(path), "LABEL=FILE", "first-word"):
        read_labelled(path)


def test_a_known_word_and_a_comma_do_not_make_a_table(tmp_path):
    path = written(tmp_path, "Question, and answer\nno comma here\na, b, c\nnor here\n", "x.txt")
    assert len(read_labelled(path, require_target=False).examples) == 4


@pytest.mark.parametrize("name", ["x.json", "x.jsonl", "noname"])
def test_an_array_may_have_an_object_on_each_line(tmp_path, name):
    for count in (1, 3):
        rows = [(f"text {at}", "x") for at in range(count)]
        content = "[\n" + as_jsonl(rows).rstrip("\n").replace("}\n", "},\n") + "\n]\n"
        assert pairs(read_labelled(written(tmp_path, content, name))) == rows


def test_one_json_object_is_one_row(tmp_path):
    path = written(tmp_path, '{"text": "a", "label": "x", "spans": [{"start": 1}]}', "x.json")
    assert pairs(read_labelled(path)) == [("a", "x")]


def test_a_tsv_with_quotes_that_do_not_match_loses_no_line(tmp_path):
    rows = [('"Open', "0"), ("fine", "1"), ('close"', "0"), ('"', "1"), ('5" pipe', "0")]
    path = written(tmp_path, "sentence\tlabel\n" + "".join(f"{a}\t{b}\n" for a, b in rows), "x.tsv")
    assert pairs(read_labelled(path)) == rows


@given(
    rows=rows_of(INLINE), at=st.integers(0, 8), broken=st.sampled_from(['"never closed,x', 'a "b" "c,"x"y,', '"a"b,x'])
)
def test_a_broken_csv_record_costs_its_own_line_alone(tmp_path, rows, at, broken):
    assume(all(text[0] not in ',"' for text, _ in rows))  # which would close the quote as if it were meant
    lines = as_csv(rows, quoting=csv.QUOTE_ALL).split("\r\n")
    at = min(at, len(rows)) + 1
    path = written(tmp_path, "\r\n".join([*lines[:at], broken, *lines[at:]]))
    read = read_labelled(path)
    assert pairs(read) == rows
    assert list(skips(read).values()) == [(1, at + 1)]


def test_quotes_left_open_for_ever_do_not_take_the_file(tmp_path):
    rows = [(f"text {number}", "x") for number in range(12_000)]
    path = written(tmp_path, 'text,label\n"open,x\n' + as_csv(rows, header=None))
    read = read_labelled(path)
    assert pairs(read) == rows
    assert skips(read) == {"quotes that do not match": (1, 2)}


@pytest.mark.parametrize("name", ["x.csv", "x.tsv"])
def test_a_wrong_number_of_fields_is_counted_with_its_line(tmp_path, name):
    between = "," if name == "x.csv" else "\t"
    lines = ["text,label", "a,1", "b", "c,1,2", "", "d,0"]
    read = read_labelled(written(tmp_path, "\n".join(lines).replace(",", between) + "\n", name))
    assert pairs(read) == [("a", "1"), ("d", "0")]
    assert skips(read) == {"a wrong number of fields": (2, 3), "a blank line": (1, 5)}


def test_broken_json_lines_are_counted_with_their_line(tmp_path):
    lines = ['{"text": "a", "lab', '{"text": "b", "label": "x"}', "[1]", "", "7", '{"text": "c", "label": "y"}']
    read = read_labelled(written(tmp_path, "\n".join(lines), "x.jsonl"))
    assert pairs(read) == [("b", "x"), ("c", "y")]
    assert skips(read) == {"not valid JSON": (1, 1), "not a JSON object": (2, 3), "a blank line": (1, 4)}


@pytest.mark.parametrize(("name", "content"), [("x.json", '[{"text": "a"},'), ("x.json", "7"), ("x.json", '["a"]')])
def test_a_json_file_of_something_else_is_refused(tmp_path, name, content):
    with one_line_error(str(tmp_path / name)):
        read_labelled(written(tmp_path, content, name))


def test_a_cell_of_a_megabyte(tmp_path):
    text = "word " * 200_000
    for name, content in (("x.csv", as_csv([(text, "x")])), ("x.jsonl", as_jsonl([(text, "x")]))):
        assert pairs(read_labelled(written(tmp_path, content, name))) == [(text, "x")]


@given(rows=rows_of(INLINE), label_first=st.booleans())
def test_a_file_without_a_header_by_number(tmp_path, rows, label_first):
    lines = [f"{label}\t{text}" if label_first else f"{text}\t{label}" for text, label in rows]
    path = written(tmp_path, "\n".join(lines), "x.tsv")
    columns = {"text": "1", "label": "0"} if label_first else {"text": 0, "label": 1}
    read = read_labelled(path, columns, header=False)
    assert pairs(read) == rows
    assert "no header, 2 columns called by their number from 0" in read.report.taken


@pytest.mark.parametrize("label_first", [True, False])
def test_two_columns_without_a_header_are_told_apart_by_their_looks(tmp_path, label_first):
    rows = [("a good film", "pos"), ("a bad film indeed", "neg"), ("not so good", "neg"), ("quite good", "pos")]
    lines = [f"{label}\t{text}" if label_first else f"{text}\t{label}" for text, label in rows]
    assert pairs(read_labelled(written(tmp_path, "\n".join(lines), "x.tsv"))) == rows


def test_scores_without_a_header_are_told_from_texts(tmp_path):
    path = written(tmp_path, "a good film\t4.5\na bad film\t0.25\n", "x.tsv")
    assert pairs(read_labelled(path, kind="regression")) == [("a good film", 4.5), ("a bad film", 0.25)]
    with one_line_error("--columns text=NAME", "'0', '1'"):
        read_labelled(written(tmp_path, "a good film\tgood\na bad film\tbad\n", "x.tsv"), kind="regression")


def test_the_only_column_that_is_left_is_the_text(tmp_path):
    assert pairs(read_labelled(written(tmp_path, "phrase,label\na,x\nb,y\n"))) == [("a", "x"), ("b", "y")]
    assert pairs(read_labelled(written(tmp_path, "b,1\na,2\n"), {"label": "0"})) == [("1", "b"), ("2", "a")]
    single = read_labelled(written(tmp_path, '"one, two"\nthree\n'), require_target=False)
    assert pairs(single) == [("one, two", None), ("three", None)]


@pytest.mark.parametrize(
    ("header", "headed"),
    [
        ("sentence,label", True),
        ("Review,Sentiment", True),
        ("id,body", True),  # numbers below a name
        ("whatever,kind", True),  # few values below a name that is none of them
        ("3,good", False),
        ("4,question", False),  # a name that is known, and a value too
    ],
)
def test_a_header_is_told_from_a_row(tmp_path, header, headed):
    rows = ["1,good", "2,bad", "3,good", "4,bad", "5,question", "6,bad"]
    read = read_labelled(
        written(tmp_path, "\n".join([header, *rows])), {"text": "0", "label": "1"}, require_target=False
    )
    assert len(balanced(read).examples) == (6 if headed else 7)


def test_a_header_may_be_declared_or_denied(tmp_path):
    path = written(tmp_path, "yes,no\nup,down\n")
    assert pairs(read_labelled(path, {"text": "0", "label": "1"}, header=True)) == [("up", "down")]
    assert len(read_labelled(path, {"text": "0", "label": "1"}, header=False).examples) == 2


@pytest.mark.parametrize(
    ("name", "rows", "asks"),
    [
        ("x.csv", ["foo,bar", "a film,good", "a book,bad"], True),
        ("x.csv", ["my text,the kind", "a film,good"], True),
        ("x.csv", ["foo,bar", "a film,good", "a book,bad", "a foo,bar"], False),  # a label comes again
        ("x.csv", ["A film.,bar", "a film,good", "a book,bad"], False),  # no name has a full stop
        ("x.tsv", ["foo\tbar", "a film\tgood", "a book\tbad", "a song\tgood"], True),
        ("x.tsv", ["a film\tgood", "a book\tbad"], False),  # nothing tells the first row from the others
    ],
)
def test_a_first_row_that_might_be_a_header_is_asked_about(tmp_path, name, rows, asks):
    path = written(tmp_path, "\n".join(rows), name)
    first = [tuple(row.split("\t" if name == "x.tsv" else ",")) for row in rows]
    text, label = first[0]
    assert pairs(read_labelled(path, header=False)) == first
    if not asks:
        assert pairs(read_labelled(path)) == first
        return
    with one_line_error(f"text={shlex.quote(text)}", f"--columns label={shlex.quote(label)}", "--set header=false"):
        read_labelled(path)
    assert pairs(read_labelled(path, {"text": text, "label": label})) == first[1:]


def test_names_that_say_nothing_are_listed_with_both_ways_out(tmp_path):
    rows = [f"a film {number},{kind}" for number, kind in enumerate(["good", "bad"] * 3)]
    ways = ("'foo', 'bar'", "--columns text=foo --columns label=bar", "--set header=false")
    with one_line_error(*ways):
        read_labelled(written(tmp_path, "\n".join(["foo,bar", *rows])))


def test_columns_without_a_name_of_their_own_go_by_number(tmp_path):
    path = written(tmp_path, ",text,label,label\n0,a,x,y\n1,b,y,x\n")
    assert pairs(read_labelled(path)) == [("a", "x"), ("b", "y")]
    assert pairs(read_labelled(path, {"label": "3"})) == [("a", "y"), ("b", "x")]


NAMES = [
    (("sentence", "label"), ("sentence", None, "label")),
    (("label", "text_a"), ("text_a", None, "label")),
    (("id", "review", "sentiment"), ("review", None, "sentiment")),
    (("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"), ("#1 String", "#2 String", "Quality")),
    (("premise", "hypothesis", "label", "gold_label"), ("premise", "hypothesis", "gold_label")),
    (("question1", "question2", "is_duplicate"), ("question1", "question2", "is_duplicate")),
    (("question", "sentence", "label"), ("question", "sentence", "label")),
    (("QUESTION", "CATEGORY"), ("QUESTION", None, "CATEGORY")),
    (("sentence1", "sentence2", "score", "label"), ("sentence1", "sentence2", "label")),
]


@pytest.mark.parametrize(("names", "taken"), NAMES)
@pytest.mark.parametrize("name", ["x.csv", "x.jsonl"])
def test_columns_are_known_by_their_names_and_said(tmp_path, names, taken, name):
    row = [f"cell of {column}" for column in names]
    content = as_csv([row], names) if name == "x.csv" else as_jsonl([row], names)
    read = balanced(read_labelled(written(tmp_path, content, name)))
    text, pair, label = (column and f"cell of {column}" for column in taken)
    assert read.examples == [Labelled(text, pair, label)]
    said = f"text: column {taken[0]!r}" + (f"; pair: column {taken[1]!r}" if taken[1] else "")
    assert list(read.report.taken) == [said, f"label: column {taken[2]!r}"]


def test_the_user_overrides_by_name_or_number(tmp_path):
    path = written(tmp_path, as_csv([("a", "b", "c")], ("text", "label", "other")))
    read = read_labelled(path, {"text": "other", "label": "0", "pair": 1})
    assert read.examples == [Labelled("c", "b", "a")]


def test_a_column_that_is_missing_is_an_error_that_lists_what_there_is(tmp_path):
    path = written(tmp_path, as_csv([(1, "b", "c"), (2, "c", "c")], ("id", "body_of_text", "kind")))
    with one_line_error(str(path), "--columns text=NAME", "'id', 'body_of_text', 'kind'"):
        read_labelled(path)
    with one_line_error(str(path), "--columns label=NAME", "'kind'"):
        read_labelled(path, {"text": "body_of_text"})
    with one_line_error(str(path), "no column 'body'", "--columns text=NAME"):
        read_labelled(path, {"text": "body"})
    with one_line_error("no role 'txt'", "text, pair, label"):
        read_labelled(path, {"txt": "kind"})


def test_columns_without_names_are_shown_and_suggested_and_not_guessed(tmp_path):
    rows = [(f"g{n}", n % 2, "", f"The sentence with the number {n}.") for n in range(30)]
    path = written(tmp_path, as_csv(rows, None, delimiter="\t"), "x.tsv")
    with one_line_error(
        "'0', '1', '2', '3'", "The sentence with the number 0.", "perhaps --columns text=3 --columns label=1"
    ):
        read_labelled(path)
    with one_line_error("is not known: use one of csv, tsv"):
        read_labelled(path, file_format="xls")
    with one_line_error("kind='class'"):
        read_labelled(path, kind="class")


def test_longer_lines_are_kept_where_columns_are_numbers_and_there_is_no_header(tmp_path):
    path = written(tmp_path, "1\ta\n0\tb\n1\tc\tattribution\n0\n", "x.tsv")
    read = read_labelled(path, {"label": 0, "text": 1})
    assert pairs(read) == [("a", "1"), ("b", "0"), ("c", "1")]
    assert notes(read) == {"more fields than most lines: the last ones left out": (1, 3)}
    assert skips(read) == {"a wrong number of fields": (1, 4)}
    assert skips(read_labelled(path)) == {"a wrong number of fields": (2, 3)}


def test_empty_texts_and_labels_are_counted_in_training_and_kept_in_prediction(tmp_path):
    rows = [("a", "x"), ("", "x"), ("b", ""), ("  ", "y"), ("c", " y ")]
    path = written(tmp_path, as_csv(rows))
    read = read_labelled(path)
    assert pairs(read) == [("a", "x"), ("c", "y")]
    assert skips(read) == {"an empty text": (2, 3), "no label": (1, 4)}
    kept = read_labelled(path, require_target=False)
    assert pairs(kept) == [("a", "x"), ("", "x"), ("b", None), ("  ", "y"), ("c", "y")]


def test_a_file_without_rows_is_refused(tmp_path):
    for content, says in (("text,label\n", "no rows"), ("\n\n\n", "blank line"), ("", "is empty")):
        with one_line_error("x.csv", says):
            read_labelled(written(tmp_path, content))
