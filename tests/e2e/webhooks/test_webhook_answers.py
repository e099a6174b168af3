"""Answers of sinks that are odd, and what dead letters say of them."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
import pytest

from entrepot.gateway.events.webhooks.sink_client import SinkClient
from entrepot.gateway.settings import WebhookSettings
from tests.e2e.http.steps import event, publish, receive
from tests.e2e.webhooks.conftest import Subscribe
from tests.e2e.webhooks.test_webhook_delivery import dead_letters
from tests.support.cases import cases
from tests.support.waiting import PATIENCE_SECONDS, wait_until


class RawSink:
    """A listener that answers each request with the same bytes, in parts, and keeps what came."""

    def __init__(self, *parts: bytes) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._parts = parts
        self.requests: list[bytes] = []
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while request := self._request(connection):
                self.requests.append(request)
                try:
                    for part in self._parts:
                        connection.sendall(part)
                except OSError:
                    return
                if not self._parts:
                    return

    def _request(self, connection: socket.socket) -> bytes:
        """A request with a body of JSON, or what is no HTTP; empty at the end."""
        request = b""
        while not request.endswith(b"}"):
            try:
                data = connection.recv(65_536)
            except OSError:
                return b""
            request += data
            if not data or not request.startswith(b"POST"):
                return request
        return request

    def close(self) -> None:
        self._listener.close()


@contextmanager
def sink(*parts: bytes) -> Iterator[RawSink]:
    made = RawSink(*parts)
    try:
        yield made
    finally:
        made.close()


NO_CONTENT = b"HTTP/1.1 204 No Content\r\n"


@cases(
    "number, parts",
    enumerate(
        [
            (NO_CONTENT + b"\r\n",),
            (NO_CONTENT + b"Content-Length: 5\r\n\r\nhello",),
            (NO_CONTENT + b"Content-Length: 5\r\n\r\n", b"hello"),
            (NO_CONTENT + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",),
            (NO_CONTENT + b"\r\nhello",),
            (NO_CONTENT[:9], NO_CONTENT[9:] + b"X: y\r\n\r", b"\nhello"),
            (b"HTTP/1.1 100 Continue\r\n\r\n" + NO_CONTENT + b"Content-Length: 2\r\n\r\nhi",),
        ]
    ),
)
def test_204_is_delivered_whatever_comes_after_it(
    client: httpx2.Client, topic: str, subscribe: Subscribe, number: int, parts: tuple[bytes, ...]
) -> None:
    with sink(*parts) as raw:
        made = subscribe(source=f"{topic}{number}", sink=raw.url, config={"maxattempts": 1, "mode": "structured"})
        group = f"webhook~{made['id']}"
        for at in (1, 2):
            publish(client, f"{topic}{number}", event(at))
            wait_until(lambda: _taken(client, group) == at, "the delivery")  # noqa: B023 - asked within the loop
        assert dead_letters(client, made) == []
        assert len(raw.requests) == 2


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
EXTRA = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"


@cases("answer", [OK, NO_CONTENT + b"\r\n", b"HTTP/1.1 103 Early Hints\r\n\r\n" + OK], ids=("200", "204", "interim"))
@cases("extra", [EXTRA, EXTRA[:20], b"\r\n", b"x"], ids=("an answer", "half an answer", "a line", "a byte"))
async def test_what_comes_behind_an_answer_answers_no_later_request(answer: bytes, extra: bytes) -> None:
    """The connection waits for the next request when the bytes come, and is closed by them."""
    closed = asyncio.Event()
    asked = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        await reader.readuntil(b"{}")
        asked += 1
        writer.write(answer)
        await answered.wait()
        writer.write(extra)
        await reader.read()
        closed.set()
        writer.close()

    answered = asyncio.Event()
    client = SinkClient(WebhookSettings(allow_http=True, allowed_networks=["127.0.0.0/8"]))
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        for at in (1, 2):
            found = await client.request("POST", url, {}, b"{}", PATIENCE_SECONDS)
            assert (found.status, asked) == (204 if answer.startswith(NO_CONTENT) else 200, at)
            answered.set()
            async with asyncio.timeout(PATIENCE_SECONDS):
                await closed.wait()
            closed.clear()
            answered.clear()
        await client.close()


@cases(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: Upgrade, Keep-Alive\r\nUpgrade: h2,h2c\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nTransfer-Encoding: chunked\r\n"
        b"\r\n2\r\nok\r\n0\r\n\r\n",
    ],
    ids=("sized", "chunked"),
)
async def test_a_sink_may_offer_another_protocol(answer: bytes) -> None:
    """As Apache does."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            await reader.readuntil(b"{}")
            for byte in answer:
                writer.write(bytes((byte,)))
                await writer.drain()
        writer.close()

    client = SinkClient(WebhookSettings(allow_http=True, allowed_networks=["127.0.0.0/8"]))
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        for _ in range(2):
            found = await client.request("POST", url, {}, b"{}", PATIENCE_SECONDS)
            assert (found.status, found.body) == (200, b"ok")
        await client.close()


def _taken(client: httpx2.Client, group: str) -> int:
    """Messages that a group is done with."""
    progress = client.get(f"/api/v1/groups/{group}").json()["progress"]
    return sum(each["committedOffset"] for each in progress)


@cases(
    "number, parts, reason",
    [
        (1, (b"HTTP/9.9 200 OK\r\n\r\n",), "its answer is not HTTP"),
        (2, (b"HTTP/1.1 200 OK\r\nbad header\x01: x\r\n\r\n",), "its answer is not HTTP"),
        (3, (), "the connection ended before the answer did"),
    ],
)
def test_reasons_are_one_line_of_ours(
    client: httpx2.Client, topic: str, subscribe: Subscribe, number: int, parts: tuple[bytes, ...], reason: str
) -> None:
    with sink(*parts) as raw:
        made = subscribe(source=f"{topic}{number}", sink=raw.url, config={"maxattempts": 1, "mode": "structured"})
        publish(client, f"{topic}{number}", event(1))
        wait_until(lambda: len(dead_letters(client, made)) == 1, "the dead letter")
        assert dead_letters(client, made)[0]["reason"] == f"{reason}, after 1 attempts"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://127.0.0.1:1/", "cannot connect: connection refused"),
        ("https://127.0.0.1:{port}/", "cannot connect: TLS was not agreed on"),
    ],
)
def test_reasons_of_connections_that_are_not_made(
    client: httpx2.Client, topic: str, subscribe: Subscribe, url: str, reason: str
) -> None:
    with sink(b"HTTP/1.1 200 OK\r\n\r\n") as raw:
        made = subscribe(sink=url.format(port=raw.url.rsplit(":", 1)[1][:-1]), config={"maxattempts": 1})
        publish(client, topic, event(1))
        wait_until(lambda: len(dead_letters(client, made)) == 1, "the dead letter")
        assert dead_letters(client, made)[0]["reason"] == f"{reason}, after 1 attempts"


def test_a_dead_letter_names_the_topic_that_is_subscribed_to(
    client: httpx2.Client, topic: str, subscribe: Subscribe
) -> None:
    made = subscribe(sink="http://127.0.0.1:1/", config={"maxattempts": 1})
    publish(client, topic, event(1, subject="line1"))
    wait_until(lambda: len(dead_letters(client, made)) == 1, "the dead letter")
    [letter] = dead_letters(client, made)
    [published] = client.get("/api/v1/messages", params={"topic": topic}).json()["value"]
    place = {"queueId": published["queueId"], "queueOffset": published["queueOffset"]}
    assert letter["origin"] == {"topic": topic, "namespace": "default", "id": published["id"], **place}
    [read] = receive(client, f"%25DLQ%25webhook~{made['id']}")
    assert read["event"]["deadlettertopic"] == topic
    assert read["event"]["deadletteroffset"] == str(published["queueOffset"])
    client.post(f"/api/v1/groups/webhook~{made['id']}/dead-letters:resend", json={"all": True})
    wait_until(lambda: len(dead_letters(client, made)) == 2, "the next dead letter")
    assert {each["origin"]["topic"] for each in dead_letters(client, made)} == {topic}
