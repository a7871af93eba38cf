"""Rows are predicted in batches of like length, and come back in their own order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_translation import model_of
from vocabularies import small_tokenizer

from glassformer.data.batches import Budget
from glassformer.tasks.batch import predict_in_batches
from glassformer.tasks.translation import Translation

BUDGETS = st.one_of(st.builds(Budget, rows=st.integers(1, 5)), st.builds(Budget, tokens=st.integers(1, 40)))


@given(lengths=st.lists(st.integers(1, 20), max_size=12), budget=BUDGETS)
def test_results_are_in_order_and_progress_is_heard_after_each_batch(lengths, budget):
    batches, heard = [], []

    def predict(indices):
        batches.append(indices.tolist())
        return (f"row {index}" for index in indices.tolist())

    found = predict_in_batches(np.array(lengths, np.int64), budget, predict, lambda *state: heard.append(state))
    assert found == [f"row {index}" for index in range(len(lengths))]
    done = np.cumsum([len(one) for one in batches]).tolist()
    assert heard == [(count, len(lengths)) for count in done]
    for one in batches:
        assert len(one) <= (budget.rows or len(one))
        assert budget.tokens is None or len(one) == 1 or len(one) * max(lengths[row] for row in one) <= budget.tokens


def test_a_prediction_that_lacks_a_row_is_an_error():
    with pytest.raises(ValueError, match="shorter"):
        predict_in_batches(np.ones(3, np.int64), Budget(rows=2), lambda indices: indices[1:])


def test_the_earlier_name_of_on_progress_still_works():
    task, heard = Translation(small_tokenizer("unigram")), []
    with pytest.deprecated_call(match="on_progress"):
        task.predict(model_of("general", task), ["a", "b"], max_new_tokens=1, progress=lambda *s: heard.append(s))
    assert heard == [(2, 2)]
