"""The studio's web application: its routes, its page, and who may ask."""

import re
from collections.abc import Callable, Iterator
from hmac import compare_digest
from importlib.resources import files
from urllib.parse import parse_qsl, quote, unquote_to_bytes, urlencode

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from glassformer.view.colours import ramp, variables

from . import LOOPBACK, edits, explain, lens, results, runs, states, tensors, traces
from .app_state import Busy, Gone, Missing, Studio
from .safe import SafeJSONResponse, one_line

PARTS = (traces, tensors, results, explain, states, lens, edits, runs)
API = "/api/v1"
LARGEST = 4 << 20  # bytes of a request
TOO_LARGE = f"a request may hold {LARGEST >> 20} MB"
COOKIE = "studio_key"
HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^\s\[\]:/?#@]+)(:[0-9]{0,5})?", re.IGNORECASE)  # as a header gives it
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


def create_app(studio: Studio, *, key: str | None = None) -> FastAPI:
    """With a key, every request must carry it; without one, only this machine is answered."""
    app = FastAPI(title="Glassformer studio", docs_url=None, redoc_url=None, openapi_url=f"{API}/openapi.json")
    for part in PARTS:
        app.include_router(part.router(studio), prefix=API)
    for kind, status in ((ValueError, 422), (Missing, 404), (Gone, 410), (Busy, 429)):
        app.add_exception_handler(kind, _answer(status))
    app.add_exception_handler(RequestValidationError, _misread)
    _add_page(app)
    app.add_middleware(AuthMiddleware, key=key)
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


def _add_page(app: FastAPI) -> None:
    page = files(__package__) / "page"

    @app.get("/", include_in_schema=False)
    def index() -> Response:
        return Response((page / "index.html").read_bytes(), media_type="text/html; charset=utf-8")

    @app.get("/static/colours.css", include_in_schema=False)
    def colours() -> Response:
        return Response(variables(), media_type="text/css")

    @app.get("/static/ramps.js", include_in_schema=False)
    def ramps() -> Response:
        made = {paper: {kind: ramp(kind, paper).tobytes().hex() for kind in ("plain", "signed")} for paper in PAPERS}
        return Response(f"export const ramps = {made};\n", media_type="text/javascript")

    @app.get("/static/values.js", include_in_schema=False)
    def values() -> Response:
        text = (files("glassformer.view") / "values.js").read_text(encoding="utf-8")
        return Response(f"{text}\nexport {{ {', '.join(SHARED)} }};\n", media_type="text/javascript")

    app.mount("/static", StaticFiles(packages=[(__package__, "page")]), name="static")


PAPERS = ("light", "dark")
SHARED = ("make", "number", "paint", "pool", "step", "visible")  # of view/values.js, which pages carry inside


class AuthMiddleware:
    """Who may come in: this machine's own pages, or whoever has the key. Every answer gets the protecting headers."""

    def __init__(self, app: ASGIApp, *, key: str | None) -> None:
        self.app, self.key = app, key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                known = {name.lower() for name, _ in message["headers"]}
                extra = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message["headers"], *(one for one in extra if one[0] not in known)]
            await send(message)

        size = 0

        async def counted() -> Message:  # chunks come without a content-length
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > LARGEST:
                raise HTTPException(413, TOO_LARGE)
            return message

        refusal = self._refusal(Request(scope))
        await (refusal or self.app)(scope, counted, guarded)

    def _refusal(self, request: Request) -> Response | None:
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        known, length = HOST.fullmatch(host), request.headers.get("content-length", "0")
        if known is None or not length.isdecimal():
            return _refused(400, f"this is no request: host {host!r}, content-length {length!r}")
        if self.key is None and known["name"].lower().strip("[]") not in LOOPBACK:
            return _refused(403, f"this studio answers on this machine only, not as {host!r}")
        if origin is not None and origin.lower() not in (f"http://{host}".lower(), f"https://{host}".lower()):
            return _refused(403, f"a page of {origin!r} may not use this studio")
        if request.headers.get("sec-fetch-site") == "cross-site" and request.scope["path"] != "/":
            return _refused(403, "another site's page may not use this studio")
        if len(length) > 18 or int(length) > LARGEST:
            return _refused(413, TOO_LARGE)
        return None if self.key is None else self._keyless(request)

    def _keyless(self, request: Request) -> Response | None:
        """The key comes once in the address, and from then on in a cookie; programs send it as a bearer token."""
        assert self.key is not None
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ").encode("latin-1")  # as it was sent
        if any(compare_digest(one, self.key.encode()) for one in (*_cookies(request), bearer)):
            return None
        query = parse_qsl(request.scope["query_string"].decode("latin-1"), keep_blank_values=True)
        keys = [value for name, value in query if name == "key"]
        if request.scope["path"] == "/" and any(compare_digest(key.encode(), self.key.encode()) for key in keys):
            rest = urlencode([(name, value) for name, value in query if name != "key"])
            answer = Response(status_code=303, headers={"Location": f"/?{rest}"})
            answer.set_cookie(COOKIE, quote(self.key, safe=""), httponly=True, samesite="strict")
            return answer
        return _refused(401, "this studio needs its key: open /?key=…, or send it as a bearer token")


def _cookies(request: Request) -> Iterator[bytes]:
    """What every cookie of our name holds: other programs on this host may have set some, in any form."""
    for line in request.headers.getlist("cookie"):
        for pair in line.split(";"):
            name, _, value = pair.strip().partition("=")
            if name == COOKIE:
                yield unquote_to_bytes(value)


def _refused(status: int, detail: str) -> Response:
    return SafeJSONResponse({"detail": one_line(detail)}, status_code=status)
