"""Layers and heads: Transformers of several depths, numbers of heads and widths, and which heads they could do without.

L layers, H heads, A attentions of a model.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from glassformer.data.batches import Budget
from glassformer.files import read_json
from glassformer.files.schema import Count, Depth, NotNegative, Size
from glassformer.inspect.heads import attentions_of, importance, pruning
from glassformer.jobs.data import read_splits
from glassformer.jobs.predict import Pipeline, pipeline
from glassformer.jobs.recipe import Recipe
from glassformer.jobs.run_folder import RESULT as RUN_RESULT
from glassformer.jobs.tasks import task_class
from glassformer.models.contract import as_model
from glassformer.tasks.task import evaluate
from glassformer.view.plots import PlotLine, heatmap, line_plot
from glassformer.view.report import Figure, Section, Text

from ..cell import RUN, Cell, CellResult
from ..experiment import DataExperiment
from ..reporting import score_table, sentence
from ..results import Results, as_shown, is_lower_better
from ..statistics import Difference, holm

TASKS = ("text-classification", "token-classification", "translation")
AXES = ("layers", "heads", "width")
BATCHES = {"translation": {"batch_tokens": 2048}}
SCORES = {"translation": "bleu"}  # where it is another than the runs are judged by while they learn


def sizes(task: str, *, layers: int, heads: int, width: int) -> dict[str, int]:
    """The settings of a task's Transformer for so many of each; its feed-forwards are four times as wide."""
    if task != "translation":  # the encoder alone
        names = ("num_hidden_layers", "num_attention_heads", "hidden_size", "intermediate_size")
        return dict(zip(names, (layers, heads, width, 4 * width), strict=True))
    sides = {"layers": layers, "attention_heads": heads, "ffn_dim": 4 * width}
    return {"d_model": width} | {f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in sides.items()}


@dataclass(frozen=True, kw_only=True)
class LayersHeads(DataExperiment):
    """A grid of Transformers from scratch; after training each head is ablated alone, and more and more together."""

    name: ClassVar[str] = "layers-heads"
    question: ClassVar[Text] = Text(
        "How many layers and heads, and how wide, should a Transformer be for this data; and which heads does it need?",
        "对于这份数据，Transformer 应有多少层、多少头、多宽？其中哪些头是必需的？",
    )

    budget: str | None = "400steps"
    layers: Sequence[Depth] = (1, 2)
    heads: Sequence[Size] = (1, 2, 4)
    widths: Sequence[Size] = (64, 128)
    head_examples: Count = 200  # of dev, on which heads are ablated; 0 leaves that out
    tolerance: NotNegative = 0.1  # points of score: a head that costs less can be ablated

    def cells(self) -> list[Cell]:
        if self.task not in TASKS:
            raise ValueError(f"layers-heads can do {', '.join(TASKS)}, not {self.task!r}: choose with --task")
        if not (self.layers and self.heads and self.widths):
            raise ValueError("layers-heads needs at least one number each of layers, heads and widths")
        self.read()
        grid = product(dict.fromkeys(self.widths), dict.fromkeys(self.layers), dict.fromkeys(self.heads))
        return [cell for width, layers, heads in grid for cell in self._cells(layers, heads, width)]

    def _cells(self, layers: int, heads: int, width: int) -> list[Cell]:
        name, place = f"L{layers} H{heads} W{width}", {"layers": layers, "heads": heads, "width": width}
        if width % heads:
            reason = f"a width of {width} cannot be shared equally by {heads} heads"
            return self.each_seed(Cell(contestant=name, place=place, reason=reason))
        config = sizes(self.task, layers=layers, heads=heads, width=width)
        cells = self.train_cells(name, place, arch="transformer", config=config, **BATCHES.get(self.task, {}))
        if not self.head_examples:
            return cells
        asked = {"examples": self.head_examples, "tolerance": self.tolerance}
        return [replace(cell, measure="layers_heads", arguments=asked) for cell in cells]

    def judged(self, results: Results) -> Results:
        return results.by(SCORES[self.task]) if self.task in SCORES else results

    def findings(self, results: Results) -> list[Text]:
        results = self.judged(results)
        best = results.best()
        if best is None:
            return []
        behind = against(results, best)
        place = results.of(best)[0].place
        near = [one for one in behind if sum(results.of(one)[0].place[axis] != place[axis] for axis in AXES) == 1]
        neighbours = [
            sentence(best, one, behind[one], results.metric, lower=results.lower_is_better)
            for one in near
            if is_an_end(results, one, best)
        ]
        where, in_chinese = (" on dev", "在开发集上") if results.chosen_on_dev else ("", "")
        first = Text(f"{best} has the best mean{where}.", f"{best} {in_chinese}的均值最好。")
        return [first, *neighbours, *smallest(results, best, behind), *self._dispensable(results, best)]

    def _dispensable(self, results: Results, best: str) -> list[Text]:
        share = results.fact(best, "dispensable")
        if share is None:
            return []
        cell, base = results.of(best)[0], results.fact(best, "score")
        examples, count = cell.facts["examples"], sum(map(len, cell.facts["heads"]))
        assert base is not None
        return [
            Text(
                f"{share.mean:.0%} of the {count} heads of {best} can each be ablated alone for less than "
                f"{self.tolerance:g} points of {results.metric} on {examples} examples of dev (with all heads: "
                f"{base.mean:.1f}).",
                f"在 {examples} 个开发集样本上（全部头：{base.mean:.1f}），{best} 的 {count} 个头中有 {share.mean:.0%} "
                f"单独去掉时 {results.metric} 下降不到 {self.tolerance:g} 分。",
            )
        ]

    def sections(self, results: Results) -> list[Section]:
        results = self.judged(results)
        scores = Section(
            title=Text("Scores", "得分"),
            paragraphs=[
                Text(
                    "L layers, H heads of each attention, W the model's width.", "L 层数，H 每个注意力的头数，W 宽度。"
                )
            ],
            tables=[score_table(results)],
            figures=grid_figures(results, results.metric, lambda one: _score(results, one)),
        )
        costs = Section(
            title=Text("Cost", "开销"),
            figures=[
                *grid_figures(results, "training seconds", lambda one: _cost(results, one, "train_seconds")),
                *grid_figures(results, "million parameters", lambda one: _cost(results, one, "parameters") / 1e6),
            ],
        )
        best = results.best()
        ablated = [ablation_section(results, best)] if best and "heads" in results.of(best)[0].facts else []
        return [scores, costs, *ablated]


def measure(cell: Cell, folder: Path) -> dict[str, Any]:
    """On some examples of dev: `score` as it is; `heads` (A, H): the points that it loses when a head is ablated alone;
    `dispensable`: the share of heads that cost less than is tolerated; `pruned`: the score when the cheapest go
    together."""
    recipe = Recipe.of({**(cell.recipe or {}), "out": str(folder / RUN)})
    pipe = pipeline(recipe.task, folder / RUN, device=recipe.device)
    dev = read_splits(recipe, task_class(recipe.task)).dev
    examples = random.Random(0).sample(dev, min(cell.arguments["examples"], len(dev)))
    score = SCORES.get(recipe.task, read_json(folder / RUN / RUN_RESULT)["metric"].removeprefix("-"))
    loss = loss_in_points(pipe, examples, score)
    base, ranked = importance(pipe.model, loss)
    sign = 1 if is_lower_better(score) else -1
    parts = attentions_of(pipe.model)
    drops = {(one.attention, one.number): one.delta for one in ranked}
    cuts = pruning(pipe.model, loss, ranked)
    return {
        "examples": len(examples),
        "score": sign * base,
        "attentions": list(parts),
        "heads": [[drops[name, number] for number in range(part.heads)] for name, part in parts.items()],
        "dispensable": float(np.mean([one.delta < cell.arguments["tolerance"] for one in ranked])),
        "pruned": {"heads": [one.heads for one in cuts], "scores": [sign * one.loss for one in cuts]},
    }


def loss_in_points(pipe: Pipeline, examples: Sequence[object], score: str) -> Callable[[], float]:
    """The score in points, turned so that less is better."""
    items, sign = pipe.task.encode(examples), 1 if is_lower_better(score) else -1

    def loss() -> float:
        sheet = evaluate(as_model(pipe.model), pipe.task, items, budget=Budget(tokens=8192), final=True)
        return sign * as_shown(score, sheet.compute()[score])

    return loss


def against(results: Results, best: str) -> dict[str, Difference]:
    """How far the best is ahead of each of the others; p is corrected for so many tests."""
    found = {one: results.difference(best, one) for one in results.contestants if one != best}
    known = {one: difference for one, difference in found.items() if difference is not None}
    corrected = holm([difference.p for difference in known.values()])
    return {one: difference._replace(p=p) for (one, difference), p in zip(known.items(), corrected, strict=True)}


def is_an_end(results: Results, one: str, best: str) -> bool:
    """Whether it has the least or the most of that in which it differs from the best."""
    mine, other = results.of(one)[0].place, results.of(best)[0].place
    (axis,) = [axis for axis in AXES if mine[axis] != other[axis]]
    values = [place for place in results.places(axis) if place != other[axis]]
    return mine[axis] in (min(values, key=float), max(values, key=float))


def smallest(results: Results, best: str, behind: dict[str, Difference]) -> list[Text]:
    """The model of fewest parameters (then of least training time) that is not shown to be behind the best."""
    rivals = [best, *(one for one, difference in behind.items() if not difference.is_shown)]
    costs = {one: (_cost(results, one, "parameters"), _cost(results, one, "train_seconds")) for one in rivals}
    least = min(costs, key=lambda one: costs[one])
    if least == best:
        return []
    share = costs[least][0] / costs[best][0]
    return [
        Text(
            f"{least} is the smallest that is not shown to be behind it, with {share:.0%} of its parameters.",
            f"{least} 是未显示落后于它的最小模型，参数量为其 {share:.0%}。",
        )
    ]


def _score(results: Results, contestant: str) -> float:
    found = results.summary(contestant)
    return float("nan") if found is None else as_shown(results.metric, found.mean)


def _cost(results: Results, contestant: str, name: str) -> float:
    found = results.cost(contestant, name)
    return float("nan") if found is None else found.mean


def grid_figures(results: Results, name: str, value: Callable[[str], float]) -> list[Figure]:
    """A heatmap of layers × heads for each width, of a number that every contestant has."""
    figures = []
    rows, columns = (sorted(results.places(axis), key=float) for axis in ("layers", "heads"))
    for width in sorted(results.places("width"), key=float):
        table = [[_at(results.at(width=width, layers=row, heads=column), value) for column in columns] for row in rows]
        svg = heatmap(
            table,
            rows=[*map(str, rows)],
            columns=[*map(str, columns)],
            title=f"{name}, width {width}",
            axes=("layers", "heads"),
        )
        caption = Text(f"{name} by layers and heads, width {width}", f"{name}：按层数与头数，宽度 {width}")
        figures.append(Figure(name=f"{name.replace(' ', '-')}-width-{width}", svg=svg, caption=caption))
    return figures


def _at(cell: Results, value: Callable[[str], float]) -> float:
    return value(cell.contestants[0]) if cell.contestants else float("nan")


def ablation_section(results: Results, best: str) -> Section:
    """Of every cell the share of heads that can be spared, and of the best cell each head."""
    return Section(
        title=Text("Heads that can be ablated", "可去掉的注意力头"),
        paragraphs=[
            Text(
                "Heads that can be spared one at a time may not be spared together: one may do another's work. "
                "The curve shows how far the score falls as more and more go, the cheapest first.",
                "单独可去的头未必可以一起去掉：一个头没了，另一个头可能顶替它。曲线给出按代价由小到大依次去掉时的得分。",
            )
        ],
        figures=[
            *grid_figures(results, "percent of heads to spare", lambda one: _spare(results, one)),
            head_figure(_best_seed(results, best), results.metric),
            pruning_figure(results, best),
        ],
    )


def _spare(results: Results, contestant: str) -> float:
    found = results.fact(contestant, "dispensable")
    return float("nan") if found is None else 100 * found.mean


def _best_seed(results: Results, contestant: str) -> CellResult:
    choose = min if results.lower_is_better else max
    return choose(results.of(contestant), key=lambda one: one.scores[one.split][results.metric])


def head_figure(cell: CellResult, metric: str) -> Figure:
    """What it costs to lose each head of a model alone."""
    table = cell.facts["heads"]
    title = f"points of {metric} lost without each head"
    svg = heatmap(
        table,
        rows=[*map(attention_title, cell.facts["attentions"])],
        columns=[str(number) for number in range(len(table[0]))],
        title=f"{cell.contestant}: {title}",
        axes=("attention", "head"),
        form=".2f",
    )
    caption = Text(
        f"{cell.contestant}, seed {cell.seed}: {title}, on {cell.facts['examples']} examples of dev",
        f"{cell.contestant}，种子 {cell.seed}：在 {cell.facts['examples']} 个开发集样本上单独去掉各头所失 {metric} 分",
    )
    return Figure(name="heads", svg=svg, caption=caption)


def attention_title(name: str) -> str:
    """ "decoder 1 to source" for decoder.layers.0.cross_attention; layers are counted from 1."""
    side, _, rest = name.rpartition("layers.")
    number, _, part = rest.partition(".")
    return f"{side.strip('.') or 'layer'} {int(number) + 1}{' to source' if part == 'cross_attention' else ''}"


def pruning_figure(results: Results, contestant: str) -> Figure:
    """The score of a model with more and more heads ablated: mean, least and most of the seeds."""
    curves = [cell.facts["pruned"] for cell in results.of(contestant)]
    values = list(zip(*(one["scores"] for one in curves), strict=True))
    line = PlotLine(
        name=contestant,
        x=curves[0]["heads"],
        y=[float(np.mean(each)) for each in values],
        low=[*map(min, values)],
        high=[*map(max, values)],
    )
    svg = line_plot(
        [line], title=f"{results.metric} with heads ablated together", x_axis="heads ablated", y_axis=results.metric
    )
    caption = Text(
        "the cheapest heads ablated together: mean, least and most of the seeds",
        "代价最小的头一起去掉：各种子的均值、最小与最大",
    )
    return Figure(name="pruning", svg=svg, caption=caption)
