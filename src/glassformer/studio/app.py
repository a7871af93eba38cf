"""The studio's web application: every route that needs models, and the answers to what goes wrong."""

from collections.abc import Callable
from concurrent.futures import Future

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.types import ASGIApp

from glassformer.web.safe import SafeJSONResponse, one_line

from . import edits, explain, flow, lens, results, runs, states, tensors, traces
from .app_state import Busy, Gone, Missing, Studio
from .front import front

PARTS = (traces, tensors, flow, results, explain, states, lens, edits, runs)
API = "/api/v1"


def create_app(studio: Studio, *, key: str | None = None) -> ASGIApp:
    """The whole studio; with a key, every request must carry it."""
    ready: Future[ASGIApp] = Future()
    ready.set_result(create_routes(studio))
    return front(ready, key=key)


def create_routes(studio: Studio) -> FastAPI:
    """All but the page; who may ask is found out before."""
    app = FastAPI(title="Glassformer studio", docs_url=None, redoc_url=None, openapi_url=f"{API}/openapi.json")
    for part in PARTS:
        app.include_router(part.router(studio), prefix=API)
    for kind, status in ((ValueError, 422), (Missing, 404), (Gone, 410), (Busy, 429)):
        app.add_exception_handler(kind, _answer(status))
    app.add_exception_handler(RequestValidationError, _misread)
    return app


def _answer(status: int) -> Callable[[Request, Exception], Response]:
    def handler(_: Request, error: Exception) -> Response:
        headers = {"Retry-After": "1"} if status == 429 else None
        return SafeJSONResponse({"detail": one_line(error)}, status_code=status, headers=headers)

    return handler


def _misread(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part != "body")
    return SafeJSONResponse({"detail": one_line(f"{where}: {first['msg']}")}, status_code=422)
