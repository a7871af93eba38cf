"""Tagged words: every scheme means the same entities, and what does not fit is mended or left out, and counted."""

import json

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from reader_checks import balanced, give_stdin, notes, one_line_error, skips

from glassformer.data.conll import MENDED, read_tagged
from glassformer.data.examples import Tagged
from glassformer.data.iob import detect, to_iob2

# A sentence is a list of pieces: None for a word outside, or an entity of a type and a length.
PIECE = st.none() | st.tuples(st.sampled_from(["PER", "LOC", "B-x"]), st.integers(1, 4))
SENTENCES = st.lists(st.lists(PIECE, min_size=1, max_size=6), min_size=1, max_size=6)


def spelt(pieces, scheme: str) -> list[str]:
    """The tags of a sentence, written in a scheme by its definition."""
    tags: list[str] = []
    before = None
    for piece in pieces:
        if piece is None:
            tags.append("O")
        else:
            kind, length = piece
            letters = {
                "IOB1": ("B" if before == kind else "I") + "I" * (length - 1),
                "IOB2": "B" + "I" * (length - 1),
                "IOBES": "S" if length == 1 else "B" + "I" * (length - 2) + "E",
                "BILOU": "U" if length == 1 else "B" + "I" * (length - 2) + "L",
                "BMES": "S" if length == 1 else "B" + "M" * (length - 2) + "E",
            }[scheme]
            tags += [f"{letter}-{kind}" for letter in letters]
        before = piece and piece[0]
    return tags


def conll(sentences, columns=lambda word, tag: f"{word} {tag}") -> str:
    lines = ["\n".join(columns(f"w{at}", tag) for at, tag in enumerate(tags)) for tags in sentences]
    return "\n\n".join(lines) + "\n"


def written(tmp_path, content, name="x.conll"):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    return path


@given(sentences=SENTENCES)
@pytest.mark.parametrize("scheme", ["IOB1", "IOB2", "IOBES", "BILOU", "BMES"])
def test_every_scheme_becomes_the_same_iob2(tmp_path, sentences, scheme):
    original = [spelt(pieces, scheme) for pieces in sentences]
    path = written(tmp_path, conll(original))
    read = balanced(read_tagged(path))
    assert [list(one.tags) for one in read.examples] == [spelt(pieces, "IOB2") for pieces in sentences]
    assert notes(read) == {}


@given(sentences=SENTENCES)
@example(sentences=[[("PER", 3), ("PER", 1)]])
@settings(max_examples=50)
@pytest.mark.parametrize("scheme", ["IOB1", "IOB2", "IOBES", "BILOU", "BMES"])
def test_the_scheme_is_found_and_said(tmp_path, sentences, scheme):
    pieces = [piece for sentence in sentences for piece in sentence if piece]
    telling = {"BILOU": pieces, "IOBES": pieces, "BMES": [one for one in pieces if one[1] > 2]}
    assume(telling.get(scheme, pieces))
    read = read_tagged(written(tmp_path, conll([spelt(one, scheme) for one in sentences])))
    assert f"tags: {scheme}, given as IOB2" in read.report.taken


@given(sentences=SENTENCES)
def test_iob2_stays_as_it_is(sentences):
    for pieces in sentences:
        tags = spelt(pieces, "IOB2")
        assert to_iob2(tags, "IOB2") == (tags, [])


def test_a_stray_tag_that_opens_with_i_is_mended_and_counted(tmp_path):
    """Where the rest of the file begins entities with B-, it is a mistake; where all open with I-, it is IOB1."""
    stray = [["B-PER", "O"], ["B-LOC", "I-LOC"], ["O", "I-PER", "I-LOC"], ["B-PER", "O", "B-LOC"]]
    read = read_tagged(written(tmp_path, conll(stray)))
    assert read.examples[2].tags == ("O", "B-PER", "B-LOC")
    assert notes(read) == {MENDED: (2, 8)}
    usual = [["I-PER", "O"], ["I-LOC", "I-LOC"], ["O", "I-PER", "B-PER"]]
    read = read_tagged(written(tmp_path, conll(usual)))
    assert [one.tags for one in read.examples] == [("B-PER", "O"), ("B-LOC", "I-LOC"), ("O", "B-PER", "B-PER")]
    assert notes(read) == {}


@pytest.mark.parametrize(
    ("tags", "iob2", "mended"),
    [
        (["E-PER", "O", "S-PER"], ["B-PER", "O", "B-PER"], [0]),
        (["B-PER", "E-PER", "I-PER"], ["B-PER", "I-PER", "B-PER"], [2]),
        (["S-PER", "E-PER"], ["B-PER", "B-PER"], [1]),
        (["B-PER", "I-LOC", "E-PER"], ["B-PER", "B-LOC", "B-PER"], [1, 2]),
        (["B", "I", "O", "S"], ["B", "I", "O", "B"], []),
    ],
)
def test_what_goes_on_without_an_entity_begins_one(tags, iob2, mended):
    assert to_iob2(tags, "IOBES") == (iob2, mended)


def test_tags_of_no_scheme_are_left_alone(tmp_path):
    read = read_tagged(written(tmp_path, conll([["NNP", "VBZ", "I"], ["O", "NNP"]])))
    assert [one.tags for one in read.examples] == [("NNP", "VBZ", "I"), ("O", "NNP")]
    assert detect([["NNP", "B"], ["DT"]]) == "plain"
    assert "tags: plain" in read.report.taken


def test_a_tag_that_is_none_of_the_scheme_costs_its_sentence(tmp_path):
    read = read_tagged(written(tmp_path, conll([["B-PER", "O"], ["B-PER", "PER"], ["O"]])))
    assert len(read.examples) == 2
    assert skips(read) == {"a tag that IOB2 does not have": (1, 5)}


@pytest.mark.parametrize("between", [" ", "\t", "   "])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_any_column_between_blanks_or_tabs(tmp_path, between, end):
    lines = [("-DOCSTART-", "-X-", "O", "O"), (), ("EU", "NNP", "I-NP", "I-ORG"), ("rejects", "VBZ", "I-VP", "O"), ()]
    path = written(tmp_path, end.join(between.join(line) for line in lines))
    assert read_tagged(path).examples == [Tagged(("EU", "rejects"), ("B-ORG", "O"))]
    assert read_tagged(path, 1).examples == [Tagged(("EU", "rejects"), ("NNP", "VBZ"))]
    assert read_tagged(path, -2).examples == [Tagged(("EU", "rejects"), ("B-NP", "B-VP"))]
    assert read_tagged(path, 0, word_column=1).examples[0].words == ("NNP", "VBZ")
    assert notes(read_tagged(path)) == {"-DOCSTART-, the border of a document": (1, 1)}
    with one_line_error("column=4", "has 4 columns", "-1 for the last"):
        read_tagged(path, 4)


def test_words_keep_what_is_not_a_column_border(tmp_path):
    path = written(tmp_path, "New\u00a0York B-LOC\n\u3000 O\n# O\n")
    assert read_tagged(path).examples == [Tagged(("New\u00a0York", "\u3000", "#"), ("B-LOC", "O", "O"))]


def test_comments_are_passed_over_and_broken_lines_cost_their_sentence(tmp_path):
    content = "# id 7 domain=en\na _ _ O\n\n# a remark\nb _ _ O\n\nc _ _ O\nd O\n\n# _ _ O\n"
    read = read_tagged(written(tmp_path, content))
    assert [one.words for one in read.examples] == [("a",), ("b",), ("#",)]
    assert notes(read) == {"a comment passed over": (2, 1)}
    assert skips(read) == {"a line with a wrong number of columns": (1, 8)}


def test_words_without_tags_are_for_prediction(tmp_path):
    path = written(tmp_path, "one\ntwo\n\nthree\n")
    assert read_tagged(path, require_target=False).examples == [Tagged(("one", "two")), Tagged(("three",))]
    with one_line_error(str(path), "words and no tags"):
        read_tagged(path)


@pytest.mark.parametrize("content", ["\n\n", "-DOCSTART- O\n\n"])
def test_a_file_without_words_is_refused(tmp_path, content):
    with one_line_error("x.conll", "no example to use"):
        read_tagged(written(tmp_path, content))


@pytest.mark.parametrize(("words", "tags"), [("tokens", "ner_tags"), ("words", "tags"), ("words", "labels")])
def test_rows_of_lists(tmp_path, monkeypatch, words, tags):
    rows = [
        {words: ["a", "b"], tags: ["I-PER", "O"]},
        {words: ["a", "b"], tags: ["O"]},
        {words: "a b", tags: ["O", "O"]},
        {words: [], tags: []},
        {words: ["a"], tags: None},
        {words: ["c"], tags: ["I-PER"]},
    ]
    content = "".join(json.dumps(row) + "\n" for row in rows)
    give_stdin(monkeypatch, content.encode())
    for read in (read_tagged(written(tmp_path, content, "x.jsonl")), read_tagged("-")):
        assert read.examples == [Tagged(("a", "b"), ("B-PER", "O")), Tagged(("c",), ("B-PER",))]
        assert skips(read) == {
            "not as many tags as words": (1, 2),
            "the words are not a list of words": (1, 3),
            "no words": (1, 4),
            "no tags": (1, 5),
        }
    kept = read_tagged(tmp_path / "x.jsonl", require_target=False)
    assert kept.examples[1] == Tagged(("a",))


def test_the_columns_of_rows_may_be_named(tmp_path):
    path = written(tmp_path, '{"w": ["a"], "t": ["O"]}\n', "x.jsonl")
    assert read_tagged(path, columns={"words": "w", "tags": "t"}).examples == [Tagged(("a",), ("O",))]
    with one_line_error("--columns words=NAME", "'w', 't'"):
        read_tagged(path)
    with one_line_error("--columns tags=NAME"):
        read_tagged(path, columns={"words": "w"})
