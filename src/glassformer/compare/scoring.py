"""Scores of a cell that trains nothing: kept as a run keeps its own, so that examples can be paired all the same."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from glassformer.data.fingerprint import fingerprint
from glassformer.jobs.run_folder import EXAMPLES
from glassformer.tasks.metrics import ScoreSheet
from glassformer.tasks.metrics.examples import ExampleScores, write_examples

from .cell import RUN


@dataclass(frozen=True, kw_only=True)
class Scored:
    """What `measure` returns that has scored examples itself: scores by split, beside facts and costs."""

    metric: str
    scores: Mapping[str, Mapping[str, float]]
    cost: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


def keep_scores(folder: Path, metric: str, sheet: ScoreSheet, examples: Sequence[Any], **known: Any) -> Scored:
    """Write the rows of a sheet of test examples where those of a run would be; `known` are costs and facts."""
    (folder / RUN).mkdir(exist_ok=True)
    write_examples(folder / RUN / EXAMPLES, {"test": ExampleScores.of(sheet, fingerprint(examples))})
    return Scored(metric=metric, scores={"test": sheet.compute()}, **known)
