"""Running text: files and articles keep every character, blocks and lines what is between their borders."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reader_checks import COMPRESS, balanced, give_stdin, notes, one_line_error, skips

from glassformer.data import documents
from glassformer.data.documents import read_documents, stream_documents
from glassformer.data.examples import Document
from glassformer.data.report import ReadReport

LINE = st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n\ufeff"), max_size=8)
TITLED = st.lists(LINE | st.sampled_from(["", " ", " = Title = ", "= Other =", " = = Section = = ", " = "]), min_size=1)


def written(tmp_path, content, name="x.txt"):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


def texts(read):
    return [one.text for one in balanced(read).examples]


@given(lines=TITLED, end=st.sampled_from(["\n", "\r\n"]), last=st.booleans(), suffix=st.sampled_from(list(COMPRESS)))
@pytest.mark.parametrize("unit", ["file", "article"])
def test_files_and_articles_joined_are_the_file(tmp_path, lines, end, last, suffix, unit):
    text = "*" + end.join(lines) + end * last
    path = written(tmp_path, COMPRESS[suffix](text.encode("utf-8")), f"x.txt{suffix}")
    assert "".join(texts(read_documents(path, unit=unit))) == text


@settings(max_examples=30)
@given(
    blocks=st.lists(st.lists(LINE.filter(lambda line: bool(line.strip())), min_size=1), min_size=1),
    gap=st.integers(1, 3),
)
def test_blocks_and_lines(tmp_path, blocks, gap):
    whole = ["\n".join(block) for block in blocks]
    path = written(tmp_path, "\n" * (gap - 1) + ("\n" + " \n" * gap).join(whole))
    assert texts(read_documents(path, unit="block")) == whole
    assert texts(read_documents(path, unit="line")) == [line for block in blocks for line in block]


def test_articles_begin_at_titles_between_blank_lines(tmp_path):
    first = " \n = One = \n \n Text . \n \n = = Section = = \n \n a \n = Not One = \n b \n \n"
    second = " = Two = \n \n = not followed by a blank = \n c \n"
    assert texts(read_documents(written(tmp_path, first + second), unit="article")) == [first, second]


def test_a_very_long_text_comes_in_pieces_of_whole_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "LONGEST", 10)
    content = "four\n" * 5 + "x" * 30 + "\nend\n"
    read = read_documents(written(tmp_path, content))
    assert texts(read) == ["four\n" * 2, "four\n" * 2, "four\n" + "x" * 30 + "\n", "end\n"]
    assert notes(read) == {"a text of more than 10 characters: it comes in pieces": (3, 1)}


def test_documents_come_as_they_are_asked_for(tmp_path):
    """Nothing is read before the first is asked for, and what comes later may be broken."""
    paths = [written(tmp_path, "one", "a.txt"), written(tmp_path, "", "b.txt")]
    report = ReadReport()
    stream = stream_documents(paths, report=report)
    assert report.rows == {}
    assert next(stream) == Document("one")
    assert report.rows == {str(paths[0]): 1}
    with one_line_error("b.txt is empty"):
        next(stream)


@pytest.mark.parametrize("name", ["x.jsonl", "x.json"])
def test_rows_are_documents(tmp_path, name):
    rows = [
        {"title": "t", "paragraphs": ["a", "b"], "author": "Li"},
        {"title": "u", "paragraphs": []},
        {"paragraphs": "c\n\nd", "author": 7},
    ]
    content = json.dumps(rows) if name == "x.json" else "".join(json.dumps(row) + "\n" for row in rows)
    path = written(tmp_path, content, name)
    read = read_documents(path)
    assert read.examples == [Document("a\nb"), Document("c\n\nd")]
    assert skips(read) == {"an empty text": (1, 2)}
    assert "text: column 'paragraphs'" in read.report.taken
    assert read_documents(path, {"label": "author"}).examples == [Document("a\nb", "Li"), Document("c\n\nd", "7")]
    assert texts(read_documents(path, {"text": "title"})) == ["t", "u"]
    with one_line_error("no column 'body'", "'title', 'paragraphs', 'author'"):
        read_documents(path, {"text": "body"})


def test_a_table_is_known_by_its_name_alone(tmp_path, monkeypatch):
    content = "text\tlabel\na\tb\n"
    assert texts(read_documents(written(tmp_path, content))) == [content]
    assert texts(read_documents(written(tmp_path, content, "x.tsv"))) == ["a"]
    assert texts(read_documents(tmp_path / "x.txt", file_format="tsv")) == ["a"]
    give_stdin(monkeypatch, b'{"text": "a"}\n')
    assert texts(read_documents("-", file_format="jsonl")) == ["a"]
    with one_line_error("--columns text=NAME", "'a', 'b'"):
        read_documents(written(tmp_path, '{"a": 1, "b": 2}\n', "x.jsonl"))


def test_a_folder_is_its_text_files(tmp_path):
    for name in ("folder/b.txt", "folder/a.txt", "folder/c.md"):
        written(tmp_path, name, name)
    assert texts(read_documents(tmp_path / "folder")) == ["folder/a.txt", "folder/b.txt"]
    labelled = read_documents(f"kind={tmp_path}/folder/*.md")
    assert labelled.examples == [Document("folder/c.md", "kind")]


def test_what_has_no_text_is_refused(tmp_path):
    with one_line_error("x.txt", "an empty text"):
        read_documents(written(tmp_path, " \n\n"))
    with one_line_error("x.txt is empty"):
        read_documents(written(tmp_path, ""))
    with one_line_error("unit='page'", "file, article, block, line"):
        read_documents(tmp_path / "x.txt", unit="page")


def test_a_mixed_encoding_is_counted(tmp_path):
    read = read_documents(written(tmp_path, "über\n".encode() + "über\n".encode("latin-1")))
    assert texts(read) == ["über\nüber\n"]
    assert [(tally.count, tally.first.number) for tally in read.report.noted.values()] == [(1, 2)]


def test_a_column_of_labels_that_nobody_asked_for_is_named(tmp_path):
    file = tmp_path / "poems.jsonl"
    file.write_text('{"text": "a line", "label": "li bai"}\n', "utf-8")
    silent = read_documents(file)
    assert silent.examples[0].label is None
    assert any("'label' is not read" in told and "--columns label=label" in told for told in silent.report.taken)
    asked = read_documents(file, {"label": "label"})
    assert asked.examples[0].label == "li bai"
    assert not any("not read" in told for told in asked.report.taken)
