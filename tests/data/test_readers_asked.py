"""Questions and answers: an answer is where it says, or is put right, or is left out and counted."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reader_checks import balanced, notes, one_line_error, skips

from glassformer.data.examples import SquadAnswer, SquadExample
from glassformer.data.squad import read_asked

CONTEXT = "The cat sat on the mat and the dog lay by the door."
ELSEWHERE = "an answer that begins elsewhere in its context: put right"
LOST = "no answer is in the context"


def squad(*questions, context=CONTEXT) -> str:
    return json.dumps(
        {"version": "1.1", "data": [{"title": "t", "paragraphs": [{"context": context, "qas": questions}]}]}
    )


def asked(text, start, **more) -> dict:
    return {"id": "q1", "question": "What?", "answers": [{"text": text, "answer_start": start}], **more}


def written(tmp_path, content, name="x.json"):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    return path


@given(
    context=st.text("ab 😀\n", min_size=1).filter(lambda text: bool(text.strip())),
    span=st.tuples(st.integers(0, 20), st.integers(1, 5)),
    shift=st.integers(-30, 30),
)
def test_an_answer_is_always_a_span_of_its_context(tmp_path, context, span, shift):
    start = min(span[0], len(context) - 1)
    text = context[start : start + span[1]]
    read_or_error = written(tmp_path, squad(asked(text, start + shift), context=context))
    once = sum(context.startswith(text, at) for at in range(len(context))) == 1
    holds = start + shift >= 0 and context.startswith(text, start + shift)
    if holds or once:
        read = balanced(read_asked(read_or_error))
        (answer,) = read.examples[0].answers
        assert answer == SquadAnswer(text, start + shift if holds else start)
        assert context[answer.start : answer.start + len(answer.text)] == answer.text
        assert notes(read) == ({} if holds else {ELSEWHERE: (1, 1)})
    else:
        with one_line_error(LOST):
            read_asked(read_or_error)


def test_answers_that_cannot_be_placed_are_left_out_and_counted(tmp_path):
    good, twice, nowhere = asked("cat", 4, id="good"), asked("the", 0, id="twice"), asked("bird", 4, id="nowhere")
    one_of_two = asked("cat", 4, id="half")
    one_of_two["answers"].append({"text": "bird", "answer_start": 0})
    odd = [asked(None, 0), asked("", 0), asked("cat", "4", id="text start")]
    read = read_asked(written(tmp_path, squad(good, twice, nowhere, one_of_two, *odd)))
    assert [one.id for one in read.examples] == ["good", "half", "text start"]
    assert read.examples[1].answers == (SquadAnswer("cat", 4),)
    assert skips(read) == {LOST: (4, 2)}
    assert notes(read) == {"an answer that is not in the context: left out": (1, 4), ELSEWHERE: (1, 7)}
    kept = read_asked(tmp_path / "x.json", require_target=False)
    assert len(balanced(kept).examples) == 7


def test_questions_without_an_answer(tmp_path):
    impossible = asked("cat", 4, id="a", is_impossible=True)
    empty = {"id": "b", "question": "What?", "answers": []}
    silent = {"id": "c", "question": "What?"}
    read = read_asked(written(tmp_path, squad(impossible, empty, silent, asked("cat", 4))))
    assert [(one.id, len(one.answers)) for one in read.examples] == [("a", 0), ("b", 0), ("q1", 1)]
    assert skips(read) == {"a question with neither answers nor an empty list of them": (1, 3)}
    assert "1 questions have an answer, 2 have none" in read.report.taken
    assert len(read_asked(tmp_path / "x.json", require_target=False).examples) == 4


def test_a_question_needs_words_and_a_context(tmp_path):
    content = squad({"id": 1, "answers": []}, {"question": " ", "answers": []}, {"question": "What?", "answers": []})
    read = read_asked(written(tmp_path, content))
    assert skips(read) == {"no question, or no context": (2, 1)}
    assert read.examples == [SquadExample(f"{tmp_path / 'x.json'}:3", "What?", CONTEXT)]
    with one_line_error("no question, or no context"):
        read_asked(written(tmp_path, squad(asked("cat", 4), context=" ")))


@pytest.mark.parametrize("name", ["x.jsonl", "x.json"])
def test_rows_of_questions(tmp_path, name):
    rows = [
        {"id": "a", "context": CONTEXT, "question": "Who?", "answers": {"text": ["cat"], "answer_start": [4]}},
        {"id": "b", "context": CONTEXT, "question": "Who?", "answers": {"text": [], "answer_start": []}},
        {"id": "c", "context": CONTEXT, "question": "Who?", "answers": [{"text": "dog", "answer_start": 31}]},
    ]
    content = json.dumps(rows) if name == "x.json" else "".join(json.dumps(row) + "\n" for row in rows)
    read = balanced(read_asked(written(tmp_path, content, name)))
    assert [one.answers for one in read.examples] == [(SquadAnswer("cat", 4),), (), (SquadAnswer("dog", 31),)]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "is empty"),
        ("{", "not valid JSON"),
        ('{"data": []}', "no example"),
        ('{"data": [{"title": "t"}]}', "--columns question=NAME"),
        ("[]", "no rows"),
        ("[1]", "not objects"),
    ],
)
def test_what_is_not_squad_is_refused(tmp_path, content, says):
    with one_line_error("x.json", says):
        read_asked(written(tmp_path, content))
