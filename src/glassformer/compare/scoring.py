"""Scores that a cell has given itself, kept as a run keeps its own, so that examples can be paired all the same."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from glassformer.data.fingerprint import fingerprint
from glassformer.jobs.run_folder import EXAMPLES
from glassformer.tasks.metrics import ScoreSheet
from glassformer.tasks.metrics.examples import ExampleScores, write_examples


@dataclass(frozen=True, kw_only=True)
class Scored:
    """What `measure` returns that has scored examples itself: they count in the place of a run's scores."""

    metric: str
    scores: Mapping[str, Mapping[str, float]]
    cost: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


def keep_scores(
    folder: Path, metric: str, sheet: ScoreSheet, examples: Sequence[Any], *, split: str = "test", **known: Any
) -> Scored:
    """Write the rows of a sheet of these examples of a split into a cell's folder; `known` are costs and facts."""
    write_examples(folder / EXAMPLES, {split: ExampleScores.of(sheet, fingerprint(examples))})
    return Scored(metric=metric, scores={split: sheet.compute()}, **known)
