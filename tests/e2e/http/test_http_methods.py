"""Methods and messages of HTTP itself: what a path may be asked for, and what is no request at all (RFC 9110, 9112)."""

from __future__ import annotations

import json
import socket

import httpx2

from tests.e2e.http.operations import OPERATIONS
from tests.e2e.http.steps import event, is_problem, publish
from tests.support.cases import cases
from tests.support.http.server import HttpServer
from tests.support.waiting import PATIENCE_SECONDS

EVENT_HEADERS = b"ce-specversion: 1.0\r\nce-id: 1\r\nce-source: /\r\nce-type: t\r\n"
GETS = sorted({each.name.removeprefix("GET ") for each in OPERATIONS if each.name.startswith("GET /")})
GETS += ["/healthz", "/readyz", "/openapi.json", "/asyncapi.json", "/docs", "/nothing"]


def allowed(answer: httpx2.Response) -> list[str]:
    return sorted(answer.headers["allow"].split(", "))


def test_every_path_tells_its_methods(client: httpx2.Client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    assert len(paths) > 100
    for path, operations in paths.items():
        url = path.replace("{", "").replace("}", "")
        wanted = {method.upper() for method in operations} | {"OPTIONS"}
        if "GET" in wanted:
            wanted.add("HEAD")
        answer = client.options(url)
        assert (answer.status_code, answer.text) == (200, ""), path
        assert wanted <= set(allowed(answer)), path
        refused = client.request("PATCH", url)
        is_problem(refused, 405)
        assert allowed(refused) == allowed(answer), path
    assert allowed(client.patch("/api/v1/topics/t")) == ["DELETE", "GET", "HEAD", "OPTIONS", "PUT"]
    is_problem(client.options("/nothing/here"), 404)


@cases("path", GETS)
def test_head_is_get_without_a_body(client: httpx2.Client, path: str) -> None:
    asked, whole = client.head(path), client.get(path)
    assert (asked.status_code, asked.content) == (whole.status_code, b"")
    assert asked.headers.get("content-type") == whole.headers.get("content-type")
    if "metrics" not in path and path != "/readyz":  # they count requests and seconds
        assert asked.headers.get("content-length") == whole.headers.get("content-length")


def test_the_head_of_a_stream_ends(client: httpx2.Client, topic: str) -> None:
    publish(client, topic, event(1))
    answer = client.head(f"/topics/{topic}/events?start=earliest")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"].startswith("text/event-stream")


def test_a_verb_may_be_encoded(client: httpx2.Client, topic: str) -> None:
    client.put(f"/api/v1/topics/{topic}", json={})
    for path in (f"/api/v1/topics/{topic}:watch", f"/api/v1/topics/{topic}%3Awatch", f"/api/v1/topics/{topic}%3awatch"):
        assert client.head(path).status_code == 200, path


def test_a_name_that_ends_in_a_colon_is_its_own(client: httpx2.Client, topic: str) -> None:
    client.put(f"/api/v1/topics/{topic}", json={})
    for end in (":", "%3A", "::"):
        is_problem(client.get(f"/api/v1/topics/{topic}{end}"), 404)
        is_problem(client.delete(f"/api/v1/topics/{topic}{end}"), 404)
        is_problem(client.put(f"/api/v1/topics/{topic}{end}", json={}), 400)
    is_problem(client.get("/api/v1/topics:"), 404)
    is_problem(client.options("/healthz:"), 404)
    assert client.get(f"/api/v1/topics/{topic}").status_code == 200


def exchange(server: HttpServer, sent: bytes) -> bytes:
    """All that comes back until the server closes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS) as connection:
        connection.sendall(sent)
        found = b""
        while part := connection.recv(65_536):
            found += part
    return found


GET = b"GET /healthz HTTP/1.1\r\n"
POST = b"POST /topics/framing:publish HTTP/1.1\r\nhost: [::1]\r\n" + EVENT_HEADERS
REFUSED = {
    "no host": (400, GET + b"\r\n"),
    "no host of a publish": (400, POST.replace(b"host: [::1]\r\n", b"") + b"content-length: 0\r\n\r\n"),
    "two hosts": (400, GET + b"host: localhost\r\nhost: localhost\r\n\r\n"),
    "a host that is none": (400, GET + b"host: local host/\r\n\r\n"),
    "another transfer coding": (501, POST + b"transfer-encoding: gzip\r\n\r\n"),
    "another one besides": (501, POST + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    "the coding that is none": (501, POST + b"transfer-encoding: identity\r\n\r\n"),
    "chunked twice": (400, POST + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
    "a length and chunks": (400, POST + b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
    "a length that is none": (400, POST + b"content-length: x\r\n\r\n"),
    "a chunk without a size": (400, POST + b"transfer-encoding: chunked\r\n\r\nzz\r\n"),
    "another version": (400, b"GET /healthz HTTP/3.0\r\nhost: localhost\r\n\r\n"),
    "a method that is none": (400, b"FETCH /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"),
    "a target that is none": (400, b"GET healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"),
    "a flood of headers": (400, GET + b"host: localhost\r\n" + b"x: y\r\n" * 600 + b"\r\n"),
    "TLS": (400, b"\x16\x03\x01\x02\x00\x01\x00"),
}


@cases("name", REFUSED)
def test_what_is_no_request_is_answered_with_a_problem(server: HttpServer, name: str) -> None:
    status, sent = REFUSED[name]
    head, _, body = exchange(server, sent).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), head
    assert b"content-type: application/problem+json" in head and b"connection: close" in head
    problem = json.loads(body)
    assert problem["status"] == status and problem["detail"] == problem["error"]["message"]


def test_hosts_that_are_taken(server: HttpServer) -> None:
    close = b"connection: close\r\n\r\n"
    for host in (b"localhost", b"[::1]:80", b"127.0.0.1:", b"127.0.0.1"):
        assert exchange(server, GET + b"host: " + host + b"\r\n" + close).startswith(b"HTTP/1.1 200 "), host
    assert exchange(server, GET.replace(b"1.1", b"1.0") + b"host: [::1]\r\n\r\n").startswith(b"HTTP/1.1 200 ")
    assert exchange(server, GET.replace(b"1.1", b"1.0") + b"\r\n").startswith(b"HTTP/1.1 ")
    assert not exchange(server, GET.replace(b"1.1", b"1.0") + b"\r\n").startswith(b"HTTP/1.1 400")


def test_the_host_of_one_request_is_none_of_the_next(server: HttpServer) -> None:
    whole = POST + b"content-length: 0\r\n\r\n"
    chunked = POST + b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n"
    found = exchange(server, whole + chunked + GET + b"host: [::1]\r\n\r\n" + GET + b"\r\n")
    assert [part[:3] for part in found.split(b"HTTP/1.1 ")[1:]] == [b"200", b"200", b"200", b"400"]


def test_a_refusal_comes_behind_the_answers_before_it(server: HttpServer) -> None:
    waiting = b"POST /topics/framing/eventsubscriptions/g:receive?maxWaitTime=0.2 HTTP/1.1\r\nhost: [::1]\r\n"
    waiting += b"content-length: 0\r\n\r\n"
    for bad in (b"nonsense\r\n\r\n", POST + b"transfer-encoding: chunked\r\n\r\nzz\r\n"):
        found = exchange(server, waiting + waiting + bad)
        assert [part[:3] for part in found.split(b"HTTP/1.1 ")[1:]] == [b"200", b"200", b"400"], bad


def test_options_of_the_server_itself(server: HttpServer) -> None:
    found = exchange(server, b"OPTIONS * HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
    assert found.startswith(b"HTTP/1.1 200 ") and b"allow: GET, HEAD, POST, PUT, DELETE, OPTIONS" in found
