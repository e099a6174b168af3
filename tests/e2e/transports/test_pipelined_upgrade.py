"""A request, and behind it in the same bytes one for a WebSocket: the answers come in the order of the requests."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import BinaryIO

import pytest

from tests.support.cases import cases
from tests.support.processes.server import ServerProcess
from tests.support.waiting import PATIENCE_SECONDS

HOST = "host: localhost\r\n"
CE = "ce-specversion: 1.0\r\nce-id: 1\r\nce-source: /s\r\nce-type: t\r\ncontent-type: text/plain\r\n"
PUBLISH = f"POST /topics/piped:publish HTTP/1.1\r\n{HOST}{CE}content-length: 1\r\n\r\nx"
STREAM = "/topics/piped/eventsubscriptions/sockets:stream"
BEFORE = {
    "a publish at once": PUBLISH,
    "a plain route": f"GET /api/v1/topics/piped HTTP/1.1\r\n{HOST}\r\n",
    "a long poll": f"POST /topics/piped/eventsubscriptions/late:receive?maxWaitTime=0.2 HTTP/1.1\r\n{HOST}"
    "content-length: 0\r\n\r\n",
    "a refusal": f"GET /nothing HTTP/1.1\r\n{HOST}\r\n",
    "several": PUBLISH + f"GET /api/v1/topics HTTP/1.1\r\n{HOST}\r\n" + PUBLISH,
}
LAST = f"GET /healthz HTTP/1.1\r\n{HOST}connection: close\r\n\r\n"


def upgrade(path: str, protocol: str) -> str:
    asked = f"Sec-WebSocket-Key: AQIDBAUGBwgJCgsMDQ4PEA==\r\nSec-WebSocket-Version: 13\r\n{HOST}"
    return (
        f"GET {path} HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{asked}"
        f"Sec-WebSocket-Protocol: {protocol}\r\n\r\n"
    )


UPGRADES = {
    "MQTT": (upgrade("/mqtt", "mqtt"), 101),
    "events": (upgrade(STREAM, "cloudevents.json"), 101),
    "MQTT, refused": (upgrade("/mqtt", "other"), 400),
    "events, refused": (upgrade(STREAM, "other"), 400),
}


@pytest.fixture(scope="module", autouse=True)
def topic(server: ServerProcess) -> None:
    statuses(server, PUBLISH, 1)


def statuses(server: ServerProcess, sent: str, count: int) -> list[int]:
    """The statuses of so many answers, in the order in which they came."""
    with socket.create_connection(("127.0.0.1", server.port("http")), PATIENCE_SECONDS) as raw:
        raw.sendall(sent.encode())
        with raw.makefile("rb") as answers:
            return [status for _, status in zip(range(count), each_status(answers), strict=False)]


def each_status(answers: BinaryIO) -> Iterator[int]:
    while line := answers.readline():
        length = 0
        while (header := answers.readline()) not in (b"\r\n", b""):
            name, _, value = header.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        answers.read(length)
        yield int(line.split()[1])


@cases("before", BEFORE)
@cases("wanted", UPGRADES)
def test_the_upgrade_waits_for_the_answers_before_it(server: ServerProcess, before: str, wanted: str) -> None:
    request, status = UPGRADES[wanted]
    earlier = BEFORE[before]
    count = earlier.count("HTTP/1.1")
    expected = [404] if before == "a refusal" else [200] * count
    assert statuses(server, earlier + request, count + 1) == [*expected, status]


def test_a_last_request_is_the_last(server: ServerProcess) -> None:
    """The connection ends with its answer, and is handed over to nobody."""
    assert statuses(server, LAST + UPGRADES["MQTT"][0], 3) == [200]


def test_what_comes_while_the_upgrade_waits_ends_the_connection(server: ServerProcess) -> None:
    with socket.create_connection(("127.0.0.1", server.port("http")), PATIENCE_SECONDS) as raw:
        raw.sendall((BEFORE["a long poll"].replace("=0.2", "=60") + UPGRADES["MQTT"][0]).encode())
        with pytest.raises(ConnectionError):  # noqa: PT012 - the first byte may still be taken
            while True:
                raw.sendall(LAST.encode())
                if not raw.recv(1000):
                    raise ConnectionResetError
