"""Clients that mean harm or know no better: half requests, noise, slow readers, floods, leaving at any moment."""

import json
import os
import random
import socket
import time

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import checks as judged

from glassformer.serve.limits import Limits
from glassformer.web import server
from serve.cases import running
from serve.test_engine import until
from serve.test_other_faces import counters

EXAMPLES = int(os.environ.get("EXAMPLES", "200"))  # of an operation; EXAMPLES=1000 make test-all looks longer
ASKED = {"model": "gpt-mini-en", "prompt": "The", "max_tokens": 40, "temperature": 0, "stream": True}
BODY = json.dumps(ASKED).encode()
POST = (
    b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    % len(BODY)
)
WHOLE = POST + BODY
CLOSING = WHOLE.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)


def rest_of(connection, most=1 << 20):
    """What comes until the server closes, or enough of it; a reset is a close."""
    found = b""
    try:
        while len(found) < most and (part := connection.recv(1 << 16)):
            found += part
    except ConnectionResetError:
        pass
    return found


def is_well(one):
    """A server that answers, and has nothing left to do."""
    until(lambda: one.service.open == 0)
    assert one.ask("/embed", {"inputs": "a"})[0] == 200
    found = counters(one.url)
    for name in one.service.models:
        accepted = found[f'glassformer_requests_accepted_total{{model="{name}"}}']
        ended = sum(
            found[f'glassformer_requests_finished_total{{model="{name}",outcome="{outcome}"}}']
            for outcome in ("done", "failed", "cancelled")
        )
        assert accepted == ended


@pytest.mark.parametrize("seed", range(2))
def test_noise_is_refused_and_harms_nobody(served, seed):
    """Requests with some bytes changed, cut off or doubled, on sockets that are shut at once."""
    chance = random.Random(seed)
    for _ in range(60):
        sent = bytearray(WHOLE)
        for _ in range(chance.randrange(1, 8)):
            place = chance.randrange(len(sent))
            match chance.randrange(4):
                case 0:
                    sent[place] = chance.randrange(256)
                case 1:
                    del sent[place:]
                    sent += b"\r\n"
                case 2:
                    sent[place:place] = bytes(chance.randrange(256) for _ in range(chance.randrange(9)))
                case 3:
                    sent += sent[place : place + 50]
        with served.connect() as connection:
            connection.sendall(bytes(sent))
            connection.shutdown(socket.SHUT_WR)
            found = rest_of(connection)
            assert not found.startswith(b"HTTP/1.1 5"), bytes(sent)
    is_well(served)


def test_leaving_at_every_place_of_a_stream(served):
    """After so many bytes of an answer the client is gone; each time its text is dropped, and the others go on."""
    with served.connect() as connection:
        connection.sendall(CLOSING)
        length = len(rest_of(connection))
    for place in range(0, length, max(1, length // 25)):
        with served.connect() as connection:
            connection.sendall(CLOSING)
            rest_of(connection, most=place)
    is_well(served)


HANDSHAKE = (
    b"GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


def test_a_websocket_is_a_request_like_any_other(served):
    """It gets no further than the gate and the routes, with an id, in their own shape."""
    for path, status in ((b"/v1/models", b"200"), (b"/nowhere", b"404"), (b"/embed", b"405")):
        with served.connect() as connection:
            connection.sendall(HANDSHAKE % path)
            head, _, body = rest_of(connection).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 " + status), head
        assert b"x-request-id: " in head
        assert json.loads(body)
    is_well(served)


def test_a_websocket_needs_the_key_too():
    with running(["zoo:embed-mini-en"], key="a long secret") as one, one.connect() as connection:
        connection.sendall(HANDSHAKE % b"/v1/models")
        found = rest_of(connection)
    assert found.startswith(b"HTTP/1.1 401")
    assert b"x-request-id: " in found


def test_a_reader_of_one_byte_at_a_time_gets_it_all(served):
    with served.connect() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        connection.sendall(CLOSING)
        found = b""
        while part := connection.recv(1):
            found += part
    assert b"data: [DONE]" in found


@pytest.fixture
def narrow(monkeypatch):
    """A server with few connections and little patience."""
    monkeypatch.setattr(server, "REQUEST", 0.4)
    with running(["zoo:embed-mini-en"], limits=Limits(connections=3)) as one:
        yield one


@pytest.mark.slow
def test_connections_have_an_end(narrow):
    """Who says nothing, or says it too slowly, is dropped; who comes when all are taken is told so at once."""
    silent = [narrow.connect() for _ in range(3)]
    silent[0].sendall(b"GET /health HTTP/1.1\r\nX-Slow: ")
    time.sleep(0.1)
    with narrow.connect() as late:
        refused = rest_of(late)
    assert refused.startswith(b"HTTP/1.1 503")
    assert b"x-request-id: " in refused
    assert json.loads(refused.partition(b"\r\n\r\n")[2])["error"].startswith("3 connections are open")
    for one in silent:
        assert not rest_of(one).startswith(b"HTTP/1.1 200")  # closed by the server, or this would time out
        one.close()
    assert narrow.ask("/health")[0] == 200


CHECKS = [
    judged.not_a_server_error,
    judged.status_code_conformance,
    judged.content_type_conformance,
    judged.response_schema_conformance,
    judged.negative_data_rejection,
]


@pytest.mark.parametrize("examples", [2, pytest.param(EXAMPLES, marks=pytest.mark.slow)])
def test_what_the_document_allows_and_forbids_never_breaks_the_server(served, examples):
    """schemathesis: every operation, with data that fits its schema and data that does not; no answer is a 5xx."""
    how = settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    document = served.ask("/openapi.json")[1]
    operations = [one.ok() for one in schemathesis.openapi.from_dict(document).get_all_operations()]
    assert len(operations) > 20
    with requests.Session() as session:
        for operation in operations:
            for mode in schemathesis.GenerationMode:
                if mode == schemathesis.GenerationMode.POSITIVE or operation.body or operation.path_parameters:
                    judge(served, operation.as_strategy(generation_mode=mode), how, session)
    is_well(served)


def judge(one, strategy, how, session):
    @how
    @given(case=strategy)
    def holds(case):
        case.call_and_validate(base_url=one.url, session=session, checks=CHECKS, timeout=60)

    holds()
