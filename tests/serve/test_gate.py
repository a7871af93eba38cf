"""Nobody comes in without the key, from another site's page, under another's name or with too much in his hands."""

import asyncio
import json
import re
import socket
import sys
from contextlib import suppress
from functools import cache

import httpx
import pytest
from starlette.responses import Response
from starlette.routing import Route

from glassformer.serve.app import create_app, create_routes
from glassformer.serve.gate import OPEN
from glassformer.serve.limits import Limits
from glassformer.serve.messages import WorkerSpec
from glassformer.serve.run import service_of
from glassformer.serve.service import Service

KEY = "a long secret"


def service(**limits):
    """A server whose model is never loaded: who may ask is found out before."""
    return service_of([WorkerSpec("zoo:gpt-mini-en")], limits=Limits(**limits))


@cache
def app(**options):
    return create_app(service(), **options)


async def get(path="/v1/models", *, method="GET", headers=None, content=None, of: Service | None = None, **options):
    """The answer of a server; of one that many tests share, unless they bring their own."""
    options = {name: tuple(one) if isinstance(one, list) else one for name, one in options.items()}
    transport = httpx.ASGITransport(app(**options) if of is None else create_app(of, **options))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
        return await client.request(method, path, headers=headers, content=content)


@pytest.fixture
def anyio_backend():
    return "asyncio"


pytestmark = pytest.mark.anyio


@cache
def every_route():
    """Each path and method that the server has, /docs and /openapi.json among them."""
    routes = list(create_routes(service()).routes)
    for one in routes:
        included = getattr(one, "original_router", None)
        routes += [] if included is None else included.routes
    return sorted({(one.path, method) for one in routes if isinstance(one, Route) for method in one.methods})


def test_the_walk_sees_every_route():
    paths = {path for path, _ in every_route()}
    assert {"/health", "/metrics", "/docs", "/openapi.json", "/v1/completions", "/models/{model_id:path}"} <= paths
    assert len(paths) >= 25


@pytest.mark.parametrize("given", [None, "Bearer", "Bearer wrong", f"Basic {KEY}", KEY, f"Bearer {KEY[:-1]}"])
async def test_without_the_key_no_route_but_health_is_there(given):
    headers = {} if given is None else {"Authorization": given}
    for path, method in every_route():
        answer = await get(path.replace("{model_id:path}", "gpt-mini-en"), method=method, headers=headers, key=KEY)
        assert answer.status_code == (200 if path in OPEN else 401), (method, path)
        assert answer.headers["x-request-id"]
    for path in ("/nowhere", "/health/", "//health", "/health/../v1/models", "/HEALTH", "/health%2f.."):
        assert (await get(path, headers=headers, key=KEY)).status_code == 401, path


async def test_with_the_key_routes_are_there():
    for scheme in ("Bearer", "bearer"):
        assert (await get(headers={"Authorization": f"{scheme} {KEY}"}, key=KEY)).status_code == 200
    assert (await get(key=None)).status_code == 200


async def test_a_key_that_is_no_ascii_is_compared_all_the_same():
    assert (await get(headers={"Authorization": "Bearer schlüssel".encode()}, key="schlüssel")).status_code == 200
    assert (await get(headers={"Authorization": b"Bearer \xff\xfe"}, key="schlüssel")).status_code == 401


@pytest.mark.parametrize(
    ("host", "options", "status"),
    [
        ("127.0.0.1:8000", {}, 200),
        ("localhost", {}, 200),
        ("[::1]:8000", {}, 200),
        ("10.0.0.7:8000", {}, 200),  # a number is what it says
        ("evil.example", {}, 403),
        ("127.0.0.1.evil.example", {}, 403),
        ("models.example", {"hosts": ["models.example"]}, 200),
        ("MODELS.example:443", {"hosts": ["models.example"]}, 200),
        ("evil.example", {"hosts": ["models.example"]}, 403),
        ("any.example", {"key": KEY}, 200),
        ("any.example", {"key": KEY, "hosts": ["models.example"]}, 403),
        ("a b", {}, 400),
        ("", {}, 400),
    ],
)
async def test_host(host, options, status):
    headers = {"Host": host, "Authorization": f"Bearer {KEY}"}
    assert (await get(headers=headers, **options)).status_code == status


@pytest.mark.parametrize("path", ["/v1/models", "/health", "/docs"])
async def test_pages_of_other_sites_are_refused(path):
    assert (await get(path, headers={"Origin": "http://evil.example"})).status_code == 403
    assert (await get(path, headers={"Origin": "null"})).status_code == 403
    assert (await get(path, headers={"Sec-Fetch-Site": "cross-site"})).status_code == 403
    answer = await get(path, headers={"Origin": "http://127.0.0.1:8000"})
    assert answer.status_code == 200
    assert "access-control-allow-origin" not in answer.headers
    preflight = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    assert (await get(path, method="OPTIONS", headers=preflight)).status_code == 403


async def test_a_request_that_is_too_large_is_told_the_limit():
    small, headers = service(body_bytes=1000), {"Content-Type": "application/json"}
    body = json.dumps({"model": "gpt-mini-en", "prompt": "a" * 2000}).encode()

    async def in_chunks():
        for start in range(0, len(body), 100):
            yield body[start : start + 100]

    for content in (body, in_chunks()):
        answer = await get("/v1/completions", method="POST", headers=headers, content=content, of=small)
        assert answer.status_code == 413
        assert answer.json()["error"]["message"] == "a request may hold 1,000 bytes"


async def test_websockets_of_another_server_are_closed_before_they_begin():
    """As Ray Serve's, which knows them."""
    sent = []

    async def receive():
        return {"type": "websocket.connect"}

    async def send(message):
        sent.append(message)

    await app(key=KEY)({"type": "websocket", "path": "/v1/models", "headers": []}, receive, send)
    assert sent == [{"type": "websocket.close", "code": 1008}]


async def test_a_request_that_does_not_come_is_408_where_no_server_of_ours_waits_for_it():
    """As behind Ray Serve's proxy."""

    async def half():
        yield b'{"model": '
        await asyncio.sleep(60)

    transport = httpx.ASGITransport(create_app(service(), patience=0.2))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
        headers = {"Content-Type": "application/json"}
        answer = await client.post("/v1/completions", content=half(), headers=headers)
    assert answer.status_code == 408
    assert answer.json()["error"]["message"] == "a request must have come within 0.2 seconds"


async def test_every_answer_has_an_id_and_keeps_the_one_it_was_given():
    given = await get(headers={"X-Request-Id": "my-id.7"})
    assert given.headers["x-request-id"] == "my-id.7"
    for bad in ("", "a b", "a" * 65, "<script>"):
        assert (await get(headers={"X-Request-Id": bad})).headers["x-request-id"] not in ("", bad)
    assert (await get("/nowhere")).headers["x-request-id"]


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"", "application/json", 400),
        (b"[]", "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (b'{"prompt": ' + b"[" * 100_000, "application/json", 400),
        (b'{"prompt": "a", "n": ' + b"9" * 10_000 + b"}", "application/json", 400),
        (b"prompt=a", "application/x-www-form-urlencoded", 415),
        (b'{"prompt": "a"}', "text/plain", 415),
    ],
)
async def test_what_is_no_request_is_400(body, kind, status):
    answer = await get("/v1/completions", method="POST", headers={"Content-Type": kind}, content=body)
    assert answer.status_code == status
    assert answer.json()["error"]["message"]


@pytest.mark.parametrize(("body", "place"), [(b"{", 1), (b'{"model": "a", }', 15), (b"", None)])
async def test_what_is_no_json_says_so_and_where(body, place):
    headers = {"Content-Type": "application/json"}
    answer = await get("/v1/completions", method="POST", headers=headers, content=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, None)
    if place is not None:
        assert re.fullmatch(rf"the body is no JSON: .+, at character {place}", error["message"]), error
    other = (await get("/embed", method="POST", headers=headers, content=body)).json()
    assert other["error"] == error["message"]


async def test_health_has_a_head():
    for path in ("/health", "/v2/health/live"):
        answer = await get(path, method="HEAD")
        assert (answer.status_code, answer.content) == (200, b"")


async def test_a_mounted_application_is_found_without_its_slash():
    async def page(scope, receive, send):
        await Response("page")(scope, receive, send)

    async def ask(path):
        transport = httpx.ASGITransport(create_app(service(), mounts={"/studio": page}))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
            return await client.get(path)

    answer = await ask("/studio?a=1")
    assert (answer.status_code, answer.headers["location"]) == (307, "/studio/?a=1")
    assert (await ask("/studio/")).text == "page"


async def test_a_fault_of_the_server_itself_is_told_in_the_shape_of_the_face(monkeypatch, caplog):
    of = service()
    monkeypatch.setattr(Service, "model", lambda *_: [][1])
    answer = await get("/v1/models/secret", of=of)
    assert (answer.status_code, answer.json()["error"]["type"]) == (500, "server_error")
    assert answer.headers["x-request-id"]
    assert "IndexError" in caplog.text
    assert "secret" not in caplog.text


async def test_until_a_model_is_loaded_it_is_503():
    of, headers = service(), {"Content-Type": "application/json"}
    content = json.dumps({"model": "gpt-mini-en", "prompt": "a"}).encode()
    answer = await get("/v1/completions", method="POST", headers=headers, content=content, of=of)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    for path in ("/ready", "/v2/health/ready", "/v2/models/gpt-mini-en/ready", "/models/gpt-mini-en/health"):
        assert (await get(path, of=of)).status_code == 503, path
    assert (await get("/health", of=of)).status_code == 200


async def test_the_log_says_which_route_and_nothing_of_the_request(capfd):
    headers = {"Content-Type": "application/json", "X-Request-Id": "seen"}
    content = json.dumps({"model": "secret-model", "prompt": "secret-prompt"}).encode()
    path = "/v1/completions?secret-query=1"
    await get(path, method="POST", headers=headers, content=content, log=True)
    await get("/models/secret-path", method="POST", headers=headers, content=b'{"inputs": "secret-text"}', log=True)
    await get("/secret-nowhere", headers={**headers, "User-Agent": "secret-agent"}, log=True)
    logged = capfd.readouterr().err
    first, second, third = map(json.loads, logged.splitlines())
    assert (first["route"], first["status"], first["request_id"]) == ("/v1/completions", 404, "seen")
    assert (second["route"], second["method"]) == ("/models/{model_id:path}", "POST")
    assert third["route"] is None
    assert "secret" not in logged


def test_names_from_requests_reach_no_file_and_no_network(served):
    """The process of the server opens no file and no connection, whatever a request names."""
    seen, watching = [], [True]

    def hear(event, arguments):
        if watching[0] and event in ("open", "socket.connect", "socket.getaddrinfo", "os.listdir", "subprocess.Popen"):
            seen.append((event, str(arguments)))

    sys.addaudithook(hear)
    with suppress(OSError), socket.create_connection(("127.0.0.1", served.port)):
        pass
    seen.clear()
    for name in ("../../etc/passwd", "/etc/passwd", "http://example.org/x", "org/some-model", "zoo:lstm-sentiment"):
        for path, body in (
            ("/v1/completions", {"model": name, "prompt": "a"}),
            ("/v1/embeddings", {"model": name, "input": "a"}),
            ("/embed", {"model": name, "inputs": "a"}),
            (f"/models/{name}", {"inputs": "a"}),
        ):
            assert served.ask(path, body)[0] == 404
    watching[0] = False
    reached = [one for one in seen if f"{served.port}" not in one[1]]  # this test's own requests
    assert not [
        one for one in reached if any(part in one[1] for part in ("passwd", "example.org", "some-model", "lstm"))
    ]
