"""Incidents: counted all, kept the last, logged at a bounded rate."""

from __future__ import annotations

import io

from entrepot.domain.message import StoredMessage, place_of, place_of_message
from entrepot.domain.value_space import Rule, Unsaid
from entrepot.gateway.log import configure_logging
from entrepot.gateway.log_floods import BURST
from entrepot.gateway.messaging.incidents import MAX_KEPT, MAX_TEXT, UNSAID_EVERY_MS, Incidents, Outcome
from tests.support.clock import ManualClock


def test_all_are_counted_and_the_last_are_kept() -> None:
    clock = ManualClock()
    incidents = Incidents(clock)
    for number in range(MAX_KEPT + 5):
        incidents.note("mqtt", Outcome.SHORTENED, "x" * 1000, place=place_of("t", 0, number), count=2)
    incidents.note("amqp", Outcome.REFUSED, "too long", client="c")
    assert incidents.counts == {("mqtt", Outcome.SHORTENED): 2 * (MAX_KEPT + 5), ("amqp", Outcome.REFUSED): 1}
    assert len(incidents.last) == MAX_KEPT
    assert len(incidents.last[0].reason) == MAX_TEXT
    assert incidents.last[0].place == "t/0@6"
    assert (incidents.last[-1].part, incidents.last[-1].client, incidents.last[-1].at_ms) == (
        "amqp",
        "c",
        clock.now_ms(),
    )


def test_the_log_gets_a_burst_and_not_all() -> None:
    stream = io.StringIO()
    configure_logging("info", "json", stream)
    incidents = Incidents(ManualClock())
    for _ in range(BURST * 5):
        incidents.note("mqtt", Outcome.SET_ASIDE, "cannot be said", place="t/0@1")
    lines = [line for line in stream.getvalue().splitlines() if "cannot be said" in line]
    assert len(lines) == BURST
    assert '"place":"t/0@1"' in lines[0]


def test_one_odd_item_is_set_aside_and_the_others_are_encoded() -> None:
    incidents = Incidents(ManualClock())
    aside: list[StoredMessage] = []
    messages = [StoredMessage("t", b"%d" % number, queue_offset=number) for number in range(100)]

    def encode(message: StoredMessage) -> bytes:
        if message.queue_offset == 42:
            raise UnicodeError("no such word")
        return message.body

    found = incidents.encoded("door", messages, encode, lambda message: message, aside.append)
    assert found == [b"%d" % number for number in range(100) if number != 42]
    assert aside == [messages[42]]
    assert incidents.counts == {("door", Outcome.SET_ASIDE): 1}
    assert (incidents.last[0].place, incidents.last[0].reason) == ("t/-1@42", "UnicodeError: no such word")


def test_unsaid_values_are_counted_all_and_kept_once_a_second_of_each_kind() -> None:
    clock = ManualClock()
    incidents = Incidents(clock)
    message = StoredMessage("t", b"", queue_id=1, queue_offset=2)
    key = Unsaid("amqp", "routing key", Rule.SHORTENED)
    for _ in range(10):
        incidents.unsaid(message, key)
        incidents.unsaid(message, Unsaid("mqtt", "content type", Rule.LEFT_OUT, "n"))
    assert incidents.counts == {("amqp", Outcome.SHORTENED): 10, ("mqtt", Outcome.LEFT_OUT): 10}
    assert [each.reason for each in incidents.last] == ["routing key: shortened", "content type 'n': left-out"]
    assert {each.place for each in incidents.last} == {"t/1@2"}
    clock.advance(UNSAID_EVERY_MS)
    incidents.unsaid(message, key)
    assert len(incidents.last) == 3


def test_a_message_that_is_not_stored_has_its_topic_as_place() -> None:
    assert place_of_message(StoredMessage("t", b"", queue_id=1, queue_offset=2)) == "t/1@2"
