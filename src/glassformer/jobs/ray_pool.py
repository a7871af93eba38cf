"""Predictors on a Ray cluster: an actor each, which loads the model once; and how a cluster is found or started."""

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from .pools import RETRIES, DeadWorkers
from .predictor import Prediction, Predictor, PredictorSpec


class RayCluster:
    """The cluster that this process belongs to, else the one of $RAY_ADDRESS, else one on this machine until `close`.

    `gpus` are those of one worker; by default one where the cluster has any. `capacity` is how many such workers there
    is place for, `cores` how many that need no GPU.
    """

    def __init__(self, *, gpus: float = 0.0) -> None:
        try:
            ray: Any = import_module("ray")
        except ImportError:
            raise ValueError("ray is not installed: pip install 'glassformer[ray]'") from None
        self.ray = ray
        self.owns = not ray.is_initialized()
        self.is_local = self.owns and not os.environ.get("RAY_ADDRESS")  # no machine will join it
        if self.owns:
            ray.init(log_to_driver=False, include_dashboard=False, logging_level=logging.ERROR)
        resources = ray.cluster_resources()
        self.gpus = gpus or (1.0 if resources.get("GPU") else 0.0)
        self.cores = max(1, int(resources.get("CPU", 1)))
        self.capacity = max(1, int(resources["GPU"] / self.gpus)) if self.gpus else self.cores

    def close(self) -> None:
        if self.owns:
            self.ray.shutdown()


def answer_of(ray: Any, reference: Any) -> Any:
    """What a task or an actor gave; an error that is for the user is raised here as it was there."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:  # of our own code
        if isinstance(error.cause, ValueError | OSError):
            raise ValueError(f"{error.cause} (on a worker of the cluster)") from None
        raise


class RayPool:
    """So many actors; by default as many as the cluster has place for. One that dies is begun anew, if need be on
    another machine, and what it was asked is asked again."""

    def __init__(self, spec: PredictorSpec, *, jobs: int | None = None) -> None:
        self.cluster = RayCluster()
        ray, gpus = self.cluster.ray, self.cluster.gpus if spec.device != "cpu" else 0.0
        self.size = min(jobs or self.cluster.capacity, self.cluster.capacity)
        if Path(spec.model).is_dir():
            spec = replace(spec, model=str(Path(spec.model).resolve()))
        actor = ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=-1, max_task_retries=RETRIES)(Predictor)
        self.actors = [actor.remote(spec) for _ in range(self.size)]
        self.open: dict[Any, Any] = {}  # what each actor is asked and has not answered yet
        try:
            self.pids: list[int] = [self._got(one.load.remote()) for one in self.actors]
        except BaseException:
            self.close()
            raise

    def submit(self, inputs: Sequence[Any]) -> Any:
        if self.open:
            answered, _ = self.cluster.ray.wait(list(self.open), num_returns=len(self.open), timeout=0)
            for one in answered:
                del self.open[one]
        busy = list(self.open.values())
        actor = min(self.actors, key=busy.count)
        chunk = actor.predict.remote(list(inputs))
        self.open[chunk] = actor
        return chunk

    def result(self, chunk: Any) -> list[Prediction]:
        self.open.pop(chunk, None)
        found: list[Prediction] = self._got(chunk)
        return found

    def _got(self, reference: Any) -> Any:
        try:
            return answer_of(self.cluster.ray, reference)
        except self.cluster.ray.exceptions.RayActorError:
            raise DeadWorkers from None

    def close(self) -> None:
        for actor in self.actors:
            self.cluster.ray.kill(actor)
        self.cluster.close()
