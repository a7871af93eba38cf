"""An HTTP server: uvicorn's own, which waits for nobody who does not say what he wants."""

import asyncio
import socket
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST = 20.0  # seconds within which a request must have come, headers and body
IDLE = 5  # seconds that a connection is kept after an answer


class Impatient(H11Protocol):
    """Drops a connection whose request does not arrive; uvicorn itself times only the pause after an answer."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        _send_at_once(transport.get_extra_info("socket"))
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._rest()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """The clock runs from a request's first byte to its last, however slowly they come."""
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._rest()
        elif self._timer is None:
            self._timer = self.loop.call_later(REQUEST, self.transport.abort)

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _send_at_once(connection: socket.socket | None) -> None:
    """Without Nagle's algorithm, by which a body waits up to 40 ms for the other side to have seen its headers.

    asyncio sees to it only where a listening socket was made with its protocol named, which create_server does not.
    """
    if connection is not None and connection.family in (socket.AF_INET, socket.AF_INET6):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def server_of(app: ASGIApp, **settings: Any) -> uvicorn.Server:
    """A server for an application; settings are uvicorn's."""
    return uvicorn.Server(config_of(app, **settings))


def config_of(app: ASGIApp, **settings: Any) -> uvicorn.Config:
    """How a server for an application is set up; settings are uvicorn's."""
    options: dict[str, Any] = {"log_level": "warning", "lifespan": "off", "timeout_graceful_shutdown": 2}
    options["ws"] = "none"  # who asks for a WebSocket is answered as any other request, by whoever guards them
    return uvicorn.Config(app, **{**options, "http": Impatient, "timeout_keep_alive": IDLE, **settings})
