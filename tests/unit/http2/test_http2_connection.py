"""The machine of one HTTP/2 connection: its begin, its streams, and the faults that end a stream or all of it."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.protocols.http2.events import Closing, DataReceived, Event, RequestReceived, StreamReset
from entrepot.protocols.http2.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HAS_PRIORITY,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    MAX_CONCURRENT_STREAMS,
    PADDED,
    PING,
    PREFACE,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    ErrorCode,
    frame,
    number_frame,
    settings_frame,
)
from tests.support.cases import cases
from tests.support.http2.peer import LIMITS, REQUEST, Peer, block, data, head, only

PROTOCOL, SIZE, CLOSED = ErrorCode.PROTOCOL_ERROR, ErrorCode.FRAME_SIZE_ERROR, ErrorCode.STREAM_CLOSED


def test_the_greeting_tells_the_limits_of_a_stranger():
    settings, window = Peer().greeting[:2]
    pairs = {settings.payload[at + 1]: settings.payload[at + 2 : at + 6] for at in range(0, len(settings.payload), 6)}
    assert int.from_bytes(pairs[MAX_CONCURRENT_STREAMS], "big") == LIMITS.early_streams
    assert int.from_bytes(pairs[INITIAL_WINDOW_SIZE], "big") == LIMITS.window_bytes
    assert (window.kind, window.number) == (WINDOW_UPDATE, LIMITS.connection_window_bytes - 65_535)


def test_a_client_has_to_greet_in_time():
    peer = Peer(is_greeted=False)
    assert peer.machine.deadline() == LIMITS.preface_seconds
    assert peer.feed(PREFACE) == []
    assert peer.machine.deadline() == LIMITS.preface_seconds, "SETTINGS has not come"
    [closing] = peer.machine.handle_timeout()
    assert isinstance(closing, Closing)
    greeted = Peer()
    assert greeted.machine.deadline() == math.inf


@cases("begin", [b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nXX", b"\0"])
def test_what_is_not_http2_is_told_so(begin: bytes):
    assert Peer(is_greeted=False).closed_with(begin) is PROTOCOL


def test_tls_gets_no_byte_of_http2():
    peer = Peer(is_greeted=False)
    closing = only(peer.feed(b"\x16\x03\x01\x02\x00\x01"), Closing)
    assert closing.is_tls
    assert peer.machine.data_to_send() == b""


def test_the_first_frame_is_settings():
    assert Peer(is_greeted=False).closed_with(PREFACE, frame(PING, 0, 0, bytes(8))) is PROTOCOL


def test_a_request_with_a_body_and_trailers():
    peer = Peer()
    begun = only(peer.feed(head(1, (b"x", b"y"))), RequestReceived)
    assert (begun.stream, begun.head.path, begun.head.fields[b"x"], begun.is_whole) == (
        1,
        b"/service/Method",
        b"y",
        False,
    )
    assert peer.feed(data(1, b"body")) == [DataReceived(1, b"body", False)]
    trailers = frame(HEADERS, END_HEADERS | END_STREAM, 1, block((b"checksum", b"1")))
    assert peer.feed(trailers) == [DataReceived(1, b"", True)]


@pytest.mark.parametrize("code", [ErrorCode.CANCEL, 77])
def test_a_client_takes_a_request_back(code: int):
    peer = Peer()
    peer.feed(head(1))
    assert peer.feed(number_frame(RST_STREAM, 1, code)) == [StreamReset(1)]
    assert peer.machine.send(1, b"late")
    assert peer.machine.end(1, b"")
    assert peer.sent() == [], "a stream that has ended gets an answer"


def test_an_answer_ends_a_request_that_goes_on():
    peer = Peer()
    peer.feed(head(1), data(1, b"half"))
    assert peer.machine.answer(1, b"\x88", b"no", b"")
    kinds = [(each.kind, each.flags) for each in peer.sent()]
    assert kinds == [(HEADERS, END_HEADERS), (DATA, 0), (DATA, END_STREAM), (RST_STREAM, 0)]
    assert peer.feed(data(1, b"on its way"), head(1, is_last=True)) == []
    assert peer.sent() == []
    assert not peer.machine.is_closed


@cases("is_data", [True, False])
def test_streams_that_have_ended_are_not_used_again(is_data: bool):
    peer = Peer()
    peer.feed(head(1, is_last=True))
    peer.machine.answer(1, b"\x88", b"x", b"\x88")
    peer.sent()
    if is_data:
        assert peer.reset_with(data(1, b"more")) is CLOSED
    else:
        assert peer.closed_with(head(1)) is CLOSED


def test_a_number_is_larger_than_the_last_one():
    peer = Peer()
    peer.feed(head(5))
    assert peer.closed_with(head(3)) is PROTOCOL


def half_closed() -> Peer:
    peer = Peer()
    peer.feed(head(1, is_last=True))
    return peer


@cases("more", [data(1, b"x"), head(1, is_last=True)])
def test_nothing_follows_the_end_of_a_request(more: bytes):
    assert half_closed().reset_with(more) is CLOSED


@cases(
    "broken, code",
    [
        (data(1), PROTOCOL),
        (data(2, b"x"), PROTOCOL),
        (head(2), PROTOCOL),
        (number_frame(RST_STREAM, 1, 8), PROTOCOL),
        (number_frame(RST_STREAM, 0, 8), PROTOCOL),
        (frame(RST_STREAM, 0, 1, b"x"), SIZE),
        (number_frame(WINDOW_UPDATE, 1, 8), PROTOCOL),
        (number_frame(WINDOW_UPDATE, 0, 0), PROTOCOL),
        (frame(WINDOW_UPDATE, 0, 0, b"x"), SIZE),
        (frame(PING, 0, 1, bytes(8)), PROTOCOL),
        (frame(PING, 0, 0, bytes(7)), SIZE),
        (frame(GOAWAY, 0, 1, bytes(8)), PROTOCOL),
        (frame(PUSH_PROMISE, 0, 1, bytes(4)), PROTOCOL),
        (frame(PRIORITY, 0, 0, bytes(5)), PROTOCOL),
        (frame(SETTINGS, 0, 1), PROTOCOL),
        (frame(SETTINGS, ACK, 0, bytes(6)), SIZE),
        (frame(SETTINGS, 0, 0, bytes(5)), SIZE),
        (settings_frame((2, 2)), PROTOCOL),
        (settings_frame((4, 1 << 31)), ErrorCode.FLOW_CONTROL_ERROR),
        (settings_frame((5, 16_383)), PROTOCOL),
        (settings_frame((5, 1 << 24)), PROTOCOL),
        (settings_frame(*[(9, 9)] * 65), ErrorCode.ENHANCE_YOUR_CALM),
        (frame(CONTINUATION, 0, 1), PROTOCOL),
        (frame(HEADERS, 0, 1, b"\x82") + frame(CONTINUATION, 0, 3), PROTOCOL),
        (frame(HEADERS, 0, 1, b"\x82") + frame(PING, 0, 0, bytes(8)), PROTOCOL),
        (frame(HEADERS, END_HEADERS, 1, b"\x80"), ErrorCode.COMPRESSION_ERROR),
        (frame(HEADERS, END_HEADERS | PADDED, 1, b"\x05\x82"), PROTOCOL),
        (frame(HEADERS, END_HEADERS | PADDED, 1), PROTOCOL),
        (frame(HEADERS, END_HEADERS | HAS_PRIORITY, 1, bytes(4)), SIZE),
        (frame(HEADERS, END_HEADERS | HAS_PRIORITY, 1, b"\0\0\0\x01\0"), PROTOCOL),
        (head(1) + frame(DATA, PADDED, 1, b"\x02x"), PROTOCOL),
        (frame(DATA, 0, 1, bytes(16_385)), SIZE),
    ],
)
def test_faults_of_the_connection(broken: bytes, code: ErrorCode):
    assert Peer().closed_with(broken) is code


GET = tuple((name, b"GET" if name == b":method" else value) for name, value in REQUEST)


def without(name: bytes) -> tuple[tuple[bytes, bytes], ...]:
    return tuple(field for field in REQUEST if field[0] != name)


@cases(
    "fields",
    [
        without(b":method"),
        without(b":path"),
        without(b":scheme"),
        (*without(b":path"), (b":path", b"")),
        (*REQUEST[:4], (b":path", b"/b"), *REQUEST[4:]),
        (*REQUEST, (b":authority", b"late")),
        ((b":unknown", b"x"), *REQUEST),
        ((b":status", b"200"), *REQUEST),
        ((b":authority", b"a\r\nb"), *without(b":authority")),
        (*REQUEST, (b"Upper", b"x")),
        (*REQUEST, (b"a b", b"x")),
        (*REQUEST, (b"", b"x")),
        (*REQUEST, (b"connection", b"close")),
        (*REQUEST, (b"transfer-encoding", b"chunked")),
        (*without(b"te"), (b"te", b"gzip")),
        (*REQUEST, (b"x", b"a\0b")),
        (*REQUEST, (b"content-length", b"-1")),
        (*REQUEST, (b"content-length", b"1" * 16)),
    ],
)
def test_malformed_requests_end_their_stream_alone(fields: tuple[tuple[bytes, bytes], ...]):
    peer = Peer()
    assert peer.reset_with(head(1, fields=fields)) is PROTOCOL
    assert isinstance(only(peer.feed(head(3)), RequestReceived), RequestReceived)


@cases(
    "parts",
    [
        (head(1, (b"content-length", b"3"), is_last=True),),
        (head(1, (b"content-length", b"3")), data(1, b"abcd")),
        (head(1, (b"content-length", b"3")), data(1, b"ab", is_last=True)),
        (head(1, (b"content-length", b"3")), data(1, b"ab"), data(1, b"cd", is_last=True)),
        (head(1, (b"content-length", b"3")), data(1, b"ab"), frame(HEADERS, END_HEADERS | END_STREAM, 1)),
        (head(1), frame(HEADERS, END_HEADERS, 1, block((b"a", b"b")))),
        (head(1), frame(HEADERS, END_HEADERS | END_STREAM, 1, block((b":path", b"b")))),
        (head(1), number_frame(WINDOW_UPDATE, 1, 0)),
        (head(1), frame(PRIORITY, 0, 1, b"\0\0\0\x01\0")),
    ],
)
def test_faults_of_a_stream(parts: tuple[bytes, ...]):
    assert Peer().reset_with(*parts) is PROTOCOL


def test_the_length_of_a_body_may_be_told():
    peer = Peer()
    peer.feed(head(1, (b"content-length", b"3")), data(1, b"ab"))
    assert peer.feed(data(1, b"c", is_last=True)) == [DataReceived(1, b"c", True)]


def test_padding_and_priorities_are_ignored():
    peer = Peer()
    inside = b"\x04" + b"\0\0\0\x00\x10" + block(*REQUEST) + bytes(4)
    begun = only(peer.feed(frame(HEADERS, END_HEADERS | PADDED | HAS_PRIORITY, 1, inside)), RequestReceived)
    assert begun.head.path == b"/service/Method"
    assert peer.feed(frame(DATA, PADDED, 1, b"\x03abc\0\0\0")) == [DataReceived(1, b"abc", False)]
    assert peer.feed(frame(PRIORITY, 0, 7, bytes(5)), frame(0xBE, 0, 0, b"extension")) == []


def test_a_block_comes_in_pieces():
    peer, whole = Peer(), block(*REQUEST)
    parts = [whole[at : at + 20] for at in range(0, len(whole), 20)]
    frames = [frame(HEADERS, END_STREAM, 1, parts[0]), *(frame(CONTINUATION, 0, 1, each) for each in parts[1:-1])]
    assert peer.feed(*frames) == []
    begun = only(peer.feed(frame(CONTINUATION, END_HEADERS, 1, parts[-1])), RequestReceived)
    assert begun.is_whole


def test_pings_and_settings_are_answered():
    peer = Peer()
    peer.feed(
        frame(PING, 0, 0, b"abcdefgh"), settings_frame((4, 1000), (5, 20_000), (1, 0)), frame(PING, ACK, 0, bytes(8))
    )
    assert [(each.kind, each.flags, each.payload) for each in peer.sent()] == [
        (PING, ACK, b"abcdefgh"),
        (SETTINGS, ACK, b""),
    ]


def test_a_stranger_has_few_streams_and_a_known_client_many():
    peer = Peer()
    numbers = range(1, 2 * LIMITS.early_streams, 2)
    peer.feed(*(head(number) for number in numbers))
    assert peer.reset_with(head(99)) is ErrorCode.REFUSED_STREAM
    peer.machine.admit()
    [told] = peer.sent()
    assert (told.kind, told.number) == (SETTINGS, LIMITS.streams)
    assert only(peer.feed(head(101)), RequestReceived).stream == 101
    peer.feed(*(head(number) for number in range(103, 103 + 2 * (LIMITS.streams - LIMITS.early_streams - 1), 2)))
    assert peer.reset_with(head(999)) is ErrorCode.REFUSED_STREAM


def test_fields_that_are_too_large_end_their_stream_alone():
    peer = Peer()
    large = (b"x", b"y" * 15_000)
    assert peer.reset_with(head(1, large, (b"z", b"y" * 1200))) is ErrorCode.ENHANCE_YOUR_CALM
    assert only(peer.feed(head(3, large)), RequestReceived).stream == 3


# -- the drain ---------------------------------------------------------------------------------------------------------


def test_the_drain_has_two_steps():
    peer = Peer()
    peer.feed(head(1, is_last=True))
    peer.machine.shut_down()
    first, ping = peer.sent()
    assert (first.kind, int.from_bytes(first.payload[:4], "big")) == (GOAWAY, (1 << 31) - 1)
    assert only(peer.feed(head(3, is_last=True)), RequestReceived).stream == 3, "it was on its way"
    peer.feed(frame(PING, ACK, 0, ping.payload))
    [last] = peer.sent()
    assert (last.kind, int.from_bytes(last.payload[:4], "big")) == (GOAWAY, 3)
    assert peer.reset_with(head(5)) is ErrorCode.REFUSED_STREAM
    for stream in (1, 3):
        assert not peer.machine.is_drained
        peer.machine.answer(stream, b"\x88", b"x", b"\x88")
    assert peer.machine.is_drained


# -- cuts --------------------------------------------------------------------------------------------------------------

CONVERSATION = (
    PREFACE
    + settings_frame((4, 70_000))
    + head(1)
    + data(1, b"one")
    + frame(PING, 0, 0, bytes(8))
    + head(3, is_last=True)
    + data(1, b"", is_last=True)
    + number_frame(RST_STREAM, 3, 8)
    + head(5, fields=GET)
    + number_frame(WINDOW_UPDATE, 0, 1000)
    + frame(SETTINGS, 0, 1)
)


@given(st.lists(st.integers(0, len(CONVERSATION)), max_size=30))
def test_events_do_not_depend_on_how_bytes_come(cuts: list[int]):
    whole, cut = Peer(is_greeted=False), Peer(is_greeted=False)
    found: list[Event] = []
    places = [0, *sorted(cuts), len(CONVERSATION)]
    for start, end in itertools.pairwise(places):
        found += cut.feed(CONVERSATION[start:end])
    assert found == whole.feed(CONVERSATION)
    assert cut.machine.data_to_send() == whole.machine.data_to_send()
