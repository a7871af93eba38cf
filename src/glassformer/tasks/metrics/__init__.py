"""Metrics: accumulators that take batch after batch, merge across processes, and give scores with intervals.

Scores are shares between 0 and 1, but BLEU and chrF, which keep sacreBLEU's scale of 0 to 100. Predictions come first
and what they are compared with second, everywhere.
"""

from glassformer.tasks.metrics.answers import Answers
from glassformer.tasks.metrics.classification import Classification, MultiLabel
from glassformer.tasks.metrics.detection import Detection
from glassformer.tasks.metrics.entities import Entities
from glassformer.tasks.metrics.intervals import Interval, bootstrap, wilson
from glassformer.tasks.metrics.likelihood import Likelihood
from glassformer.tasks.metrics.metric import DeferredMetric, Metric
from glassformer.tasks.metrics.regression import Correlation, Regression
from glassformer.tasks.metrics.retrieval import Retrieval, VectorRetrieval
from glassformer.tasks.metrics.sequences import ExactMatch
from glassformer.tasks.metrics.sheet import MeanLoss, Meter, ScoreSheet
from glassformer.tasks.metrics.summaries import Rouge, rouge_tokenizer
from glassformer.tasks.metrics.translation import BleuChrf, bleu_tokenizer

__all__ = [
    "Answers",
    "BleuChrf",
    "Classification",
    "Correlation",
    "DeferredMetric",
    "Detection",
    "Entities",
    "ExactMatch",
    "Interval",
    "Likelihood",
    "MeanLoss",
    "Meter",
    "Metric",
    "MultiLabel",
    "Regression",
    "Retrieval",
    "Rouge",
    "ScoreSheet",
    "VectorRetrieval",
    "bleu_tokenizer",
    "bootstrap",
    "rouge_tokenizer",
    "wilson",
]
