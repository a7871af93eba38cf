"""Names to lines: whatever the compression and the encoding, the same text; whatever is wrong, one line says so."""

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reader_checks import COMPRESS, give_stdin, one_line_error

from glassformer.data import source
from glassformer.data.report import Place, ReadReport
from glassformer.data.source import NOT_UTF8, DataSource, hub_name, resolve

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0\ufeff"), min_size=1)
LATIN = st.text(st.characters(max_codepoint=255, exclude_categories=["Cc"]), min_size=1)


def lines_of(path, report=None):
    return list(DataSource(str(path), path).lines(report or ReadReport()))


@given(text=TEXT, suffix=st.sampled_from(list(COMPRESS)), mark=st.booleans())
def test_compression_and_a_byte_order_mark_leave_the_text_alone(tmp_path, text, suffix, mark):
    path = tmp_path / f"x.txt{suffix}"
    path.write_bytes(COMPRESS[suffix](text.encode("utf-8-sig" if mark else "utf-8")))
    found = lines_of(path)
    assert "".join(line for _, line in found) == text
    assert [number for number, _ in found] == list(range(1, len(found) + 1))
    assert all("\n" not in line[:-1] for _, line in found)


@given(text=TEXT, encoding=st.sampled_from(["utf-16", "utf-16-le", "utf-16-be"]))
def test_utf_16_is_known_by_its_mark(tmp_path, text, encoding):
    path = tmp_path / "x.txt"
    path.write_bytes(text.encode(encoding) if encoding == "utf-16" else ("\ufeff" + text).encode(encoding))
    report = ReadReport()
    assert "".join(line for _, line in lines_of(path, report)) == text
    assert report.taken == {"encoding: UTF-16": [str(path)]}


@given(lines=st.lists(st.tuples(LATIN, st.booleans()), min_size=1))
def test_lines_of_mixed_encodings_are_read_each_by_itself(tmp_path, lines):
    """Lines that are not UTF-8 are latin-1, counted, the first with its number; the others are not touched."""
    path = tmp_path / "x.txt"
    path.write_bytes(b"".join(text.encode("latin-1" if latin else "utf-8") + b"\n" for text, latin in lines))
    report = ReadReport()
    found = [line.rstrip("\n") for _, line in lines_of(path, report)]
    wrong = []
    for number, ((text, latin), line) in enumerate(zip(lines, found, strict=True), 1):
        try:
            expected = text.encode("latin-1").decode("utf-8") if latin else text
        except UnicodeDecodeError:
            expected = text
            wrong.append(number)
        assert line == expected
    tally = report.noted.get(NOT_UTF8)
    assert (tally.count, tally.first.number) == (len(wrong), wrong[0]) if wrong else tally is None


def test_windows_quotes_are_read_as_such_and_no_byte_is_refused(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(b"\x93quoted\x94\n" + bytes(range(0x80, 0x100)))
    found = lines_of(path)
    assert found[0] == (1, "“quoted”\n")
    assert found[1][1] == bytes(range(0x80, 0x100)).decode("latin-1")


def test_lines_end_at_newlines_only(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes("a\x0b\x0c\x1c\x85\u2028b\r\nc\rd".encode())
    assert lines_of(path) == [(1, "a\x0b\x0c\x1c\x85\u2028b\r\n"), (2, "c\rd")]


def test_nul_bytes_are_taken_out_and_counted(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(b"one\nt\0w\0o\nthree\0\n")
    report = ReadReport()
    assert [line for _, line in lines_of(path, report)] == ["one\n", "two\n", "three\n"]
    assert report.as_dict()["noted"] == {"NUL bytes taken out": {"count": 2, "file": str(path), "line": 2}}


def test_a_line_of_a_megabyte_is_a_line(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("a" * 1_000_000 + "\nb\n")
    assert [len(line) for _, line in lines_of(path)] == [1_000_001, 2]


@pytest.mark.parametrize("suffix", COMPRESS)
def test_standard_input_is_read_and_left_open(tmp_path, monkeypatch, suffix):
    give_stdin(monkeypatch, COMPRESS[suffix]("über\nzwei".encode()))
    (source,) = resolve("-")
    assert list(source.lines(ReadReport())) == [(1, "über\n"), (2, "zwei")]
    assert source.name == "stdin"
    assert not sys.stdin.buffer.closed


@pytest.mark.parametrize("suffix", COMPRESS)
def test_an_empty_file_is_refused(tmp_path, suffix):
    path = tmp_path / f"x.txt{suffix}"
    path.write_bytes(COMPRESS[suffix](b""))
    with one_line_error(str(path), "is empty"):
        lines_of(path)


@pytest.mark.parametrize("suffix", [suffix for suffix in COMPRESS if suffix])
@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_a_damaged_file_is_refused_and_not_read_in_part(tmp_path, suffix, damage):
    path = tmp_path / f"x.txt{suffix}"
    whole = COMPRESS[suffix]("\n".join(map(str, range(20_000))).encode())
    middle = len(whole) // 2
    path.write_bytes(whole[:middle] if damage == "cut" else whole[:middle] + b"\xff" * 99 + whole[middle + 99 :])
    with one_line_error(str(path), "cannot be read", "is it whole?"):
        lines_of(path)


@pytest.mark.parametrize("suffix", COMPRESS)
def test_compressed_files_put_end_to_end_are_one(tmp_path, suffix):
    path = tmp_path / f"x.txt{suffix}"
    path.write_bytes(COMPRESS[suffix](b"one\nt") + COMPRESS[suffix](b"wo\n"))
    assert lines_of(path) == [(1, "one\n"), (2, "two\n")]


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"PK\x03\x04rest", "zip"), (b"PAR1rest", "parquet"), (b"ARROW1rest", "arrow"), (b"\xff\xfea", "UTF-16")],
)
def test_what_is_not_text_is_refused_by_name(tmp_path, content, says):
    path = tmp_path / "x.txt"
    path.write_bytes(content)
    with one_line_error(str(path), says):
        lines_of(path)


def test_an_archive_is_refused(tmp_path):
    path = tmp_path / "x.tar.xz"
    path.write_bytes(COMPRESS[".xz"](b"member"))
    with one_line_error(str(path), "the text files that are in it"):
        lines_of(path)


def test_names_and_globs_and_folders(tmp_path):
    for name in ("b.txt", "a.txt", "c.txt.gz", "d.csv", "sub/e.txt", "odd[1].txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")

    def names(*args, **options):
        return [source.name.removeprefix(f"{tmp_path}/") for source in resolve(*args, **options)]

    assert names(f"{tmp_path}/*.txt") == ["a.txt", "b.txt", "odd[1].txt"]
    assert names([tmp_path / "d.csv", f"{tmp_path}/[ab].txt"]) == ["d.csv", "a.txt", "b.txt"]
    assert names(tmp_path / "odd[1].txt") == ["odd[1].txt"]
    assert names(tmp_path, folder="txt") == ["a.txt", "b.txt", "c.txt.gz", "odd[1].txt", "sub/e.txt"]
    with one_line_error("is a folder", "/*.csv"):
        resolve(tmp_path)
    with one_line_error("no .md files"):
        resolve(tmp_path, folder="md")
    with one_line_error("there is no file", "nowhere.txt"):
        resolve(tmp_path / "nowhere.txt")
    with one_line_error("there is no file", "*.json"):
        resolve(f"{tmp_path}/*.json")
    with one_line_error("no file was given"):
        resolve([])


def test_a_label_before_a_name(tmp_path):
    (tmp_path / "good.txt").write_text("x")
    (tmp_path / "k=v.txt").write_text("x")
    assert [(one.label, one.path.name) for one in resolve(f"pos={tmp_path}/g*.txt", labels=True)] == [
        ("pos", "good.txt")
    ]
    assert [one.label for one in resolve(tmp_path / "k=v.txt", labels=True)] == [None]
    with one_line_error("there is no file", "pos="):
        resolve(f"pos={tmp_path}/good.txt")


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("hub:imdb", ("imdb", None, "train")),
        ("hub:nyu-mll/glue:sst2", ("nyu-mll/glue", "sst2", "train")),
        ("hub:nyu-mll/glue:sst2:validation", ("nyu-mll/glue", "sst2", "validation")),
        ("hub:imdb::test", ("imdb", None, "test")),
        ("hub:imdb::train[:100]", ("imdb", None, "train[:100]")),
    ],
)
def test_the_parts_of_a_hub_name(name, parts):
    assert hub_name(name) == parts


def test_a_hub_name_without_a_name():
    with one_line_error("names no data set", "hub:NAME"):
        resolve("hub:")


@pytest.mark.parametrize(
    ("name", "extension"),
    [("a.csv", "csv"), ("a.CSV.GZ", "csv"), ("a.b.jsonl.zst", "jsonl"), ("a.gz", ""), ("noname", ""), ("x.txt", "txt")],
)
def test_the_extension_before_a_compression(tmp_path, name, extension):
    assert DataSource(name, tmp_path / name).extension == extension


def test_zstd_without_its_package(tmp_path, monkeypatch):
    path = tmp_path / "x.txt.zst"
    path.write_bytes(COMPRESS[".zst"](b"text"))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with one_line_error(str(path), "needs zstandard", "glassformer[data]"):
        lines_of(path)


def test_a_report_for_a_person_and_for_a_machine():
    report = ReadReport()
    for number in range(5):
        report.count(f"{number}.txt")
    report.take("0.txt", "encoding: UTF-16")
    report.skip("a blank line", Place("3.txt", 7))
    report.skip("a blank line", Place("4.txt", 1))
    report.note("mended", Place("4.txt", 2, "row"))
    assert report.lines() == [
        "read 5 rows from 0.txt, 1.txt, 2.txt and 2 more",
        "0.txt: encoding: UTF-16",
        "skipped 2: a blank line (first: 3.txt, line 7)",
        "noted 1: mended (first: 4.txt, row 2)",
    ]
    assert json.loads(json.dumps(report.as_dict())) == {
        "rows": {f"{number}.txt": 1 for number in range(5)},
        "taken": {"encoding: UTF-16": ["0.txt"]},
        "skipped": {"a blank line": {"count": 2, "file": "3.txt", "line": 7}},
        "noted": {"mended": {"count": 1, "file": "4.txt", "row": 2}},
    }


def test_a_name_that_stands_for_too_many_files_is_a_slip(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "MOST_FILES", 3)
    for number in range(5):
        (tmp_path / f"{number}.txt").write_text("x")
    with pytest.raises(ValueError, match="stands for more than 3 files: name those to read"):
        source.resolve([f"{tmp_path}/*.txt"])
