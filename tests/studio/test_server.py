"""The studio's server drops who does not say what he wants, and nobody else."""

import json
import socket
import threading
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from glassformer.studio.app import create_app
from glassformer.web import server
from studio.cases import serving

WHOLE = b"GET /api/v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
POST = (
    b"POST /api/v1/traces HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 40\r\n\r\n"
)


@pytest.fixture
def connect(studio, monkeypatch):
    monkeypatch.setattr(server, "REQUEST", 0.3)
    monkeypatch.setattr(server, "IDLE", 1)
    with serving(create_app(studio)) as url:
        opened: list[socket.socket] = []

        def go() -> socket.socket:
            opened.append(socket.create_connection(("127.0.0.1", urlsplit(url).port), timeout=20))
            return opened[-1]

        yield go
        for one in opened:
            one.close()


def rest_of(connection):
    """All that comes until the server closes; a reset is a close."""
    found = b""
    try:
        while part := connection.recv(1 << 16):
            found += part
    except ConnectionResetError:
        pass
    return found


def test_a_body_does_not_wait_for_its_headers_to_be_seen(monkeypatch):
    """By Nagle's algorithm it would, for up to 40 ms."""
    found = []

    class Seen(server.Impatient):
        def data_received(self, data):
            connection = self.transport.get_extra_info("socket")
            found.append(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            super().data_received(data)

    monkeypatch.setattr(server, "Impatient", Seen)
    with socket.create_server(("127.0.0.1", 0)) as listener:  # as commands have it
        running = server.server_of(create_app, log_level="critical", loop="asyncio")
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        with socket.create_connection(listener.getsockname(), timeout=20) as connection:
            connection.sendall(b"no request\r\n\r\n")
            rest_of(connection)
        running.should_exit = True
        thread.join(10)
    assert found
    assert all(found)


@pytest.mark.parametrize("sent", [b"", b"GET / HT", WHOLE[:-4], POST + b'{"model": '])
def test_a_request_that_does_not_come_is_not_waited_for(connect, sent):
    connection = connect()
    connection.sendall(sent)
    assert not rest_of(connection).startswith(b"HTTP/1.1 200")  # a socket without an end would time out


def test_a_header_that_trickles_is_not_waited_for(connect):
    connection, closed = connect(), False
    connection.sendall(b"GET / HTTP/1.1\r\n")
    connection.settimeout(0.05)
    for _ in range(200):  # ten seconds
        try:
            connection.sendall(b"X-Slow: 1\r\n")
            closed = connection.recv(1) == b""
        except TimeoutError:
            continue
        except ConnectionError:
            closed = True
        if closed:
            break
    assert closed


def test_an_answered_connection_is_closed_after_a_pause_and_not_before(connect):
    asking = HTTPConnection("127.0.0.1")
    asking.sock = connect()
    for _ in range(2):  # both on one connection
        asking.request("GET", "/api/v1/models")
        assert len(json.loads(asking.getresponse().read())) > 1
    assert rest_of(asking.sock) == b""
