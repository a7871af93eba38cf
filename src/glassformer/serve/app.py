"""The server's web application: its faces, the answers to what goes wrong, and what it tells of itself."""

from collections.abc import Collection, Mapping
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import RedirectResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from glassformer import __version__
from glassformer.web.safe import one_line

from . import huggingface, openai, ops, tei
from .docs_page import POLICY, docs_page
from .errors import TYPES, Problem, speaks_openai
from .gate import Gate, as_problem, problem_response
from .service import Service

FACES = (openai, ops, tei, huggingface)  # the last takes any path below /models
OPENAI_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        }
    },
}
ERROR = {
    "type": "object",
    "required": ["error", "error_type"],
    "properties": {"error": {"type": "string"}, "error_type": {"type": "string"}},
}
BOUNDS = ("greater_than", "less_than", "too_long", "too_short", "too_big")  # of pydantic's kinds of errors


def create_app(
    service: Service,
    *,
    key: str | None = None,
    hosts: Collection[str] = (),
    log: bool = False,
    mounts: Mapping[str, ASGIApp] | None = None,
    patience: float | None = None,
) -> ASGIApp:
    """All routes, behind the gate. With a key every request must carry it, but those for /health.

    `mounts` are further applications by the paths that they lie below; the gate is theirs too. `patience`: as of Gate.
    """
    routes = create_routes(service)
    for path, app in (mounts or {}).items():
        routes.add_route(path, _with_slash)
        routes.mount(path, app)
    return Gate(
        routes,
        key=key,
        hosts=hosts,
        largest=service.limits.body_bytes,
        metrics=service.metrics,
        log=log,
        patience=patience,
    )


def _with_slash(request: Request) -> Response:
    """The address of a mounted application's page, whose links are relative to it."""
    path, query = request.scope["path"], request.scope["query_string"].decode("latin-1")
    return RedirectResponse(f"{path}/?{query}" if query else f"{path}/")


def create_routes(service: Service) -> FastAPI:
    app = FastAPI(title="Glassformer", version=__version__, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.openapi = lambda: _openapi(app, service)  # type: ignore[method-assign]
    for face in FACES:
        app.include_router(face.router(service))

    @app.get("/docs", include_in_schema=False)
    def docs() -> Response:
        """The page for people; it loads nothing from elsewhere."""
        headers = {"Content-Security-Policy": POLICY}
        return Response(docs_page(app.openapi()), media_type="text/html; charset=utf-8", headers=headers)

    app.add_exception_handler(Exception, _failed)
    app.add_exception_handler(Problem, _on_problem)
    app.add_exception_handler(HTTPException, _on_problem)
    app.add_exception_handler(RequestValidationError, _misread)
    app.add_exception_handler(ValidationError, _misread)
    return app


def _openapi(app: FastAPI, service: Service) -> dict[str, Any]:
    """The document of /openapi.json: with the names of the models that there are, and the shapes of errors."""
    if app.openapi_schema is None:
        found = get_openapi(title=app.title, version=app.version, routes=app.routes)
        schemas = found["components"]["schemas"]
        names = {"type": "string", "enum": [*service.models, *service.aliases]}
        for one in schemas.values():
            field = one.get("properties", {}).get("model")
            if field is not None:
                field |= {"anyOf": [names, {"type": "null"}]} if "anyOf" in field else names
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        schemas |= {"OpenAIError": OPENAI_ERROR, "Error": ERROR}
        for path, methods in found["paths"].items():
            shape = {"$ref": f"#/components/schemas/{'OpenAIError' if speaks_openai(path) else 'Error'}"}
            for method, operation in methods.items():
                for parameter in operation.get("parameters", ()):
                    if parameter["name"] == "model_id":
                        parameter["schema"] = names
                _describe_responses(operation, shape, posts=method == "post")
        app.openapi_schema = found
    return app.openapi_schema


def _describe_responses(operation: dict[str, Any], shape: dict[str, Any], *, posts: bool) -> None:
    content = {"application/json": {"schema": shape}}
    errors = {str(status): {"description": words[1], "content": content} for status, words in TYPES.items()}
    operation["responses"] = {**{name: one for name, one in operation["responses"].items() if name == "200"}, **errors}
    if posts:
        operation["responses"]["200"].setdefault("content", {}).setdefault("application/json", {})


def _failed(request: Request, _: Exception) -> Response:
    """A fault of ours; the gate writes it down."""
    return problem_response(Problem(500, "the server has made a mistake"), request.scope["path"])


def _on_problem(request: Request, error: Exception) -> Response:
    return problem_response(as_problem(error), request.scope["path"])


def _misread(request: Request, error: Exception) -> Response:
    """The first thing that is wrong with a request: 400, or 422 with both numbers where one is out of bounds."""
    assert isinstance(error, RequestValidationError | ValidationError)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if request.method == "POST" and kind != "application/json":
        problem = Problem(415, f"the body must be JSON: send Content-Type: application/json, not {kind!r}")
        return problem_response(problem, request.scope["path"])
    first: dict[str, Any] = {**error.errors()[0]}
    if first["type"] == "json_invalid":
        message = f"the body is no JSON: {first['ctx']['error']}, at character {first['loc'][-1]}"
        return problem_response(Problem(400, one_line(message)), request.scope["path"])
    where = ".".join(str(part) for part in first["loc"] if part != "body")
    message = f"{where}: {first['msg']}" if where else str(first["msg"])
    bounded = any(first["type"].startswith(name) or name in first["type"] for name in BOUNDS)
    if bounded and isinstance(first.get("input"), int | float):
        message += f", and it is {first['input']}"
    problem = Problem(422 if bounded else 400, one_line(message), param=where or None)
    return problem_response(problem, request.scope["path"])
