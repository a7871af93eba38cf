"""Server-sent events, and answers that nobody waits for any more: who leaves is noticed, and his work is dropped."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from .errors import Problem

KEEP_ALIVE = 5.0  # seconds without an event after which a comment is sent, so that nobody takes the line for dead
GONE = 499  # the status, in logs alone, of an answer that nobody waited for
T = TypeVar("T")


def event(value: object) -> bytes:
    return b"data: " + orjson.dumps(value) + b"\n\n"


DONE = b"data: [DONE]\n\n"


async def unless_gone(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is cancelled when the client goes away."""
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_disconnected(request.receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Problem(GONE, "the client has gone")
        return task.result()
    finally:
        gone.cancel()
        await _cancelled(task)


class EventStream(Response):
    """Events as they come. What goes wrong before the first one is an ordinary error; later it is an event.

    A client that goes away ends the stream, and so does one that takes nothing for `seconds`.
    """

    def __init__(self, events: AsyncIterator[bytes], *, on_problem: Callable[[Problem], bytes], seconds: float) -> None:
        super().__init__(media_type="text/event-stream", headers={"Cache-Control": "no-store"})
        del self.headers["content-length"]
        self.events, self.on_problem, self.seconds = events, on_problem, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        gone: asyncio.Future[None] = asyncio.ensure_future(_disconnected(receive))
        try:
            await self._stream(gone, send)
        finally:
            gone.cancel()
            await self.events.aclose()  # type: ignore[attr-defined] # an async generator's

    async def _stream(self, gone: asyncio.Future[None], send: Send) -> None:
        started = False

        async def put(body: bytes, *, more: bool = True) -> None:
            nonlocal started
            async with asyncio.timeout(self.seconds):  # who does not read keeps nothing open
                if not started:
                    started = True
                    await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                await send({"type": "http.response.body", "body": body, "more_body": more})

        while not gone.done():
            following: asyncio.Future[bytes | None] = asyncio.ensure_future(anext(self.events, None))
            try:
                while not following.done():
                    await asyncio.wait(
                        set[asyncio.Future[Any]]((following, gone)),
                        timeout=KEEP_ALIVE,
                        return_when=asyncio.FIRST_COMPLETED,
                    )
                    if gone.done():
                        return
                    if not following.done():
                        await put(b": keep-alive\n\n")
                body = following.result()
            except Problem as problem:
                if not started:
                    raise
                body = None
                await put(self.on_problem(problem))
            finally:
                await _cancelled(following)
            if body is None:
                await put(b"", more=False)
                return
            await put(body)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _cancelled(task: "asyncio.Future[Any]") -> None:
    """A task that has ended, whether it wanted to or not."""
    if not task.done():
        task.cancel()
        await asyncio.wait({task})
