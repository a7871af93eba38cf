"""The front of a Ray Serve application: the server's own web application, whose models are replicas of the cluster."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from glassformer.web.server import REQUEST

from .app import create_app
from .errors import Problem
from .limits import Limits
from .messages import Answer, Cancel, Fault, NotLoaded, Submit, WorkerLoaded, WorkerSpec, WrittenText
from .run import service_of
from .served_model import Replica, ServedModel
from .service import Service

FRONTS = "glassformer-fronts"  # the name of their actor
LAST_BYTES = 0.5  # seconds for the last events of streams to be sent
PAUSES = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0)  # seconds before each further try of what a replica has not answered


class Lost(Exception):
    """Nobody answers: the replica has died, or its worker."""


class RemoteReplica(Replica):
    """All replicas of a model on the cluster, as its front sees them: Ray Serve chooses one for each part of a request.

    What a replica that has died was asked is asked again, of another one; a text of which somebody has read the
    beginning ends with an error.
    """

    is_local = False

    def __init__(self, model: ServedModel, spec: WorkerSpec, handle: Any) -> None:
        super().__init__(model, spec)
        self.handle = handle.options(multiplexed_model_id=model.name)
        self.errors = import_module("ray.exceptions")
        self._asking: dict[int, set[asyncio.Task[None]]] = {}

    async def supervise(self) -> None:
        found: Any = None
        while found is None:
            with suppress(Lost):  # Ray starts another
                found = await self._again(self._info)
        if isinstance(found, NotLoaded):
            raise ValueError(found.message)
        self._on_messages([WorkerLoaded(found)])
        await asyncio.Event().wait()  # Ray keeps them running

    def send(self, message: Submit | Cancel) -> None:
        if isinstance(message, Cancel):
            for task in self._asking.get(message.id, ()):
                task.cancel()
            return
        task = asyncio.create_task(self._answer(message))
        asking = self._asking.setdefault(message.id, set())
        asking.add(task)
        task.add_done_callback(lambda done: self._forget(message.id, done))

    def _forget(self, request: int, task: "asyncio.Task[None]") -> None:
        asking = self._asking[request]
        asking.discard(task)
        if not asking:
            del self._asking[request]

    async def _answer(self, one: Submit) -> None:
        """Hear the answer to a part, or why there is none."""
        try:
            work = self._write if one.call.kind == "generate" else self._ask
            await self._again(lambda: work(one))
        except Lost as error:
            self.model.on_message(Fault(one.id, one.part, 503, str(error)))

    async def _again(self, work: Callable[[], Awaitable[Any]]) -> Any:
        """What comes of some work, which is tried again where a replica is lost."""
        for pause in PAUSES:
            await asyncio.sleep(pause)
            try:
                return await work()
            except (self.errors.RayActorError, Lost):
                continue
        raise Lost(f"no replica of {self.model.name} answers; try again")

    async def _info(self) -> Any:
        return await self.handle.info.remote(self.model.name)

    async def _ask(self, one: Submit) -> None:
        response = self.handle.ask.remote(self.model.name, one.call)
        try:
            found: Answer | Fault = await response
        except asyncio.CancelledError:
            response.cancel()
            raise
        if isinstance(found, Fault) and found.status == 503:
            raise Lost(found.message)
        self.model.on_message(replace(found, id=one.id, part=one.part))

    async def _write(self, one: Submit) -> None:
        response = self.handle.options(stream=True).write.remote(self.model.name, one.call)
        begun = False
        try:
            async for found in response:
                event: WrittenText | Fault = found
                if isinstance(event, Fault) and event.status == 503 and not begun:
                    raise Lost(event.message)
                begun = True
                self.model.on_message(replace(event, id=one.id, part=one.part))
        except asyncio.CancelledError:
            response.cancel()
            raise
        except self.errors.RayActorError:
            if not begun:
                raise
            message = f"the replica of {self.model.name} that wrote this has died; try again"
            self.model.on_message(Fault(one.id, one.part, 503, message))


@dataclass(frozen=True)
class FrontSettings:
    """What a front is made of, wherever it runs."""

    specs: Mapping[str, WorkerSpec]  # by the names of models
    engines: Mapping[str, str]  # the deployment of each model
    application: str
    limits: Limits
    key: str | None = None
    hosts: tuple[str, ...] = ()
    log: bool = False


class Fronts:
    """An actor by which fronts and whoever deployed them hear of each other: who is ready, that the end is near, and
    who has nothing open any more."""

    def __init__(self) -> None:
        self._ending = asyncio.Event()
        self._ready = self._drained = 0

    async def ready(self) -> None:
        """A front has heard of all its models."""
        self._ready += 1

    async def num_ready(self) -> int:
        return self._ready

    async def drain(self) -> None:
        self._ending.set()

    async def ending(self) -> None:
        """Returns when `drain` is called."""
        await self._ending.wait()

    async def drained(self) -> None:
        """A front has nothing open any more."""
        self._drained += 1

    async def num_drained(self) -> int:
        return self._drained


class Front:
    """An ASGI application that is made where it runs: at its start the models of the cluster become its own."""

    def __init__(self, settings: FrontSettings) -> None:
        self.settings = settings
        self._app: ASGIApp | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        else:
            assert self._app is not None
            await self._app(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        service = self._begin()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await service.close()
        for task in self._tasks:
            task.cancel()
        await send({"type": "lifespan.shutdown.complete"})

    def _begin(self) -> Service:
        """The service; its models are ready as soon as a replica of each has said what it is."""
        own, serve = self.settings, import_module("ray.serve")
        service = service_of(list(own.specs.values()), workers=0, limits=own.limits)
        for name, model in service.models.items():
            handle = serve.get_deployment_handle(own.engines[name], app_name=own.application)
            model.join(RemoteReplica(model, own.specs[name], handle))
        self._app = create_app(service, key=own.key, hosts=own.hosts, log=own.log, patience=REQUEST)
        self._tasks = [asyncio.create_task(work) for work in (_start(service), _drain(service))]
        return service


async def _start(service: Service) -> None:
    """Say so when all models are ready; one that cannot be loaded is said by its engine to whoever deployed it."""
    ray, errors = import_module("ray"), import_module("ray.exceptions")
    with suppress(ValueError, Problem, errors.RayError):
        await service.start()
        await ray.get_actor(FRONTS).ready.remote()


async def _drain(service: Service) -> None:
    """Once the application is about to end: not ready, nothing new, and an end for what is open."""
    ray, errors = import_module("ray"), import_module("ray.exceptions")
    with suppress(errors.RayError, ValueError):  # there is nobody who would say it
        fronts = ray.get_actor(FRONTS)
        await fronts.ending.remote()
        await service.drain()
        await asyncio.sleep(LAST_BYTES)
        await fronts.drained.remote()
