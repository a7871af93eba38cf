"""Curves that cells have measured, as lines of a plot."""

from collections.abc import Sequence

import numpy as np

from glassformer.view.plots import PlotLine


def mean_line(name: str, x: Sequence[float], curves: Sequence[Sequence[float]]) -> PlotLine:
    """The mean of the seeds' curves at each x, with the least and the most of them where there are several."""
    table = np.array(curves, np.float64)
    several = len(table) > 1
    low, high = (end(0).tolist() if several else None for end in (table.min, table.max))
    return PlotLine(name=name, x=list(x), y=table.mean(0).tolist(), low=low, high=high)
