"""The report of an experiment: tables and figures that every one of them has, put together for the page."""

import os
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from glassformer.files import write_text
from glassformer.jobs.progress import clock
from glassformer.view.plots import Dot, dot_plot
from glassformer.view.report import Column, Entry, Figure, Report, Section, Table, TableRow, Text, markdown, page

from .cell import CellResult
from .grid import RESULTS
from .results import Results, Summary, as_shown, shown_score
from .statistics import RESAMPLES, Difference, holm

if TYPE_CHECKING:
    from .experiment import Experiment

REPORT, MARKDOWN = "report.html", "report.md"
CONTESTANT = Column(title=Text("contestant", "参赛者"))
COSTS = {
    "parameters": Column(title=Text("parameters", "参数量")),
    "train_seconds": Column(
        title=Text("training, s", "训练（秒）"),
        why=Text("seconds of training, evaluations not counted", "训练秒数，不含评估"),
    ),
    "core_seconds": Column(
        title=Text("core-seconds", "核·秒"),
        why=Text("seconds of processor time, all cores together: energy of a sort", "各核处理器时间之和，近似能耗"),
    ),
    "peak_memory": Column(
        title=Text("memory, MB", "内存（MB）"),
        why=Text("the most that the process had, or that it took on the GPU", "进程（或 GPU）内存峰值"),
    ),
    "texts_per_second": Column(
        title=Text("texts/s", "文本/秒"),
        why=Text("answered and scored, in batches of like length", "按相近长度成批作答并评分"),
    ),
}


def report_of(experiment: "Experiment", results: Results, *, jobs: int, seconds: float) -> Report:
    """The whole report: findings first, then what the experiment shows, then what went wrong."""
    sections = _sections(experiment, results)
    if lost := lost_section(results):
        sections.append(lost)
    return Report(
        title=Text(experiment.name),
        question=experiment.question,
        facts=_facts(experiment, results, jobs=jobs, seconds=seconds),
        findings=[*experiment.findings(results), *cautions(results)] if results.done else [NOTHING],
        sections=sections,
        command=f"glassformer compare {Path(experiment.out) / 'experiment.toml'} --out NEW_FOLDER",
    )


def _sections(experiment: "Experiment", results: Results) -> list[Section]:
    """What the experiment shows; where that cannot be drawn, the reason, since all the rest has been paid for."""
    try:
        return list(experiment.sections(results)) if results.done else []
    except ValueError as error:
        return [Section(title=Text("Not shown", "未能展示"), paragraphs=[Text(str(error))])]


def cautions(results: Results) -> list[Text]:
    """What a reader must know before he believes the scores."""
    found = []
    if any(one.metric and "train_seconds" in one.cost for one in results.done) and results.split == "dev":
        found.append(
            Text(
                "There is no test data: scores are those on dev, which also chose the best of each run's evaluations, "
                "and so a little too good.",
                "未给测试数据：所示为开发集分数，而各次训练的最佳权重也由它选出，故略偏乐观。",
            )
        )
    for name in results.contestants:
        if lost := results.lost(name):
            found.append(
                Text(
                    f"{name}: {lost} of {lost + len(results.of(name))} cells failed; its mean is that of the others.",
                    f"{name}：{lost + len(results.of(name))} 个单元中有 {lost} 个失败，均值仅来自其余单元。",
                )
            )
    return found


NOTHING = Text("No cell has come to its end.", "没有任何单元完成。")


def write_report(folder: Path, report: Report) -> None:
    """The page, the same as Markdown, and every figure as a file."""
    write_text(folder / REPORT, page(report))
    write_text(folder / MARKDOWN, markdown(report))
    for section in report.sections:
        for figure in section.figures:
            write_text(folder / f"{figure.name}.svg", figure.svg)


def _facts(experiment: "Experiment", results: Results, *, jobs: int, seconds: float) -> list[tuple[Text, str]]:
    spent = sum(one.cost.get("wall_seconds", 0.0) for one in results.cells)
    states = [one.state for one in results.cells]
    return [
        (Text("date", "日期"), datetime.now().astimezone().strftime("%Y-%m-%d %H:%M")),
        (Text("machine", "机器"), "; ".join(dict.fromkeys(one.machine for one in results.done if one.machine))),
        (Text("seeds", "随机种子"), str(experiment.seeds)),
        (Text("budget of a cell", "每单元预算"), experiment.budget or "–"),
        (Text("cells", "单元"), f"{states.count('done')} / {len(states)}, {max(1, jobs)} ×"),
        (Text("time of all cells", "全部单元用时"), clock(spent)),
        (Text("this sitting", "本次用时"), clock(seconds)),
        (Text("every number", "全部数字"), RESULTS),
    ]


def written(name: str, value: Summary | None) -> str:
    """A score as mean ± standard deviation."""
    if value is None:
        return "–"
    spread = "" if value.deviation is None else f" ± {shown_score(name, value.deviation)}"
    return f"{shown_score(name, value.mean)}{spread}"


def counted(name: str, value: Summary | None) -> str:
    """A cost as people write it."""
    if value is None:
        return "–"
    number = value.mean / 1e6 if name == "peak_memory" else value.mean
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


def run_link(results: Results, result: CellResult) -> str:
    """Where the page finds a cell's run folder, or its log where nothing was trained."""
    folder = results.run_folder(result)
    return os.path.relpath(folder if folder.is_dir() else folder.parent, results.folder) + "/"


def score_table(
    results: Results,
    *,
    scores: Sequence[str] | None = None,
    costs: Sequence[str] = tuple(COSTS),
) -> Table:
    """A row for each contestant: scores with spread and interval, and costs; its seeds and their run folders below."""
    names = list(scores or [results.metric])
    shown = [name for name in costs if any(results.cost(one, name) for one in results.contestants)]
    first = results.best()
    rows = []
    for one in results.contestants:
        cells = results.of(one)
        lost = results.lost(one)
        count = Text(
            f"{one} ({len(cells)} of {len(cells) + lost} seeds)", f"{one}（{len(cells)}/{len(cells) + lost} 种子）"
        )
        entries = [Entry(text=count if lost else one, mark="best" if one == first else None)]
        for name in names:
            entries += [Entry(text=written(name, results.summary(one, name)))]
        entries.append(Entry(text=_interval(results, one)))
        entries += [Entry(text=counted(name, results.cost(one, name))) for name in shown]
        rows.append(TableRow(entries=entries, details=[_seed(results, cell, names, shown) for cell in cells]))
    columns = [
        CONTESTANT,
        *(Column(title=Text(f"{name} ({results.split})")) for name in names),
        INTERVAL,
        *(COSTS[name] for name in shown),
    ]
    return Table(columns=columns, rows=rows)


INTERVAL = Column(
    title=Text("95 % interval", "95% 区间"),
    why=Text(
        "over examples (bootstrap) and, if there are several, seeds (Student)",
        "样本（自助法）与种子（若多于一个，用 t 分布）",
    ),
)


def _interval(results: Results, contestant: str) -> str:
    found = results.interval(contestant)
    low_high = found and [shown_score(results.metric, end) for end in found]
    return f"{low_high[0]}–{low_high[1]}" if low_high else "–"


def _seed(results: Results, cell: CellResult, names: Sequence[str], costs: Sequence[str]) -> list[Entry]:
    values = cell.scores.get(cell.split, {})
    entries = [Entry(text=Text(f"seed {cell.seed}", f"种子 {cell.seed}"), link=run_link(results, cell))]
    entries += [Entry(text=shown_score(name, values[name]) if name in values else "–") for name in names]
    entries.append(Entry(text=""))
    return entries + [
        Entry(text=counted(name, Summary(cell.cost[name], None, [])) if name in cell.cost else "–") for name in costs
    ]


def score_figure(results: Results, *, name: str = "scores") -> Figure:
    """Every contestant's mean with its interval and its seeds."""
    dots = []
    for one in results.contestants:
        if (mean := results.summary(one)) is not None:
            ends = results.interval(one)
            low, high = (None, None) if ends is None else (as_shown(results.metric, end) for end in ends)
            points = [as_shown(results.metric, value) for value in mean.values]
            dots.append(Dot(name=one, value=as_shown(results.metric, mean.mean), low=low, high=high, points=points))
    svg = dot_plot(dots, title=results.metric, axis=results.metric)
    return Figure(name=name, svg=svg, caption=Text("mean, 95 % interval, and each seed", "均值、95% 区间与各种子"))


def lost_section(results: Results) -> Section | None:
    """Cells that failed or were skipped, and why."""
    lost = [one for one in results.cells if one.state in ("failed", "skipped")]
    if not lost:
        return None
    columns = [CONTESTANT, Column(title=Text("cells", "单元")), Column(title=Text("what happened", "情况"))]
    alike: dict[tuple[str, str, str], list[CellResult]] = {}
    for one in lost:
        alike.setdefault((one.contestant, one.state, one.error or ""), []).append(one)
    rows = []
    for (contestant, state, error), cells in alike.items():
        named = Text("failed", "失败") if state == "failed" else Text("skipped", "跳过")
        why = Text(f"{named.en}: {error}", f"{named.zh}：{error}")
        entries = [Entry(text=contestant), Entry(text=str(len(cells))), Entry(text=why, mark="bad")]
        details = [[Entry(text=_place(one), link=run_link(results, one))] for one in cells if state == "failed"]
        rows.append(TableRow(entries=entries, failed=state == "failed", details=details))
    return Section(title=Text("Not measured", "未测得"), tables=[Table(columns=columns, rows=rows)])


def _place(one: CellResult) -> str:
    return ", ".join([*(f"{axis} {value}" for axis, value in one.place.items()), f"seed {one.seed}"])


def differences(results: Results, pairs: Sequence[tuple[str, str]]) -> list[Text]:
    """A sentence for each pair: who is ahead by how much, or that no difference is shown; p by Holm's correction."""
    resamples = max(RESAMPLES, 100 * len(pairs))  # so that what is left of p after the correction can be small
    found = [(one, other, results.difference(one, other, resamples=resamples)) for one, other in pairs]
    known = [(one, other, difference) for one, other, difference in found if difference is not None]
    corrected = holm([difference.p for _, _, difference in known])
    return [
        sentence(one, other, difference._replace(p=p), results.metric, lower=results.lower_is_better)
        for (one, other, difference), p in zip(known, corrected, strict=True)
    ]


def sentence(one: str, other: str, difference: Difference, metric: str, *, lower: bool) -> Text:
    """ "lstm is ahead of rnn by 1.2 ± 0.6 (accuracy, p = 0.01)", or that no difference is shown."""
    ahead = -difference.ahead if lower else difference.ahead
    first, second = (one, other) if ahead >= 0 else (other, one)
    size = shown_score(metric, abs(ahead))
    ends = difference.interval
    spread = "" if ends is None else f" ± {shown_score(metric, (ends.high - ends.low) / 2)}"
    p = "" if difference.p is None else f", p = {difference.p:.2g}" if difference.p >= 0.001 else ", p < 0.001"
    if difference.is_shown:
        return Text(
            f"{first} is ahead of {second} by {size}{spread} ({metric}{p}).",
            f"{first} 领先 {second} {size}{spread}（{metric}{p}）。",
        )
    if difference.one_seed:
        return Text(
            f"One seed: {first} is above {second} by {size}{spread} ({metric}{p}); this says nothing of other seeds.",
            f"仅一个种子：{first} 高于 {second} {size}{spread}（{metric}{p}），不能说明其他种子。",
        )
    return Text(
        f"No difference is shown between {first} and {second}: {size}{spread} ({metric}{p}).",
        f"未显示 {first} 与 {second} 有差异：{size}{spread}（{metric}{p}）。",
    )
