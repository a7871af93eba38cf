"""What every route of the server is given: the models by name, the limits, and whether it is about to end."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from glassformer import __version__
from glassformer.jobs.tasks import task_name

from .errors import Problem
from .limits import Limits
from .messages import MemoryNeed, ModelInfo, WorkerSpec
from .metrics import Metrics
from .process import memory_needs
from .served_model import ServedModel

EMBEDDING = "sentence-embedding"


@dataclass
class Service:
    """Models by the names that clients use; a name from a request is looked up here, and goes nowhere else."""

    models: Mapping[str, ServedModel]
    aliases: Mapping[str, str] = field(default_factory=dict)  # other names of the same: zoo:NAME, a hub's
    limits: Limits = field(default_factory=Limits)
    metrics: Metrics = field(default_factory=lambda: Metrics(()))
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def ready(self) -> bool:
        return all(one.ready for one in self.models.values())

    @property
    def open(self) -> int:
        """Requests that wait or run."""
        return sum(one.open for one in self.models.values())

    def model(self, name: str) -> ServedModel:
        found = self.models.get(self.aliases.get(name, name))
        if found is None:
            message = f"there is no model {name!r} here; there are: {', '.join(self.models)}"
            raise Problem(404, message, param="model", code="model_not_found")
        return found

    def model_for(self, task: str, name: str | None = None) -> ServedModel:
        """The model of a name, or the first that is for a task; one that is for something else is refused."""
        if name is None:
            fit = [one for one in self.models.values() if task in loaded(one).tasks]
            if not fit:
                raise Problem(404, f"no model here is for {task}", code="model_not_found")
            return fit[0]
        model = self.model(name)
        check_task(model, task)
        return model

    def stop(self) -> None:
        """Ask the server to end, as a signal does."""
        self.stopping.set()

    async def start(self) -> None:
        """Returns when all models are loaded. Refused before the first is begun: more than there is memory for."""
        specs = [spec for one in self.models.values() for spec in one.local_specs]
        if specs:
            check_total(specs, await asyncio.to_thread(memory_needs, list(dict.fromkeys(specs))))
        await asyncio.gather(*(one.start() for one in self.models.values()))

    async def drain(self) -> None:
        """Take nothing on any more, and let what is open end; what is late is message so."""
        for one in self.models.values():
            one.draining = True
        loop = asyncio.get_running_loop()
        late = loop.time() + self.limits.shutdown_timeout
        while self.open and loop.time() < late:
            await asyncio.sleep(0.02)
        for one in self.models.values():
            one.fail_all(Problem(503, "the server is shutting down"))

    async def close(self) -> None:
        await asyncio.gather(*(one.close() for one in self.models.values()))

    def info(self) -> dict[str, Any]:
        """The server, its models and its limits."""
        return {
            "version": __version__,
            "models": [model_info(one) for one in self.models.values()],
            "limits": asdict(self.limits),
        }


def check_total(specs: Sequence[WorkerSpec], needs: Sequence[MemoryNeed]) -> None:
    """Refuse workers that one by one would fit, and together do not fit on their device, with both numbers."""
    workers = Counter(spec.source for spec in specs)
    for device in dict.fromkeys(one.device for one in needs):
        some = [one for one in needs if one.device == device]
        needed = sum(workers[one.source] * (one.weights + one.caches) for one in some)
        free, count = min(one.free for one in some), sum(workers[one.source] for one in some)
        if needed > free:
            caches = sum(workers[one.source] * one.caches for one in some)
            wanted = f"about {needed / 1e9:,.1f} GB ({caches / 1e9:,.1f} GB of it for texts that are written)"
            fix = "give fewer --workers or --rows, or a smaller --max-length"
            raise ValueError(f"the {count} workers need {wanted} and {device} has {free / 1e9:,.1f} GB free: {fix}")


def loaded(model: ServedModel) -> ModelInfo:
    """What a model says of itself; refused until it is loaded."""
    if model.info is None:
        raise model.unready()
    return model.info


def check_task(model: ServedModel, task: str) -> None:
    if task not in loaded(model).tasks:
        raise Problem(400, f"{model.name} is for {', '.join(loaded(model).tasks)}, not for {task}", param="model")


def known_task(name: str) -> str:
    """A task by the name that a client calls it."""
    try:
        return task_name(name)
    except ValueError as error:
        raise Problem(404, str(error), param="task") from None


def model_info(model: ServedModel) -> dict[str, Any]:
    info = {} if model.info is None else asdict(model.info)
    return {"id": model.name, "ready": model.ready, "workers": len(model.pids), **info}
