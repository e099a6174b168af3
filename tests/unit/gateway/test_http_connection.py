"""What one HTTP connection takes beside plain requests: URLs, offers, and long tails of chunks."""

from __future__ import annotations

import pytest

from entrepot.gateway.http.connection import MAX_HEAD_BYTES
from entrepot.gateway.http.requests.heads import RefusedHeadError, check_trailers, origin_form, without_offer
from entrepot.gateway.transport.http_requests import authority_and_target, websocket_headers, with_host
from tests.fuzz.desync_corpus import GET, HOST, KEY, NEXT, OFFER, POST, RUN_NEXT, WEBSOCKET
from tests.support.cases import cases
from tests.support.http.machine import HttpMachine

CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
STREAM = b"/topics/t/eventsubscriptions/g:stream"


@cases("offer", [b"", OFFER])
def test_the_host_of_a_url_counts(offer: bytes) -> None:
    """RFC 9112 3.2.2: not that of the header."""
    found = HttpMachine().outcome([b"GET http://other:81/a HTTP/1.1\r\n" + HOST + offer + b"\r\n" + NEXT])
    assert found.hosts == [b"other:81", b"localhost"]


def test_a_listener_without_event_sockets_has_none() -> None:
    asked = GET.replace(b"/first", STREAM) + WEBSOCKET + KEY + b"\r\n"
    assert HttpMachine().outcome([asked]).websocket == b""
    found = HttpMachine(event_sockets=False).outcome([asked + NEXT])
    assert (found.run, found.websocket) == ([(b"GET", STREAM, b""), RUN_NEXT], None)


FLOODS = {
    "extensions": CHUNKED + b"5;" + (MAX_HEAD_BYTES + 8192) * b"a",
    "trailers": CHUNKED + b"5\r\nhello\r\n0\r\nX: " + (MAX_HEAD_BYTES + 8192) * b"a",
}


@cases("flood", FLOODS.values(), ids=tuple(FLOODS))
def test_what_is_no_body_is_bounded(flood: bytes) -> None:
    found = HttpMachine().outcome([flood[at : at + 4096] for at in range(0, len(flood), 4096)])
    assert (found.run, found.statuses, found.is_closed) == ([], [400], True)


def test_a_long_body_is_no_head() -> None:
    body = bytes(2 * MAX_HEAD_BYTES)
    sent = CHUNKED + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) + NEXT
    found = HttpMachine().outcome([sent[at : at + 4096] for at in range(0, len(sent), 4096)])
    assert (found.run, found.statuses) == ([(b"POST", b"/first", body), RUN_NEXT], [200, 200])


def test_many_small_chunks_are_no_head() -> None:
    """Of each piece a part is body."""
    chunk = b"1;" + 2000 * b"a" + b"\r\nx\r\n"
    count = MAX_HEAD_BYTES // 2000 + 5
    found = HttpMachine().outcome([CHUNKED, *(chunk for _ in range(count)), b"0\r\n\r\n"])
    assert found.run == [(b"POST", b"/first", count * b"x")]


def test_a_head_without_its_offer_keeps_all_else() -> None:
    headers = [(b"host", b"a"), (b"upgrade", b"h2c"), (b"x", b"\xff y"), (b"upgrade", b"foo"), (b"x", b"z")]
    assert without_offer(b"PUT", b"/a?b", "1.0", headers) == (
        b"PUT /a?b HTTP/1.0\r\nhost: a\r\nx: \xff y\r\nx: z\r\n\r\n"
    )


@cases(
    "target, found",
    [
        (b"http://a/b?c", (b"a", b"/b?c")),
        (b"HTTPS://a:1", (b"a:1", b"/")),
        (b"http://a?b", (b"a", b"/?b")),
        (b"http://[::1]:2/b", (b"[::1]:2", b"/b")),
        (b"http:///b", (b"", b"/b")),
        (b"http://a/b#c", None),
        (b"ftp://a/b", None),
        (b"/http://a/b", None),
        (b"a:80", None),
    ],
)
def test_targets_that_are_urls(target: bytes, found: tuple[bytes, bytes] | None) -> None:
    assert authority_and_target(target) == found


def test_a_url_replaces_the_host_in_place() -> None:
    headers = [(b"x", b"1"), (b"host", b"a"), (b"y", b"2")]
    kept = headers
    assert origin_form(b"http://b/c", headers) == b"/c"
    assert kept == [(b"x", b"1"), (b"host", b"b"), (b"y", b"2")]
    assert with_host([(b"x", b"1")], b"b") == [(b"x", b"1")]
    assert origin_form(b"*", headers) == b"*"


@cases("target", [b"a", b"a:80", b"http://", b"http://a b/", b"http://a@b/", b"ftp://a/"])
def test_other_targets_are_refused(target: bytes) -> None:
    with pytest.raises(RefusedHeadError) as refused:
        origin_form(target, [])
    assert refused.value.status == 400


@cases("name", [b"connection", b"host", b"upgrade"])
def test_trailers_govern_nothing(name: bytes) -> None:
    check_trailers([(b"x", b"1")])
    with pytest.raises(RefusedHeadError):
        check_trailers([(b"x", b"1"), (name, b"1")])


ASKS = [(b"connection", b"Upgrade"), (b"upgrade", b"websocket")]


@cases(
    "headers",
    [
        [(b"upgrade", b"websocket")],
        [(b"connection", b"Upgrade")],
        [(b"connection", b"Upgrade"), (b"upgrade", b"websocket2")],
        [(b"connection", b"xUpgrade"), (b"upgrade", b"websocket")],
        [*ASKS, (b"content-length", b"10")],
        [*ASKS, (b"transfer-encoding", b"chunked")],
    ],
)
def test_what_asks_for_no_websocket(headers: list[tuple[bytes, bytes]]) -> None:
    assert websocket_headers(b"GET", "1.1", headers) is None


def test_a_websocket_is_asked_for_in_one_way() -> None:
    headers = [(b"upgrade", b"h2c,WebSocket "), (b"x", b"1"), (b"connection", b"a"), (b"connection", b"b ,UPGRADE")]
    assert websocket_headers(b"GET", "1.1", headers) == [
        (b"x", b"1"),
        (b"connection", b"Upgrade"),
        (b"upgrade", b"websocket"),
    ]
    assert websocket_headers(b"GET", "1.1", [*ASKS, (b"content-length", b"0")]) is not None
    for method, version in ((b"POST", "1.1"), (b"HEAD", "1.1"), (b"GET", "1.0")):
        assert websocket_headers(method, version, ASKS) is None
