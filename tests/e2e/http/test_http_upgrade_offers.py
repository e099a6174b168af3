"""Clients that offer h2c, as curl --http2 and Java's HttpClient do: nothing of a request is lost."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from pathlib import Path

import httpx2
import pytest

from tests.e2e.http.steps import event, get, receive
from tests.support.cases import cases
from tests.support.http.server import HttpServer
from tests.support.waiting import PATIENCE_SECONDS

OFFER = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n"
CE = "ce-specversion: 1.0\r\nce-id: e1\r\nce-source: /line1\r\nce-type: reading\r\n"
JAVA = Path(__file__).parents[2] / "support" / "http" / "peers" / "OfferingClient.java"
READING = {"celsius": 21.5}


def request(path: str, headers: str, body: bytes, *, method: str = "POST", chunked: bool = False) -> list[bytes]:
    """A request that offers h2c: its head, and its body."""
    framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(body)}"
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{framing}\r\n{OFFER}{headers}Connection: close\r\n\r\n"
    return [head.encode(), b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if chunked else body]


def answers(server: HttpServer, parts: list[bytes]) -> bytes:
    """All that the server says until it closes. The parts come in segments of their own."""
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE_SECONDS) as raw:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in parts:
            raw.sendall(part)
        found = b""
        while part := raw.recv(65_536):
            found += part
    return found


def data_in(client: httpx2.Client, topic: str) -> list[object]:
    return [each["event"].get("data") for each in receive(client, topic)]


@cases("chunked", [False, True])
@cases("apart", [False, True])
@cases("form", ["binary", "structured"])
def test_an_event_keeps_its_data(
    server: HttpServer, client: httpx2.Client, topic: str, form: str, apart: bool, chunked: bool
) -> None:
    topic = f"{topic}-{form}-{apart}-{chunked}"
    if form == "binary":
        parts = request(
            f"/topics/{topic}:publish",
            CE + "Content-Type: application/json\r\n",
            json.dumps(READING).encode(),
            chunked=chunked,
        )
    else:
        body = json.dumps(event(data=READING)).encode()
        parts = request(
            f"/topics/{topic}:publish", "Content-Type: application/cloudevents+json\r\n", body, chunked=chunked
        )
    found = answers(server, parts if apart else [b"".join(parts)])
    assert found.startswith(b"HTTP/1.1 200 ") and found.count(b"HTTP/1.1") == 1
    assert data_in(client, topic) == [READING]


def test_a_topic_is_made_as_its_body_says(server: HttpServer, client: httpx2.Client, topic: str) -> None:
    body = json.dumps({"queues": 3}).encode()
    parts = request(f"/api/v1/topics/{topic}", "Content-Type: application/json\r\n", body, method="PUT")
    assert answers(server, [b"".join(parts)]).startswith(b"HTTP/1.1 20")
    assert get(client, f"/api/v1/topics/{topic}")["queues"] == 3


def test_a_body_in_a_second_segment_is_not_run(server: HttpServer, client: httpx2.Client, topic: str) -> None:
    client.put(f"/api/v1/topics/{topic}", json={}).raise_for_status()
    body = f"DELETE /api/v1/topics/{topic} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    parts = request(f"/topics/{topic}:publish", CE + "Content-Type: text/plain\r\n", body)
    found = answers(server, parts)
    assert found.startswith(b"HTTP/1.1 200 ") and found.count(b"HTTP/1.1") == 1
    assert data_in(client, topic) == [body.decode()]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed (make peers)")
@cases("framing", [(), ("-H", "Transfer-Encoding: chunked")], ids=("sized", "chunked"))
def test_curl_offers_http2(server: HttpServer, client: httpx2.Client, topic: str, framing: tuple[str, ...]) -> None:
    if "HTTP2" not in subprocess.run(["curl", "--version"], capture_output=True, text=True, check=True).stdout:
        pytest.skip("this curl speaks no HTTP/2")
    topic += str(len(framing))
    headers = [part for line in (CE + "Content-Type: application/json").split("\r\n") for part in ("-H", line)]
    command = ["curl", "-sSv", "-m", str(PATIENCE_SECONDS), "--http2", "-w", "%{http_code} %{http_version}", *framing]
    command += [*headers, "--data-binary", json.dumps(READING), f"{server.url}/topics/{topic}:publish"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.endswith("200 1.1"), done
    assert "> Upgrade: h2c" in done.stderr, "it offered nothing"
    assert data_in(client, topic) == [READING]


@pytest.mark.interop
@pytest.mark.skipif(shutil.which("java") is None, reason="java is not installed (make peers)")
def test_java_offers_http2(server: HttpServer, client: httpx2.Client, topic: str) -> None:
    smuggled = json.dumps(f"DELETE /api/v1/topics/{topic} HTTP/1.1\r\nHost: localhost\r\n\r\n")
    bodies = [json.dumps(READING), smuggled, json.dumps("x" * 100_000)]
    done = subprocess.run(
        ["java", str(JAVA), f"{server.url}/topics/{topic}:publish", *bodies],
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:-1] == ["200 HTTP_1_1"] * 6
    assert sorted(map(json.dumps, data_in(client, topic))) == sorted(2 * bodies)
