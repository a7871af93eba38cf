"""Intervals hold the truth about as often as they say, and equal their textbook forms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.tasks.metrics import BleuChrf, Classification, Interval, bootstrap, wilson


@given(
    st.integers(1, 500).flatmap(lambda count: st.tuples(st.integers(0, count), st.just(count))),
    st.sampled_from([0.8, 0.95]),
)
def test_wilson_equals_scipy(given_, level):
    from scipy.stats import binomtest

    hits, count = given_
    theirs = binomtest(hits, count).proportion_ci(level, method="wilson")
    assert wilson(hits, count, level=level) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


@pytest.mark.parametrize("truth", [0.05, 0.5, 0.9])
def test_wilson_covers_the_truth_as_often_as_it_says(truth):
    from scipy.stats import binom

    hits = np.arange(201)
    held = [low <= truth <= high for low, high in (wilson(int(n), 200) for n in hits)]
    assert binom.pmf(hits, 200, truth)[held].sum() == pytest.approx(0.95, abs=0.02)


def mean(rows):
    return {"mean": float(rows.mean())}


def test_the_bootstrap_covers_the_truth_about_as_often_as_it_says():
    random = np.random.default_rng(0)
    held = 0
    for seed in range(300):
        low, high = bootstrap(random.normal(size=60), mean, resamples=200, seed=seed)["mean"]
        held += low <= 0 <= high
    assert 0.9 <= held / 300 <= 0.98


def test_the_bootstrap_of_a_mean_is_as_wide_as_its_error():
    rows = np.random.default_rng(1).normal(3, 2, size=2000)
    low, high = bootstrap(rows, mean, resamples=2000)["mean"]
    assert high - low == pytest.approx(2 * 1.96 * rows.std() / 2000**0.5, rel=0.1)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=20), st.randoms(use_true_random=False))
def test_the_order_of_examples_does_not_matter(values, random):
    rows = np.array(values)
    order = random.sample(range(len(rows)), len(rows))
    assert bootstrap(rows[order], mean, resamples=30) == bootstrap(rows, mean, resamples=30)


def test_a_higher_level_is_wider():
    rows = np.random.default_rng(2).random(50)
    narrow, wide = (bootstrap(rows, mean, level=level)["mean"] for level in (0.5, 0.99))
    assert wide.low < narrow.low < narrow.high < wide.high


def test_full_accuracy_is_not_full_certainty():
    metric = Classification(["no", "yes"], keep_examples=True)
    metric.update([0, 1] * 10, [0, 1] * 10)
    found = metric.intervals()
    assert found["accuracy"] == wilson(20, 20) != Interval(1.0, 1.0)
    assert found["f1"] == Interval(1.0, 1.0)


def test_bleu_intervals_agree_with_sacrebleus(data):
    """sacreBLEU's own bootstrap, over the same translations: German captions with some words left out."""
    from sacrebleu.metrics import BLEU

    [path] = sorted((data / "multi30k").glob("test_2016*.de"))
    references = path.read_text("utf-8").splitlines()[:300]
    random = np.random.default_rng(0)
    hypotheses = [" ".join(w for w in line.split() if random.random() > 0.2) for line in references]
    metric = BleuChrf(keep_examples=True)
    metric.update(hypotheses, references)
    low, high = metric.intervals()["bleu"]
    theirs = BLEU().corpus_score(hypotheses, [references], n_bootstrap=1000)
    assert low < metric.compute()["bleu"] < high
    assert high - low == pytest.approx(2 * theirs._ci, rel=0.15)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: wilson(3, 2), "3 hits among 2 examples are no share"),
        (lambda: wilson(0, 0), "0 hits among 0 examples are no share"),
        (lambda: wilson(1, 2, level=95), "level must be above 0 and below 1, such as 0.95, not 95"),
        (lambda: bootstrap(np.ones(3), mean, level=1), "level must be above 0 and below 1, such as 0.95, not 1"),
        (lambda: bootstrap(np.ones(3), mean, resamples=0), "0 resamples of 3 examples give no interval"),
        (lambda: bootstrap(np.ones(0), mean), "1000 resamples of 0 examples give no interval"),
    ],
)
def test_what_has_no_interval_is_said(ask, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        ask()
