"""Laws of every metric: chunks, processes and order change nothing, memory is bounded, bad input is named."""

import math
import pickle
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.tasks import metrics
from glassformer.tasks.metrics import Metric

WORDS = ["a", "the", "cat", "sat", "on", "mat", "dog", "ran", ",", ".", "The", "Cat"]
TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


@dataclass(frozen=True)
class Case:
    """A metric, an example of what it is given, and how it is given a list of those."""

    make: Callable[..., Metric]
    example: Callable[[random.Random], tuple[Any, ...]]
    feed: Callable[[Any, list[Any]], None]
    names: set[str]


def columns(metric, examples):
    metric.update([one[0] for one in examples], [one[1] for one in examples])


def tables(metric, examples):
    metric.update(*(np.array([one[side] for one in examples]).reshape(-1, 3) for side in (0, 1)))


def texts(metric, examples):
    loss, tokens, right, size = np.array(examples, dtype=np.float64).reshape(-1, 4).T
    metric.update(loss, tokens, correct=right, text_bytes=size)


def detections(metric, examples):
    loss, tokens, right, hits, found, gold = np.array(examples, dtype=np.float64).reshape(-1, 6).T
    metric.update(loss, tokens, correct=right, hits=hits, found=found, gold=gold)


def searches(metric, examples):
    scores = torch.tensor([one[0] for one in examples]).reshape(-1, 4)
    metric.update(scores, torch.tensor([one[1] for one in examples], dtype=torch.long))


def sentence(rng, most=6):
    return " ".join(rng.choices(WORDS, k=rng.randint(0, most)))


def tagged(rng):
    length = rng.randint(0, 5)
    return rng.choices(TAGS, k=length), rng.choices(TAGS, k=length)


ENTITY = {"precision", "recall", "f1"}
CASES = {
    "classification": Case(
        lambda **kept: metrics.Classification("xyz", **kept),
        lambda rng: (rng.randrange(3), rng.randrange(3)),
        columns,
        {"accuracy", "f1", "f1_micro", "mcc"},
    ),
    "multi-label": Case(
        lambda **kept: metrics.MultiLabel("xyz", **kept),
        lambda rng: ([rng.random() for _ in range(3)], [rng.randrange(2) for _ in range(3)]),
        tables,
        {"subset_accuracy", "f1", "f1_micro"},
    ),
    "rouge": Case(
        metrics.Rouge, lambda rng: (sentence(rng, 9), sentence(rng, 9)), columns, {"rouge1", "rouge2", "rougeL"}
    ),
    "correlation": Case(
        metrics.Correlation, lambda rng: (rng.gauss(0, 1), rng.randrange(4)), columns, {"pearson", "spearman"}
    ),
    "regression": Case(
        metrics.Regression, lambda rng: (rng.gauss(0, 1), rng.random()), columns, {"mse", "pearson", "spearman"}
    ),
    "entities": Case(
        metrics.Entities, tagged, columns, {*ENTITY, *(f"{name}_conlleval" for name in ENTITY), "accuracy"}
    ),
    "answers": Case(
        metrics.Answers,
        lambda rng: (sentence(rng), [sentence(rng) for _ in range(rng.randint(1, 3))]),
        columns,
        {"exact_match", "f1"},
    ),
    "translation": Case(metrics.BleuChrf, lambda rng: (sentence(rng, 9), sentence(rng, 9)), columns, {"bleu", "chrf"}),
    "likelihood": Case(
        metrics.Likelihood,
        lambda rng: (rng.uniform(0, 50), rng.randint(10, 20), rng.randint(0, 10), rng.randint(1, 90)),
        texts,
        {"loss", "perplexity", "bits_per_byte", "accuracy"},
    ),
    "detection": Case(
        metrics.Detection,
        lambda rng: (
            rng.uniform(0, 50),
            20,
            rng.randint(0, 20),
            rng.randint(0, 3),
            rng.randint(3, 6),
            rng.randint(3, 6),
        ),
        detections,
        {"loss", "accuracy", "precision", "recall", "f1"},
    ),
    "retrieval": Case(
        lambda **kept: metrics.Retrieval((1, 2), **kept),
        lambda rng: ([float(rng.randrange(5)) for _ in range(4)], rng.randrange(4)),
        searches,
        {"retrieval@1", "retrieval@2", "mrr"},
    ),
    "exact match": Case(
        metrics.ExactMatch,
        lambda rng: (rng.choices("ab", k=2), tuple(rng.choices("ab", k=2))),
        columns,
        {"exact_match"},
    ),
}
every_metric = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
seeds = st.integers(0, 10**6)


def examples_of(case, seed, count):
    rng = random.Random(seed)
    return [case.example(rng) for _ in range(count)]


def whole(case, examples, **kept):
    metric = case.make(**kept)
    case.feed(metric, examples)
    return metric


def close(scores):
    return pytest.approx(scores, rel=1e-12, abs=1e-12)


def test_every_metric_has_its_case():
    made = {type(case.make(keep_examples=True)) for case in CASES.values()}
    public = {value for value in vars(metrics).values() if isinstance(value, type) and issubclass(value, Metric)}
    assert made == public - {Metric, metrics.MeanLoss}  # which has no intervals: see test_score_sheet


@every_metric
@settings(max_examples=25)
@given(seed=seeds, cuts=st.lists(st.integers(0, 30), max_size=5).map(sorted))
def test_however_it_is_cut_a_stream_gives_the_same(case, seed, cuts):
    examples = examples_of(case, seed, 30)
    streamed = case.make()
    for start, stop in zip([0, *cuts], [*cuts, 30], strict=True):
        case.feed(streamed, examples[start:stop])
    scores = streamed.compute()
    assert scores == close(whole(case, examples).compute())
    assert scores.keys() >= case.names
    assert {type(score) for score in scores.values()} == {float}


@every_metric
@settings(max_examples=25)
@given(seed=seeds, sizes=st.lists(st.integers(0, 9), min_size=1, max_size=4).filter(any))
def test_processes_together_are_one_stream(case, seed, sizes):
    """Each part is pickled, as gathering it would, and they are merged in another order; one may be empty."""
    examples = examples_of(case, seed, sum(sizes))
    ends = np.cumsum(sizes)
    parts = [whole(case, examples[end - size : end], keep_examples=True) for size, end in zip(sizes, ends, strict=True)]
    random.Random(seed).shuffle(parts)
    merged = case.make(keep_examples=True)
    for part in parts:
        merged.merge(pickle.loads(pickle.dumps(part)))
    alone = whole(case, examples, keep_examples=True)
    assert merged.compute() == close(alone.compute())
    if hasattr(merged, "report"):
        assert merged.report() == alone.report()
    drawn, expected = (metric.intervals(resamples=20, seed=seed) for metric in (merged, alone))
    assert drawn.keys() == expected.keys()
    for name, ends_ in drawn.items():
        assert ends_ == pytest.approx(expected[name], rel=1e-9, abs=1e-9)


@every_metric
def test_intervals_repeat_with_their_seed_and_hold_the_score(case):
    metric = whole(case, examples_of(case, 7, 60), keep_examples=True)
    first, again, other = (metric.intervals(resamples=200, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first.keys() == metric.compute().keys()
    assert first != other or set(metric.shares) == set(first)  # Wilson draws nothing
    for name, score in metric.compute().items():
        assert first[name].low <= score <= first[name].high
        assert first[name].low < first[name].high


@every_metric
def test_memory_does_not_grow_with_the_stream(case):
    metric = case.make(keep_examples=False)
    sizes = []
    for seed in range(4):
        case.feed(metric, examples_of(case, seed, 100))
        sizes.append(len(pickle.dumps(metric)))
    assert max(sizes) - min(sizes) < 16  # numbers of another length, no examples


@every_metric
def test_no_examples_have_no_score(case):
    metric = case.make(keep_examples=True)
    for asked in (metric.compute, metric.intervals):
        with pytest.raises(ValueError, match="^there is no score of no examples; update the metric with at least one$"):
            asked()


@every_metric
def test_intervals_and_merging_ask_for_what_they_need(case):
    without, kept = (whole(case, examples_of(case, 1, 9), keep_examples=keep) for keep in (False, True))
    with pytest.raises(ValueError, match="make the metric with keep_examples=True"):
        without.intervals()
    with pytest.raises(ValueError, match="give both the same keep_examples"):
        without.merge(kept)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    ("name", "given", "what"),
    [
        ("multi-label", ([[0.1] * 3, [0.2, None, 0.3]], np.ones((2, 3))), "chance of example 3"),
        ("correlation", ([0.1, None], [1.0, 2.0]), "prediction of example 3"),
        ("regression", ([0.1, 3.0], [1.0, None]), "gold score of example 3"),
        ("likelihood", ([0.1, None], [1, 1]), "loss of example 3"),
    ],
)
def test_a_number_that_is_none_is_named_and_not_counted(name, given, what, bad):
    case = CASES[name]
    metric = whole(case, examples_of(case, 0, 2))
    before = metric.compute()
    given = [np.array(side, dtype=np.float64) for side in given]  # None becomes nan
    given = [np.where(np.isnan(side), bad, side) for side in given]
    with pytest.raises(ValueError, match=f"^the {what} is {bad}, which cannot be scored; .*leave that example out$"):
        metric.update(*given)
    assert metric.compute() == before


@pytest.mark.slow
def test_importing_metrics_imports_no_scorer():
    """torchmetrics takes seconds and serves as an oracle only; sacrebleu is for who translates."""
    scorers = {"torchmetrics", "sacrebleu", "scipy", "sklearn"}
    code = f"import sys, glassformer.tasks.metrics; print({scorers} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
