"""Counters of what a server does, for Prometheus; every label is of a set that is known at the start."""

from collections.abc import Iterable
from typing import Any, Literal, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from .messages import Kind

Outcome = Literal["done", "failed", "cancelled"]
Reason = Literal["busy", "loading", "draining"]
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
CONTENT_TYPE = CONTENT_TYPE_LATEST


class Metrics:
    """Requests that a model has accepted end in exactly one way: accepted = done + failed + cancelled + in flight."""

    def __init__(self, models: Iterable[str]) -> None:
        self.registry, self.models = CollectorRegistry(), list(models)
        made: Any = {"registry": self.registry, "namespace": "glassformer"}
        self.accepted = Counter("requests_accepted", "Requests taken on", ["model"], **made)
        self.finished = Counter("requests_finished", "Requests that have ended", ["model", "outcome"], **made)
        self.refused = Counter("requests_refused", "Requests sent away", ["model", "reason"], **made)
        self.in_flight = Gauge("requests_in_flight", "Requests that wait or run", ["model"], **made)
        self.ready = Gauge("model_ready", "Workers that are loaded", ["model"], **made)
        self.restarts = Counter("worker_restarts", "Workers that had died and were begun anew", ["model"], **made)
        self.seconds = Histogram("request_seconds", "From request to answer", ["model"], buckets=SECONDS, **made)
        self.first_token = Histogram(
            "first_token_seconds", "From request to its first token", ["model"], buckets=SECONDS, **made
        )
        self.batch_rows = Histogram("batch_rows", "Inputs of a batch", ["model", "kind"], buckets=ROWS, **made)
        self.batch_seconds = Histogram("batch_seconds", "Time of a batch", ["model", "kind"], buckets=SECONDS, **made)
        self.read_tokens = Counter("prompt_tokens", "Tokens read", ["model"], **made)
        self.written_tokens = Counter("completion_tokens", "Tokens written", ["model"], **made)
        self.responses = Counter("http_responses", "Answers by class of status", ["status"], **made)
        for name in self.models:  # so that a rate is known before the first of its kind
            for one in (self.accepted, self.in_flight, self.ready, self.restarts):
                one.labels(name)
            for outcome in get_args(Outcome):
                self.finished.labels(name, outcome)
            for reason in get_args(Reason):
                self.refused.labels(name, reason)
            for kind in get_args(Kind):
                self.batch_rows.labels(name, kind)

    def text(self) -> bytes:
        return generate_latest(self.registry)
