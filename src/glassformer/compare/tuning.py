"""Contestants that each need a learning rate of their own: each runs at a few, and is judged at its best on dev."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean as mean
from typing import Any, ClassVar

from glassformer.files.schema import Positive
from glassformer.jobs.run_folder import read_metrics
from glassformer.view.plots import PlotLine, line_plot
from glassformer.view.report import NOTHING, Column, Entry, Figure, Section, Table, TableRow, Text

from .cell import Cell, CellResult
from .curves import mean_line
from .experiment import DataExperiment, chosen
from .reporting import CONTESTANT, differences, score_figure, score_table, written
from .results import Results, as_shown, summarised

AXIS = "lr"  # of a cell's place


@dataclass(frozen=True, kw_only=True)
class TunedExperiment(DataExperiment):
    """Ways to train one model: each at every rate of a small grid, and compared at the rate that is best on dev."""

    note: ClassVar[Text] = NOTHING  # what a reader must know to read the numbers right

    budget: str | None = "300steps"
    arch: str = "transformer"
    model: str | None = None  # to fine-tune, in the place of a fresh one of `arch`
    rates: Sequence[Positive] = ()  # for every contestant; by default a few that suit each
    contestants: Sequence[str] = ()  # some of them; by default all

    @abstractmethod
    def ways(self) -> Mapping[str, Mapping[str, Any]]:
        """The contestants and their settings."""

    @abstractmethod
    def rates_of(self, contestant: str) -> Sequence[float]:
        """The rates that suit a contestant."""

    def cells(self) -> list[Cell]:
        ways = self.ways()
        names = chosen(self.contestants, ways)
        self.read()
        start = {"arch": self.arch} if self.model is None else {"model": self.model}
        return [
            cell
            for one in names
            for rate in self.rates or self.rates_of(one)
            for cell in self.train_cells(one, {AXIS: rate}, **start, **ways[one], lr=rate)
        ]

    def findings(self, results: Results) -> list[Text]:
        at_best, rates = tuned(results)
        edges = [one for one in rates if is_at_the_edge(results, one, rates[one])]
        findings = differences(at_best, at_best.against_best())
        if edges:
            named = ", ".join(f"{one} ({rates[one]:g})" for one in edges)
            findings.append(
                Text(
                    f"The best rate is the least or the highest tried, so a better one may lie beyond: {named}.",
                    f"最佳学习率落在所试范围的边缘，更好的可能在范围之外：{named}。",
                )
            )
        return findings

    def sections(self, results: Results) -> list[Section]:
        at_best, rates = tuned(results)
        chosen = ", ".join(f"{one} {rate:g}" for one, rate in rates.items())
        note = Text(
            f"Each at the learning rate with the best mean score on dev: {chosen}.",
            f"各取开发集平均分最好的学习率：{chosen}。",
        )
        figures = [score_figure(at_best), loss_figure(at_best)]
        return [
            Section(
                title=Text("At the best rate", "最佳学习率下"),
                paragraphs=[note, *([self.note] if self.note.en else [])],
                tables=[score_table(at_best)],
                figures=figures,
            ),
            Section(
                title=Text("Every rate, on dev", "各学习率（开发集）"),
                tables=[rate_table(results)],
                figures=rate_figures(results),
            ),
        ]


def on_dev(results: Results, contestant: str, rate: float) -> list[float]:
    """The dev scores of a contestant's seeds at a rate."""
    cells = results.at(**{AXIS: rate}).of(contestant)
    return [one.scores["dev"][results.metric] for one in cells if results.metric in one.scores.get("dev", {})]


def tuned(results: Results) -> tuple[Results, dict[str, float]]:
    """The cells at each contestant's best rate by the mean on dev, and that rate. One with a failed seed loses."""
    sign = -1 if results.lower_is_better else 1
    chosen: dict[str, float] = {}
    for one in results.contestants:
        means = {}
        for rate in map(float, results.places(AXIS)):
            alike = [cell for cell in results.at(**{AXIS: rate}).cells if cell.contestant == one]
            if (values := on_dev(results, one, rate)) and len(values) == len(alike):
                means[rate] = sign * mean(values)
        if means:
            chosen[one] = max(means, key=lambda rate: means[rate])
    cells = [cell for cell in results.cells if chosen.get(cell.contestant) == cell.place[AXIS]]
    return replace(results, cells=cells), chosen


def is_at_the_edge(results: Results, contestant: str, rate: float) -> bool:
    tried = sorted({float(one.place[AXIS]) for one in results.cells if one.contestant == contestant})
    return len(tried) > 1 and rate in (tried[0], tried[-1])


def rate_table(results: Results) -> Table:
    """The dev score of every contestant at each of its rates."""
    rates = sorted(map(float, results.places(AXIS)))
    best = tuned(results)[1]
    rows = []
    for one in results.contestants:
        entries = [Entry(text=one)]
        for rate in rates:
            text = written(results.metric, summarised(on_dev(results, one, rate)))
            entries.append(Entry(text=text, mark="best" if best.get(one) == rate else None))
        rows.append(TableRow(entries=entries))
    return Table(columns=[CONTESTANT, *(Column(title=Text(f"{rate:g}")) for rate in rates)], rows=rows)


def rate_figures(results: Results) -> list[Figure]:
    """The dev score over the rate; nothing where there is one rate only."""
    lines = []
    for one in results.contestants:
        found = [(rate, on_dev(results, one, rate)) for rate in sorted(map(float, results.places(AXIS)))]
        known = [(rate, values) for rate, values in found if values]
        x = [rate for rate, _ in known]
        y, low, high = ([as_shown(results.metric, end(each)) for _, each in known] for end in (mean, min, max))
        lines.append(PlotLine(name=one, x=x, y=y, low=low, high=high))
    if len(results.places(AXIS)) < 2:
        return []
    name = results.metric
    svg = line_plot(lines, title=f"{name} on dev", x_axis="learning rate", y_axis=name, log_x=True)
    caption = Text("mean, least and most of the seeds", "各种子的均值、最小与最大")
    return [Figure(name="rates", svg=svg, caption=caption)]


def loss_figure(results: Results) -> Figure:
    """The training loss of every contestant over the steps: the mean, the least and the most of its seeds."""
    lines = []
    for one in results.contestants:
        curves = [loss_curve(results, cell) for cell in results.of(one)]
        steps = sorted(set.intersection(*(set(curve) for curve in curves)))
        lines.append(mean_line(one, steps, [[curve[step] for step in steps] for curve in curves]))
    svg = line_plot(lines, title="training loss", x_axis="step", y_axis="loss")
    caption = Text(
        "training loss: mean, least and most of the seeds, each at its best rate",
        "训练损失：各种子的均值、最小与最大，均取各自最佳学习率",
    )
    return Figure(name="loss", svg=svg, caption=caption)


def loss_curve(results: Results, cell: CellResult) -> dict[int, float]:
    """The training loss by step, as the run wrote it down."""
    rows = read_metrics(results.run_folder(cell))
    return {row["step"]: row["loss"] for row in rows if row.get("loss") is not None}
