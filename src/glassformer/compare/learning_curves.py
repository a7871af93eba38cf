"""Learning curves: scores over the number of training examples, and how many examples one way saves against another."""

import math
from collections.abc import Sequence

from glassformer.view.plots import PlotLine, line_plot
from glassformer.view.report import Figure, Section, Text

from .cell import Place
from .reporting import score_figure, score_table
from .results import Results, as_shown

AXIS = "examples"  # of a cell's place
FEWEST = 100


def sizes_up_to(count: int) -> list[int]:
    """Powers of ten from a hundred, and all that there are."""
    powers = [10**power for power in range(int(math.log10(FEWEST)), 10) if 10**power < count]
    return [*powers, count]


def each_size(sizes: Sequence[int], count: int) -> list[tuple[Place, dict[str, int]]]:
    """For each size (by default powers of ten, and all) the place in the grid, and what a recipe must say."""
    return [({AXIS: min(size, count)}, {"limit": size} if size < count else {}) for size in sizes or sizes_up_to(count)]


def size_sections(results: Results) -> list[Section]:
    """The table of each size, the largest first and with the figures."""
    sizes = sorted(results.places(AXIS), reverse=True)
    curves = [curve_figure(results)] if len(sizes) > 1 else []
    figures = [score_figure(results.at(**{AXIS: sizes[0]})), *curves]
    return [
        Section(
            title=Text(f"{size} examples", f"{size} 个样本"),
            tables=[score_table(results.at(**{AXIS: size}))],
            figures=figures if size == sizes[0] else (),
        )
        for size in sizes
    ]


def curve(results: Results, contestant: str) -> tuple[list[float], list[float]]:
    """Sizes, and the mean score at each."""
    points = [(float(size), results.at(**{AXIS: size}).summary(contestant)) for size in sorted(results.places(AXIS))]
    known = [(size, mean.mean) for size, mean in points if mean is not None]
    return [size for size, _ in known], [mean for _, mean in known]


def curve_figure(results: Results) -> Figure:
    """The learning curves of all contestants, with the least and the most of their seeds."""
    lines = []
    for one in results.contestants:
        x, y = curve(results, one)
        seeds = [results.at(**{AXIS: size}).summary(one) for size in map(int, x)]
        low, high = ([end(mean.values) for mean in seeds if mean is not None] for end in (min, max))
        y, low, high = ([as_shown(results.metric, value) for value in values] for values in (y, low, high))
        lines.append(PlotLine(name=one, x=x, y=y, low=low, high=high))
    svg = line_plot(lines, title=results.metric, x_axis="training examples", y_axis=results.metric, log_x=True)
    return Figure(
        name="learning-curves",
        svg=svg,
        caption=Text(
            f"{results.metric} over training examples: mean, least and most of the seeds",
            f"{results.metric} 随训练样本数的变化：各种子的均值、最小与最大",
        ),
    )


def examples_needed(sizes: Sequence[float], scores: Sequence[float], target: float) -> float | None:
    """How many examples a curve reaches a score with, between its points on a logarithmic axis; None if it never does.

    Scores are such that more is better.
    """
    for place, score in enumerate(scores):
        if score >= target:
            if place == 0 or scores[place - 1] >= score:
                return sizes[place]
            share = (target - scores[place - 1]) / (score - scores[place - 1])
            return float(sizes[place - 1] * (sizes[place] / sizes[place - 1]) ** max(0.0, share))
    return None
