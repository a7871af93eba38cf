"""How a run tells of itself: a bar where someone watches, lines where nobody does, TensorBoard if asked for."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING

from glassformer.train.loop import MetricsLine, Progress
from glassformer.train.processes import Processes

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from torch.utils.tensorboard import SummaryWriter

SECONDS_BETWEEN_LINES = 10.0


class ConsoleListener:
    """Prints what a run comes to; on a terminal with a bar that moves."""

    def __init__(self, log: Callable[[str], None], *, folder: Path, tensorboard: bool = False) -> None:
        self.log, self.shown = log, 0.0
        self.total, self.begun_at, self.begun = 0, 0, time.perf_counter()
        self.first: tuple[int, float] | None = None  # tokens and seconds when the first step was over
        self.loss: float | None = None
        self.rate: float | None = None
        self.bar: RichProgress | None = None
        self.board = _tensorboard(folder) if tensorboard else None

    def begin(self, total: int, done: int) -> None:
        self.total, self.begun_at, self.begun = total, done, time.perf_counter()
        if sys.stderr.isatty():
            self.bar = _bar()
            self.task = self.bar.add_task("training", total=total, completed=done, status="")
            self.bar.start()

    def stepped(self, progress: Progress) -> None:
        if self.first is None:
            self.first = progress.tokens, progress.seconds
            return
        if self.bar is not None:
            self.bar.update(self.task, completed=progress.step, status=self._status(progress))
        elif time.perf_counter() - self.shown > SECONDS_BETWEEN_LINES or progress.step == self.total:
            self.shown = time.perf_counter()
            self.log(f"step {progress.step} of {self.total}  {self._status(progress)}")

    def scoring(self, done: int, total: int) -> None:
        """A batch of the dev split was scored."""
        if self.bar is not None:
            self.bar.update(self.task, status=f"scoring: {done} of {total} batches")
        elif time.perf_counter() - self.shown > SECONDS_BETWEEN_LINES:
            self.shown = time.perf_counter()
            self.log(f"scoring: {done} of {total} batches")

    def line(self, line: MetricsLine) -> None:
        self.loss, self.rate = line.values.get("loss", self.loss), line.values.get("lr", self.rate)
        if self.board is not None:
            for name, value in line.values.items():
                self.board.add_scalar(name, value, line.step)
        scores = {name: value for name, value in line.values.items() if name.startswith(("dev_", "averaged_"))}
        if scores:
            (self.log if self.bar is None else self.bar.console.print)(
                f"step {line.step}: " + ", ".join(f"{name} {value:.4g}" for name, value in scores.items())
            )

    def _status(self, progress: Progress) -> str:
        """Loss, rate, speed, and how long it will still take."""
        seconds = time.perf_counter() - self.begun
        steps = progress.step - self.begun_at
        left = (self.total - progress.step) * seconds / max(1, steps)
        tokens, before = self.first or (0, 0.0)
        speed = (progress.tokens - tokens) / max(1e-9, progress.seconds - before)
        waiting = 100 * progress.waited / max(1e-9, progress.seconds)
        loss = "" if self.loss is None else f"loss {self.loss:.4g}  lr {self.rate:.3g}  "
        return f"{loss}{speed:,.0f} tokens/s  waiting {waiting:.0f} %  {clock(left)} left"

    def close(self) -> None:
        if self.bar is not None:
            self.bar.stop()
        if self.board is not None:
            self.board.close()


@contextmanager
def shown(what: str, unit: str = "") -> Iterator[Callable[[int, int], None]]:
    """Show that something goes on; what it yields takes how much is done, and of how much; `unit` shows how fast.

    On a terminal there is a bar; elsewhere a line comes every ten seconds. Only the first of several processes speaks.
    """
    if not Processes().is_main:
        yield _unheard
    elif sys.stderr.isatty():
        begun = time.perf_counter()
        with _clocked_bar() as bar:
            task = bar.add_task(what, total=None, speed="")
            yield lambda done, total: bar.update(
                task, completed=done, total=max(done, total), speed=_speed(done, begun, unit)
            )
    else:
        with _lines(what, unit) as on_progress:
            yield on_progress


@contextmanager
def _lines(what: str, unit: str) -> Iterator[Callable[[int, int], None]]:
    begun, over, share, left = time.perf_counter(), Event(), "", ""

    def on_progress(done: int, total: int) -> None:
        nonlocal share, left
        share = f" {min(1.0, done / max(1, total)):.0%} done,"
        share += f" {_speed(done, begun, unit)}," if unit else ""
        left = f", about {clock(_left(done, total, begun))} left" if 0 < done < total else ""

    def speak() -> None:
        while not over.wait(SECONDS_BETWEEN_LINES):
            print(f"{what}:{share} {clock(time.perf_counter() - begun)}{left}", file=sys.stderr, flush=True)

    speaker = Thread(target=speak, daemon=True)
    speaker.start()
    try:
        yield on_progress
    finally:
        over.set()
        speaker.join()


def _left(done: int, total: int, begun: float) -> float:
    """Seconds that the rest will take, if it goes on as it went."""
    return (time.perf_counter() - begun) * (total - done) / done


def _speed(done: int, begun: float, unit: str) -> str:
    return unit and f"{done / max(1e-9, time.perf_counter() - begun):,.1f} {unit}/s"


def _unheard(_done: int, _total: int) -> None:
    pass


class NullListener:
    """For processes that log nothing."""

    def begin(self, total: int, done: int) -> None: ...

    def stepped(self, progress: Progress) -> None: ...

    def scoring(self, done: int, total: int) -> None: ...

    def line(self, line: MetricsLine) -> None: ...

    def close(self) -> None: ...


def _bar() -> "RichProgress":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as RichProgress

    return RichProgress(
        BarColumn(20), MofNCompleteColumn(), TextColumn("{task.fields[status]}"), console=Console(stderr=True)
    )


def _clocked_bar() -> "RichProgress":
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        SpinnerColumn,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as RichProgress

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(20), TaskProgressColumn())
    speed = TextColumn("{task.fields[speed]}")
    clocks = (TimeElapsedColumn(), TextColumn("left:"), TimeRemainingColumn())
    return RichProgress(*columns, *clocks, speed, console=Console(stderr=True), transient=True)


def _tensorboard(folder: Path) -> "SummaryWriter":
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ValueError("tensorboard is not installed: pip install tensorboard") from None
    return SummaryWriter(folder / "tensorboard")


def clock(seconds: float) -> str:
    """Minutes and seconds, and hours where it takes them."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes}:{rest:02d}"
