"""A replica of a Ray Serve deployment that runs models: the same workers as those of a server on one machine."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from .errors import Problem
from .limits import Limits
from .messages import Answer, Call, Fault, ModelInfo, NotLoaded, WorkerSpec, WrittenText
from .metrics import Metrics
from .served_model import ServedModel


class Engine:
    """Models by their names, each with a worker process that batches what is asked of it; `ask` and `write` are what
    fronts call. A model that cannot be loaded says why when it is asked for, and does not keep the replica from
    starting, which Ray would try again and again."""

    def __init__(self, specs: Mapping[str, WorkerSpec], limits: Limits) -> None:
        self.specs, self.limits = specs, limits
        self._models: dict[str, asyncio.Task[ServedModel]] = {}

    async def info(self, name: str) -> ModelInfo | NotLoaded:
        """What a model says of itself, once it is loaded."""
        try:
            model = await self.loaded(name)
        except ValueError as error:
            return NotLoaded(str(error))
        assert model.info is not None
        return model.info

    async def ask(self, name: str, call: Call) -> Answer | Fault:
        """The results of a call."""
        try:
            results, tokens = await (await self.loaded(name)).run(call)
        except (Problem, ValueError) as problem:
            return _fault(name, problem)
        return Answer(0, 0, results, tokens)

    async def write(self, name: str, call: Call) -> AsyncIterator[WrittenText | Fault]:
        """What is written, as it comes."""
        try:
            model = await self.loaded(name)
            async for event in model.write([call]):
                yield event
        except (Problem, ValueError) as problem:
            yield _fault(name, problem)

    async def loaded(self, name: str) -> ServedModel:
        """A model, loaded when it is first asked for."""
        if name not in self._models:
            self._models[name] = asyncio.create_task(self.load(name))
        return await asyncio.shield(self._models[name])

    async def load(self, name: str) -> ServedModel:
        model = ServedModel(name, self.specs[name], workers=1, limits=self.limits, metrics=Metrics([name]))
        try:
            await model.start()
        except ValueError:
            await model.close()
            raise
        return model


def _fault(name: str, problem: Problem | ValueError) -> Fault:
    """For who asked; a model that this replica cannot load could be loaded when it was deployed."""
    if isinstance(problem, Problem):
        return Fault(0, 0, problem.status, problem.message)
    return Fault(0, 0, 410, f"{name} was served here, and cannot be loaded any more")


def engine_class(serve: Any, models_per_replica: int | None) -> type[Engine]:
    """The class of a deployment; with a number, a replica holds so many models, and lets go of the one that was asked
    least lately for another (Ray Serve's multiplexing)."""
    if models_per_replica is None:
        return Engine

    class MultiplexedEngine(Engine):
        @serve.multiplexed(max_num_models_per_replica=models_per_replica)  # type: ignore[untyped-decorator]
        async def loaded(self, name: str) -> ServedModel:
            model = await self.load(name)

            async def let_go() -> None:
                while model.open:  # what is under way comes to its end
                    await asyncio.sleep(0.02)
                await model.close()

            vars(model)["__del__"] = let_go  # what Ray Serve calls; on the class, Python would call it too
            return model

    return MultiplexedEngine
