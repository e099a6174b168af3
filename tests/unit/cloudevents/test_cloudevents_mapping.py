"""Events as messages, messages as events: every message is a valid event, and the body is the same bytes."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.message import Message, StoredMessage, SystemProperty
from entrepot.domain.names import MAX_SUB_TOPIC_BYTES
from entrepot.domain.routing.queue_selector import priority_queues
from entrepot.domain.routing.topic_filter import MAX_LEVELS, is_valid_name, matches
from entrepot.domain.topic import own_queues
from entrepot.protocols.cloudevents import http
from entrepot.protocols.cloudevents.errors import CloudEventError
from entrepot.protocols.cloudevents.event import (
    MAX_ATTRIBUTE_VALUE_BYTES,
    MAX_ATTRIBUTES,
    CloudEvent,
    ExtensionType,
    check_attributes,
)
from entrepot.protocols.cloudevents.json_format import decode_event, encode_event
from entrepot.protocols.cloudevents.mapping import (
    DEAD_LETTER_EXTENSIONS,
    DEFAULT_TYPE,
    TYPES_PROPERTY,
    sub_topic_of,
    to_event,
    to_message,
)
from tests.support.cases import cases
from tests.unit.cloudevents.strategies import events

REQUIRED = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
BORN = 1_775_410_260_123
BODIES = [b'{"a": 1.0, "a": 2}', "text é\n".encode(), b"\x00\xff\xfe", b""]


def stored(message: Message, **more: Any) -> StoredMessage:
    fields = {name: getattr(message, name) for name in Message.__dataclass_fields__}
    return StoredMessage(**{**fields, **more})


def foreign(body: bytes = b"x", topic: str = "factory", **fields: Any) -> StoredMessage:
    """A message of another door."""
    fields = {"sub_topic": topic, "message_id": bytes(range(16)), "born_time_ms": BORN, **fields}
    return StoredMessage(topic, body, **fields)


def check_valid(event: CloudEvent) -> CloudEvent:
    """The event passes our rules, and both encodings of it are read back as it is."""
    check_attributes(event.attributes)
    assert decode_event(encode_event(event)).attributes == event.attributes
    assert http.from_binary(*http.to_binary(event)).attributes.keys() >= event.attributes.keys()
    return event


def test_where_each_part_of_an_event_goes() -> None:
    event = CloudEvent(
        {
            **REQUIRED,
            "subject": "line1/temp",
            "datacontenttype": "application/json",
            "partitionkey": "press-7",
            "count": "5",
            "flag": "true",
        },
        b"{}",
        {"count": ExtensionType.INTEGER, "flag": ExtensionType.BOOLEAN},
    )
    assert to_message(event, "factory") == Message(
        topic="factory",
        body=b"{}",
        sub_topic="factory/line1/temp",
        keys=("1",),
        message_group="press-7",
        properties=(
            ("ce_specversion", "1.0"),
            ("ce_id", "1"),
            ("ce_source", "/s"),
            ("ce_type", "t"),
            ("ce_subject", "line1/temp"),
            ("ce_partitionkey", "press-7"),
            ("ce_count", "5"),
            ("ce_flag", "true"),
        ),
        system={"protocol": "http", "content_type": "application/json", TYPES_PROPERTY: "count:i flag:b"},
    )


def test_an_event_without_options() -> None:
    message = to_message(CloudEvent(dict(REQUIRED)), "factory")
    assert (message.sub_topic, message.body, message.message_group) == ("factory", b"", "")
    assert message.system == {"protocol": "http"}
    assert to_event(stored(message)) == CloudEvent(dict(REQUIRED))


@given(events())
def test_event_to_message_and_back(event: CloudEvent) -> None:
    back = to_event(stored(to_message(event, "factory"), message_id=b"x" * 16, born_time_ms=BORN))
    assert back == event
    assert [n for n in back.attributes if n != "datacontenttype"] == [
        n for n in event.attributes if n != "datacontenttype"
    ]


@cases("body", BODIES)
@cases("content_type", [None, "application/json", "text/plain", "image/png"])
def test_bodies_are_the_same_bytes_by_every_mode(body: bytes, content_type: str | None) -> None:
    attributes = REQUIRED if content_type is None else {**REQUIRED, "datacontenttype": content_type}
    event = CloudEvent(dict(attributes), body or None)
    by_binary = http.from_binary(*http.to_binary(event))
    by_structured = http.from_structured(http.to_structured(event)[1])
    [by_batch] = http.from_batch(http.to_batch([event])[1])
    for read in (by_binary, by_structured, by_batch):
        message = to_message(read, "factory")
        assert message.body == body
        again = to_event(stored(message))
        assert again.data == (body or None)
        assert again.datacontenttype == content_type


def test_json_without_a_content_type_is_json_at_other_doors_and_stays_unlabelled() -> None:
    event = decode_event(json.dumps({**REQUIRED, "count": 5, "data": [1]}).encode())
    message = to_message(event, "factory")
    assert message.system["content_type"] == "application/json"
    assert message.system[TYPES_PROPERTY] == "count:i datacontenttype:implied"
    back = to_event(stored(message))
    assert back == event
    assert "datacontenttype" not in json.loads(encode_event(back))


@cases(
    "subject, sub_topic",
    [
        ("line1/temp", "t/line1/temp"),
        ("a+b", "t/a%2Bb"),
        ("#", "t/%23"),
        ("50%", "t/50%"),
        ("/", "t//"),
        ("é", "t/é"),
        ("\0", "t/%00"),
    ],
)
def test_sub_topics_are_mqtt_topic_names(subject: str, sub_topic: str) -> None:
    assert sub_topic_of("t", subject) == sub_topic
    assert is_valid_name(sub_topic)
    assert matches("t/#", sub_topic)


def test_limits_of_sub_topics() -> None:
    deepest = "/".join("x" * (MAX_LEVELS - 1))
    assert is_valid_name(sub_topic_of("t", deepest))
    with pytest.raises(CloudEventError, match=f"more than {MAX_LEVELS} levels") as caught:
        sub_topic_of("t", deepest + "/x")
    assert caught.value.attribute == "subject"
    assert len(sub_topic_of("t", "x" * (MAX_SUB_TOPIC_BYTES - 2)).encode()) == MAX_SUB_TOPIC_BYTES
    for long in ("x" * (MAX_SUB_TOPIC_BYTES - 1), "+" * 21_845, "€" * 21_845):
        with pytest.raises(CloudEventError, match=f"longer than {MAX_SUB_TOPIC_BYTES} bytes"):
            sub_topic_of("t", long)


def test_the_subject_is_kept_as_it_was() -> None:
    message = to_message(CloudEvent({**REQUIRED, "subject": "a+b/#"}), "t")
    assert message.sub_topic == "t/a%2Bb/%23"
    assert to_event(stored(message)).subject == "a+b/#"


def test_another_doors_message_is_an_event() -> None:
    message = foreign(
        b'{"v": 21.50}',
        sub_topic="factory/line1/temp",
        message_group="g",
        properties=(("Unit", "C"), ("unit", "F"), ("raw", b"\x00\x01"), ("my-key", "lost"), ("id", "lost")),
        system={"protocol": "mqtt", "content_type": "application/json"},
    )
    assert to_event(message, "plant") == CloudEvent(
        {
            "specversion": "1.0",
            "id": "000102030405060708090A0B0C0D0E0F",
            "source": "/plant/factory",
            "type": "dev.entrepot.message",
            "time": "2026-04-05T17:31:00.123Z",
            "subject": "line1/temp",
            "partitionkey": "g",
            "datacontenttype": "application/json",
            "unit": "C",
            "raw": base64.b64encode(b"\x00\x01").decode(),
        },
        b'{"v": 21.50}',
    )
    assert to_event(message, default_type="my.type").type == "my.type"


def test_a_message_of_a_namespace() -> None:
    event = to_event(foreign(topic="team/factory", sub_topic="factory/line1"))
    assert (event.source, event.subject) == ("/team/factory", "line1")
    assert to_event(foreign(topic="team/factory", sub_topic="factory")).subject is None


@cases(
    "written, deliver_at_ms",
    [
        ("2026-04-05T17:31:00.123Z", 1775410260123),
        ("2026-04-05t19:31:00.1239+02:00", 1775410260123),
        ("1960-01-01T00:00:00Z", 0),
    ],
)
def test_a_delivery_time_there_and_back(written: str, deliver_at_ms: int) -> None:
    message = to_message(CloudEvent({**REQUIRED, "deliverytime": written}), "factory")
    assert message.system[SystemProperty.DELIVER_AT_MS] == deliver_at_ms
    assert check_valid(to_event(stored(message))).attributes["deliverytime"] == written
    changed = stored(message, system={SystemProperty.DELIVER_AT_MS: 1775410260124})
    assert check_valid(to_event(changed)).attributes["deliverytime"] == "2026-04-05T17:31:00.124Z"


@cases("written", ["", "5", "soon", "2026-04-05", "2026-04-05T17:31:00", "2026-02-29T17:31:00Z"])
def test_what_is_no_delivery_time(written: str) -> None:
    with pytest.raises(CloudEventError) as refused:
        to_message(CloudEvent({**REQUIRED, "deliverytime": written}), "factory")
    assert refused.value.attribute == "deliverytime"


@cases(
    "system, time",
    [
        ({SystemProperty.DELIVER_AT_MS: BORN}, "2026-04-05T17:31:00.123Z"),
        ({SystemProperty.DELIVER_AT_MS: 0}, "1970-01-01T00:00:00.000Z"),
        ({SystemProperty.DELIVER_AT_MS: 10**15 - 1}, None),
        ({SystemProperty.DELIVER_AT_MS: "9" * 5000}, None),
        ({SystemProperty.DELIVER_AT_MS: "soon"}, None),
        ({}, None),
    ],
)
def test_delivery_time_of_another_doors_message(system: dict[str, Any], time: str | None) -> None:
    message = foreign(system=system, properties=(("deliverytime", "mine"),))
    assert check_valid(to_event(message)).attributes.get("deliverytime") == time


@cases(
    "topic, sub_topic, subject",
    [
        ("factory", "factory", None),
        ("factory", "", None),
        ("factory", "factory/", None),
        ("factory", "factory//", "/"),
        ("factory", "factory/a", "a"),
        ("factory", "factory/factory", "factory"),
        ("mqtt", "$odd/name", "$odd/name"),
        ("factory", "factory/a\tb\x7f", "a%09b%7F"),
        ("factory", "factory/\ufdd0", "%EF%B7%90"),
    ],
)
def test_subject_of_another_doors_message(topic: str, sub_topic: str, subject: str | None) -> None:
    assert check_valid(to_event(foreign(topic=topic, sub_topic=sub_topic))).subject == subject


@cases(
    "body, system, content_type",
    [
        (b'{"a": 1}', {}, "application/json"),
        (b"21.5", {}, "application/json"),
        (b"on", {}, "text/plain"),
        ("é\r\n".encode(), {}, "text/plain"),
        (b"\x01\x02", {}, "application/octet-stream"),
        (b"\xff", {}, "application/octet-stream"),
        (b"\x01", {SystemProperty.PAYLOAD_IS_TEXT: "1"}, "text/plain"),
        (b"", {}, None),
        (b"{}", {SystemProperty.CONTENT_TYPE: "text/csv"}, "text/csv"),
        (b"{}", {SystemProperty.CONTENT_TYPE: b"text/csv"}, "text/csv"),
        (b"x", {SystemProperty.CONTENT_TYPE: "not a type"}, "text/plain"),
    ],
)
def test_content_type_of_another_doors_message(body: bytes, system: dict[str, Any], content_type: str | None) -> None:
    event = check_valid(to_event(foreign(body, system=system)))
    assert event.datacontenttype == content_type
    assert event.data == (body or None)


@cases(
    "born, time",
    [
        (0, None),
        (1, "1970-01-01T00:00:00.001Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (10**18, None),
        (-(10**18), None),
        (BORN, "2026-04-05T17:31:00.123Z"),
    ],
)
def test_time_of_another_doors_message(born: int, time: str | None) -> None:
    assert check_valid(to_event(foreign(born_time_ms=born))).attributes.get("time") == time


def test_a_message_without_an_id_has_its_place_for_one() -> None:
    assert to_event(foreign(message_id=b"", queue_id=2, queue_offset=7)).id == "2-7"


def test_the_source_is_a_uri_reference() -> None:
    assert to_event(foreign(topic="%DLQ%g|1")).source == "/default/%25DLQ%25g%7C1"


def test_half_an_event_from_another_door_is_mended() -> None:
    message = foreign(
        b"x",
        properties=(
            ("ce_id", "7"),
            ("ce_source", ""),
            ("ce_time", "now"),
            ("ce_ext", "kept"),
            ("ce_ext", "second"),
            ("ce_my-ext", "lost"),
            ("ce_bad", "a\nb"),
            ("ce_type", b"bytes"),
            ("more", "too"),
        ),
        system={"content_type": "not a type"},
    )
    assert check_valid(to_event(message)).attributes == {
        "specversion": "1.0",
        "id": "7",
        "source": "/default/factory",
        "type": DEFAULT_TYPE,
        "ext": "kept",
        "more": "too",
    }


def test_limit_of_extensions_from_properties() -> None:
    for prefix in ("", "ce_"):
        properties = tuple((f"{prefix}p{i}", "v") for i in range(300))
        for more in ((), (("ce_id", "1"),)):
            event = check_valid(to_event(foreign(properties=properties + more)))
            assert len(event.attributes) == MAX_ATTRIBUTES
    too_long = "x" * (MAX_ATTRIBUTE_VALUE_BYTES + 1)
    assert "long" not in to_event(foreign(properties=(("long", too_long),))).attributes
    assert "long" in to_event(foreign(properties=(("long", too_long[1:]),))).attributes


def test_a_dead_letter_tells_where_it_came_from() -> None:
    system = {
        SystemProperty.DEAD_LETTER_TOPIC: "factory",
        SystemProperty.DEAD_LETTER_QUEUE_OFFSET: str(2**40),
        SystemProperty.DEAD_LETTER_MESSAGE_ID: bytes(range(16)),
        SystemProperty.DEAD_LETTER_REASON: "max attempts",
        SystemProperty.DEAD_LETTER_ATTEMPTS: "16",
    }
    expected = {
        "deadlettertopic": "factory",
        "deadletteroffset": str(2**40),
        "deadlettermessageid": "000102030405060708090A0B0C0D0E0F",
        "deadletterreason": "max attempts",
        "deadletterattempts": "16",
    }
    assert set(expected) == set(DEAD_LETTER_EXTENSIONS.values())
    sent = to_message(CloudEvent({**REQUIRED, "deadlettertopic": "mine", "deadletterattempts": "x"}, b"1"), "factory")
    for message in (
        foreign(b"1", system=system, properties=(("deadlettertopic", "mine"),)),
        stored(sent, topic="%DLQ%g", system={**sent.system, **system}),
    ):
        event = check_valid(to_event(message))
        assert event.attributes | expected == event.attributes
        assert json.loads(encode_event(event))["deadletterattempts"] == 16
    assert "deadlettertopic" not in to_event(foreign(properties=(("deadlettertopic", "mine"),))).attributes


@cases("value", ["", "1.5", "--1", "2147483648", "9" * 5000, "²", "TRUE"])
def test_a_type_that_a_value_is_not_of_is_forgotten(value: str) -> None:
    properties = (*((f"ce_{name}", each) for name, each in REQUIRED.items()), ("ce_x", value))
    for mark in ("x:i", "x:b", "y:i", "x", "", ":", "x:z x:i"):
        event = to_event(foreign(properties=properties, system={TYPES_PROPERTY: mark}))
        assert event.typed_extensions == {}
        assert event.attributes["x"] == value


texts = st.text(max_size=20)
property_names = texts | st.sampled_from([f"ce_{name}" for name in (*REQUIRED, "subject", "time", "data", "x")])
system_values = texts | st.binary(max_size=20)
system_names = st.sampled_from([v for k, v in vars(SystemProperty).items() if k.isupper()] + [TYPES_PROPERTY])


@given(
    st.builds(
        foreign,
        st.binary(max_size=30) | st.sampled_from(BODIES),
        sub_topic=texts,
        message_group=texts,
        message_id=st.binary(max_size=16),
        born_time_ms=st.integers(-(2**63), 2**63 - 1),
        properties=st.lists(st.tuples(property_names, system_values), max_size=8).map(tuple),
        system=st.dictionaries(system_names, system_values, max_size=4),
    )
)
def test_every_message_is_a_valid_event(message: StoredMessage) -> None:
    event = check_valid(to_event(message))
    assert (event.data or b"") == message.body
    assert http.to_binary(event)[1] == message.body


def test_a_number_that_json_says_otherwise_is_a_text() -> None:
    for written, kind in (("7", ExtensionType.INTEGER), ("07", None), ("-0", None)):
        system = {SystemProperty.DEAD_LETTER_TOPIC: "t", SystemProperty.DEAD_LETTER_ATTEMPTS: written}
        event = check_valid(to_event(foreign(b"", message_id=b"1", system=system)))
        assert event.typed_extensions.get("deadletterattempts") is kind


@cases("written, queue", [("0", 0), ("2", 2), ("9", 3), ("12345678901", 0), ("-1", 0), ("high", 0)])
def test_a_priority_is_the_queue_of_a_priority_topic(written: str, queue: int) -> None:
    attributes = {"id": "1", "source": "s", "type": "t", "priority": written}
    assert priority_queues(to_message(CloudEvent(attributes, b""), "t"), own_queues(4, 4)) == [queue]


def test_another_doors_message_that_holds_an_event_is_that_event() -> None:
    written = CloudEvent({**REQUIRED, "subject": "a", "flag": "true"}, b'{"n": 1}', {"flag": ExtensionType.BOOLEAN})
    body = encode_event(CloudEvent(written.attributes, written.data, written.typed_extensions, implied_json=True))
    system = {SystemProperty.CONTENT_TYPE: "application/cloudevents+json; charset=utf-8"}
    event = to_event(foreign(body, sub_topic="factory/other", system=system, properties=(("unit", "c"),)))
    assert event.attributes == written.attributes and event.data == b'{"n": 1}'
    assert event.typed_extensions == {"flag": ExtensionType.BOOLEAN}
    dead = {**system, SystemProperty.DEAD_LETTER_TOPIC: "factory", SystemProperty.DEAD_LETTER_REASON: "rejected"}
    assert to_event(foreign(body, system=dead)).attributes["deadletterreason"] == "rejected"


@cases("body", [b"", b"{}", b"[]", b"no json", b'{"specversion": "0.3"}'])
def test_what_only_says_that_it_is_one_is_a_message_like_any_other(body: bytes) -> None:
    event = to_event(foreign(body, system={SystemProperty.CONTENT_TYPE: "application/cloudevents+json"}))
    check_attributes(event.attributes)
    assert event.type == DEFAULT_TYPE and (event.data or b"") == body
