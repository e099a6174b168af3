"""However the bytes of requests are cut, the same ones are run and answered, and no body is run as a request."""

from __future__ import annotations

import pytest

from tests.fuzz.desync_corpus import CORPUS, HOST, KEY, NEXT, RUN_NEXT, SMUGGLED, WEBSOCKET, Case
from tests.support.cases import cases
from tests.support.http.machine import HttpMachine, Outcome
from tests.tiers.marks import scaled


def as_case(sent: bytes, outcome: Outcome) -> Case:
    return Case(sent, tuple(outcome.run), tuple(outcome.statuses), outcome.is_closed)


@pytest.mark.scaled
@pytest.mark.parametrize("kind", CORPUS)
def test_a_request_ends_where_it_ends(kind: str) -> None:
    """Given whole, in two pieces at each place, and byte by byte; with an answer between the pieces, and without."""
    machine = HttpMachine()
    for name, case in CORPUS[kind].items():
        sent = case.sent
        whole = machine.outcome([sent])
        assert as_case(sent, whole) == case, name
        by_byte = [bytes((byte,)) for byte in sent]
        cuts = [[sent[:at], sent[at:]] for at in range(1, len(sent))]
        for in_turn, ways in ((True, [by_byte, *cuts]), (False, [by_byte, *cuts[:: scaled(10, 1)]])):
            for way, found in zip(ways, machine.outcomes(ways, in_turn=in_turn), strict=True):
                assert found == whole, f"{name}, cut at {len(way[0])}, in turn: {in_turn}"


@pytest.mark.scaled
@pytest.mark.parametrize("kind", CORPUS)
def test_a_body_that_nobody_reads_is_no_request_either(kind: str) -> None:
    """The app answers by the head alone: the rest of the body still belongs to the request."""
    machine = HttpMachine(reads=False)
    for name, case in CORPUS[kind].items():
        sent = case.sent
        ways = [[sent], *([sent[:at], sent[at:]] for at in range(1, len(sent), scaled(5, 1)))]
        for found in machine.outcomes(ways):
            ran = [target for _, target, _ in found.run]
            wanted = [target for _, target, _ in case.run] or [b"/first"]
            assert ran == wanted[: len(ran)], name
            assert len(ran) >= len(case.run), name


STREAM = b"/topics/t/eventsubscriptions/g:stream"
HANDSHAKES = {
    "MQTT": b"GET /mqtt HTTP/1.1\r\n" + HOST + WEBSOCKET + KEY,
    "with a query": b"GET /mqtt?token=1 HTTP/1.1\r\n" + HOST + WEBSOCKET + KEY,
    "a URL": b"GET http://localhost/mqtt HTTP/1.1\r\n" + HOST + WEBSOCKET + KEY,
    "events": b"GET " + STREAM + b" HTTP/1.1\r\n" + HOST + WEBSOCKET + KEY,
    "events of a namespace": b"GET /namespaces/n" + STREAM + b" HTTP/1.1\r\n" + HOST + WEBSOCKET + KEY,
    "an empty body": b"GET /mqtt HTTP/1.1\r\nContent-Length: 0\r\n" + HOST + WEBSOCKET + KEY,
    "lists": b"GET /mqtt HTTP/1.1\r\nConnection: keep-alive,upgrade\r\nUpgrade: h2c, WebSocket\r\n" + HOST + KEY,
    "several headers": b"GET /mqtt HTTP/1.1\r\nConnection: x\r\nUpgrade: h2c\r\n" + HOST + WEBSOCKET + KEY,
}


@cases("head", HANDSHAKES.values(), ids=tuple(HANDSHAKES))
def test_a_handshake_is_one_however_it_is_cut(head: bytes) -> None:
    sent = NEXT + head + b"\r\n"
    ways = [[sent], *([sent[:at], sent[at:]] for at in range(1, len(sent))), [bytes((byte,)) for byte in sent]]
    for found in HttpMachine().outcomes([*ways, [*ways[-1], b"\x8a\x80mask"]]):
        assert found.run == [RUN_NEXT] and found.statuses == [200] and not found.is_closed
        assert found.websocket in (b"", b"\x8a\x80mask")
    assert found.websocket


@cases("head", HANDSHAKES.values(), ids=tuple(HANDSHAKES))
def test_what_comes_with_a_handshake_is_no_request(head: bytes) -> None:
    """A client must wait for the answer (RFC 6455 4.1). What comes later is the WebSocket's."""
    whole = HttpMachine().outcome([head + b"\r\n" + SMUGGLED])
    assert (whole.run, whole.statuses, whole.is_closed, whole.websocket) == ([], [400], True, None)
    later = HttpMachine().outcome([head + b"\r\n", SMUGGLED])
    assert (later.run, later.answers, later.websocket) == ([], b"", SMUGGLED)
