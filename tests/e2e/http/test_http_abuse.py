"""Contract row 18: clients that are slow, send too much, or say nothing, and others are not held up by them."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from gateway.settings import Settings
from tests.e2e.http.steps import event, ids, is_problem, publish, receive
from tests.support.http_server import HttpServer, serving

HEAD = b"POST /topics/t:publish HTTP/1.1\r\nhost: x\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    settings = Settings(http={"request_seconds": 4.0, "max_body_bytes": 10_000})
    with serving("embedded", tmp_path_factory.mktemp("data"), settings) as running:
        yield running


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """One that gives a request less time than other tests may take for theirs."""
    settings = Settings(http={"request_seconds": 1.0})
    with serving("memory", tmp_path_factory.mktemp("data"), settings) as running:
        yield running


def connected(server: HttpServer) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=15)
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


@pytest.mark.parametrize(
    "begun",
    [b"", b"P", HEAD, HEAD + b"x: ", HEAD + b"content-length: 100\r\n\r\n", HEAD + b"content-length: 100\r\n\r\nabc"],
    ids=["nothing", "a letter", "a head", "a header", "no body", "half a body"],
)
def test_who_does_not_go_on_is_closed(impatient: HttpServer, begun: bytes) -> None:
    started = time.monotonic()
    with connected(impatient) as connection:
        connection.sendall(begun)
        rest(connection)
        assert 0.5 < time.monotonic() - started < 15


def test_slow_bodies_hold_nobody_up(server: HttpServer) -> None:
    slow = [connected(server) for _ in range(200)]
    try:
        for connection in slow:
            connection.sendall(HEAD + b"content-length: 5000\r\ncontent-type: text/plain\r\n\r\n")
        with httpx2.Client(base_url=server.url, trust_env=False, timeout=10) as client:
            for number in range(20):
                for connection in slow[:20]:
                    try:
                        connection.sendall(b"x")
                    except OSError:
                        continue
                publish(client, "others", event(number))
            assert len(ids(receive(client, "others"))) == 20
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
    with httpx2.Client(base_url=server.url, trust_env=False, timeout=20) as client:
        named = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/", "ce-type": "t"}
        is_problem(client.post("/topics/t:publish", headers={**headers, **named}), 400, "attributes")


def test_bodies_over_the_limit(server: HttpServer) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(1000):
            yield b"x" * 1000

    with httpx2.Client(base_url=server.url, trust_env=False, timeout=20) as client:
        is_problem(client.post("/topics/t:publish", content=b"x" * 10_001), 413)
        for path in ("/topics/t:publish", "/subscriptions"):
            try:
                answer = client.post(path, content=endless())
            except httpx2.HTTPError:
                continue  # it was closed upon while it was still sending
            is_problem(answer, 413)


def test_what_is_slow_but_whole_is_taken(server: HttpServer, tmp_path: Path) -> None:
    with connected(server) as connection:
        whole = HEAD + b"ce-specversion: 1.0\r\nce-id: 1\r\nce-source: /\r\nce-type: t\r\ncontent-length: 2\r\n\r\nhi"
        for at in range(0, len(whole), 40):
            connection.sendall(whole[at : at + 40])
            time.sleep(0.02)  # the pace is what is tried
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")
        connection.sendall(whole)
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")
