"""A model as routes see it: they ask, and an answer comes, or a Problem; its workers are looked after here."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from .errors import Problem
from .limits import Limits
from .messages import (
    Answer,
    Batched,
    Call,
    Cancel,
    Fault,
    FromWorker,
    ModelInfo,
    NotLoaded,
    Submit,
    WorkerLoaded,
    WorkerSpec,
    WrittenText,
)
from .metrics import Metrics
from .process import WorkerProcess

LOG = logging.getLogger("glassformer")
PART = 32  # inputs of a request that are sent together: parts of several requests make a batch
BACK_OFF = (0.2, 30.0)  # seconds before a worker that has died is begun anew: at first, and at most
STEADY = 60.0  # seconds after which a worker that dies is begun anew as if it were the first time


@dataclass(eq=False)
class PendingRequest:
    """A request on its way: what has come of it, and how many parts of it each worker was given."""

    id: int
    events: asyncio.Queue[Answer | WrittenText | Fault] = field(default_factory=asyncio.Queue)
    workers: "Counter[Replica]" = field(default_factory=Counter)

    def fail(self, problem: Problem) -> None:
        self.events.put_nowait(Fault(self.id, 0, problem.status, problem.message))


class Replica:
    """One worker of a model: a process, and another one when that has died."""

    is_local = True  # whether it takes memory of this machine

    def __init__(self, model: "ServedModel", spec: WorkerSpec) -> None:
        self.model, self.spec = model, spec
        self.process: WorkerProcess | None = None
        self.info: ModelInfo | None = None  # while it is loaded
        self.is_gone = False  # whether a process that was begun anew could not load the model any more
        self.load = 0  # parts of open requests
        self._failure: str | None = None
        self._ended = asyncio.Event()
        self.loaded = asyncio.Event()

    async def supervise(self) -> None:
        """Keep a process running, however often it dies; one that dies before it was ever loaded is a ValueError."""
        pause = BACK_OFF[0]
        while True:
            began = time.monotonic()
            self._ended.clear()
            self.process = WorkerProcess(self.spec, self._on_messages, self._ended.set)
            await self._ended.wait()
            code, self.info = self.process.exitcode, None
            self.model.on_death(self)
            if not self.loaded.is_set():
                raise ValueError(self._failure or f"{self.spec.source} could not be loaded: its worker died ({code})")
            pause = BACK_OFF[0] if time.monotonic() - began > STEADY else pause
            why = f"cannot load it any more: {self._failure}" if self.is_gone else f"has died ({code})"
            LOG.warning("a worker of %s %s; it is begun anew in %g s", self.model.name, why, pause)
            await asyncio.sleep(pause)
            pause = min(BACK_OFF[1], 2 * pause)
            self.model.metrics.restarts.labels(self.model.name).inc()

    def _on_messages(self, messages: list[FromWorker]) -> None:
        for message in messages:
            match message:
                case WorkerLoaded(info):
                    self.info, self.is_gone = info, False
                    self.model.info = info
                    self.loaded.set()
                    self.model.metrics.ready.labels(self.model.name).inc()
                case NotLoaded(failure):
                    self._failure = failure
                    self.is_gone = self.loaded.is_set()  # it could be loaded once
                case _:
                    self.model.on_message(message)

    def send(self, message: Submit | Cancel) -> None:
        assert self.process is not None
        self.process.send(message)


class ServedModel:
    """What clients call a model, and the workers that run it."""

    def __init__(self, name: str, spec: WorkerSpec, *, workers: int, limits: Limits, metrics: Metrics) -> None:
        self.name, self.limits, self.metrics = name, limits, metrics
        self.info: ModelInfo | None = None  # of the worker that was loaded last; stays when it dies
        self.draining = False
        self.created = int(time.time())
        self._ids, self._open = count(1), dict[int, PendingRequest]()
        bound = replace(spec, max_results=limits.inputs, deadline=limits.deadline)
        self._replicas = [Replica(self, bound) for _ in range(workers)]
        self._tasks: list[asyncio.Task[None]] = []

    def join(self, replica: Replica) -> None:
        """One more worker, which need not be a process of this machine; before the start."""
        self._replicas.append(replica)

    async def start(self) -> None:
        """Returns when every worker is loaded; a model that cannot be is a ValueError."""
        self._tasks = [asyncio.create_task(one.supervise()) for one in self._replicas]
        loaded = [asyncio.create_task(one.loaded.wait()) for one in self._replicas]
        waiting: set[asyncio.Task[Any]] = {*loaded}
        while waiting:
            done, _ = await asyncio.wait({*waiting, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)
            waiting -= done
            if failed := [task for task in self._tasks if task in done]:
                for task in loaded:
                    task.cancel()
                await failed[0]  # which raises

    async def close(self) -> None:
        """End the workers, and everything that still waits for them."""
        for task in self._tasks:
            task.cancel()
        for one in self._replicas:
            if one.process is not None:
                one.process.kill()
        self.fail_all(Problem(503, "the server is shutting down"))
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def ready(self) -> bool:
        return not self.draining and any(one.info is not None for one in self._replicas)

    def unready(self) -> Problem:
        """Why it does not answer: it is being loaded, or its files are gone."""
        if self._replicas and all(one.is_gone for one in self._replicas):
            return Problem(410, f"{self.name} was served here, and cannot be loaded any more", code="model_gone")
        return Problem(503, f"{self.name} is being loaded; try again in a moment")

    @property
    def pids(self) -> list[int | None]:
        """The processes of the workers."""
        return [one.process.pid if one.process else None for one in self._replicas]

    @property
    def local_specs(self) -> list[WorkerSpec]:
        """What the workers on this machine will load."""
        return [one.spec for one in self._replicas if one.is_local]

    @property
    def open(self) -> int:
        """Requests that wait or run."""
        return len(self._open)

    async def run(self, call: Call) -> tuple[list[Any], int]:
        """The results of a call's inputs in their order, and the tokens that were read."""
        parts = [replace(call, inputs=call.inputs[at : at + PART]) for at in range(0, len(call.inputs), PART)]
        answers, size = dict[int, Answer](), 0
        with self._pending(parts) as pending:
            while len(answers) < len(parts):
                event = await pending.events.get()
                if isinstance(event, Fault):
                    raise Problem(event.status, event.message)
                assert isinstance(event, Answer)
                answers[event.part] = event
                size += sum(getattr(one, "nbytes", 0) for one in event.results)
                if size > (most := self.limits.answer_bytes):
                    raise Problem(
                        413, f"the vectors of this answer have {size:,} bytes or more, and {most:,} may be sent"
                    )
        tokens = sum(one.tokens for one in answers.values())
        self.metrics.read_tokens.labels(self.name).inc(tokens)
        return [value for part in range(len(parts)) for value in answers[part].results], tokens

    async def write(self, calls: Sequence[Call]) -> AsyncIterator[WrittenText]:
        """What is written, as it comes: of each call (a `part`) as many texts as it asks for. Closing it cancels it."""
        left = sum(int(call.options.get("num_return_sequences", 1)) for call in calls)
        with self._pending(calls) as pending:
            began: float | None = time.monotonic()  # until the first token
            while left:
                event = await pending.events.get()
                if isinstance(event, Fault):
                    raise Problem(event.status, event.message)
                assert isinstance(event, WrittenText)
                if began is not None:
                    self.metrics.first_token.labels(self.name).observe(time.monotonic() - began)
                    began = None
                self.metrics.written_tokens.labels(self.name).inc(len(event.tokens))
                left -= event.finish is not None
                yield event

    @contextmanager
    def _pending(self, calls: Sequence[Call]) -> Iterator[PendingRequest]:
        """A request that is accepted, sent, and counted when it ends: done, failed, or cancelled by who asked."""
        self._check_open()
        pending = PendingRequest(next(self._ids))
        self._open[pending.id] = pending
        began, outcome, seconds = time.monotonic(), "cancelled", self.limits.deadline
        late = Problem(504, f"this took longer than the {seconds:g} seconds that a request has")
        timer = asyncio.get_running_loop().call_later(seconds, pending.fail, late)
        self.metrics.accepted.labels(self.name).inc()
        self.metrics.in_flight.labels(self.name).inc()
        try:
            for part, call in enumerate(calls):
                self._send(pending, Submit(pending.id, part, call))
            yield pending
            outcome = "done"
        except Problem:
            outcome = "failed"
            raise
        finally:
            timer.cancel()
            del self._open[pending.id]
            for worker, parts in pending.workers.items():
                worker.load -= parts
                if outcome != "done":
                    worker.send(Cancel(pending.id))
            self.metrics.in_flight.labels(self.name).dec()
            self.metrics.finished.labels(self.name, outcome).inc()
            self.metrics.seconds.labels(self.name).observe(time.monotonic() - began)

    def _check_open(self) -> None:
        refused = self.metrics.refused
        if self.draining:
            refused.labels(self.name, "draining").inc()
            raise Problem(503, "the server is shutting down; ask another one")
        if not self.ready:
            refused.labels(self.name, "loading").inc()
            raise self.unready()
        if len(self._open) >= self.limits.queue:
            refused.labels(self.name, "busy").inc()
            raise Problem(
                429, f"{len(self._open)} requests wait for {self.name}, and {self.limits.queue} may; try later"
            )

    def _send(self, pending: PendingRequest, message: Submit) -> None:
        worker = min((one for one in self._replicas if one.info is not None), key=lambda one: one.load)
        worker.load += 1
        pending.workers[worker] += 1
        worker.send(message)

    def on_message(self, message: FromWorker) -> None:
        """What a worker says, for whoever still waits for it."""
        if isinstance(message, Batched):
            self.metrics.batch_rows.labels(self.name, message.kind).observe(message.rows)
            self.metrics.batch_seconds.labels(self.name, message.kind).observe(message.seconds)
        elif isinstance(message, Answer | WrittenText | Fault) and message.id in self._open:
            self._open[message.id].events.put_nowait(message)

    def on_death(self, worker: Replica) -> None:
        """A worker has died: its requests fail, and no others."""
        self.metrics.ready.labels(self.name).set(sum(one.info is not None for one in self._replicas))
        for pending in self._open.values():
            if worker in pending.workers:
                pending.fail(Problem(503, f"a worker of {self.name} has died, and is begun anew; try again"))

    def fail_all(self, problem: Problem) -> None:
        """End everything that is open."""
        for pending in self._open.values():
            pending.fail(problem)
