"""Signals that ask a run to stop: Ctrl-C, and SIGTERM, which schedulers and containers send before they kill."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

SECONDS_OF_ONE = 5.0  # schedulers tell torchrun and its processes, and torchrun tells them too: that is one SIGTERM

Handler = Callable[[int, FrameType | None], Any]


class Terminated(BaseException):
    """SIGTERM came where there is no step to finish; like KeyboardInterrupt it is no error, and nobody's to handle."""


def terminate(*_: object) -> None:
    raise Terminated


@contextmanager
def handled(handlers: dict[signal.Signals, Handler]) -> Iterator[bool]:
    """Other handlers for a while; whether they could be set, which only the main thread may do."""
    try:
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    except ValueError:
        yield False
        return
    try:
        yield True
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM ends what is going on as Ctrl-C does: files are closed and locks released."""
    with handled({signal.SIGTERM: terminate}):
        yield


@contextmanager
def stops() -> Iterator[Callable[[], int]]:
    """What tells by which signal a stop after the step was asked for, 0 for none; a second signal stops at once."""
    stop_signal, since = 0, 0.0

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal stop_signal, since
        if not stop_signal:
            stop_signal, since = number, time.monotonic()
        elif number == signal.SIGINT:
            signal.default_int_handler(number, frame)
        elif time.monotonic() - since > SECONDS_OF_ONE:
            terminate()

    with handled({signal.SIGINT: on_signal, signal.SIGTERM: on_signal}):
        yield lambda: stop_signal
