"""Measures of texts without references: by hand, and their bounds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.compare.measures import SELF_BLEU_TEXTS, distinct, repetition, self_bleu

texts = st.lists(st.lists(st.integers(0, 4), max_size=12), min_size=1, max_size=5)


def test_distinct_counts_over_all_texts():
    assert distinct([[1, 2, 1], [1, 2]], 1) == 2 / 5
    assert distinct([[1, 2, 1], [1, 2]], 2) == 2 / 3  # 12 21 12
    assert distinct([[1], []], 2) is None


def test_repetition_counts_within_a_text():
    assert repetition([[1, 2, 3, 4, 1, 2, 3, 4]]) == pytest.approx(1 / 5)  # 1234 2341 3412 4123 1234
    assert repetition([[1, 2, 3, 4], [1, 2, 3, 4]]) == 0
    assert repetition([[7] * 13, [1, 2, 3, 4], [1]]) == pytest.approx(0.9 / 2)  # the last has no run of four
    assert repetition([[1, 2, 3]]) is None


@given(texts)
def test_shares_are_shares(texts):
    for share in (distinct(texts, 1), distinct(texts, 2), repetition(texts), repetition(texts, 2)):
        assert share is None or 0 <= share <= 1


def test_self_bleu_says_how_alike_texts_are():
    same = ["the old king sat by the sea"] * 3
    apart = ["the old king sat by the sea", "nobody knows what cats dream about", "fünf Männer essen gern sauren Fisch"]
    half = [*same[:2], apart[1]]
    assert self_bleu(same) == pytest.approx(100)
    assert self_bleu(apart) < 6
    assert self_bleu(apart) < self_bleu(half) < self_bleu(same)
    assert self_bleu(["猫坐在垫子上。"] * 2) == pytest.approx(100)
    assert self_bleu(["one", "", " \n"]) is None


def test_self_bleu_of_many_texts_takes_the_first():
    first = [f"text number {n} has {n * 7} words" for n in range(SELF_BLEU_TEXTS)]
    assert self_bleu(first) == self_bleu([*first, *["the same again and again"] * 50])
