"""A score sheet names the scores of its meters, and sheets of several processes merge into one."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from glassformer.tasks.batch import Batch
from glassformer.tasks.metrics import Classification, ExactMatch, MeanLoss, Meter, ScoreSheet

LABELS = ("no", "yes")
PLAIN = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=9)


def sheet_of(**options):
    loss, classes = MeanLoss(), Classification(LABELS, keep_examples=True)

    def update(_model, batch):
        loss.update(2.0 * batch.count, batch.count)
        classes.update(*batch.extra["pair"])

    return ScoreSheet(update, loss=loss, classes=Meter(classes, **options), empty=ExactMatch(keep_examples=True))


def filled(pairs, **options):
    sheet = sheet_of(**options)
    for guess, truth in pairs:
        sheet.update(nn.Identity(), Batch({}, {}, count=1, extra={"pair": ([guess], [truth])}))
    return pickle.loads(pickle.dumps(sheet))


@given(pairs=PLAIN, data=st.data())
def test_sheets_of_parts_make_the_sheet_of_the_whole(pairs, data):
    cut = data.draw(st.integers(0, len(pairs)))
    first, second, whole = filled(pairs[:cut]), filled(pairs[cut:]), filled(pairs)
    first.merge(second)
    assert first.compute() == pytest.approx(whole.compute())
    assert first.intervals() == whole.intervals()
    assert first.report() == whole.report()


def test_scores_have_the_names_that_the_sheet_gives_them():
    """A meter that has seen nothing says nothing, and one that shows some of its scores has no report."""
    pairs = [(0, 0), (1, 0), (1, 1)]
    assert list(filled(pairs).compute()) == ["loss", "accuracy", "f1", "f1_micro", "mcc"]
    assert list(filled(pairs).report()) == list(LABELS)
    some = filled(pairs, prefix="a_", suffix="_b", only=("accuracy",))
    assert some.compute() == pytest.approx({"loss": 2.0, "a_accuracy_b": 2 / 3})
    assert list(some.intervals()) == ["a_accuracy_b"]
    assert some.report() == {}


def test_an_empty_sheet_has_no_scores():
    with pytest.raises(ValueError, match="no score of no examples"):
        sheet_of().compute()
