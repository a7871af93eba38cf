"""Scores of classes: one class an example from a confusion matrix, or several classes an example.

N examples, C classes.
"""

from collections.abc import Sequence
from math import sqrt

import numpy as np

from glassformer.tasks.metrics.metric import Array, Metric, Values, as_array, f1_table


class Classification(Metric):
    """One class an example: accuracy, F1 (macro, over the classes that occur; and micro) and Matthews' correlation."""

    shares = ("accuracy", "f1_micro")

    def __init__(self, labels: Sequence[str], *, keep_examples: bool = False) -> None:
        self.labels = tuple(labels)
        super().__init__(np.zeros((len(labels), len(labels)), np.int64), keep_examples=keep_examples)

    def update(self, predicted: Values, gold: Values) -> None:
        """Class ids (N,), each the place of a label."""
        rows = np.stack([as_array(predicted), as_array(gold)], -1)
        wrong = (rows < 0) | (rows >= len(self.labels))
        if wrong.any():
            example, side = np.argwhere(wrong)[0]
            raise ValueError(
                f"the {('predicted', 'gold')[side]} class of example {self.count + example} is {rows[example, side]}; "
                f"the {len(self.labels)} classes have ids from 0 to {len(self.labels) - 1}"
            )
        self._add(rows)

    @property
    def confusion(self) -> Array:
        """(C, C): how often the class of a row was taken for the class of a column."""
        return self.total

    def report(self) -> dict[str, dict[str, float]]:
        """Precision, recall, F1 and support (how many examples have it) of every class."""
        return _report(self.labels, *_margins(self.total))

    def _condense(self, rows: Array) -> Array:
        size = len(self.labels)
        return np.bincount(rows[:, 1] * size + rows[:, 0], minlength=size * size).reshape(size, size)

    def _scores(self, total: Array) -> dict[str, float]:
        accuracy = float(total.trace() / total.sum())
        hits, predicted, gold = _margins(total)
        occurs = predicted + gold > 0
        macro = f1_table(hits, predicted, gold)[occurs, 2].mean()
        # With one class an example, what is missed for one class is taken for another: micro F1 is accuracy.
        return {"accuracy": accuracy, "f1": float(macro), "f1_micro": accuracy, "mcc": _mcc(total)}


class MultiLabel(Metric):
    """Any number of classes an example: F1 (macro, over all classes; and micro), and how often all are right."""

    shares = ("subset_accuracy",)

    def __init__(self, labels: Sequence[str], *, threshold: float = 0.5, keep_examples: bool = False) -> None:
        self.labels = tuple(labels)
        self.threshold = threshold
        super().__init__(np.zeros(3 * len(labels) + 2), keep_examples=keep_examples)

    def update(self, chances: Values, gold: Values) -> None:
        """The chance of every class and whether it is right, both (N, C); above the threshold it is predicted."""
        scores, right = as_array(chances), as_array(gold) > 0
        self._expect_numbers(scores, "chance")
        taken = scores > self.threshold
        whole = (taken == right).all(-1, keepdims=True)
        self._add(np.concatenate([taken & right, taken, right, whole, np.ones_like(whole)], -1))

    def report(self) -> dict[str, dict[str, float]]:
        """Precision, recall, F1 and support (how many examples have it) of every class."""
        return _report(self.labels, *self._counts(self.total))

    def _counts(self, total: Array) -> Array:
        return total[:-2].reshape(3, -1)  # hits, predicted, gold

    def _scores(self, total: Array) -> dict[str, float]:
        counts = self._counts(total)
        return {
            "subset_accuracy": float(total[-2] / total[-1]),
            "f1": float(f1_table(*counts)[:, 2].mean()),
            "f1_micro": float(f1_table(*counts.sum(-1))[2]),
        }


def _margins(confusion: Array) -> tuple[Array, Array, Array]:
    """How often each class (C,) was hit, predicted and right."""
    return confusion.diagonal(), confusion.sum(0), confusion.sum(1)


def _mcc(confusion: Array) -> float:
    """Matthews' correlation of any number of classes; 0 where either side is one class throughout."""
    hits, predicted, gold = _margins(confusion)
    count = confusion.sum()
    spread = (count**2 - (predicted**2).sum()), (count**2 - (gold**2).sum())
    together = count * hits.sum() - (predicted * gold).sum()
    return float(together) / sqrt(float(spread[0]) * float(spread[1])) if all(spread) else 0.0


def _report(labels: Sequence[str], hits: Array, predicted: Array, gold: Array) -> dict[str, dict[str, float]]:
    table = np.concatenate([f1_table(hits, predicted, gold), gold[:, None]], -1)
    names = ("precision", "recall", "f1", "support")
    return {label: dict(zip(names, row, strict=True)) for label, row in zip(labels, table.tolist(), strict=True)}
