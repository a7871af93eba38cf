"""Summaries are scored as the rouge-score package scores them; what it cannot read is scored by its own words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.tasks.metrics import Rouge, rouge_tokenizer
from glassformer.tasks.metrics.summaries import longest_common

words = st.sampled_from(
    ["The", "the", "cat", "sat,", "sat", "U.S.", "3.5", "it's", "über", "a", "_", "x-ray", "\n", "我"]
)
texts = st.lists(words, max_size=14).map(" ".join)
letters = st.lists(st.sampled_from("abc"), max_size=9)


@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=5))
def test_scores_equal_the_means_of_rouge_score(pairs):
    scorers = pytest.importorskip("rouge_score.rouge_scorer")
    scorer = scorers.RougeScorer(["rouge1", "rouge2", "rougeL"])
    rows = [scorer.score(target=reference, prediction=hypothesis) for hypothesis, reference in pairs]
    metric = Rouge()
    for pair in pairs:
        metric.update([pair[0]], [pair[1]])
    means = {name: sum(row[name].fmeasure for row in rows) / len(rows) for name in rows[0]}
    assert metric.compute() == pytest.approx(means, abs=1e-12)


@given(letters, letters)
def test_the_longest_common_subsequence_is_that_of_the_textbook(one, other):
    table = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i, left in enumerate(one):
        for j, right in enumerate(other):
            table[i + 1][j + 1] = table[i][j] + 1 if left == right else max(table[i][j + 1], table[i + 1][j])
    assert longest_common(one, other) == table[-1][-1]


def test_a_long_text_takes_no_table():
    once, twice = ["a", "b"] * 20_000, ["b", "a"] * 20_000
    assert longest_common(once, twice) == 39_999


@pytest.mark.parametrize(
    ("references", "tokenizer", "half"),
    [
        (["Anna bought a hat."], "ascii", "Anna bought"),
        (["Анна купила шляпу вчера"], "unicode", "анна купила"),
        (["安娜买了帽子。"], "unicode", "安娜买"),
    ],
)
def test_words_are_those_of_the_language(references, tokenizer, half):
    """rouge-score itself knows ASCII alone, so that a Chinese or a Russian summary would never score."""
    assert rouge_tokenizer(references) == tokenizer
    metric = Rouge(tokenize=rouge_tokenizer(references))
    metric.update(references, references)
    assert metric.compute() == pytest.approx({"rouge1": 1, "rouge2": 1, "rougeL": 1})
    metric.update([half], references)
    assert 0.75 < metric.compute()["rougeL"] < 0.95
    assert metric.signatures()["rouge2"].endswith(f"tok:{tokenizer}")


def test_what_cannot_be_scored_is_named():
    with pytest.raises(ValueError, match="^tokenize must be one of ascii, unicode, not '13a'$"):
        Rouge(tokenize="13a")
    with pytest.raises(ValueError, match="^2 summaries need as many references, not 1$"):
        Rouge().update(["a", "b"], ["a"])
