"""Answers are scored as SQuAD's scripts score them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.tasks.metrics import Answers
from glassformer.tasks.metrics.answers import normalised

words = st.lists(
    st.sampled_from(["a", "The", "an", "theatre", "cat", "Cat's", "1,000", "-", "u.s.", "été", "“x”"]), max_size=5
)
phrases = st.builds(lambda parts, gap: gap.join(parts), words, st.sampled_from([" ", "  ", "\t"]))
some_answer = phrases.filter(normalised)
questions = st.lists(st.tuples(phrases, st.lists(some_answer, min_size=1, max_size=3)), min_size=1, max_size=6)


def official(pairs):
    """SQuAD 1.1 by torchmetrics."""
    from torchmetrics.functional.text import squad

    predicted = [{"id": str(n), "prediction_text": guess} for n, (guess, _) in enumerate(pairs)]
    gold = [
        {"id": str(n), "answers": {"text": answers, "answer_start": [0] * len(answers)}}
        for n, (_, answers) in enumerate(pairs)
    ]
    scores = squad(predicted, gold)
    return {"exact_match": scores["exact_match"].item() / 100, "f1": scores["f1"].item() / 100}


def scored(pairs):
    metric = Answers()
    metric.update(*zip(*pairs, strict=True))
    return metric.compute()


@given(questions)
def test_questions_with_answers_equal_squad_1(pairs):
    assert scored(pairs) == pytest.approx(official(pairs), abs=1e-6)


@given(questions, st.lists(phrases, min_size=1, max_size=5))
def test_questions_without_answer_are_counted_apart_and_together(answered, guesses):
    """SQuAD 2: the best answer to a question that has none says nothing, and words count all or nothing."""
    right = sum(not normalised(guess) for guess in guesses)
    scores = scored([*answered, *((guess, []) for guess in guesses)])
    kept, silent = official(answered), right / len(guesses)
    count = len(answered) + len(guesses)
    assert scores == pytest.approx(
        {
            **{name: (len(answered) * kept[name] + right) / count for name in kept},
            **{f"has_answer_{name}": kept[name] for name in kept},
            "no_answer_exact_match": silent,
            "no_answer_f1": silent,
        },
        abs=1e-6,
    )


@pytest.mark.parametrize(
    ("answer", "plain"),
    [
        ("The  Cat's\tmat.", "cats mat"),
        ("a an the", ""),
        ("theatre", "theatre"),
        ("(1,000)", "1000"),
        ("the-cat", "thecat"),
        ("ÉTÉ", "été"),
        ("中国。", "中国。"),
    ],
)
def test_normal_form(answer, plain):
    assert normalised(answer) == plain


@pytest.mark.parametrize(
    ("predicted", "gold", "exact", "f1"),
    [
        ("the cat", ["Cat!"], 1, 1),
        ("black cat", ["cat", "the black dog"], 0, 2 / 3),
        ("cat cat", ["cat"], 0, 2 / 3),
        ("", ["cat"], 0, 0),
        ("", [], 1, 1),
        ("the", [], 1, 1),
        ("cat", [], 0, 0),
        ("", ["the"], 1, 1),  # a gold answer without words is none
    ],
)
def test_one_question(predicted, gold, exact, f1):
    assert scored([(predicted, gold)]) == pytest.approx({"exact_match": exact, "f1": f1})


def test_an_answer_without_words_is_still_an_answer():
    """As in SQuAD 2: the question counts among those with an answer, though only silence can be right."""
    scores = scored([("cat", ["A"]), ("", [])])
    assert (scores["has_answer_exact_match"], scores["no_answer_exact_match"]) == (0.0, 1.0)


@pytest.mark.slow
def test_gold_answers_answer_the_real_questions(data):
    """The last gold answer (that is not the bare letter A) of SQuAD 2's dev set is right; silence is, half the time."""
    articles = json.loads((data / "squad" / "dev-v2.0.reconstructed.json").read_text(encoding="utf-8"))["data"]
    gold = [
        [answer["text"] for answer in question["answers"]]
        for article in articles
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]
    chosen = [next((answer for answer in reversed(answers) if normalised(answer)), "") for answers in gold]
    assert set(scored(list(zip(chosen, gold, strict=True))).values()) == {1.0}
    silent = sum(not answers for answers in gold)
    scores = scored([("", answers) for answers in gold])
    assert scores["exact_match"] == scores["f1"] == pytest.approx(silent / len(gold))
    assert (scores["has_answer_f1"], scores["no_answer_f1"]) == (0.0, 1.0)
