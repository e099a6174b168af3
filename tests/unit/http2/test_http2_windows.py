"""Windows of both sides: what is sent into them, what waits for them, and what a peer may do to them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from entrepot.protocols.http2.events import Drained, Http2Limits
from entrepot.protocols.http2.frames import (
    DATA,
    END_STREAM,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    LARGEST_WINDOW,
    RST_STREAM,
    WINDOW_UPDATE,
    ErrorCode,
    number_frame,
    settings_frame,
)
from tests.support.cases import cases
from tests.support.http2.peer import Frame, Peer, data, head

FLOW = ErrorCode.FLOW_CONTROL_ERROR
HEAD, TRAILERS = b"\x88", b"\x88\x88"


def answered(peer: Peer, stream: int, size: int) -> bool:
    return peer.machine.answer(stream, HEAD, bytes(size), TRAILERS)


def sent_data(frames: list[Frame]) -> int:
    return sum(len(each.payload) for each in frames if each.kind == DATA)


def asked(*streams: int, window: int | None = None, room: int = 1 << 30) -> Peer:
    peer = Peer(room=room)
    if window is not None:
        peer.feed(settings_frame((INITIAL_WINDOW_SIZE, window)))
    peer.feed(*(head(stream, is_last=True) for stream in streams))
    peer.sent()
    return peer


def test_an_answer_waits_for_its_window_and_its_trailers_behind_it():
    peer = asked(1, window=10)
    assert not answered(peer, 1, 25)
    assert peer.machine.waiting_bytes == peer.machine.waiting_on(1) == 15
    assert [each.kind for each in peer.sent()] == [HEADERS, DATA]
    assert peer.feed(number_frame(WINDOW_UPDATE, 1, 14)) == []
    assert sent_data(peer.sent()) == 14
    assert peer.feed(number_frame(WINDOW_UPDATE, 1, 1)) == [Drained(1, True)]
    last, trailers = peer.sent()
    assert (last.payload, trailers.payload, trailers.flags & END_STREAM) == (b"\0", TRAILERS, END_STREAM)
    assert peer.machine.waiting_bytes == 0


def test_answers_wait_for_the_window_of_all():
    peer = asked(1, 3, window=100_000)
    assert answered(peer, 1, 60_000), "it is more than a frame"
    assert not answered(peer, 3, 60_000)
    assert sent_data(peer.sent()) == 65_535
    assert peer.feed(number_frame(WINDOW_UPDATE, 0, 60_000)) == [Drained(3, True)]
    assert sent_data(peer.sent()) == 120_000 - 65_535


def test_one_without_a_window_stops_no_other():
    peer = asked(1, 3, 5, window=0)
    for stream in (1, 3, 5):
        assert not answered(peer, stream, 10)
    assert peer.feed(number_frame(WINDOW_UPDATE, 3, 10)) == [Drained(3, True)]
    assert peer.machine.waiting_bytes == 20


def test_the_socket_is_a_window_too():
    peer = asked(1, 3, room=15)
    assert answered(peer, 1, 10)
    assert not answered(peer, 3, 10)
    assert sent_data(peer.sent()) == 15
    assert peer.machine.room == 0
    assert peer.machine.allow(5) == [Drained(3, True)]


def test_a_smaller_first_window_may_leave_one_below_zero():
    peer = asked(1, window=100)
    assert answered(asked(1, window=100), 1, 100)
    peer.machine.begin(1, HEAD)
    assert peer.machine.send(1, bytes(80))
    peer.feed(settings_frame((INITIAL_WINDOW_SIZE, 30)))  # 20 - 70
    peer.sent()
    assert not peer.machine.send(1, bytes(10))
    assert peer.feed(number_frame(WINDOW_UPDATE, 1, 50)) == [], "the window is 0"
    assert peer.feed(number_frame(WINDOW_UPDATE, 1, 9)) == []
    assert sent_data(peer.sent()) == 9
    assert peer.feed(settings_frame((INITIAL_WINDOW_SIZE, 31))) == [Drained(1, False)]


def test_a_peer_that_resets_frees_what_waited():
    peer = asked(1, 3, window=0)
    answered(peer, 1, 1000)
    answered(peer, 3, 10)
    peer.feed(number_frame(RST_STREAM, 1, 8))
    assert peer.machine.waiting_bytes == 10
    peer.machine.reset(3, ErrorCode.CANCEL)
    assert peer.machine.waiting_bytes == 0


def test_windows_that_get_too_large():
    assert asked().closed_with(number_frame(WINDOW_UPDATE, 0, LARGEST_WINDOW)) is FLOW
    assert asked(1).reset_with(number_frame(WINDOW_UPDATE, 1, LARGEST_WINDOW)) is FLOW
    peer = asked(1)
    peer.feed(number_frame(WINDOW_UPDATE, 1, LARGEST_WINDOW - 65_535))
    assert peer.closed_with(settings_frame((INITIAL_WINDOW_SIZE, 65_536))) is FLOW


def test_waiting_answers_end_with_a_frame_where_they_have_no_trailers():
    peer = asked(1, window=1)
    peer.machine.answer(1, HEAD, b"ab", b"")
    peer.sent()
    assert peer.feed(number_frame(WINDOW_UPDATE, 1, 1)) == [Drained(1, True)]
    assert [(each.payload, each.flags) for each in peer.sent()] == [(b"b", 0), (b"", END_STREAM)]


# -- what the client sends ---------------------------------------------------------------------------------------------

SMALL = Http2Limits(window_bytes=100, connection_window_bytes=65_535 + 100)


def given_back(peer: Peer, stream: int) -> int:
    return sum(each.number for each in peer.sent() if each.kind == WINDOW_UPDATE and each.stream == stream)


def test_a_stream_gets_room_once_half_of_it_is_taken():
    peer = Peer(SMALL)
    peer.feed(head(1), data(1, bytes(50)))
    peer.machine.give_room(1)
    assert given_back(peer, 1) == 0
    peer.feed(data(1, b"x"))
    peer.machine.give_room(1)
    assert given_back(peer, 1) == 51


def test_more_than_the_window_is_a_fault():
    peer = Peer(SMALL)
    peer.feed(head(1), data(1, bytes(100)))
    assert peer.closed_with(data(1, b"x")) is FLOW


@cases("is_open", [True, False])
def test_the_window_of_all_is_given_back_whatever_becomes_of_the_streams(is_open: bool):
    peer, sent, back = Peer(), 0, 0
    peer.feed(head(1))
    if not is_open:
        peer.machine.reset(1, ErrorCode.CANCEL)
    for turn in range(1200):
        peer.now = turn / 100
        peer.feed(data(1, bytes(10_000)))
        peer.machine.give_room(1)
        sent += 10_000
        back += given_back(peer, 0)
    assert not peer.machine.is_closed
    assert sent - back <= 4 << 20


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("open"), st.integers(1, 400)),
            st.tuples(st.just("open all"), st.integers(1, 400)),
            st.tuples(st.just("first"), st.integers(0, 600)),
            st.tuples(st.just("room"), st.integers(0, 500)),
            st.tuples(st.just("send"), st.integers(5, 700)),
        ),
        max_size=40,
    )
)
def test_no_more_is_sent_than_windows_allow_and_all_of_it_in_the_end(steps: list[tuple[str, int]]):
    """Two streams of which one is told of; a model counts its windows."""
    peer = asked(1, window=0, room=0)
    peer.machine.begin(1, HEAD)
    peer.sent()
    window, shared, first, sent, given_to_send = 0, 65_535, 0, 0, 0
    for what, count in steps:
        if what == "open":
            peer.feed(number_frame(WINDOW_UPDATE, 1, count))
            window += count
        elif what == "open all":
            peer.feed(number_frame(WINDOW_UPDATE, 0, count))
            shared += count
        elif what == "first":
            peer.feed(settings_frame((INITIAL_WINDOW_SIZE, count)))
            window, first = window + count - first, count
        elif what == "room":
            peer.machine.allow(count)
        else:
            peer.machine.send(1, bytes(count))
            given_to_send += count
        more = sent_data(peer.sent())
        sent += more
        assert not more or sent <= min(window, shared)
        assert peer.machine.waiting_bytes == given_to_send - sent
    peer.machine.allow(1 << 30)
    peer.feed(number_frame(WINDOW_UPDATE, 1, 1 << 20), number_frame(WINDOW_UPDATE, 0, 1 << 20))
    assert sent + sent_data(peer.sent()) == given_to_send
