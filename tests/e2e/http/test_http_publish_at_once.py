"""Publishes that the connection gives to the store without a task of their own: HTTP stays what it is, request by
request, whichever way each of them goes."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from typing import Final

import httpx2
import pytest

from entrepot.gateway.http.connection import MAX_BODY_AT_ONCE
from entrepot.gateway.http.requests.publish import _topic_at
from entrepot.gateway.settings import Settings
from tests.support.http.client import http_client, http_request
from tests.support.http.server import HttpServer, serving
from tests.support.waiting import PATIENCE_SECONDS

CE: Final = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}
GET: Final = b"GET /healthz HTTP/1.1\r\nhost: [::1]\r\n\r\n"


def publish(topic: str, body: bytes, *, head: str = "", version: str = "1.1", **attributes: str) -> bytes:
    """A request, whole."""
    named = {**CE, **{f"ce-{name}": value for name, value in attributes.items()}}
    lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    first = f"POST /topics/{topic}:publish HTTP/{version}\r\nhost: [::1]\r\ncontent-type: text/plain\r\n"
    return f"{first}{lines}{head}content-length: {len(body)}\r\n\r\n".encode() + body


class Connection:
    """A connection whose bytes are ours to cut."""

    def __init__(self, server: HttpServer) -> None:
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS)
        self._file = self.socket.makefile("rb")

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def answer(self) -> tuple[int, dict[str, str], bytes]:
        """The next answer: status, headers, body."""
        status = int(self._file.readline().split()[1])
        headers = {name.lower(): value for name, value in http.client.parse_headers(self._file).items()}
        return status, headers, self._file.read(int(headers.get("content-length", 0)))

    def close(self) -> None:
        """Both, or it stays open."""
        self._file.close()
        self.socket.close()

    def is_at_its_end(self) -> bool:
        return self._file.read(1) == b""


@pytest.fixture
def connection(server: HttpServer, client: httpx2.Client, topic: str) -> Iterator[Connection]:
    client.put(f"/api/v1/topics/{topic}", json={"queues": 2}).raise_for_status()
    made = Connection(server)
    yield made
    made.close()


def _taken(client: httpx2.Client, topic: str, count: int) -> list[bytes]:
    """The bodies of all that was stored, each acknowledged."""
    bodies: list[bytes] = []
    path = f"/topics/{topic}/eventsubscriptions/all"
    while len(bodies) < count:
        found = client.post(f"{path}:receive", params={"maxEvents": 100, "maxWaitTime": 10}).json()["value"]
        assert found, bodies
        bodies += [each["event"].get("data", "").encode() for each in found]
        tokens = [each["brokerProperties"]["lockToken"] for each in found]
        client.post(f"{path}:acknowledge", json={"lockTokens": tokens}).raise_for_status()
    return bodies


def test_answers_come_in_the_order_of_pipelined_requests(connection: Connection, client, topic):
    """Some at once, some the ASGI way: while one is on its way, those behind it wait."""
    bad = publish(topic, b"x", type="")
    connection.send(
        publish(topic, b"one")
        + GET
        + publish(topic, b"two")
        + bad
        + publish("none%00", b"three")
        + publish(topic, b"4")
    )
    found = [connection.answer() for _ in range(6)]
    assert [status for status, _, _ in found] == [200, 200, 200, 400, 400, 200]
    assert [body for _, _, body in found][::2] == [b"{}", b"{}", found[4][2]]
    assert json.loads(found[3][2])["attribute"] == "type"
    assert sorted(_taken(client, topic, 3)) == [b"4", b"one", b"two"]


def test_a_request_in_pieces(connection: Connection, client, topic):
    whole = publish(topic, b"in pieces", subject="all")
    for at in range(len(whole)):
        connection.send(whole[at : at + 1])
    assert connection.answer()[0] == 200
    assert _taken(client, topic, 1) == [b"in pieces"]


@pytest.mark.parametrize("size", [0, MAX_BODY_AT_ONCE, MAX_BODY_AT_ONCE + 1])
def test_bodies_at_the_limit(connection: Connection, client, topic, size: int):
    connection.send(publish(topic, b"b" * size) + publish(topic, b"behind it"))
    assert [connection.answer()[0], connection.answer()[0]] == [200, 200]
    assert sorted(_taken(client, topic, 2)) == sorted([b"b" * size, b"behind it"])


@pytest.mark.parametrize(("version", "head"), [("1.1", "connection: close\r\n"), ("1.0", "")])
@pytest.mark.parametrize(("kind", "status"), [("1.0", 200), ("0.3", 400)])
def test_a_last_request_is_answered_and_its_connection_closed(
    connection: Connection, topic: str, version: str, head: str, kind: str, status: int
):
    connection.send(publish(topic, b"last", version=version, head=head, specversion=kind))
    found, headers, _ = connection.answer()
    assert (found, headers["connection"]) == (status, "close") and connection.is_at_its_end()


def test_an_expectation_is_met_before_the_body(connection: Connection, topic):
    whole = publish(topic, b"expected", head="expect: 100-continue\r\n")
    connection.send(whole.removesuffix(b"expected"))
    assert connection.answer() == (100, {}, b"")
    connection.send(b"expected")
    assert connection.answer()[0] == 200


def test_chunks(connection: Connection, client, topic):
    head = publish(topic, b"").replace(b"content-length: 0", b"transfer-encoding: chunked")
    connection.send(head + b"3\r\nchu\r\n2\r\nnk\r\n0\r\n\r\n" + publish(topic, b"whole"))
    assert [connection.answer()[0], connection.answer()[0]] == [200, 200]
    assert sorted(_taken(client, topic, 2)) == [b"chunk", b"whole"]


def test_a_refusal_of_the_store_is_told_and_the_connection_goes_on(connection: Connection, client):
    client.put("/api/v1/topics/narrow", json={"queues": 1, "maxMessageBytes": 100}).raise_for_status()
    connection.send(publish("narrow", b"x" * 101) + publish("narrow", b"x" * 100))
    status, headers, body = connection.answer()
    assert (status, headers["content-type"]) == (413, "application/problem+json"), body
    assert connection.answer()[0] == 200


def test_a_connection_that_is_gone_before_its_answer(connection: Connection, client, topic):
    connection.send(publish(topic, b"left behind"))
    connection.close()
    assert _taken(client, topic, 1) == [b"left behind"]


OF_OTHERS = ("/topics/known:publish", "http://h:99999/topics/x:publish", "http://u:publish")


def test_a_stopping_server_answers_what_it_has_begun_to_read(tmp_path):
    """Whatever else others have begun."""
    with serving("embedded", tmp_path) as server:
        url = f"{server.url}/api/v1/topics/known"
        http_request("PUT", url, json={"queues": 1}).raise_for_status()
        others, connection = [Connection(server) for _ in OF_OTHERS], Connection(server)
        for other, target in zip(others, OF_OTHERS, strict=True):
            other.send(f"POST {target} HTTP/1.1\r\nhost: [::1]\r\ncontent-length: 9\r\n\r\nhalf".encode())
        whole = publish("known", b"half of it")
        connection.send(GET + whole[:-4])
        assert connection.answer()[0] == 200
        server.begin_stop()
        connection.send(whole[-4:])
        status, headers, _ = connection.answer()
        assert (status, headers["connection"]) == (200, "close") and connection.is_at_its_end()
        for other in others:
            other.close()


def test_a_refusal_that_the_head_says_does_not_wait_for_the_body(connection: Connection, topic):
    connection.send(publish(topic, b"coded", head="content-encoding: gzip\r\n").removesuffix(b"coded"))
    assert connection.answer()[0] == 415


def test_a_long_target_is_not_remembered(connection: Connection, topic):
    before = _topic_at.cache_info().currsize
    for number in range(3):
        connection.send(publish(f"{topic}{number:0600}", b"x"))
        assert connection.answer()[0] == 400
    assert _topic_at.cache_info().currsize == before


def test_a_page_may_read_the_answer_it_was_allowed(tmp_path):
    settings = Settings(http={"allowed_origins": ["https://app.example"]})
    with (
        serving("memory", tmp_path, settings) as server,
        http_client(server.url) as client,
    ):
        client.put("/api/v1/topics/known", json={"queues": 1}).raise_for_status()
        answer = client.post("/topics/known:publish", headers={**CE, "origin": "https://app.example"}, content=b"x")
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == "https://app.example"
        assert "access-control-allow-origin" not in client.post("/topics/known:publish", headers=CE).headers


def test_an_idle_connection_is_closed_and_a_waiting_one_is_not(tmp_path):
    settings = Settings(http={"keep_alive_seconds": 0.5})
    with serving("memory", tmp_path, settings) as server:
        http_request("PUT", f"{server.url}/api/v1/topics/known", json={"queues": 1}).raise_for_status()
        idle = {begin: Connection(server) for begin in (publish("known", b"x"), GET)}
        for begin, connection in idle.items():
            connection.send(begin)
            assert connection.answer()[0] == 200
        path = b"/topics/known/eventsubscriptions/none:receive?maxEvents=1&maxWaitTime=1"
        taken = http_request("POST", f"{server.url}{path.decode()}")  # what was published
        assert taken.status_code == 200
        waiting = Connection(server)
        waiting.send(b"POST " + path + b" HTTP/1.1\r\nhost: [::1]\r\ncontent-length: 0\r\n\r\n")
        assert all(connection.is_at_its_end() for connection in idle.values())
        assert waiting.answer()[0] == 200


def test_a_request_behind_a_refused_one_is_not_idle(tmp_path):
    with serving("memory", tmp_path, Settings(http={"keep_alive_seconds": 0.5})) as server:
        http_request("PUT", f"{server.url}/api/v1/topics/known", json={"queues": 1}).raise_for_status()
        connection = Connection(server)
        poll = b"POST /topics/known/eventsubscriptions/none:receive?maxWaitTime=1 HTTP/1.1\r\nhost: [::1]\r\n"
        connection.send(publish("known", b"x", type="") + poll + b"content-length: 0\r\n\r\n")
        assert [connection.answer()[0], connection.answer()[0]] == [400, 200]
