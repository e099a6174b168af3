"""The history of a gateway's clients: what is kept of it, and for how long."""

from __future__ import annotations

from typing import Any, cast

import pytest

from entrepot.gateway.mqtt.connections import history
from entrepot.gateway.mqtt.connections.client import MqttClient
from entrepot.gateway.mqtt.connections.history import CONNECTION_LOST, MAX_DENIALS, ClientHistory
from entrepot.gateway.mqtt.connections.told_words import EventKind
from entrepot.protocols.mqtt.connection import ServerConnection
from entrepot.protocols.mqtt.connection_events import Closing, ConnectionLimits
from entrepot.protocols.mqtt.packets import Connect
from entrepot.protocols.mqtt.reason_codes import ReasonCode


class Clock:
    """Time that stands still until it is moved."""

    def __init__(self) -> None:
        self.ms = 1000

    def now_ms(self) -> int:
        return self.ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def kept(clock: Clock) -> ClientHistory:
    return ClientHistory(cast(Any, clock))


def client(name: str) -> MqttClient:
    made = MqttClient(ServerConnection(ConnectionLimits(), 0.0), lambda *_: None)
    made.client_id, made.peer = name, "192.0.2.1:7"
    return made


def told(kept: ClientHistory, name: str) -> list[tuple[EventKind, str]]:
    return [(event.kind, event.reason) for event in kept.of(name, 100)]


def test_a_life_is_told_newest_first(kept: ClientHistory, clock: Clock) -> None:
    one, other = client("one"), client("other")
    kept.connected(other, is_session_present=False)
    kept.denied(other, "a", "no", ReasonCode.NOT_AUTHORIZED)
    assert [kind for kind, _ in told(kept, "other")] == [EventKind.DENIED, EventKind.CONNECTED], "in one millisecond"
    ends = (
        (Closing(ReasonCode.NORMAL_DISCONNECTION, "the client disconnected", is_clients=True), False),
        (Closing(ReasonCode.UNSPECIFIED_ERROR, CONNECTION_LOST, is_clients=True), False),
        (Closing(ReasonCode.UNSPECIFIED_ERROR, "the client disconnected", is_clients=True), False),
        (Closing(ReasonCode.KEEP_ALIVE_TIMEOUT, "nothing was heard for too long"), False),
        (Closing(ReasonCode.SESSION_TAKEN_OVER, "another connection took this client id"), True),
    )
    for closing, is_taken in ends:
        clock.ms += 1
        kept.connected(one, is_session_present=True)
        clock.ms += 1
        kept.ended(one, closing, is_taken=is_taken)
    kinds = [kind for kind, _ in told(kept, "one") if kind is not EventKind.CONNECTED]
    assert kinds == [
        EventKind.TAKEN_OVER, EventKind.CLOSED, EventKind.DISCONNECTED, EventKind.LOST, EventKind.DISCONNECTED,
    ]  # fmt: skip
    times = [event.at_ms for event in kept.of("one", 100)]
    assert times == sorted(times, reverse=True)
    assert [event.at_ms for event in kept.of("one", 2)] == times[:2]


def test_refused_connects_push_out_no_accepted_client(
    kept: ClientHistory, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "MAX_EVENTS", 5)
    kept.connected(client("mine"), is_session_present=False)
    for number in range(20):
        clock.ms += 1
        stranger = Connect(f"stranger-{number}", 5, username="eve")
        kept.refused(client(""), stranger, ReasonCode.NOT_AUTHORIZED, "the user or the password is wrong")
    assert told(kept, "mine") == [(EventKind.CONNECTED, "")]
    assert told(kept, "stranger-0") == []
    [last] = kept.of("stranger-19", 9)
    assert (last.kind, last.reason, last.user) == (EventKind.REFUSED, "NOT_AUTHORIZED", "eve")
    assert kept.since_ms() == 1000 + 15, "what came before is not all here"


def test_the_bytes_are_bounded(kept: ClientHistory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MAX_RING_BYTES", 100_000)
    for number in range(200):
        kept.connected(client(f"{number:03d}" + "x" * 1000), is_session_present=False)
    there = [number for number in range(200) if kept.of(f"{number:03d}" + "x" * 1000, 1)]
    assert there == list(range(200 - len(there), 200))
    assert 20 < len(there) < 100


def test_repeated_denials_are_counted(kept: ClientHistory, clock: Clock) -> None:
    one = client("one")
    for _ in range(1000):
        clock.ms += 1
        kept.denied(one, "secret/x", "not authorized to publish", ReasonCode.NOT_AUTHORIZED)
    [event] = kept.of("one", 100)
    assert (event.kind, event.count, event.at_ms, event.last_ms) == (EventKind.DENIED, 1000, 1001, 2000)
    assert event.text == "secret/x: not authorized to publish"
    for number in range(100):
        kept.denied(one, f"secret/{number}", "not authorized to publish", ReasonCode.NOT_AUTHORIZED)
    assert len(kept.of("one", 1000)) == MAX_DENIALS
    assert len(cast(Any, one.denials)) == MAX_DENIALS


def test_names_are_cut(kept: ClientHistory) -> None:
    connect = Connect("c" * 60_000, 5, username="u" * 60_000)
    kept.refused(client(""), connect, ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, "t" * 60_000)
    [event] = kept.of("c" * 60_000, 9)
    assert len(event.user) == len(event.text) == history.MAX_TEXT
