"""A server from its first socket to its last request: models are loaded, signals heard, and what is open brought to an
end before it ends."""

import asyncio
import json
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from types import FrameType
from uuid import uuid4

import uvicorn
from starlette.types import ASGIApp

from glassformer.studio import model_name
from glassformer.web.server import Impatient, config_of

from .app import create_app
from .errors import Problem
from .limits import Limits
from .messages import WorkerSpec
from .metrics import Metrics
from .served_model import ServedModel
from .service import Service

CLOSING = 2  # seconds for the last bytes of answers


FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-type: application/json\r\n"
    b"x-request-id: %s\r\ncontent-length: %d\r\n\r\n%s"
)


class BoundedProtocol(Impatient):
    """Sends away who comes when all connections are taken, at once and with the reason."""

    most: int

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.most:
            problem = Problem(503, f"{self.most} connections are open, and no more are taken; try again in a moment")
            body = json.dumps(problem.huggingface).encode()
            transport.write(FULL % (uuid4().hex.encode(), len(body), body))
            transport.close()


class DrainingServer(uvicorn.Server):
    """On the first signal it takes nothing on and lets what is open end; on the second it ends at once."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self.service = service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Signals are heard and not passed on, so that the process ends with 0."""
        del sig, frame
        if self.service.stopping.is_set():
            self.force_exit = self.should_exit = True
        self.service.stop()

    async def drain(self) -> None:
        """Wait until it is asked to end, bring everything to its end, and end."""
        await self.service.stopping.wait()
        await self.service.drain()
        self.should_exit = True


def service_of(specs: Sequence[WorkerSpec], *, workers: int = 1, limits: Limits | None = None) -> Service:
    """Models to be served, none of them loaded yet; a name that two of them have is refused."""
    limits, names = limits or Limits(), dict[str, WorkerSpec]()
    for spec in specs:
        name = model_name(spec.source)
        if name in names:
            raise ValueError(f"{spec.source} and {names[name].source} are both called {name!r}; rename one of them")
        names[name] = spec
    metrics = Metrics(names)
    made = {
        name: ServedModel(name, spec, workers=workers, limits=limits, metrics=metrics) for name, spec in names.items()
    }
    return Service(made, {spec.source: name for name, spec in names.items()}, limits, metrics)


def run_server(
    service: Service,
    listener: socket.socket,
    *,
    key: str | None = None,
    hosts: Collection[str] = (),
    log: bool = True,
    mounts: Mapping[str, ASGIApp] | None = None,
    on_ready: Callable[[], None] = lambda: None,
    **settings: object,
) -> None:
    """Serve until a signal comes, then bring everything to its end."""
    app = create_app(service, key=key, hosts=hosts, log=log, mounts=mounts)
    asyncio.run(serve(app, service, [listener], on_ready=on_ready, **settings))


async def serve(
    app: ASGIApp,
    service: Service,
    sockets: list[socket.socket],
    *,
    on_ready: Callable[[], None],
    **settings: object,
) -> None:
    """Serve until a signal comes. `on_ready` is called when all models are loaded; one that cannot be is a ValueError.

    Further settings are uvicorn's.
    """
    http = type("Protocol", (BoundedProtocol,), {"most": service.limits.connections})
    config = config_of(app, log_level="critical", http=http, timeout_graceful_shutdown=CLOSING, **settings)
    server = DrainingServer(config, service)
    tasks = [asyncio.create_task(work) for work in (server.serve(sockets), service.start(), server.drain())]
    running, starting, draining = tasks
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            on_ready()
        await running
    finally:
        server.should_exit = True
        starting.cancel()
        draining.cancel()
        await service.close()
        await asyncio.gather(*tasks, return_exceptions=True)
