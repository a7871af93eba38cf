"""A worker process as the server sees it: messages in and out, none of which ever blocks the server's loop."""

import asyncio
import multiprocessing
import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from multiprocessing.connection import Connection
from typing import Any

from .messages import FromWorker, MemoryNeed, ToWorker, WorkerSpec

JOIN = 5.0  # seconds that a process has to end once it was killed


@cache
def _context() -> Any:
    """How processes begin: as forks of one that has imported torch and done nothing with it, so that the second model
    is there at once, and shares its memory; where there is no such thing, each imports it by itself. A fork of the
    server itself would copy its threads and sockets."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["glassformer.serve.worker"])
    return context


def _run(connection: Connection, spec: WorkerSpec) -> None:
    from .worker import main  # which imports torch: in the new process alone

    main(connection, spec)


def _measure(connection: Connection, specs: Sequence[WorkerSpec]) -> None:
    from .memory import measure

    measure(connection, specs)


def memory_needs(specs: Sequence[WorkerSpec]) -> list[MemoryNeed]:
    """What a worker of each model will take of memory, as far as its config tells; found out in a process."""
    ours, theirs = _context().Pipe(duplex=False)
    process = _context().Process(target=_measure, args=(theirs, specs), daemon=True)
    process.start()
    theirs.close()
    try:
        found: list[MemoryNeed] = ours.recv()
    except EOFError:  # it has died: the workers will say why
        found = []
    process.join()
    return found


class WorkerProcess:
    """One process, from its start to its end; a new one takes its place.

    `on_messages` and `on_exit` are called in the loop that started it. A thread reads and another writes, so that a
    worker that is stuck in a long call stops nobody but itself.
    """

    def __init__(
        self, spec: WorkerSpec, on_messages: Callable[[list[FromWorker]], None], on_exit: Callable[[], None]
    ) -> None:
        self._loop, self._on_messages, self._on_exit = asyncio.get_running_loop(), on_messages, on_exit
        self._connection, theirs = _context().Pipe()
        self._outbox: queue.SimpleQueue[ToWorker | None] = queue.SimpleQueue()
        self._process = _context().Process(target=_run, args=(theirs, spec), daemon=True)
        self._process.start()
        theirs.close()
        for work in (self._read, self._write):
            threading.Thread(target=work, daemon=True).start()

    @property
    def pid(self) -> int | None:
        return self._process.pid  # type: ignore[no-any-return]

    @property
    def exitcode(self) -> int | None:
        return self._process.exitcode  # type: ignore[no-any-return]

    def send(self, message: ToWorker) -> None:
        self._outbox.put(message)

    def kill(self) -> None:
        """End it at once; `on_exit` hears of it."""
        self._process.kill()

    def _read(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                messages = self._connection.recv()
                self._call(partial(self._on_messages, messages))
        self._outbox.put(None)
        self._process.join(JOIN)
        self._call(self._on_exit)

    def _write(self) -> None:
        with suppress(OSError):  # the reader hears of it too
            while (message := self._outbox.get()) is not None:
                self._connection.send(message)

    def _call(self, callback: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(callback)
