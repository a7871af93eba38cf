"""What is answered at once: the page, and who may ask. All that needs a model waits until the models are there."""

from asyncio import wrap_future
from collections.abc import Iterator
from concurrent.futures import Future
from hmac import compare_digest
from importlib.resources import files
from urllib.parse import parse_qsl, quote, unquote_to_bytes, urlencode

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from glassformer.view.colours import ramp, variables
from glassformer.web import LOOPBACK
from glassformer.web.guard import bears, bounded, refusal
from glassformer.web.safe import SafeJSONResponse, one_line

LARGEST = 4 << 20  # bytes of a request
COOKIE = "studio_key"
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
PAGE = files(__package__) / "page"
PAPERS = ("light", "dark")
SHARED = ("make", "number", "paint", "pool", "step", "visible")  # of view/values.js, which pages carry inside


def front(routes: Future[ASGIApp], *, key: str | None = None) -> Starlette:
    """The page, and behind it `routes`, which answers the rest once it is there.

    With a key, every request must carry it; without one, only this machine is answered.
    """

    async def rest(scope: Scope, receive: Receive, send: Send) -> None:
        await (await wrap_future(routes))(scope, receive, send)

    listed = [
        Route("/", _index),
        Route("/static/colours.css", _colours),
        Route("/static/ramps.js", _ramps),
        Route("/static/values.js", _values),
        Mount("/static", StaticFiles(packages=[(__package__, "page")])),
        Mount("", rest),
    ]
    return Starlette(routes=listed, middleware=[Middleware(AuthMiddleware, key=key)])


def _index(_: Request) -> Response:
    return Response((PAGE / "index.html").read_bytes(), media_type="text/html; charset=utf-8")


def _colours(_: Request) -> Response:
    return Response(variables(), media_type="text/css")


def _ramps(_: Request) -> Response:
    made = {paper: {kind: ramp(kind, paper).tobytes().hex() for kind in ("plain", "signed")} for paper in PAPERS}
    return Response(f"export const ramps = {made};\n", media_type="text/javascript")


def _values(_: Request) -> Response:
    text = (files("glassformer.view") / "values.js").read_text(encoding="utf-8")
    return Response(f"{text}\nexport {{ {', '.join(SHARED)} }};\n", media_type="text/javascript")


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

        refused = self._refusal(Request(scope))
        await (refused or self.app)(scope, bounded(receive, LARGEST), guarded)

    def _refusal(self, request: Request) -> Response | None:
        found = refusal(request, largest=LARGEST, may_call=self._may_call, pages=("/",))
        if found is not None:
            return _refused(*found)
        return None if self.key is None else self._keyless(request)

    def _may_call(self, name: str) -> bool:
        return self.key is not None or name in LOOPBACK

    def _keyless(self, request: Request) -> Response | None:
        """The key comes once in the address, and from then on in a cookie; programs send it as a bearer token."""
        assert self.key is not None
        if bears(request, self.key) or any(compare_digest(one, self.key.encode()) for one in _cookies(request)):
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
