"""Scores of classes equal scikit-learn's and torchmetrics', from one class to many."""

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.tasks.metrics import Classification, MultiLabel

pairs = st.integers(1, 6).flatmap(
    lambda size: st.tuples(
        st.just(size),
        st.lists(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)), min_size=1, max_size=40),
    )
)


def names(size):
    return [f"class {id_}" for id_ in range(size)]


@given(pairs)
def test_classes_equal_scikit_learn(given_):
    from sklearn import metrics as sklearn

    size, chosen = given_
    predicted, gold = (list(side) for side in zip(*chosen, strict=True))
    metric = Classification(names(size))
    metric.update(torch.tensor(predicted), np.array(gold))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn warns of a single class
        expected = {
            "accuracy": sklearn.accuracy_score(gold, predicted),
            "f1": sklearn.f1_score(gold, predicted, average="macro"),
            "f1_micro": sklearn.f1_score(gold, predicted, average="micro"),
            "mcc": sklearn.matthews_corrcoef(gold, predicted),
        }
        rows = sklearn.precision_recall_fscore_support(gold, predicted, labels=range(size), zero_division=0)
        confusion = sklearn.confusion_matrix(gold, predicted, labels=range(size))
    assert metric.compute() == pytest.approx(expected, abs=1e-12)
    assert metric.confusion.tolist() == confusion.tolist()
    for id_, row in enumerate(metric.report().values()):
        assert list(row.values()) == pytest.approx([column[id_] for column in rows])
    assert list(metric.report()) == names(size)


def test_matthews_correlation_of_billions_is_exact_enough():
    metric = Classification(names(2))
    metric.total, metric.count = np.array([[900_000_000, 1], [2, 900_000_000]]), 1_800_000_003
    assert metric.compute()["mcc"] == pytest.approx(1 - 3 / 9e8, abs=1e-12)


def test_one_class_only_is_right_and_tells_nothing():
    metric = Classification(["only"])
    metric.update([0, 0, 0], [0, 0, 0])
    assert metric.compute() == {"accuracy": 1.0, "f1": 1.0, "f1_micro": 1.0, "mcc": 0.0}


@pytest.mark.parametrize(
    ("predicted", "gold", "side", "value"), [([0, 3], [0, 0], "predicted", 3), ([0], [-1], "gold", -1)]
)
def test_a_class_that_is_none_is_named(predicted, gold, side, value):
    metric = Classification(names(3))
    metric.update([1, 2], [1, 2])
    example = 2 + len(gold) - 1
    with pytest.raises(ValueError, match=f"^the {side} class of example {example} is {value}; .* from 0 to 2$"):
        metric.update(predicted, gold)


tables = st.tuples(st.integers(1, 12), st.integers(2, 5), st.integers(0, 10**6))


@settings(max_examples=60)
@given(tables, st.sampled_from([0.5, 0.3]))
def test_many_labels_equal_torchmetrics_and_scikit_learn(given_, threshold):
    from sklearn import metrics as sklearn
    from torchmetrics.functional.classification import multilabel_exact_match, multilabel_f1_score

    rows, size, seed = given_
    random = np.random.default_rng(seed)
    chances = random.random((rows, size)).round(1)  # so that some are the threshold itself
    gold = random.integers(2, size=(rows, size))
    metric = MultiLabel(names(size), threshold=threshold)
    metric.update(torch.tensor(chances), torch.tensor(gold))
    theirs = torch.tensor(chances), torch.tensor(gold), size
    assert metric.compute() == pytest.approx(
        {
            "subset_accuracy": multilabel_exact_match(*theirs, threshold=threshold).item(),
            "f1": multilabel_f1_score(*theirs, threshold=threshold, average="macro").item(),
            "f1_micro": multilabel_f1_score(*theirs, threshold=threshold, average="micro").item(),
        },
        abs=1e-6,
    )
    expected = sklearn.precision_recall_fscore_support(gold, chances > threshold, zero_division=0)
    for id_, row in enumerate(metric.report().values()):
        assert list(row.values()) == pytest.approx([column[id_] for column in expected])


def test_half_precision_is_read():
    metric = MultiLabel(names(2))
    metric.update(torch.tensor([[0.9, 0.1], [0.2, 0.6]], dtype=torch.bfloat16), torch.eye(2))
    assert metric.compute() == {"subset_accuracy": 1.0, "f1": 1.0, "f1_micro": 1.0}


def test_no_label_at_all_is_a_perfect_set_and_no_f1():
    metric = MultiLabel(names(3))
    metric.update(np.zeros((4, 3)), np.zeros((4, 3)))
    assert metric.compute() == {"subset_accuracy": 1.0, "f1": 0.0, "f1_micro": 0.0}
