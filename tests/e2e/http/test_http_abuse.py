"""Contract row 18: clients that are slow, send too much, or say nothing, and others are not held up by them."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest

from entrepot.gateway.settings import Settings
from tests.e2e.http.steps import is_problem
from tests.support.http.client import http_client
from tests.support.http.server import HttpServer, serving
from tests.support.waiting import PATIENCE_SECONDS
from tests.tiers.marks import scaled

SLOW = scaled(60, 200)
HEAD = b"POST /topics/t:publish HTTP/1.1\r\nhost: [::1]\r\n"

WHOLE = HEAD + b"ce-specversion: 1.0\r\nce-id: 1\r\nce-source: /\r\nce-type: t\r\ncontent-length: 2\r\n\r\nhi"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    settings = Settings(http={"max_body_bytes": 10_000})
    with serving("embedded", tmp_path_factory.mktemp("data"), settings) as running:
        yield running


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """One that gives a request less time than other tests may take for theirs."""
    settings = Settings(http={"request_seconds": 1.0, "max_body_bytes": 10_000})
    with serving("embedded", tmp_path_factory.mktemp("data"), settings) as running:
        yield running


def connected(server: HttpServer) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def rest(connection: socket.socket) -> bytes:
    """What comes until the server closes."""
    found = b""
    try:
        while part := connection.recv(65_536):
            found += part
    except ConnectionError:
        pass
    return found


BEGUN = {
    "nothing": b"",
    "a letter": b"P",
    "a head": HEAD,
    "a header": HEAD + b"x: ",
    "no body": HEAD + b"content-length: 100\r\n\r\n",
    "half a body": HEAD + b"content-length: 100\r\n\r\nabc",
}


def test_who_does_not_go_on_is_closed(impatient: HttpServer) -> None:
    started = time.monotonic()
    with ExitStack() as opened:
        connections = {name: opened.enter_context(connected(impatient)) for name in BEGUN}
        for name, connection in connections.items():
            connection.sendall(BEGUN[name])
        for name, connection in connections.items():
            rest(connection)
            assert time.monotonic() - started > 0.5, name


@pytest.mark.scaled
def test_slow_bodies_hold_nobody_up(impatient: HttpServer) -> None:
    slow = [connected(impatient) for _ in range(SLOW)]
    try:
        for connection in slow:
            connection.sendall(HEAD + b"content-length: 5000\r\ncontent-type: text/plain\r\n\r\n")
        with connected(impatient) as other:
            for _ in range(20):
                for connection in slow[:20]:
                    try:
                        connection.sendall(b"x")
                    except OSError:
                        continue
                other.sendall(WHOLE)
                assert other.recv(1000).startswith(b"HTTP/1.1 200")
        for connection in slow:
            rest(connection)
    finally:
        for connection in slow:
            connection.close()


def test_a_head_without_an_end_is_refused(server: HttpServer) -> None:
    with connected(server) as connection:
        try:
            connection.sendall(HEAD + b"x-flood: ")
            for _ in range(400):
                connection.sendall(b"y" * 4096)
        except OSError:
            pass  # it has been closed upon
        answer = rest(connection)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 400")


def test_a_flood_of_headers_is_refused(server: HttpServer) -> None:
    with connected(server) as connection:
        connection.sendall(HEAD + b"".join(b"x-%d: y\r\n" % number for number in range(5000)) + b"\r\n")
        assert rest(connection).startswith(b"HTTP/1.1 400")


def test_more_attributes_than_an_event_may_have(server: HttpServer) -> None:
    headers = {f"ce-a{number}": "x" for number in range(200)}
    with http_client(server.url) as client:
        named = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/", "ce-type": "t"}
        is_problem(client.post("/topics/t:publish", headers={**headers, **named}), 400, "attributes")


def test_bodies_over_the_limit(server: HttpServer) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(1000):
            yield b"x" * 1000

    with http_client(server.url) as client:
        is_problem(client.post("/topics/t:publish", content=b"x" * 10_001), 413)
        for path in ("/topics/t:publish", "/subscriptions"):
            try:
                answer = client.post(path, content=endless())
            except httpx2.HTTPError:
                continue  # it was closed upon while it was still sending
            is_problem(answer, 413)


def test_what_is_slow_but_whole_is_taken(server: HttpServer, tmp_path: Path) -> None:
    with connected(server) as connection:
        for at in range(0, len(WHOLE), 40):
            connection.sendall(WHOLE[at : at + 40])
            time.sleep(0.02)  # the pace is what is tried
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")
        connection.sendall(WHOLE)
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")
