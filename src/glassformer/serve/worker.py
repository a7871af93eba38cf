"""A worker process: loads one model, and answers what comes through its pipe, in batches of whatever waits."""

import ctypes
import logging
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Sequence
from itertools import count
from multiprocessing.connection import Connection

import torch

from .batch_queue import BatchQueue
from .inference import Dropped, Inference, fault_of
from .messages import Batched, Cancel, Fault, FromWorker, NotLoaded, Submit, ToWorker, WorkerLoaded, WorkerSpec
from .writing import Writer, writer_of

KERNEL_CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")  # read by torch at its first kernel
LIBC = ctypes.CDLL(None)  # of glibc the two functions below, of others neither
M_ARENA_MAX, ARENAS = -8, 2
TRIM, IDLE = 256, 1.0  # turns, and seconds without work, after which memory is given back
DEPTH = 3  # long batches that may wait for a shorter one each
KERNELS = 48  # kept of each: hardly a batch has the shape of another, and a thousand kernels would fill half a gigabyte


def main(connection: Connection, spec: WorkerSpec) -> None:
    """The target of the process. It ends when the other end of the pipe is closed; signals are its parent's affair."""
    for name in KERNEL_CACHES:
        os.environ.setdefault(name, str(KERNELS))
    share_heaps()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    logging.basicConfig(level=logging.ERROR, format="%(message)s", stream=sys.stderr)
    if spec.threads is not None:
        torch.set_num_threads(spec.threads)
    try:
        inference = Inference(spec)
        writer = writer_of(inference)
    except (ValueError, OSError) as error:
        connection.send([NotLoaded(str(error))])
        return
    connection.send([WorkerLoaded(inference.info)])
    Worker(connection, inference, writer).run()


def share_heaps() -> None:
    """Few heaps for all threads: each keeps what it has once needed, and a worker has one thread that computes."""
    if hasattr(LIBC, "mallopt"):
        LIBC.mallopt(M_ARENA_MAX, ARENAS)


def give_back_memory() -> None:
    """To the system, what batches of many shapes have left unused between what is used."""
    if hasattr(LIBC, "malloc_trim"):
        LIBC.malloc_trim(0)


class Worker:
    """What is waiting, what is being written, and the loop over both."""

    def __init__(self, connection: Connection, inference: Inference, writer: Writer | None) -> None:
        self.connection, self.inference, self.writer = connection, inference, writer
        self.waiting = BatchQueue(inference.spec.batch_tokens)
        self.running: list[set[int]] = []  # requests of the batch that is worked on, behind those that it holds up
        self.cancelled: set[int] = set()  # of those
        inference.on_progress = self._between
        self.inbox: queue.SimpleQueue[ToWorker] = queue.SimpleQueue()

    def run(self) -> None:
        threading.Thread(target=self._receive, daemon=True).start()
        for turn in count(1):
            self._take_in(self._next() if self.idle else None)
            if turn % TRIM == 0:
                give_back_memory()
            if batch := self.waiting.take():
                self._answer(batch)
            if self.writer is not None and not self.writer.idle:
                began, rows = time.perf_counter(), self.writer.rows
                written = self.writer.step()
                self._send([*written, Batched("generate", rows, time.perf_counter() - began)])

    def _next(self) -> ToWorker:
        """The next message; who waits a while for it gives back what it does not need."""
        try:
            return self.inbox.get(timeout=IDLE)
        except queue.Empty:
            give_back_memory()
            return self.inbox.get()

    def _answer(self, batch: Sequence[Submit]) -> None:
        began = time.perf_counter()
        self.running.append({one.id for one in batch})
        found = self.inference.answer(batch)
        self.running.pop()
        self.cancelled &= set().union(*self.running)
        rows = sum(len(one.call.inputs) for one in batch)
        self._send([*found, Batched(batch[0].call.kind, rows, time.perf_counter() - began)])

    def _between(self, batch: Sequence[Submit]) -> None:
        """Between the steps of a long batch: it is dropped if nobody waits for it, and others have a turn."""
        self._take_in(None)
        if {one.id for one in batch} <= self.cancelled:
            raise Dropped
        if len(self.running) <= DEPTH and (other := self.waiting.take()):
            self._answer(other)

    @property
    def idle(self) -> bool:
        return not len(self.waiting) and (self.writer is None or self.writer.idle)

    def _receive(self) -> None:
        try:
            while True:
                self.inbox.put(self.connection.recv())
        except (EOFError, OSError):
            os._exit(0)  # the server is gone, perhaps in the middle of a batch

    def _take_in(self, first: ToWorker | None) -> None:
        """All that has come by now, so that what is cancelled is in no batch."""
        message = first
        while True:
            match message:
                case Submit() if message.call.kind == "generate":
                    self._send(self._begin(message))
                case Submit():
                    self.waiting.push(message)
                case Cancel(request):
                    self.waiting.cancel(request)
                    if any(request in some for some in self.running):
                        self.cancelled.add(request)
                    if self.writer is not None:
                        self.writer.cancel(request)
            try:
                message = self.inbox.get_nowait()
            except queue.Empty:
                return

    def _begin(self, one: Submit) -> list[Fault]:
        if self.writer is None:
            message = f"this model is for {', '.join(self.inference.pipelines)}, and writes no text"
            return [Fault(one.id, one.part, 422, message)]
        try:
            self.writer.add(one)
        except Exception as error:
            return [fault_of(one, error)]
        return []

    def _send(self, messages: Sequence[FromWorker]) -> None:
        if messages:
            self.connection.send(list(messages))
