"""Tests of differences, against scipy and by hand."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from glassformer.compare.results import within_scale
from glassformer.compare.statistics import (
    Difference,
    bootstrap_mean,
    holm,
    over_seeds,
    paired,
    spread,
    student_p,
    student_quantile,
)
from glassformer.tasks.metrics.intervals import Interval
from quick import is_quick

CHANCE = np.random.default_rng(5)


def mean(rows):
    return float(rows.mean())


@pytest.mark.few(2)
@pytest.mark.parametrize("gap", [0.0, 0.05, 0.2, -0.3])
def test_the_permutation_test_is_scipys(gap):
    from scipy import stats

    one, other = CHANCE.normal(gap, 1, 200), CHANCE.normal(0, 1, 200)
    found = paired([one], [other], mean, resamples=4000)
    theirs = stats.permutation_test(
        (one, other), lambda a, b: a.mean() - b.mean(), permutation_type="samples", n_resamples=4000,
        random_state=np.random.default_rng(0),
    )  # fmt: skip
    assert found.ahead == pytest.approx(one.mean() - other.mean())
    assert found.p == pytest.approx(theirs.pvalue, abs=0.03)


def test_the_interval_is_scipys_bootstrap():
    from scipy import stats

    one, other = CHANCE.normal(0.3, 1, 300), CHANCE.normal(0, 1, 300)
    found = paired([one], [other], mean, resamples=4000).interval
    theirs = stats.bootstrap(
        (one - other,), np.mean, method="percentile", n_resamples=4000, random_state=np.random.default_rng(0)
    ).confidence_interval
    assert found == pytest.approx((theirs.low, theirs.high), abs=0.02)
    alone = bootstrap_mean([one], mean, resamples=4000)
    theirs = stats.bootstrap(
        (one,), np.mean, method="percentile", n_resamples=4000, random_state=np.random.default_rng(0)
    )
    assert alone == pytest.approx(tuple(theirs.confidence_interval), abs=0.02)


@pytest.mark.slow
def test_where_there_is_no_difference_p_is_spread_evenly():
    from scipy import stats

    values = []
    for seed in range(200):
        chance = np.random.default_rng(seed)
        values.append(paired([chance.normal(size=40)], [chance.normal(size=40)], mean, resamples=100, seed=seed).p)
    assert stats.kstest(values, "uniform").pvalue > 0.01


def test_seeds_of_one_contestant_widen_its_interval():
    examples = CHANCE.normal(size=400)
    alike = paired([examples, examples], [examples - 0.1] * 2, mean)
    apart = paired([examples + 0.5, examples - 0.5], [examples - 0.1] * 2, mean)
    assert alike.ahead == pytest.approx(apart.ahead) == pytest.approx(0.1)
    assert apart.interval.high - apart.interval.low > 10 * (alike.interval.high - alike.interval.low)


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=6), st.lists(st.floats(-5, 5), min_size=2, max_size=6))
def test_seeds_alone_are_tested_as_scipy_does_it(one, other):
    from scipy import stats

    assume(np.var(one) > 1e-6 and np.var(other) > 1e-6)
    found, theirs = over_seeds(one, other), stats.ttest_ind(one, other, equal_var=False)
    assert found.p == pytest.approx(theirs.pvalue, abs=1e-5)
    ends = theirs.confidence_interval(0.95)
    assert found.interval == pytest.approx((ends.low, ends.high), rel=1e-3, abs=1e-3)


@given(st.floats(-50, 50), st.floats(1, 60))
def test_students_distribution_is_scipys(t, freedom):
    from scipy import stats

    assert student_p(t, freedom) == pytest.approx(2 * stats.t.sf(abs(t), freedom), abs=1e-5)
    assert student_quantile(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=1e-3)


def test_one_seed_each_shows_nothing():
    assert over_seeds([3.0], [1.0]) == Difference(2.0, None, None, one_seed=True)
    assert not paired([np.ones(50)], [np.zeros(50)], mean, resamples=100).is_shown
    assert paired([np.ones(50)] * 2, [np.zeros(50)] * 2, mean, resamples=100).is_shown


@pytest.mark.slow
def test_seeds_that_differ_by_chance_are_seldom_called_ahead():
    """As many examples as hide all their own doubt: what is left is that of the seeds."""
    wrong, trials = 0, 100 if is_quick() else 300
    for trial in range(trials):
        chance = np.random.default_rng(trial)
        sides = [[np.full(4, value) for value in chance.normal(size=3)] for _ in range(2)]
        ends = paired(*sides, mean, resamples=3).interval
        wrong += not ends.low <= 0 <= ends.high
    assert wrong / trials < 0.08


def test_holm_by_hand():
    assert holm([0.01, None, 0.04, 0.03]) == [pytest.approx(0.03), None, pytest.approx(0.06), pytest.approx(0.06)]
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_the_spread_is_that_of_a_sample():
    assert spread([1.0, 2.0, 4.0]) == pytest.approx((7 / 3, np.std([1, 2, 4], ddof=1)))
    assert spread([1.0]) == (1.0, None)


def test_other_examples_cannot_be_paired():
    with pytest.raises(ValueError, match="only scores of the same examples can be paired, not of \\[3, 4\\]"):
        paired([np.ones(3)], [np.ones(4)], mean)


@pytest.mark.parametrize(
    ("name", "ends"),
    [("accuracy", (0.0, 1.0)), ("spearman", (-0.5, 1.0)), ("mcc", (-0.5, 1.0)), ("bleu", (-0.5, 1.5))],
)
def test_an_interval_is_no_wider_than_the_scale_of_its_score(name, ends):
    assert within_scale(name, Interval(-0.5, 1.5)) == ends
