"""Floods: frames that cost more than they bring end their connection, and what a busy client sends does not."""

from __future__ import annotations

import pytest

from entrepot.protocols.http2.connection import LARGE_LIST_COST, MAX_BLOCK_BYTES, MAX_BLOCK_FRAMES
from entrepot.protocols.http2.control import SMALL_WINDOW
from entrepot.protocols.http2.floods import CONTROLS_PER_SECOND, RESETS_PER_SECOND, SETTINGS_COST
from entrepot.protocols.http2.frames import (
    CONTINUATION,
    END_HEADERS,
    HEADERS,
    PING,
    PRIORITY,
    RST_STREAM,
    WINDOW_UPDATE,
    ErrorCode,
    frame,
    number_frame,
    settings_frame,
)
from entrepot.protocols.http2.hpack import MAX_FIELDS, literal
from entrepot.protocols.http2.sending import Sending, Stream
from tests.support.cases import cases
from tests.support.http2.peer import Peer, block, closed_by, data, head

CALM = ErrorCode.ENHANCE_YOUR_CALM
GREETED = SETTINGS_COST
"""Cost of the greeting so far."""
CONTROLS = {
    "ping": frame(PING, 0, 0, bytes(8)),
    "its answer": frame(PING, 1, 0, bytes(8)),
    "priority": frame(PRIORITY, 0, 5, bytes(5)),
    "empty data": data(1),
    "an extension": frame(0xAA, 0, 0, b"x"),
    "windows opened a little": number_frame(WINDOW_UPDATE, 0, SMALL_WINDOW - 1),
    "data of a stream that was reset": data(3, b"x"),
}


def opened() -> Peer:
    peer = Peer()
    peer.feed(head(1), head(3))
    peer.machine.reset(3, ErrorCode.CANCEL)
    peer.sent()
    return peer


@cases("what", CONTROLS)
def test_frames_without_data_have_a_limit_by_the_second(what: str):
    peer, most = opened(), CONTROLS_PER_SECOND - GREETED
    for second in range(1, 4):
        peer.feed(CONTROLS[what] * most)
        assert not peer.machine.is_closed
        peer.now, most = float(second), CONTROLS_PER_SECOND
    peer.sent()
    assert peer.closed_with(CONTROLS[what] * (most + 1)) is CALM


def test_settings_cost_more():
    peer = opened()
    most = (CONTROLS_PER_SECOND - GREETED) // SETTINGS_COST
    peer.feed(settings_frame() * most)
    assert not peer.machine.is_closed
    assert closed_by(peer, peer.feed(settings_frame())) is CALM


def test_a_busy_client_may_send_more():
    """A client that calls, and opens windows by what it got, does not flood."""
    peer = Peer()
    for number in range(1, 20_001, 2):
        peer.feed(head(number, is_last=True), CONTROLS["ping"] * 5, number_frame(WINDOW_UPDATE, 0, SMALL_WINDOW))
        peer.machine.answer(number, b"\x88", b"x", b"\x88")
        peer.machine.data_to_send()
    assert not peer.machine.is_closed


def test_streams_that_are_reset_at_once():
    peer = Peer()
    for number in range(1, 2 * RESETS_PER_SECOND, 2):
        peer.feed(head(number), number_frame(RST_STREAM, number, 8))
    assert not peer.machine.is_closed
    number += 2
    assert closed_by(peer, peer.feed(head(number), number_frame(RST_STREAM, number, 8))) is CALM


def test_streams_that_are_reset_by_the_clients_fault():
    """The same flood where the server has to reset: a malformed request each."""
    peer = Peer()
    broken = [head(number, (b"te", b"x")) for number in range(1, 2 * RESETS_PER_SECOND + 3, 2)]
    peer.feed(*broken[:-1])
    assert not peer.machine.is_closed
    peer.sent()
    assert closed_by(peer, peer.feed(broken[-1])) is CALM


def test_a_block_of_too_many_frames():
    peer = Peer()
    peer.feed(frame(HEADERS, 0, 1, b"\x82"), *[frame(CONTINUATION, 0, 1)] * (MAX_BLOCK_FRAMES - 1))
    assert not peer.machine.is_closed
    assert closed_by(peer, peer.feed(frame(CONTINUATION, 0, 1))) is CALM


def test_a_block_of_too_many_bytes():
    peer, part = Peer(), block((b"a", b"x" * 16_000))
    peer.feed(frame(HEADERS, 0, 1, part), frame(CONTINUATION, 0, 1, part))
    assert not peer.machine.is_closed
    more = bytes(MAX_BLOCK_BYTES - 2 * len(part) + 1)
    assert closed_by(peer, peer.feed(frame(CONTINUATION, 0, 1, more))) is CALM


def test_bombs_of_a_table():
    """A block of one byte for each large field; and smaller ones, stream after stream."""
    entered = frame(HEADERS, END_HEADERS, 1, b"\x40" + literal(b"x", b"x" * 3900)[1:])
    peer = Peer()
    peer.feed(entered)
    peer.sent()
    assert peer.closed_with(frame(HEADERS, END_HEADERS, 3, b"\xbe" * (MAX_FIELDS + 1))) is CALM
    peer = Peer()
    peer.feed(entered)
    most = (CONTROLS_PER_SECOND - GREETED) // LARGE_LIST_COST
    blocks = [frame(HEADERS, END_HEADERS, 3 + 2 * turn, b"\xbe" * MAX_FIELDS) for turn in range(most + 1)]
    peer.feed(*blocks[:-1])
    assert not peer.machine.is_closed
    peer.sent()
    assert peer.closed_with(blocks[-1]) is CALM


def test_windows_that_never_open_cost_no_look_at_each_update(monkeypatch: pytest.MonkeyPatch):
    """A client with waiting answers opens the window of one, and that of all: the others are not looked at."""
    peer = Peer()
    peer.feed(settings_frame((4, 0)), *(head(number, is_last=True) for number in (1, 3, 5)))
    for number in (1, 3, 5):
        peer.machine.answer(number, b"\x88", bytes(10), b"\x88")
    looked: list[int] = []
    push = Sending._push

    def seen(sending: Sending, stream: Stream) -> bool:
        looked.append(stream.number)
        return push(sending, stream)

    monkeypatch.setattr(Sending, "_push", seen)
    peer.feed(number_frame(WINDOW_UPDATE, 3, 1), number_frame(WINDOW_UPDATE, 0, 5000))
    assert looked == [3]
