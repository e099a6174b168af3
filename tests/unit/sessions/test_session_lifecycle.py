"""What becomes of a session and its will, by the table of the specification."""

from __future__ import annotations

from entrepot.gateway.mqtt.sessions.lifecycle import depart, is_over, will_at_takeover
from entrepot.gateway.mqtt.sessions.record import NEVER_EXPIRES, SessionRecord, WillRecord
from tests.support.cases import cases

NOW = 1_000_000


def record_of(expiry: int = 0, delay: int | None = None, owner: str = "g") -> SessionRecord:
    will = None if delay is None else WillRecord("t", b"", 1, False, {}, delay)
    return SessionRecord("c", 1, owner, 5, "", expiry, 0, will=will)


@cases(
    "expiry, delay, keeps_will, is_published, will_in, expires_in",
    [
        (0, 0, True, True, 0, 0),
        (0, 30, True, True, 0, 0),
        (0, 0, False, False, 0, 0),
        (60, 0, True, True, 0, 60),
        (60, 30, True, False, 30, 60),
        (60, 90, True, False, 60, 60),
        (60, 30, False, False, 0, 60),
        (60, None, True, False, 0, 60),
        (NEVER_EXPIRES, 30, True, False, 30, None),
        (NEVER_EXPIRES, None, True, False, 0, None),
    ],
)
def test_a_connection_ends(
    expiry: int, delay: int | None, keeps_will: bool, is_published: bool, will_in: int, expires_in: int | None
) -> None:
    record = record_of(expiry, delay)
    will = depart(record, NOW, keeps_will=keeps_will)
    assert (will is not None) is is_published
    assert record.owner == "" and record.disconnected_at_ms == NOW
    assert record.will_at_ms == (NOW + will_in * 1000 if will_in else 0)
    assert (record.will is not None) is bool(will_in), "a will that is out, or was dropped, never comes again"
    assert record.expires_at_ms == (0 if expires_in is None else NOW + expires_in * 1000)


@cases(
    "delay, owner, is_resumed, is_published",
    [
        (None, "g", True, False),
        (None, "g", False, False),
        (0, "g", True, True),
        (30, "g", True, False),
        (0, "g", False, True),
        (30, "g", False, True),
        (30, "", True, False),
        (30, "", False, True),
    ],
)
def test_another_connection_begins(delay: int | None, owner: str, is_resumed: bool, is_published: bool) -> None:
    will = will_at_takeover(record_of(60, delay, owner), is_resumed=is_resumed)
    assert (will is not None) is is_published


def test_a_session_is_over_when_it_has_lasted() -> None:
    record = record_of(60)
    assert not is_over(record, NOW * 1000)
    depart(record, NOW, keeps_will=False)
    assert not is_over(record, NOW + 59_999)
    assert is_over(record, NOW + 60_000)
    for_ever = record_of(NEVER_EXPIRES)
    depart(for_ever, NOW, keeps_will=False)
    assert not is_over(for_ever, 2**60)
