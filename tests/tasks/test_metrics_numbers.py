"""Correlations equal scipy's, also far from zero; likelihood and search equal their definitions and torchmetrics."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.tasks.metrics import Correlation, ExactMatch, Likelihood, Regression, Retrieval

seeds = st.integers(0, 10**6)


@given(seed=seeds, count=st.integers(3, 40), ties=st.booleans())
def test_correlations_and_error_equal_scipy_and_scikit_learn(seed, count, ties):
    from scipy.stats import pearsonr, spearmanr
    from sklearn.metrics import mean_squared_error

    random = np.random.default_rng(seed)
    predicted = random.normal(size=count).astype(np.float32)
    gold = (predicted + random.normal(size=count)).astype(np.float32)
    if ties:
        predicted, gold = np.array([0, 0.5, *predicted.round()]), np.array([1, 0, *gold.round()])
    metric = Regression()
    metric.update(torch.from_numpy(predicted), gold)
    assert metric.compute() == pytest.approx(
        {
            "mse": mean_squared_error(gold, predicted),
            "pearson": pearsonr(predicted, gold).statistic,
            "spearman": spearmanr(predicted, gold).statistic,
        },
        abs=1e-6,
    )


@settings(max_examples=40)
@given(seed=seeds, centre=st.sampled_from([0, 1e3, -1e6, 1e8]), chunk=st.integers(1, 50))
def test_pearson_streams_without_loss_far_from_zero(seed, centre, chunk):
    """At 1e8 a sum of squares of float64 keeps one digit of a spread of 1; the moments keep them all."""
    from scipy.stats import pearsonr

    random = np.random.default_rng(seed)
    spread = random.normal(size=(50, 2)) @ np.array([[1, 0.5], [0, 1]])
    values = centre + spread.round(3)
    metric = Correlation(keep_examples=False)
    for start in range(0, 50, chunk):
        metric.update(values[start : start + chunk, 0], values[start : start + chunk, 1])
    assert metric.compute() == {"pearson": pytest.approx(pearsonr(*(values - centre).T).statistic, abs=1e-7)}


@pytest.mark.parametrize("constant", [0.0, 3.3, -1e7, 0.1])
@pytest.mark.parametrize("count", [1, 2, 1000])
def test_what_is_constant_correlates_with_nothing(constant, count):
    other = np.arange(count) / 7
    for pair in ((np.full(count, constant), other), (other, np.full(count, constant))):
        metric = Correlation()
        for chunk in np.array_split(np.stack(pair), 3, axis=1):
            metric.update(*chunk)
        assert metric.compute() == {"pearson": 0.0, "spearman": 0.0}


def test_a_line_correlates_fully():
    metric = Correlation()
    metric.update([1, 2, 3], [-10, -20, -40])
    assert metric.compute() == {"pearson": pytest.approx(-0.98198, abs=1e-5), "spearman": pytest.approx(-1)}


@given(seed=seeds, rows=st.integers(1, 5), length=st.integers(1, 7))
def test_likelihood_equals_torchmetrics_and_its_definitions(seed, rows, length):
    from torchmetrics.functional.text import perplexity

    random = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, length, 9, generator=random, dtype=torch.float64)
    gold = torch.randint(9, (rows, length), generator=random)
    chances = logits.log_softmax(-1).gather(-1, gold[..., None])[..., 0]
    right = (logits.argmax(-1) == gold).sum(-1)
    metric = Likelihood()
    metric.update(-chances.sum(-1), torch.full((rows,), length), correct=right, text_bytes=torch.full((rows,), 3))
    scores = metric.compute()
    assert scores == pytest.approx(
        {
            "loss": -chances.mean().item(),
            "perplexity": perplexity(logits, gold).item(),
            "bits_per_byte": -chances.exp().log2().sum().item() / (3 * rows),
            "accuracy": right.sum().item() / gold.numel(),
        }
    )


def test_bits_per_byte_do_not_depend_on_the_tokens():
    """The same chance for the same text, in three tokens or in twelve."""
    words, letters = Likelihood(), Likelihood()
    words.update([8.0], [3], text_bytes=[12])
    letters.update(8.0, 12, text_bytes=12)
    assert words.compute()["bits_per_byte"] == letters.compute()["bits_per_byte"] == pytest.approx(8 / math.log(2) / 12)
    assert words.compute()["perplexity"] > letters.compute()["perplexity"]


def test_likelihood_gives_only_what_it_is_told():
    metric = Likelihood()
    metric.update(torch.tensor(3.0), 2)
    assert metric.compute() == {"loss": 1.5, "perplexity": pytest.approx(math.exp(1.5))}
    metric = Likelihood()
    metric.update(3.0, 2, correct=0)
    assert metric.compute()["accuracy"] == 0.0
    metric = Likelihood()
    metric.update(2000.0, 1)
    assert metric.compute()["perplexity"] == math.inf
    metric = Likelihood()
    metric.update([0.0], [0])
    with pytest.raises(ValueError, match="no loss of no tokens"):
        metric.compute()


@given(seed=seeds, queries=st.integers(1, 6), candidates=st.integers(1, 9))
def test_search_without_ties_equals_torchmetrics(seed, queries, candidates):
    from torchmetrics.functional.retrieval import retrieval_hit_rate, retrieval_reciprocal_rank

    random = torch.Generator().manual_seed(seed)
    scores = torch.stack([torch.randperm(candidates, generator=random) for _ in range(queries)]).float() + 1
    right = torch.randint(candidates, (queries,), generator=random)
    relevant = torch.nn.functional.one_hot(right, candidates)
    metric = Retrieval((1, 3))
    metric.update(scores, right)
    rows = list(zip(scores, relevant, strict=True))
    expected = {
        f"retrieval@{k}": np.mean([retrieval_hit_rate(*row, top_k=min(k, candidates)) for row in rows]) for k in (1, 3)
    }
    assert metric.compute() == pytest.approx(
        {**expected, "mrr": np.mean([retrieval_reciprocal_rank(*row) for row in rows])}
    )


@given(seed=seeds)
def test_search_with_ties_takes_the_worst_rank(seed):
    from scipy.stats import rankdata

    random = torch.Generator().manual_seed(seed)
    scores = torch.randint(3, (5, 7), generator=random).float()
    scores[0, 0] = -math.inf  # no candidate
    right = torch.randint(1, 7, (5,), generator=random)
    ranks = rankdata(-scores.numpy(), method="max", axis=1)[range(5), right]
    metric = Retrieval((2,))
    metric.update(scores, right)
    assert metric.compute() == pytest.approx({"retrieval@2": np.mean(ranks <= 2), "mrr": np.mean(1 / ranks)})


def test_search_names_the_query_that_is_nan():
    metric = Retrieval()
    metric.update(torch.eye(4), torch.arange(4))
    with pytest.raises(ValueError, match="^query 5 has a score that is nan; .*embedding"):
        metric.update(torch.tensor([[1.0, 0.0], [1.0, math.nan]]), torch.tensor([0, 0]))


def test_sequences_match_as_a_whole():
    metric = ExactMatch()
    metric.update([[1, 2], (3,), [], "ab", [1]], [(1, 2), [3], [], "ab", [1, 1]])
    assert metric.compute() == {"exact_match": 0.8}
    with pytest.raises(ValueError, match="zip"):
        metric.update([[1]], [])
