"""The two ends against each other: any order of what either does, and any pieces of the bytes between them."""

from __future__ import annotations

from typing import cast

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from entrepot.domain.errors import Code, EntrepotError
from entrepot.protocols.wire.connection import (
    REQUEST_OVERHEAD,
    Answered,
    Cancelled,
    ClientConnection,
    Credited,
    ItemCame,
    Ponged,
    Refused,
    Requested,
    ServerConnection,
)
from entrepot.protocols.wire.frames import (
    HEADER_SIZE,
    MAX_PAYLOAD_BYTES,
    USUAL_MAX_PAYLOAD_BYTES,
    VERSION,
    FrameReader,
    Hello,
    RemotingError,
    frame,
)
from entrepot.protocols.wire.frames import FrameKind as Kind
from tests.support.cases import cases

WINDOW = 400
SIZES = st.integers(0, WINDOW + 200)
PICK = st.integers(0, 1000)


class Connections(RuleBasedStateMachine):
    """What each end was told is compared with what the other did."""

    def __init__(self) -> None:
        super().__init__()
        self.client = ClientConnection(Hello([VERSION], "tests"))
        self.server = ServerConnection("broker", WINDOW)
        self.to_server = bytearray()
        self.to_client = bytearray()
        self.asked: dict[int, bytes] = {}  # id -> payload, of what the client waits for
        self.order: list[int] = []  # ids in the order they were asked
        self.came: list[int] = []  # ids in the order they reached the server
        self.cancelled: set[int] = set()
        self.at_server: dict[int, bytes] = {}
        self.streams: set[int] = set()  # at the server, that have sent an item
        self.answers: dict[int, tuple[Code | None, bytes]] = {}
        self.items: dict[int, list[bytes]] = {}
        self.granted: dict[int, int] = {}
        self.credited: dict[int, int] = {}
        self.pings = self.pongs = 0

    # -- the client ----------------------------------------------------------------------------------------------

    @rule(size=SIZES)
    def request(self, size: int) -> None:
        payload = bytes([len(self.order) % 256]) * size
        id_ = self.client.request(7, payload, 5)
        assert id_ not in self.asked
        self.asked[id_] = payload
        self.order.append(id_)

    @precondition(lambda self: self.asked)
    @rule(at=PICK)
    def cancel(self, at: int) -> None:
        id_ = list(self.asked)[at % len(self.asked)]
        was_sent = self.client.was_sent(id_)
        assert self.client.cancel(id_) == was_sent
        assert not self.client.cancel(id_)
        del self.asked[id_]
        self.cancelled.add(id_)
        self.items.pop(id_, None)

    @precondition(lambda self: self.asked)
    @rule(at=PICK, size=st.integers(1, 1000))
    def grant(self, at: int, size: int) -> None:
        id_ = list(self.asked)[at % len(self.asked)]
        if self.client.was_sent(id_):
            self.client.grant(id_, size)
            self.granted[id_] = self.granted.get(id_, 0) + size

    @rule()
    def ping(self) -> None:
        if self.came:
            self.client.ping()
            self.pings += 1

    # -- the server ----------------------------------------------------------------------------------------------

    @precondition(lambda self: self.at_server)
    @rule(at=PICK, payload=st.binary(max_size=50), refused=st.booleans())
    def answer(self, at: int, payload: bytes, refused: bool) -> None:
        id_ = list(self.at_server)[at % len(self.at_server)]
        del self.at_server[id_]
        self.streams.discard(id_)
        if refused:
            self.server.refuse(id_, EntrepotError(Code.FORBIDDEN, payload.hex()))
        else:
            self.server.answer(id_, payload)
        self.server.answer(id_, b"again")  # passed over
        self.answers[id_] = (Code.FORBIDDEN, payload) if refused else (None, payload)

    @precondition(lambda self: self.at_server)
    @rule(at=PICK, payload=st.binary(max_size=50))
    def item(self, at: int, payload: bytes) -> None:
        id_ = list(self.at_server)[at % len(self.at_server)]
        self.server.item(id_, payload)
        self.streams.add(id_)
        if id_ not in self.cancelled:
            self.items.setdefault(id_, []).append(payload)

    # -- the bytes between them ----------------------------------------------------------------------------------

    @rule(size=st.integers(1, 2000))
    def carry_to_server(self, size: int) -> None:
        self.to_server += self.client.data_to_send()
        data = bytes(self.to_server[:size])
        del self.to_server[:size]
        for event in self.server.receive_data(data):
            if isinstance(event, Requested):
                assert event.operation == 7 and event.amount == 5
                self.came.append(event.id)
                self.at_server[event.id] = event.payload
                assert event.id in self.cancelled or self.asked[event.id] == event.payload
            elif isinstance(event, Cancelled):
                assert event.id in self.cancelled
                del self.at_server[event.id]
                self.streams.discard(event.id)
            elif isinstance(event, Credited):
                self.credited[event.id] = self.credited.get(event.id, 0) + event.size

    @rule(size=st.integers(1, 2000))
    def carry_to_client(self, size: int) -> None:
        self.to_client += self.server.data_to_send()
        data = bytes(self.to_client[:size])
        del self.to_client[:size]
        for event in self.client.receive_data(data):
            if isinstance(event, Answered):
                del self.asked[event.id]  # once, and not when it was cancelled
                assert self.answers[event.id] == (None, event.payload)
                assert not self.items.get(event.id)
            elif isinstance(event, Refused):
                del self.asked[event.id]
                assert self.answers[event.id] == (event.error.code, bytes.fromhex(event.error.message))
                assert not self.items.get(event.id)
            elif isinstance(event, ItemCame):
                assert event.id in self.asked
                assert self.items[event.id].pop(0) == event.payload
                assert event.size == HEADER_SIZE + len(event.payload)
            elif isinstance(event, Ponged):
                self.pongs += 1

    # -- what always holds ---------------------------------------------------------------------------------------

    @invariant()
    def requests_reach_the_server_in_order(self) -> None:
        there = set(self.came)
        assert self.came == [id_ for id_ in self.order if id_ in there]

    @invariant()
    def the_window_holds(self) -> None:
        waiting = [len(payload) for id_, payload in self.at_server.items() if id_ not in self.streams]
        total = sum(size + REQUEST_OVERHEAD for size in waiting)
        assert self.server._unanswered == total
        assert total <= WINDOW or len(waiting) == 1
        assert self.client._unanswered <= WINDOW or len(self.client._open) - len(self.client._held) >= 1

    @invariant()
    def nobody_owes(self) -> None:
        assert self.client._unanswered >= 0
        assert len(self.client._open) == len(self.asked)
        assert self.client.held_bytes == sum(size for _, size in self.client._held.values())
        for id_, total in self.credited.items():
            assert total <= self.granted[id_]

    def teardown(self) -> None:
        """Everything that is asked is answered in the end, and then nothing is left."""
        while self.asked or self.at_server or self.to_server or self.to_client or self.client._out or self.server._out:
            self.carry_to_server(1 << 20)
            while self.at_server:
                self.answer(0, b"", False)
            self.carry_to_client(1 << 20)
        assert self.client._unanswered == self.server._unanswered == self.client.held_bytes == 0
        assert not self.client._open and not self.server._open and not self.client.is_congested
        assert self.pings == self.pongs


TestConnections = Connections.TestCase


def greeted(window: int = WINDOW) -> tuple[ClientConnection, ServerConnection]:
    client, server = ClientConnection(Hello([VERSION], "tests")), ServerConnection("broker", window)
    server.receive_data(client.data_to_send())
    client.receive_data(server.data_to_send())
    return client, server


HOSTILE = {
    "an id that is in use": frame(Kind.REQUEST, 1, b"", operation=1) * 2,
    "no id": frame(Kind.REQUEST, 0, b"", operation=1),
    "beyond the window": frame(Kind.REQUEST, 1, bytes(WINDOW), operation=1) + frame(Kind.REQUEST, 2, b"", operation=1),
    "an answer": frame(Kind.ANSWER, 1),
    "an item": frame(Kind.ITEM, 1),
    "a pong": frame(Kind.PONG),
    "garbage": bytes(16),
}


@cases("data", HOSTILE.values(), ids=list(HOSTILE))
def test_a_hostile_client_is_told_why_it_goes(data: bytes):
    _, server = greeted()
    with pytest.raises(RemotingError):
        server.receive_data(data)
    *_, last = FrameReader(4096).read(server.data_to_send())
    assert last.kind == Kind.GOODBYE and last.payload


@cases("kind", [Kind.HELLO, Kind.WELCOME, Kind.REQUEST, Kind.CANCEL, Kind.CREDIT, Kind.PING])
def test_a_hostile_server_is_left(kind: Kind):
    client, _ = greeted()
    with pytest.raises(RemotingError):
        client.receive_data(frame(kind, 1))


@pytest.mark.parametrize("kind", [Kind.ANSWER, Kind.REFUSAL, Kind.ITEM])
def test_what_was_not_sent_cannot_be_answered(kind: Kind):
    client, _ = greeted()
    client.request(1, bytes(WINDOW))
    held = client.request(1, b"held")
    with pytest.raises(RemotingError, match="not sent"):
        client.receive_data(frame(kind, held))
    assert client._unanswered == WINDOW + REQUEST_OVERHEAD


def test_a_request_larger_than_the_window_goes_alone():
    client, server = greeted()
    large, small = client.request(1, bytes(10 * WINDOW)), client.request(1, b"")
    assert [event.id for event in map(requested, server.receive_data(client.data_to_send()))] == [large]
    server.answer(large, b"")
    client.receive_data(server.data_to_send())
    assert [event.id for event in map(requested, server.receive_data(client.data_to_send()))] == [small]


def test_what_is_held_behind_a_cancelled_one_goes_out():
    client, server = greeted()
    client.request(1, bytes(WINDOW // 2))
    held, small = client.request(1, bytes(WINDOW)), client.request(1, b"small")
    server.receive_data(client.data_to_send())
    assert not client.cancel(held)
    assert [event.id for event in map(requested, server.receive_data(client.data_to_send()))] == [small]


def test_ids_begin_anew_and_pass_over_those_in_use():
    client, _ = greeted(1 << 20)
    first = client.request(1, b"")
    client._last_id = 0xFFFFFFFE
    assert [client.request(1, b""), client.request(1, b"")] == [0xFFFFFFFF, first + 1]


def test_what_fits_no_frame_is_refused_and_the_connection_stays(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("entrepot.protocols.wire.connection.MAX_PAYLOAD_BYTES", 5000)
    client, server = greeted(1 << 20)
    with pytest.raises(EntrepotError) as refused:
        client.request(1, bytes(5001))
    assert refused.value.code == Code.MESSAGE_BODY_TOO_LARGE
    assert not client._open
    id_ = client.request(1, b"")
    server.receive_data(client.data_to_send())
    server.answer(id_, bytes(5001))
    [answer] = client.receive_data(server.data_to_send())
    assert isinstance(answer, Refused) and answer.error.code == Code.MESSAGE_BODY_TOO_LARGE


def test_each_end_is_sent_no_more_than_it_takes():
    """A peer of a version before large messages does not tell its limit."""
    client, server = greeted(1 << 30)
    large = bytes(USUAL_MAX_PAYLOAD_BYTES + 1)
    client.request(1, large)  # the server has told that it takes it
    [asked] = server.receive_data(client.data_to_send())
    assert isinstance(asked, Requested) and asked.payload == large
    server.answer(asked.id, large)
    [answer] = client.receive_data(server.data_to_send())
    assert isinstance(answer, Refused) and answer.error.code == Code.MESSAGE_BODY_TOO_LARGE
    old = ClientConnection(Hello([VERSION], "tests", max_payload_bytes=MAX_PAYLOAD_BYTES))
    old.receive_data(frame(Kind.WELCOME, 0, msgspec.msgpack.encode([VERSION, "broker", 1 << 30, ""])))
    with pytest.raises(EntrepotError, match="for one frame"):
        old.request(1, large)


def test_a_refusal_in_any_characters_is_sent():
    client, server = greeted()
    id_ = client.request(1, b"")
    server.receive_data(client.data_to_send())
    server.refuse(id_, EntrepotError(Code.BAD_REQUEST, "half \ud800"))
    [answer] = client.receive_data(server.data_to_send())
    assert isinstance(answer, Refused) and answer.error.message == "half \\ud800"


def requested(event: object) -> Requested:
    return cast("Requested", event)
