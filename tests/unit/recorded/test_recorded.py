"""Doors that take what they send out of a record send what they would make of its message."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from entrepot.broker.store.record import RecordKind, encode_message
from entrepot.domain.message import Message, SystemProperty, is_over
from entrepot.protocols.amqp import recorded as amqp
from entrepot.protocols.amqp.connection_events import Publish
from entrepot.protocols.amqp.consumed import template_of
from entrepot.protocols.amqp.content import ContentHeader
from entrepot.protocols.amqp.mapping import to_message
from entrepot.protocols.cloudevents.event import CloudEvent
from entrepot.protocols.cloudevents.json_format import encode_event
from entrepot.protocols.cloudevents.mapping import to_event
from entrepot.protocols.cloudevents.mapping import to_message as message_of_event
from entrepot.protocols.cloudevents.recorded import event_json_of
from entrepot.protocols.mqtt import recorded as mqtt
from entrepot.protocols.mqtt.encoder import publish_template
from entrepot.protocols.wire.record_run import RecordRun
from entrepot.protocols.wire.stored_record import decode_message
from tests.unit.cloudevents.strategies import events

TEXT = st.text(max_size=20)
NAMES = st.text(min_size=1, max_size=30)
PROPERTIES = st.lists(st.tuples(TEXT, TEXT | st.binary(max_size=9)), max_size=3).map(tuple)
SYSTEMS = st.fixed_dictionaries(
    {},
    optional={
        SystemProperty.PROTOCOL: st.sampled_from(["http", "mqtt"]),
        SystemProperty.CONTENT_TYPE: st.sampled_from(["application/json", "text/plain", ""]),
        SystemProperty.EXPIRES_AT_MS: st.integers(0, 20_000),
        SystemProperty.DEAD_LETTER_TOPIC: st.just("t"),
        SystemProperty.RETRY_TOPIC: st.just("t"),
        SystemProperty.AMQP: st.just(b"\x02ex\x03key\0\0"),
    },
)
MESSAGES = st.builds(
    Message,
    NAMES,
    st.binary(max_size=40) | st.just(b'{"a":1}'),
    st.just("") | NAMES,
    st.just(0),
    st.integers(0, 2),
    tag=TEXT,
    keys=st.lists(NAMES, max_size=2).map(tuple),
    message_group=TEXT,
    message_id=st.binary(max_size=16),
    born_time_ms=st.integers(0, 20_000),
    properties=PROPERTIES,
    system=SYSTEMS,
)


def record_of(message: Message) -> bytes:
    return b"".join(encode_message(replace(message, queue_id=0), RecordKind.MESSAGE, 4_096, 0, 7, 3))


def run() -> RecordRun:
    return RecordRun(0, b"epoch", 1, 3, 1, 1, "head")


@given(MESSAGES, st.integers(0, 30_000), st.none() | st.integers(0, 30_000))
def test_what_is_decided_is_the_messages(message: Message, now_ms: int, lifetime_ms: int | None):
    record = record_of(message)
    decoded = decode_message(record, 0, 4_096)
    assert run().size(record) == len(decoded.body)
    assert run().is_over(0, record, now_ms, lifetime_ms) == is_over(decoded, now_ms, lifetime_ms)


# -- AMQP --------------------------------------------------------------------------------------------------------------


@given(MESSAGES)
def test_amqp_frames_of_any_message(message: Message):
    record = record_of(message)
    found = amqp.template_of_record(record)
    if SystemProperty.AMQP not in message.system:
        assert found is None
    else:
        expected = template_of(decode_message(record, 0, 4_096))
        assert found is not None
        assert found.frames(1, 4_096) == expected.frames(1, 4_096)
        assert (found.route_end, found.body) == (expected.route_end, expected.body)


HEADERS = st.builds(
    ContentHeader.of,
    content_type=st.none() | TEXT,
    headers=st.none() | st.dictionaries(TEXT, TEXT | st.integers(0, 9), min_size=1, max_size=2),
    priority=st.none() | st.integers(0, 9),
    correlation_id=st.none() | TEXT,
)


@given(st.lists(st.tuples(TEXT, TEXT, HEADERS, st.binary(max_size=30)), min_size=1, max_size=4))
def test_amqp_frames_of_what_was_published(published: list[tuple[str, str, ContentHeader, bytes]]):
    for exchange, key, header, body in published * 2:  # once more, as it is kept
        message = to_message(Publish(exchange, key, False, header, body), (("t", 0),), "t/x", 5, 1000)
        record = record_of(message)
        found = amqp.template_of_record(record)
        assert found is not None
        assert (found.properties, found.body) == (header.data, body)
        assert found.route_end == template_of(decode_message(record, 0, 4_096)).route_end


def test_what_is_kept_of_amqp_is_limited(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(amqp, "KEPT_ENTRIES", 3)
    amqp._kept.clear()
    for number in range(10):
        message = to_message(Publish("", f"q{number}", False, ContentHeader(), b"x"), (("t", 0),), "t", 5, 1000)
        assert amqp.template_of_record(record_of(message)) is not None
        assert 0 < len(amqp._kept) <= 3
    amqp._kept.clear()
    header = ContentHeader.of(headers={"long": "x" * amqp.KEPT_BYTES})
    message = to_message(Publish("", "q", False, header, b"x"), (("t", 0),), "t", 5, 1000)
    assert amqp.template_of_record(record_of(message)) is not None
    assert not amqp._kept


# -- MQTT --------------------------------------------------------------------------------------------------------------


@given(MESSAGES, st.integers(0, 2), st.sampled_from([4, 5]))
def test_mqtt_packets(message: Message, most_qos: int, version: int):
    found = mqtt.template_of_record(record_of(message), most_qos, version)
    name = message.sub_topic or message.topic
    assume("\0" not in name)  # MQTT has no such name (4.7.3)
    if message.properties or message.system:
        assert found is None
        return
    expected = publish_template(name, message.body, min(message.qos, most_qos), version=version)
    assert found is not None
    assert (found.qos, found.size, found.topic) == (expected.qos, expected.size, expected.topic)
    assert (found.packet(7), found.packet_again(7)) == (expected.packet(7), expected.packet_again(7))


def test_what_is_kept_of_mqtt_is_limited(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mqtt, "KEPT_HEADS", 3)
    mqtt._heads.clear()
    for number in range(10):
        assert mqtt.template_of_record(record_of(Message("t", b"x", f"t/{number}", 0, 1)), 1, 4) is not None
        assert 0 < len(mqtt._heads) <= 3
    mqtt._heads.clear()
    long = "t/" + "x" * mqtt.KEPT_NAME_BYTES
    assert mqtt.template_of_record(record_of(Message("t", b"x", long, 0, 1)), 1, 4) is not None
    assert not mqtt._heads


# -- CloudEvents -------------------------------------------------------------------------------------------------------


@given(events(), st.booleans())
def test_the_json_of_an_event(event: CloudEvent, is_implied: bool):
    if is_implied and "datacontenttype" not in event.attributes:
        event.data, event.implied_json = b'{"a": 1}', True
    message: Any = message_of_event(event, "t")
    record = record_of(message)
    found = event_json_of(record)
    if found is not None:
        assert found == encode_event(to_event(decode_message(record, 0, 4_096)))


@given(MESSAGES)
def test_the_json_of_any_message(message: Message):
    record = record_of(message)
    found = event_json_of(record)
    if found is not None:
        assert message.system.get(SystemProperty.PROTOCOL) == "http"


def test_usual_events_take_the_short_way():
    attributes = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "subject": "line1/temp"}
    usual = [
        CloudEvent({**attributes, "datacontenttype": "application/json"}, b'{"a":1}'),
        CloudEvent({**attributes, "colour": "red"}, b'{"a":1}', implied_json=True),
        CloudEvent(attributes, None),
    ]
    for event in usual:
        found = event_json_of(record_of(message_of_event(event, "t")))
        assert found is not None
        assert found == encode_event(event)
