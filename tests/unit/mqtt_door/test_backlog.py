"""What waits for one client: its order, its limits, and where a session would read on."""

from __future__ import annotations

from entrepot.domain.message import StoredMessage
from entrepot.gateway.mqtt.connections.backlog import Backlog, Waiting
from entrepot.protocols.mqtt.encoder import publish_template


def waiting(offset: int, *, qos: int = 1, replay: str = "", is_stored: bool = True, size: int = 0) -> Waiting:
    message = StoredMessage("t", b"x" * size, "t/x", queue_id=0, queue_offset=offset, qos=qos)
    template = publish_template("t/x", message.body, qos)
    return Waiting(template, message, replay, is_stored, (), False)


def taken(backlog: Backlog) -> list[int]:
    found = []
    while backlog.first is not None:
        found.append(backlog.take().message.queue_offset)
    return found


def test_live_ones_wait_behind_retained_ones() -> None:
    backlog = Backlog()
    backlog.add(waiting(1))
    backlog.hold_back()
    backlog.add(waiting(2))
    backlog.add_retained(waiting(10))
    backlog.hold_back()
    backlog.add(waiting(3))
    assert (len(backlog), backlog.is_holding) == (4, True)
    assert taken(backlog) == [1, 10]
    assert (len(backlog), backlog.first) == (2, None)
    backlog.let_go()
    backlog.add(waiting(4))
    assert (backlog.is_holding, taken(backlog), len(backlog), backlog.size_bytes) == (False, [2, 3, 4], 0, 0)
    backlog.let_go()
    assert len(backlog) == 0


def test_the_limits_are_of_all_that_wait() -> None:
    backlog = Backlog()
    assert backlog.has_room(1, 10, 1000), "the first one of any size"
    assert not backlog.has_room(0, 10, 1)
    backlog.add(waiting(1, size=100))
    backlog.hold_back()
    backlog.add(waiting(2, size=100))
    size = backlog.size_bytes
    assert size == 2 * waiting(1, size=100).template.size
    assert [backlog.has_room(most, size + 1, 1) for most in (1, 2, 3)] == [False, False, True]
    assert [backlog.has_room(3, size + 1, more) for more in (1, 2)] == [True, False]


def test_a_session_reads_on_at_the_first_that_waits() -> None:
    backlog = Backlog()
    backlog.add_retained(waiting(1, is_stored=False))
    backlog.add(waiting(2, qos=0))
    backlog.add(waiting(3, replay="$replay/earliest/t"))
    backlog.hold_back()
    backlog.add(waiting(4))
    backlog.add(waiting(5))
    assert backlog.first_offsets("") == {("t", 0): 4}
    assert backlog.first_offsets("$replay/earliest/t") == {("t", 0): 3}
    assert backlog.first_offsets("other") == {}
