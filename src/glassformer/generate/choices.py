"""Choices: a text as it is written, each token with its chance and with what could have stood in its place.

V vocabulary, k alternatives.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from glassformer.engine.prepare import prepared
from glassformer.models.contract import GenerativeModel

from .job import Job
from .needs import check_needs
from .pick import Filter, Filters
from .search import tokens


@dataclass(frozen=True)
class Chance:
    """A token, its log-probability under the model itself, and its share after the filters: what it is drawn by."""

    id: int
    logprob: float
    share: float


@dataclass(frozen=True)
class Choice:
    """What was taken at one step, and the likeliest tokens there."""

    taken: Chance
    top: list[Chance]  # k, likeliest first
    last: bool  # whether the text ends with it


def choices(model: GenerativeModel[Any], job: Job, alternatives: int) -> Iterator[Choice]:
    """One text token by token, as greedy search or sampling finds it."""
    if job.settings.strategy not in ("greedy", "sample") or len(job.prompt.written) > 1:
        raise ValueError(f"the strategy {job.settings.strategy!r} does not take token by token; take greedy or sample")
    check_needs(model, job.prompt, job.settings)
    scores: dict[str, Tensor] = {}  # of the last step: as the model gave them, and after the filters
    watched = Filters([_seen(scores, "given"), *job.filters.each, _seen(scores, "left")])
    steps = tokens(prepared(model, 1), replace(job, filters=watched))
    while True:
        with torch.inference_mode():  # left at every step, so that the caller's own work is not in it
            step = next(steps, None)
            if step is None:
                return
            choice = _choice(int(step[0]), scores, alternatives, last=not bool(step[1]))
        yield choice


def _seen(scores: dict[str, Tensor], name: str) -> Filter:
    """A filter that changes nothing and keeps what passes."""

    def keep(_: Tensor, given: Tensor) -> Tensor:
        scores[name] = given[0]
        return given

    return keep


def _choice(taken: int, scores: dict[str, Tensor], alternatives: int, *, last: bool) -> Choice:
    logs, shares = scores["given"].log_softmax(-1), scores["left"].softmax(-1)  # (V,)
    ids = [taken, *logs.topk(min(alternatives, len(logs))).indices.tolist()]
    chances = [Chance(*one) for one in zip(ids, logs[ids].tolist(), shares[ids].tolist(), strict=True)]
    return Choice(chances[0], chances[1:], last)
