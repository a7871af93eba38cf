"""Finished runs side by side: scores with intervals, who is ahead of whom, settings that differ, curves and costs."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from glassformer.files import read_json
from glassformer.jobs.recipe import RECIPE, read_made
from glassformer.jobs.run_folder import RESULT as RUN_RESULT
from glassformer.jobs.run_folder import read_metrics
from glassformer.jobs.tasks import task_class
from glassformer.view.plots import PlotLine, line_plot
from glassformer.view.report import Column, Entry, Figure, Report, Section, Table, TableRow, Text

from .budget import device_named
from .cell import CellResult
from .reporting import CONTESTANT, differences, score_figure, score_table
from .results import Results, as_shown, is_lower_better
from .worker import machine

NOT_COMPARED = ("out", "seed", "tensorboard", "save_every", "save_minutes", "log_every", "device")
QUESTION = Text("How do these runs differ, in score, settings and cost?", "这些训练在得分、设置与开销上有何不同？")


class RunResults(Results):
    """Runs instead of cells; those that differ by their seed alone are one contestant."""

    def run_folder(self, result: CellResult) -> Path:
        return Path(result.folder)


def read_runs(folders: Sequence[str | Path], beside: Path | None = None) -> RunResults:
    """The results of finished runs; `beside` is the folder that a page of them will lie in, else this one.

    Refused: a folder that holds no finished run, runs of different tasks.
    """
    if len({Path(folder).resolve() for folder in folders}) < len(folders):
        raise ValueError("a run was named twice")
    recipes = {str(folder): _recipe(Path(folder)) for folder in folders}
    tasks = {task_class(recipe["task"]).name for recipe in recipes.values()}
    if len(tasks) > 1:
        raise ValueError(f"runs of different tasks cannot be compared: {', '.join(sorted(tasks))}")
    names = contestants(recipes)
    seeds = [(names[folder], recipe.get("seed", 0)) for folder, recipe in recipes.items()]
    if twice := [name for name, count in Counter(seeds).items() if count > 1]:
        raise ValueError(f"{twice[0][0]} is there twice: two of the runs have the same recipe and the same seed")
    found = [_result(name, recipe, names[name]) for name, recipe in recipes.items()]
    if not all("test" in one.scores for one in found):  # one column is of one split
        found = [replace(one, scores={"dev": one.scores["dev"]}) if "dev" in one.scores else one for one in found]
    return RunResults(beside or Path(), found)


def contestants(recipes: Mapping[str, Mapping[str, object]]) -> dict[str, str]:
    """Folder -> contestant: runs whose recipes differ by the seed alone go by the name of the first of them."""
    known: dict[str, str] = {}
    short = _short_names(list(recipes))
    found = {}
    for folder, recipe in recipes.items():
        key = json.dumps({name: recipe[name] for name in sorted(recipe) if name not in NOT_COMPARED})
        found[folder] = known.setdefault(key, short[folder])
    return found


def _short_names(folders: Sequence[str]) -> dict[str, str]:
    """The last part of each path, or as many parts as tell them apart."""
    for depth in range(1, 10):
        names = {folder: "/".join(Path(folder).resolve().parts[-depth:]) for folder in folders}
        if len(set(names.values())) == len(folders):
            return names
    return {folder: folder for folder in folders}


def _recipe(folder: Path) -> dict[str, Any]:
    if not (folder / RUN_RESULT).is_file() or not (folder / RECIPE).is_file():
        state = "holds a run that has not ended: go on with --resume" if (folder / RECIPE).is_file() else "holds no run"
        raise ValueError(f"{folder} {state}")
    return read_made(folder / RECIPE)


def _result(folder: str, recipe: Mapping[str, Any], contestant: str) -> CellResult:
    found = read_json(Path(folder) / RUN_RESULT)
    progress = found.get("progress", {})
    cost = {"train_seconds": progress.get("seconds"), "steps": progress.get("step"), "tokens": progress.get("tokens")}
    cost |= {"parameters": found.get("parameters")}
    return CellResult(
        contestant=contestant,
        seed=int(recipe.get("seed", 0)),
        place={},
        state="done",
        folder=folder,
        metric=found.get("metric") or recipe.get("metric") or task_class(recipe["task"]).metric,
        scores=found["scores"],
        reports=found.get("reports", {}),
        cost={name: float(value) for name, value in cost.items() if value is not None},
    )


def runs_report(results: RunResults) -> Report:
    """Everything that can be said of the runs."""
    names = results.contestants
    pairs = [(one, other) for place, other in enumerate(names) for one in names[place + 1 :]]
    sections = [
        Section(
            title=Text("Scores and costs", "得分与开销"), tables=[score_table(results)], figures=[score_figure(results)]
        ),
    ]
    if table := settings_table(results):
        sections.append(Section(title=Text("Settings that differ", "不同的设置"), tables=[table]))
    if figures := curve_figures(results):
        sections.append(Section(title=Text("Curves", "曲线"), figures=figures))
    return Report(
        title=Text("runs"),
        question=QUESTION,
        facts=[(Text("machine of this report", "生成报告的机器"), machine(device_named("auto")))],
        findings=[*differences(results, pairs), *_unpaired(results)],
        sections=sections,
        command="glassformer compare runs " + " ".join(one.folder for one in results.cells),
    )


def _unpaired(results: RunResults) -> list[Text]:
    """What a reader must know where the runs were not scored on the same examples."""
    known = [results.examples(one) for one in results.done]
    data = {one.data for one in known if one is not None}
    if len(data) < 2 and None not in known:
        return []
    return [
        Text(
            "Not all runs were scored on the same examples, or they kept no score of each: such runs are compared by "
            "their seeds alone.",
            "并非所有训练都在相同样本上评分（或未保留逐样本得分）：这些训练仅按种子比较。",
        )
    ]


def settings_table(results: RunResults) -> Table | None:
    """The settings of the recipes that are not the same in all; None where all are."""
    recipes = {one.contestant: _recipe(results.run_folder(one)) for one in reversed(results.done)}
    names = sorted({name for recipe in recipes.values() for name in recipe} - {*NOT_COMPARED})
    differing = [name for name in names if len({json.dumps(recipe.get(name)) for recipe in recipes.values()}) > 1]
    if not differing:
        return None
    rows = [
        TableRow(
            entries=[Entry(text=one), *(Entry(text=_setting(recipes[one].get(name))) for name in differing)],
        )
        for one in results.contestants
    ]
    return Table(columns=[CONTESTANT, *(Column(title=Text(name)) for name in differing)], rows=rows)


def _setting(value: object) -> str:
    return "–" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def curve_figures(results: Results) -> list[Figure]:
    """The training loss and the dev score of every run over its steps."""
    figures = []
    for key, name in (("loss", "loss"), (f"dev_{results.metric}", "dev-score")):
        lines = []
        for one in results.done:
            points = [line for line in read_metrics(results.run_folder(one)) if line.get(key) is not None]
            if points:
                label = f"{one.contestant}, seed {one.seed}"
                values = [as_shown(results.metric, line[key]) if name != "loss" else line[key] for line in points]
                lines.append(PlotLine(name=label, x=[line["step"] for line in points], y=values))
        if lines:
            positive = is_lower_better(key) and all(value > 0 for line in lines for value in line.y)
            svg = line_plot(lines, title=key, x_axis="step", y_axis=key, log_y=positive)
            figures.append(Figure(name=name, svg=svg, caption=Text(f"{key} over steps", f"{key} 随步数的变化")))
    return figures
