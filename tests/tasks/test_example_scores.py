"""Scores of single examples, kept in a file: they are those of the sheet, in the order of the examples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.tasks.alignment import WindowedEntities
from glassformer.tasks.metrics import Answers, BleuChrf, Classification, Correlation, Entities, Likelihood, MultiLabel
from glassformer.tasks.metrics.examples import ExampleScores, read_examples, write_examples
from glassformer.tasks.metrics.sheet import Meter, ScoreSheet

TAGS = [["B-A", "O"], ["O", "O"]]
WORDS = ["a cat", "a dog sat", "the cat sat down", "no", "a cat sat on it"]


def classes(metric, examples):
    metric.update([one % 3 for one in examples], [one % 2 for one in examples])


def sentences(metric, examples):
    metric.update([WORDS[one % 5] for one in examples], [WORDS[one % 4] for one in examples])


FILLED = {
    "classes": (lambda: Classification(["a", "b", "c"], keep_examples=True), classes),
    "labels": (
        lambda: MultiLabel(["a", "b"], keep_examples=True),
        lambda metric, some: metric.update([[one % 2, one % 3 / 2] for one in some], [[one % 2, 1] for one in some]),
    ),
    "translations": (lambda: BleuChrf(lowercase=True, keep_examples=True), sentences),
    "numbers": (
        lambda: Correlation(),
        lambda metric, some: metric.update([one % 7 for one in some], [one % 5 for one in some]),
    ),
    "text": (
        lambda: Likelihood(keep_examples=True),
        lambda metric, some: metric.update([one + 0.5 for one in some], [one + 1 for one in some]),
    ),
    "answers": (
        lambda: Answers(keep_examples=True),
        lambda metric, some: metric.update([WORDS[one % 5] for one in some], [[WORDS[one % 4]] for one in some]),
    ),
    "entities": (
        lambda: Entities(keep_examples=True),
        lambda metric, some: metric.update([TAGS[one % 2] for one in some], [TAGS[0]] * len(some)),
    ),
}


def sheet_of(kind, order):
    make, fill = FILLED[kind]
    sheet = ScoreSheet(lambda *_: None, scores=Meter(make(), prefix="x_"))
    for start in range(0, len(order), 3):
        fill(sheet.meters["scores"].metric, order[start : start + 3])
        sheet.order += order[start : start + 3]
    return sheet


@pytest.mark.parametrize("kind", FILLED)
@given(order=st.permutations(range(11)))
def test_whatever_the_order_of_batches_the_examples_are_in_theirs(kind, order):
    straight, mixed = (ExampleScores.of(sheet_of(kind, some), "data") for some in (list(range(11)), list(order)))
    for name, value in sheet_of(kind, list(order)).compute().items():
        assert mixed.score(name) == pytest.approx(value)
        np.testing.assert_array_equal(mixed.rows_of(name), straight.rows_of(name))


@pytest.mark.parametrize("kind", FILLED)
def test_a_file_keeps_them(kind, tmp_path):
    sheet = sheet_of(kind, list(range(11)))
    write_examples(tmp_path / "examples.npz", {"dev": ExampleScores.of(sheet, "data")})
    again = read_examples(tmp_path / "examples.npz")["dev"]
    assert again.data == "data"
    assert again.in_order
    assert again.scores() == pytest.approx(sheet.compute())
    some = np.array([1, 4, 5, 9])
    assert again.scores(some) == pytest.approx(ExampleScores.of(sheet_of(kind, some.tolist()), "").scores())


def test_windows_of_texts_are_in_no_order():
    sheet = sheet_of("text", list(range(11)))
    sheet.order = sheet.order[:5]
    assert not ExampleScores.of(sheet, "").in_order


def test_a_file_of_something_else_is_named(tmp_path):
    (tmp_path / "examples.npz").write_text("no arrays")
    with pytest.raises(ValueError, match="examples.npz holds no scores of examples"):
        read_examples(tmp_path / "examples.npz")


def test_a_score_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="there is no score 'bleu' of single examples; there are: x_accuracy"):
        ExampleScores.of(sheet_of("classes", [0, 1, 2]), "").score("bleu")


@given(order=st.permutations(range(6)), border=st.integers(0, 6))
def test_sentences_in_windows_are_in_their_order_whichever_came_whole_first(order, border):
    """Two words a sentence; windows 2n and 2n + 1 have one each, and two processes share them."""

    def scores(rows, *more):
        metric = WindowedEntities(["O", "B-X"], keep_examples=True)
        sheet = ScoreSheet(lambda *_: None, scores=metric)
        for row in rows:
            owner, word = divmod(row, 2)
            sentence = np.full((2, 2), -1)
            sentence[:, word] = owner % 2, 1
            metric._add_part(owner, sentence)
            sheet.order.append(row)
        for other in more:
            sheet.merge(other)
        return sheet

    straight, mixed = scores(range(6)), scores(order[:border], scores(order[border:]))
    found = [ExampleScores.of(sheet, "") for sheet in (straight, mixed)]
    assert all(one.in_order for one in found)
    np.testing.assert_array_equal(found[0].rows_of("f1"), found[1].rows_of("f1"))
    assert found[1].rows_of("f1")[:, 0].tolist() == [0, 2, 0]
