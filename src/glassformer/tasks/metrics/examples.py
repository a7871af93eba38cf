"""Score sheets kept in a file, example by example, for those who compare two models on the same examples.

N examples, F numbers that describe one of them.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any, Self

import numpy as np

from glassformer.files import write_bytes
from glassformer.tasks.metrics.metric import Array, Metric
from glassformer.tasks.metrics.sheet import Meter, ScoreSheet

NOT_SETTINGS = ("count", "total", "rows", "types", "order")  # of a metric: what it has counted
FACTS = "facts"  # the name of what is no array


@dataclass(frozen=True)
class ExampleScores:
    """What a model made of each example of a split: the rows (N, F) of every metric, in the order of the examples.

    `data` is the fingerprint of the examples: scores of other examples cannot be paired with these. Where a metric has
    other rows than one for each example (windows of a text, say), `in_order` is False.
    """

    meters: Mapping[str, tuple[Meter, Array]]
    data: str
    in_order: bool = True

    @classmethod
    def of(cls, sheet: ScoreSheet, data: str) -> Self:
        """Of a sheet that was made with keep_examples."""
        found, in_order = {}, True
        for name, meter in sheet.meters.items():
            if not meter.metric.count:
                continue
            deferred = not isinstance(meter.metric, Metric)
            metric = meter.metric if isinstance(meter.metric, Metric) else meter.metric.judge()
            if metric.rows:
                rows = np.concatenate(metric.rows)
                order = sheet.order if metric.order is None else metric.order
                if not deferred and len(rows) == len(order):
                    rows = rows[np.argsort(order, kind="stable")]
                elif not deferred:
                    in_order = False
                found[name] = replace(meter, metric=_blank(type(metric), _settings(metric))), rows
        return cls(found, data, in_order)

    def scores(self, chosen: Array | slice = slice(None)) -> dict[str, float]:
        """Every score by its name, of the examples of these numbers."""
        return {name: value for meter, rows in self.meters.values() for name, value in _named(meter, rows[chosen])}

    def score(self, name: str, chosen: Array | slice = slice(None)) -> float:
        """One score of the examples of these numbers."""
        meter, rows = self.meters[self._meter_of(name)]
        return dict(_named(meter, rows[chosen]))[name]

    def rows_of(self, name: str) -> Array:
        """The rows (N, F) that a score is made of."""
        return self.meters[self._meter_of(name)][1]

    def exchangeable_rows(self, name: str) -> Array:
        """Those rows on a scale that the ones of another model have too."""
        meter, rows = self.meters[self._meter_of(name)]
        assert isinstance(meter.metric, Metric)
        return meter.metric.exchangeable(rows, name.removeprefix(meter.prefix).removesuffix(meter.suffix))

    def scorer(self, name: str) -> Callable[[Array], float]:
        """What gives the score that other rows would have."""
        meter, _ = self.meters[self._meter_of(name)]
        return lambda rows: dict(_named(meter, rows))[name]

    def _meter_of(self, score: str) -> str:
        if score not in self._owners:
            raise ValueError(f"there is no score {score!r} of single examples; there are: {', '.join(self.scores())}")
        return self._owners[score]

    @cached_property
    def _owners(self) -> dict[str, str]:
        """Which meter has each score: asked thousands of times by a bootstrap."""
        listed = [(score, name) for name, (meter, rows) in self.meters.items() for score, _ in _named(meter, rows)]
        return dict(reversed(listed))  # of two that share a name, the first


def _named(meter: Meter, rows: Array) -> Iterator[tuple[str, float]]:
    assert isinstance(meter.metric, Metric)
    yield from meter.named(meter.metric.scores_of(rows)).items()


def _settings(metric: Metric) -> dict[str, Any]:
    return {name: value for name, value in vars(metric).items() if name not in NOT_SETTINGS}


def _blank(kind: type[Metric], settings: Mapping[str, object]) -> Metric:
    """A metric of these settings that has counted nothing."""
    metric = kind.__new__(kind)
    vars(metric).update(settings, count=0, rows=None)
    return metric


def write_examples(path: Path, splits: Mapping[str, ExampleScores]) -> None:
    """Every split's rows in one compressed file of arrays."""
    facts: dict[str, Any] = {}
    arrays: dict[str, Array] = {}
    for split, one in splits.items():
        meters = {}
        for name, (meter, rows) in one.meters.items():
            arrays[f"{split}/{name}"] = rows
            meters[name] = {
                "metric": type(meter.metric).__name__,
                "settings": _settings(meter.metric),  # type: ignore[arg-type] # deferred ones were judged
                "named": [meter.prefix, meter.suffix, list(meter.only)],
            }
        facts[split] = {"data": one.data, "in_order": one.in_order, "meters": meters}
    arrays[FACTS] = np.frombuffer(json.dumps(facts).encode(), np.uint8)
    file = BytesIO()
    np.savez_compressed(file, **arrays)  # type: ignore[arg-type] # numpy's hint is of its other arguments
    write_bytes(path, file.getvalue())


def read_examples(path: Path) -> dict[str, ExampleScores]:
    """What `write_examples` wrote, by split; refused where it is something else."""
    try:
        with np.load(path, allow_pickle=False) as file:
            facts = json.loads(file[FACTS].tobytes())
            return {split: _read(split, one, file) for split, one in facts.items()}
    except (KeyError, TypeError, ValueError, OSError) as error:
        raise ValueError(f"{path} holds no scores of examples: {error}") from None


def _read(split: str, facts: Mapping[str, Any], file: Mapping[str, Array]) -> ExampleScores:
    kinds = {kind.__name__: kind for kind in _kinds(Metric)}  # type: ignore[type-abstract] # of which it is the root
    meters = {}
    for name, one in facts["meters"].items():
        prefix, suffix, only = one["named"]
        metric = _blank(kinds[one["metric"]], one["settings"])
        meters[name] = Meter(metric, prefix, suffix, tuple(only)), file[f"{split}/{name}"]
    return ExampleScores(meters, facts["data"], facts["in_order"])


def _kinds(kind: type[Metric]) -> Iterator[type[Metric]]:
    for one in kind.__subclasses__():
        yield one
        yield from _kinds(one)
