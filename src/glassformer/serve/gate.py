"""Who comes in: every request gets an id, is looked at before any route is, and leaves a line in the log."""

import ipaddress
import json
import logging
import re
import sys
import time
from collections.abc import Collection
from typing import Any
from uuid import uuid4

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from glassformer.web import LOOPBACK
from glassformer.web.guard import bears, bounded, refusal, timely
from glassformer.web.safe import one_line

from .errors import Problem
from .metrics import Metrics

LOG = logging.getLogger("glassformer")
OPEN = ("/health",)  # the only path that asks for no key
POLICY_VIOLATION = 1008  # of WebSocket: before it is accepted, a server makes 403 of it
ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


def problem_response(problem: Problem, path: str) -> Response:
    """A problem as the face of a path says it."""
    body = json.dumps(problem.body(path), ensure_ascii=False).encode(errors="backslashreplace")
    return Response(body, status_code=problem.status, media_type="application/json", headers=problem.headers)


class Gate:
    """Default deny: what is not let in here reaches no route.

    Without a key only this machine is answered, and addresses in numbers, which no other site's name can be made to
    mean. `hosts` are names that are answered to as well; with a key any name is, unless `hosts` are given. `patience`
    are the seconds within which a request must have come, where no server of ours sees to that.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        key: str | None,
        hosts: Collection[str],
        largest: int,
        metrics: Metrics,
        log: bool,
        patience: float | None = None,
    ) -> None:
        self.app, self.key, self.hosts, self.largest = app, key, {host.lower() for host in hosts}, largest
        self.metrics, self.log, self.patience = metrics, log, patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":  # where another server than ours stands before it
            await receive()
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})
            return
        assert scope["type"] == "http", scope["type"]
        request, began, status, whole = Request(scope), time.perf_counter(), 0, False
        given = request.headers.get("x-request-id", "")
        request_id = given if ID.fullmatch(given) else uuid4().hex
        scope["request_id"] = request_id

        async def marked(message: Message) -> None:
            nonlocal status, whole
            if message["type"] == "http.response.start":
                status = message["status"]
                own = [(b"x-request-id", request_id.encode()), *HEADERS]
                message = {**message, "headers": [*message["headers"], *own]}
            whole = message["type"] == "http.response.body" and not message.get("more_body")
            await send(message)

        try:
            app = self._refused(request) or self.app
            come = receive if self.patience is None else timely(receive, self.patience)
            await app(scope, bounded(come, self.largest), marked)
        except Exception as error:  # a fault of ours: what it is goes to the log, without a word of the request
            LOG.error("request %s failed: %s", request_id, type(error).__name__)
            if not whole:
                raise  # the answer has begun, and is broken off
        finally:
            self.metrics.responses.labels(f"{status // 100}xx").inc()
            if self.log:
                self._write(request, request_id, status, time.perf_counter() - began)

    def _refused(self, request: Request) -> Response | None:
        path = request.scope["path"]
        found = refusal(request, largest=self.largest, may_call=self._may_call, pages=())
        if found is not None:
            return problem_response(Problem(found.status, one_line(found.detail)), path)
        if self.key is not None and path not in OPEN and not bears(request, self.key):
            message = "this server needs its key: send it as Authorization: Bearer …"
            return problem_response(Problem(401, message, code="invalid_api_key"), path)
        return None

    def _may_call(self, name: str) -> bool:
        if name in self.hosts or name in LOOPBACK:
            return True
        return not self.hosts if self.key is not None else _is_address(name)

    def _write(self, request: Request, request_id: str, status: int, seconds: float) -> None:
        """One line of JSON: which route, never what was asked or answered."""
        route = request.scope.get("route")
        line: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "request_id": request_id,
            "client": request.client.host if request.client else None,
            "method": request.method if request.method in METHODS else None,
            "route": getattr(route, "path", None),
            "status": status,
            "seconds": round(seconds, 4),
        }
        print(json.dumps(line), file=sys.stderr, flush=True)


METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def as_problem(error: Exception) -> Problem:
    """What a route raised, as a problem."""
    if isinstance(error, Problem):
        return error
    assert isinstance(error, HTTPException)
    messages = {404: "there is no such route; see /docs", 405: "this route has other methods; see /docs"}
    return Problem(error.status_code, messages.get(error.status_code, str(error.detail)), headers=error.headers)
