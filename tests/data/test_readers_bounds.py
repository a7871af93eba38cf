"""Readers take time and memory in step with a file; what is absurdly wide, long or deep is read, or refused."""

import json
import re
import resource
import subprocess
import sys
from functools import partial

import pytest
from reader_checks import one_line_error, skips

from glassformer.data.conll import read_tagged
from glassformer.data.documents import read_documents
from glassformer.data.labels import written_list
from glassformer.data.parallel import read_parallel
from glassformer.data.report import ReadReport
from glassformer.data.rows import json_value
from glassformer.data.squad import read_asked
from glassformer.data.table import read_labelled

READ = "import sys\nfrom glassformer.data.table import read_labelled\nprint(len(read_labelled({}).examples))"
WIDE = 200_000  # columns: a look through all names for each of them takes minutes
LONG = 9_999_990  # characters of a cell: a hundred bytes for each is nearly a gigabyte
TOO_LONG = "x " * 5_000_001
DEEP = 100_000


def examples_read(arguments: str, *, seconds: int = 30, memory: int = 1 << 30) -> int:
    """How many examples a process reads that may use so many seconds of a processor, and so many bytes."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

    done = subprocess.run(
        [sys.executable, "-c", READ.format(arguments)], preexec_fn=limit, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-300:]
    return int(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("label", ["one", "many"])
def test_a_table_may_be_very_wide(tmp_path, label):
    names = [f"c{number}" for number in range(WIDE)]
    rows = [f"text {number},{'0,' * (WIDE - 1)}1" for number in range(3)]
    (tmp_path / "wide.csv").write_text("\n".join([",".join(["text", *names]), *rows]))
    wanted = "'c7'" if label == "one" else f"'+'.join(f'c{{n}}' for n in range({WIDE})), kind='multi-label'"
    columns = wanted.replace("), kind", ")}, kind") if label == "many" else wanted + "}"
    assert examples_read(f"{str(tmp_path / 'wide.csv')!r}, {{'text': 'text', 'label': {columns}") == 3


def test_an_error_about_a_wide_table_is_short(tmp_path):
    (tmp_path / "wide.csv").write_text(",".join(f"c{number}" for number in range(5000)) + "\n" + "0," * 4999 + "0\n")
    for columns in (None, {"text": "nothing", "label": "c1"}):
        with pytest.raises(ValueError, match="'c19' and 4980 more") as error:
            read_labelled(tmp_path / "wide.csv", columns)
        assert len(str(error.value)) < 700


def test_columns_of_one_name_go_by_their_numbers(tmp_path):
    (tmp_path / "x.csv").write_text("text,2,,label,label\nhello,a,b,c,d\nbye,a,b,e,f\n")
    read = read_labelled(tmp_path / "x.csv", {"text": "text", "label": "4"})
    assert [one.label for one in read.examples] == ["d", "f"]


@pytest.mark.parametrize("cell", ["ab ", 'ab"" '])
def test_a_quoted_cell_may_be_very_long(tmp_path, cell):
    (tmp_path / "long.csv").write_text(f'text,label\n"{cell * (LONG // len(cell))}",1\n"x",0\n')
    assert examples_read(repr(str(tmp_path / "long.csv"))) == 2


TOO_LONG_FILES = {
    "a.csv": (f'text,label\nx,0\n"x\ny",1\n"{TOO_LONG}",1\n', read_labelled, "line 5, column 'text' has 10,000,002"),
    "a.tsv": (f"text\tlabel\nx\t0\n{TOO_LONG}\t1\n", read_labelled, "line 3, column 'text' has 10,000,002"),
    "a.jsonl": (json.dumps({"text": TOO_LONG, "label": "1"}), read_labelled, "line 1, column 'text' has 10,000,002"),
    "b.jsonl": (json.dumps({"words": [TOO_LONG], "tags": ["O"]}), read_tagged, "line 1, column 'words' has 10,000,003"),
    "a.json": (json.dumps([{"text": TOO_LONG, "label": "1"}]), read_labelled, "row 1, column 'text' has 10,000,002"),
    "pos=a.txt": (f"x\n{TOO_LONG}\n", read_labelled, "line 2, column 'text' has 10,000,002"),
    "a.conll": (f"x O\n{TOO_LONG}O\n", read_tagged, "line 2 has 10,000,004"),
    "b.txt": (f"x\n{TOO_LONG}\n", partial(read_documents, unit="line"), "line 2 has 10,000,003"),
}


@pytest.mark.parametrize("name", TOO_LONG_FILES)
def test_a_text_that_is_too_long_is_refused_with_its_place(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    content, read, said = TOO_LONG_FILES[name]
    file = name.partition("=")[2] or name
    (tmp_path / file).write_text(content)
    with pytest.raises(ValueError, match="^" + re.escape(f"{file}, {said} characters; 10,000,000 are the most ")):
        read(name)


def test_a_side_that_is_too_long_is_refused_with_its_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.en").write_text("x\ny\n")
    (tmp_path / "a.de").write_text(f"x\n{TOO_LONG}\n")
    with pytest.raises(ValueError, match="^a.de, line 2 has 10,000,003 characters; 10,000,000 are the most"):
        read_parallel(["a.en", "a.de"])


def test_running_text_on_a_single_line_comes_in_pieces(tmp_path):
    (tmp_path / "one.txt").write_text(TOO_LONG * 2)
    texts = [one.text for one in read_documents(tmp_path / "one.txt").examples]
    assert len(texts) > 1
    assert "".join(texts) == TOO_LONG * 2
    assert all(text.endswith(" ") for text in texts)


def test_the_first_columns_of_a_wide_table_are_named_and_none_is_guessed(tmp_path):
    """To look at the cells of each of them for a text or a label takes long, and would help nobody."""
    (tmp_path / "wide.csv").write_text(",".join(f"c{n}" for n in range(2000)) + "\n" + ("0," * 1999 + "0\n") * 3)
    with pytest.raises(ValueError, match="no column is known to be the text: .*'c19' and 1980 more…?$"):
        read_labelled(tmp_path / "wide.csv")


@pytest.mark.slow
def test_a_list_of_labels_may_be_very_long(tmp_path):
    (tmp_path / "labels.csv").write_text('text,label\nx,"[' + "'a', " * (LONG // 20) + ']"\ny,b\n')
    assert examples_read(f"{str(tmp_path / 'labels.csv')!r}, kind='multi-label'") == 2


@pytest.mark.parametrize(
    ("cell", "found"),
    [
        ("['joy', 'fear']", ["joy", "fear"]),
        ('["joy", 1.0, true]', ["joy", 1.0, True]),
        (r"['it\'s', " + '"so"' + ", 2,]", ["it's", "so", "2"]),
        ("[]", []),
        ("[ 'a' ]", ["a"]),
        ("[spam]", None),
        ("joy, fear", None),
        ("[sic] joy", None),
        ("[__import__('os')]", None),
        ("[['a'], 'b']", [None]),  # a list, and no list of labels
        ("[" * DEEP + "]" * DEEP, [None]),
        ("['a', " * 1000, None),
    ],
)
def test_a_list_that_a_cell_spells(cell, found):
    assert written_list(cell) == found


@pytest.mark.parametrize("depth", [101, 990, DEEP])
def test_json_that_is_nested_too_deep_is_not_read(tmp_path, depth):
    deep = "[" * depth + "]" * depth
    with pytest.raises(ValueError, match="nested more than 100 deep"):
        json_value(deep)
    (tmp_path / "x.jsonl").write_text(f'{{"text": {deep}}}\n{{"text": "a", "label": "b"}}\n')
    assert skips(read_labelled(tmp_path / "x.jsonl")) == {"not valid JSON": (1, 1)}
    (tmp_path / "x.json").write_text(f'{{"data": {deep}}}')
    for read in (read_labelled, read_asked, read_tagged, read_parallel, read_documents):
        with one_line_error("x.json is not valid JSON (nested more than 100 deep)"):
            read(tmp_path / "x.json")


def test_json_that_is_wide_and_not_deep_is_read():
    value = [{"a": [number]} for number in range(1000)]
    assert json_value(json.dumps(value)) == value
    assert json_value("[" * 100 + "]" * 100)


@pytest.mark.parametrize(
    "paragraphs", ['[1, {"context": "c", "qas": [1, null, {"question": []}]}, {"context": 3, "qas": {"a": 1}}]', "7"]
)
def test_squads_form_with_odd_things_in_it(tmp_path, paragraphs):
    (tmp_path / "x.json").write_text(f'{{"data": [{{"paragraphs": {paragraphs}}}]}}')
    with one_line_error("x.json"):
        read_asked(tmp_path / "x.json")


def test_the_account_of_many_files_is_quick_to_keep():
    report = ReadReport()
    for _ in range(2):
        for number in range(30_000):
            report.take(f"{number}.txt", "a document is: file")
    assert len(report.taken["a document is: file"]) == 30_000
