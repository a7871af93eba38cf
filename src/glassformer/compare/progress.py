"""How a grid goes: a table that lives where someone watches, a line for each cell where nobody does."""

import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from glassformer.jobs.progress import clock

from .cell import CellResult
from .results import shown_score, summarised

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

ENDED = ("done", "failed", "skipped")


class GridProgress:
    """Takes the results whenever one of them changes; used as a context."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self.log, self.begun, self.logged = log, time.perf_counter(), set[str]()
        self.before: int | None = None  # cells that had ended when this sitting began
        self.live: Live | None = None

    def __enter__(self) -> "GridProgress":
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self.live = Live(console=Console(stderr=True), transient=True, refresh_per_second=4)
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live is not None:
            self.live.stop()

    def __call__(self, results: Sequence[CellResult]) -> None:
        ended = [one for one in results if one.state in ENDED]
        if self.before is None:
            self.before = len(ended)
            self.logged = {one.folder for one in ended}
        if self.live is not None:
            self.live.update(self._table(results, len(ended)))
            return
        for one in ended:
            if one.folder not in self.logged:
                self.logged.add(one.folder)
                self.log(f"{len(ended)} of {len(results)}: {_line(one)}{self._left(len(ended), len(results))}")

    def _left(self, ended: int, total: int) -> str:
        done = ended - (self.before or 0)
        if not done or ended == total:
            return ""
        return f"; about {clock((time.perf_counter() - self.begun) / done * (total - ended))} left"

    def _table(self, results: Sequence[CellResult], ended: int) -> "Table":
        from rich.markup import escape
        from rich.table import Table

        gone = clock(time.perf_counter() - self.begun)
        table = Table(box=None, title=f"{ended} of {len(results)} cells, {gone} gone{self._left(ended, len(results))}")
        for title in ("contestant", "done", "now", "score so far"):
            table.add_column(title)
        for contestant in dict.fromkeys(one.contestant for one in results):
            cells = [one for one in results if one.contestant == contestant]
            states = [one.state for one in cells]
            now = ", ".join(
                f"{states.count(state)} {state}" for state in ("running", "failed", "skipped") if state in states
            )
            table.add_row(escape(contestant), f"{states.count('done')} of {len(cells)}", now, _score(cells))
        return table


def _score(cells: Sequence[CellResult]) -> str:
    """The mean of what is done, by the task's own metric."""
    known = [(one.metric.removeprefix("-"), one) for one in cells if one.state == "done" and one.metric]
    if not known:
        return ""
    name = known[0][0]
    mean = summarised(one.scores[one.split][name] for _, one in known if name in one.scores.get(one.split, {}))
    return "" if mean is None else f"{name} {shown_score(name, mean.mean)}"


def _line(one: CellResult) -> str:
    place = "".join(f", {axis} {value}" for axis, value in one.place.items())
    title = f"{one.contestant}{place}, seed {one.seed}"
    if one.state != "done":
        return f"{title} {one.state}: {one.error}"
    score = _score([one])
    return f"{title}: {score}, {clock(one.cost.get('wall_seconds', 0.0))}" if score else f"{title}: done"
