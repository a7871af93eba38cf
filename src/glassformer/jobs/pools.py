"""Pools of predictors: chunks of inputs are handed in, and their predictions taken out in any order; here, in processes
of this machine, or (see ray_pool) in actors of a cluster."""

from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, Protocol

from .predictor import Prediction, Predictor, PredictorSpec

RETRIES = 3  # of a chunk whose predictor has died: the third one to die of it is no accident


class DeadWorkers(RuntimeError):
    """Predictors die over a chunk each time: what it needs is not there."""

    def __init__(self) -> None:
        fix = "they may need more memory than there is: try --set batch_size=1, or fewer --jobs"
        super().__init__(f"workers have died {RETRIES + 1} times over the same rows; {fix}")


class Pool(Protocol):
    """Used as a context; what is handed in is answered once, however many predictors die over it."""

    size: int  # chunks that are worked at at once

    def submit(self, inputs: Sequence[Any]) -> Any:
        """Hand in a chunk; what comes back stands for it."""
        ...

    def result(self, chunk: Any) -> list[Prediction]:
        """The predictions of a chunk, when they are there."""
        ...

    def close(self) -> None: ...


class LocalPool:
    """This process itself; torch uses all its cores."""

    size = 1

    def __init__(self, spec: PredictorSpec) -> None:
        self.predictor = Predictor(spec)
        self.predictor.load()

    def submit(self, inputs: Sequence[Any]) -> Sequence[Any]:
        return inputs

    def result(self, chunk: Sequence[Any]) -> list[Prediction]:
        return self.predictor.predict(chunk)

    def close(self) -> None:
        pass


@dataclass(eq=False)
class Chunk:
    """Inputs in a process, and how often they were sent to one that has died."""

    inputs: Sequence[Any]
    future: "Future[list[Prediction]]"
    deaths: int = 0


class ProcessPool:
    """So many processes of this machine. When one dies, all begin anew, and what was open is handed in again."""

    def __init__(self, spec: PredictorSpec, *, jobs: int) -> None:
        self.spec, self.size, self.open = spec, jobs, list[Chunk]()
        self.executor = self._started()
        self.executor.submit(_load).result()

    def _started(self) -> ProcessPoolExecutor:
        context = get_context("spawn")  # a fork of a process with torch's threads may never come to its end
        return ProcessPoolExecutor(self.size, mp_context=context, initializer=_begin, initargs=(self.spec,))

    def submit(self, inputs: Sequence[Any]) -> Chunk:
        chunk = Chunk(inputs, self._sent(inputs))
        self.open.append(chunk)
        return chunk

    def _sent(self, inputs: Sequence[Any]) -> "Future[list[Prediction]]":
        try:
            return self.executor.submit(_predict, inputs)
        except BrokenProcessPool as error:  # someone died since; whoever asks for the result begins anew
            broken: Future[list[Prediction]] = Future()
            broken.set_exception(error)
            return broken

    def result(self, chunk: Chunk) -> list[Prediction]:
        while True:
            try:
                found = chunk.future.result()
            except BrokenProcessPool:
                self._begin_anew()
            else:
                self.open.remove(chunk)
                return found

    def _begin_anew(self) -> None:
        self.executor.shutdown(wait=True)
        self.executor = self._started()
        for chunk in self.open:
            if chunk.future.done() and chunk.future.exception() is None:
                continue
            chunk.deaths += 1
            if chunk.deaths > RETRIES:
                raise DeadWorkers
            chunk.future = self._sent(chunk.inputs)

    def close(self) -> None:
        self.executor.shutdown(wait=True, cancel_futures=True)


_PREDICTORS: list[Predictor] = []  # of a process of the pool: its one


def _begin(spec: PredictorSpec) -> None:
    _PREDICTORS.append(Predictor(spec))


def _load() -> int:
    return _PREDICTORS[0].load()


def _predict(inputs: Sequence[Any]) -> list[Prediction]:
    return _PREDICTORS[0].predict(inputs)
