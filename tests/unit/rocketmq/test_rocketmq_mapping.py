"""Messages to RocketMQ's wire and back."""

from __future__ import annotations

import gzip
import hashlib
import string
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.errors import Code, CorruptedError, EntrepotError
from entrepot.domain.filter_hash import filter_hash
from entrepot.domain.message import TIMES, Message, SystemProperty
from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.mapping import (
    BODY_IS_EMPTY,
    KEYS,
    MESSAGE_GROUP,
    MESSAGE_ID,
    QOS,
    SUB_TOPIC,
    TAG,
    deliver_at_ms,
    domain_id,
    wire_id,
)
from entrepot.protocols.rocketmq.names import Namespaces
from entrepot.protocols.rocketmq.properties import NOT_FACTS, PREFIX, RESERVED
from tests.support.cases import cases
from tests.support.rocketmq.sdk.messages import from_wire, message_type, to_wire

FACTS = frozenset({SUB_TOPIC, QOS, TAG, KEYS, MESSAGE_GROUP, MESSAGE_ID, BODY_IS_EMPTY})
HOME = Namespaces()
NOW = 1_700_000_000_000
WELL_KNOWN = [value for name, value in vars(SystemProperty).items() if name.isupper()]

texts = st.text(max_size=12)
names = st.one_of(texts, st.sampled_from(["KEYS", "__x", "entrepot_qos", "entrepot_properties", "plain"]))
values = st.one_of(texts, st.binary(max_size=8))
FIELD_ONES = {
    SystemProperty.DELIVER_AT_MS,
    SystemProperty.EXPIRES_AT_MS,
    SystemProperty.PRIORITY,
    SystemProperty.BORN_HOST,
}


@st.composite
def messages(draw: st.DrawFn) -> Message:
    topic = draw(st.sampled_from(["t", "team/t"]))
    names = st.sampled_from([n for n in WELL_KNOWN if n not in FIELD_ONES])
    system: dict[str, Any] = draw(st.dictionaries(names, values, max_size=4))
    for name in TIMES & system.keys():
        system[name] = draw(st.integers(0, 2**53))  # a text of digits is a number on the way back
    if isinstance(correlation_id := system.get(SystemProperty.CORRELATION_ID), str):
        system[SystemProperty.CORRELATION_ID] = correlation_id.encode("utf-8", "surrogatepass")  # it is bytes
    if draw(st.booleans()):
        system[SystemProperty.BORN_HOST] = draw(st.text(string.ascii_letters, min_size=1, max_size=5))
    sub_topic, tag = draw(st.one_of(st.just("t"), st.text(min_size=1, max_size=9))), draw(texts)
    try:
        hash_ = filter_hash(sub_topic, tag)
    except UnicodeEncodeError:
        sub_topic, tag, hash_ = "t", "", filter_hash("t")
    return Message(
        topic,
        draw(st.binary(max_size=20)),
        sub_topic=sub_topic,
        qos=draw(st.sampled_from([0, 1, 2])),
        tag=tag,
        keys=tuple(draw(st.lists(texts, max_size=3))),
        message_group=draw(st.one_of(texts, st.just("g" * 64))),
        message_id=draw(st.one_of(st.binary(min_size=16, max_size=16), st.binary(min_size=1, max_size=40))),
        born_time_ms=draw(st.integers(0, 253_402_300_799_999)),
        filter_hash=hash_,
        properties=tuple(draw(st.lists(st.tuples(names, values), max_size=4))),
        system=system,
    )


def content(message: Message) -> dict[str, object]:
    found = {name: getattr(message, name) for name in Message.__slots__ if name != "queue_id"}
    return {**found, "system": dict(message.system)}


@given(messages(), st.sampled_from([v2.NORMAL, v2.FIFO, v2.TRANSACTION]))
def test_what_was_sent_comes_back(message: Message, kind: v2.MessageType.ValueType):
    wire = v2.Message.FromString(to_wire(message, kind, HOME).SerializeToString())
    assert content(from_wire(wire, HOME)) == content(message)


@given(messages())
def test_what_is_on_the_wire_is_what_rocketmq_takes(message: Message):
    wire = to_wire(message, v2.FIFO, HOME)
    system = wire.system_properties
    assert wire.body and system.message_group.strip() and len(system.message_group.encode()) < 64
    assert "|" not in system.tag and not any(key.split() != [key] for key in system.keys)
    for name, value in wire.user_properties.items():
        assert name.strip() and value.strip() and name not in RESERVED and not name.startswith("__")
        assert not any(ord(c) < 32 or ord(c) == 127 for c in name + value)


@given(st.integers(0, 253_402_300_799_999), st.integers(0, 99))
def test_times_and_priorities_have_fields(at_ms: int, priority: int):
    timed = Message("t", b"x", message_id=b"1", system={SystemProperty.DELIVER_AT_MS: at_ms})
    wire = to_wire(timed, v2.DELAY, HOME)
    due = wire.system_properties.delivery_timestamp
    assert due.seconds * 1000 + due.nanos // 1_000_000 == at_ms
    assert deliver_at_ms(from_wire(wire, HOME)) == at_ms
    ranked = Message("t", b"x", message_id=b"1", system={SystemProperty.PRIORITY: str(priority)})
    wire = to_wire(ranked, v2.PRIORITY, HOME)
    assert wire.system_properties.priority == priority
    assert from_wire(wire, HOME).system_text(SystemProperty.PRIORITY) == str(priority)


@given(st.dictionaries(st.one_of(st.sampled_from([PREFIX + n for n in (*FACTS, *NOT_FACTS)]), texts), texts))
def test_nothing_that_another_producer_writes_breaks_it(written: dict[str, str]):
    wire = v2.Message(topic=v2.Resource(name="t"), body=b"x")
    for name, value in written.items():
        try:
            wire.user_properties[name] = value
        except (UnicodeEncodeError, ValueError):
            return
    found = from_wire(wire, HOME)
    assert found.body == b"x" and found.topic == "t"


def test_a_message_of_another_producer():
    wire = v2.Message(topic=v2.Resource(name="t"), user_properties={"b": "2", "a": "1"}, body=b"x")
    wire.system_properties.message_id = "7F0000010000"
    wire.system_properties.queue_offset = 5
    wire.system_properties.queue_id = 3
    wire.system_properties.store_timestamp.FromMilliseconds(NOW)
    found = from_wire(wire, HOME)
    assert (found.properties, found.sub_topic, found.qos) == ((("a", "1"), ("b", "2")), "t", 2)
    assert (found.message_id, found.queue_id, found.queue_offset) == (b"7F0000010000", 3, 5)
    assert (found.store_time_ms, found.commit_log_offset, dict(found.system)) == (NOW, -1, {})


def test_message_ids_have_the_published_form():
    assert wire_id(bytes(range(16))) == "01000102030405060708090A0B0C0D0E0F"
    assert domain_id(wire_id(bytes(range(16)))) == bytes(range(16))
    assert len(wire_id(b"short")) == 34 and wire_id(b"short") != wire_id(b"other")
    assert domain_id("01" + "zz" * 16) == b"01" + b"zz" * 16
    assert domain_id("01" + "ab" * 16) == b"01" + b"ab" * 16, "lower case is another producer's text"


def test_bodies_are_checked_and_unpacked():
    wire = to_wire(Message("t", b"body", message_id=b"1"), v2.NORMAL, HOME)
    digest = wire.system_properties.body_digest
    digest.type, digest.checksum = v2.MD5, hashlib.md5(b"body").hexdigest().upper()
    assert from_wire(wire, HOME).body == b"body"
    digest.type, digest.checksum = v2.SHA1, hashlib.sha1(b"other").hexdigest().upper()
    with pytest.raises(CorruptedError):
        from_wire(wire, HOME)
    digest.type = v2.CRC32
    wire.body, wire.system_properties.body_encoding = gzip.compress(b"packed"), v2.GZIP
    assert from_wire(wire, HOME).body == b"packed"
    for damaged in (wire.body[:-1], b"no gzip"):
        wire.body = damaged
        with pytest.raises(CorruptedError):
            from_wire(wire, HOME)


def test_facts_and_well_known_properties_do_not_meet():
    assert not (FACTS | NOT_FACTS) & set(WELL_KNOWN)


# -- types -----------------------------------------------------------------------------------------------------------

PLAIN = Message("t", b"x")
GROUPED = replace(PLAIN, message_group="g")
LATER = replace(PLAIN, system={SystemProperty.DELIVER_AT_MS: NOW + 1})
OVER = replace(PLAIN, system={SystemProperty.DELIVER_AT_MS: NOW})
RANKED = replace(PLAIN, system={SystemProperty.PRIORITY: "3"})
EACH = (v2.NORMAL, v2.FIFO, v2.DELAY, v2.TRANSACTION)


@cases(
    ("message", "accepted", "is_half", "kind"),
    [
        (PLAIN, EACH, False, v2.NORMAL),
        (PLAIN, (), False, v2.NORMAL),
        (PLAIN, (v2.MESSAGE_TYPE_UNSPECIFIED,), False, v2.NORMAL),
        (PLAIN, (v2.FIFO,), False, v2.FIFO),
        (PLAIN, (v2.PRIORITY,), False, v2.PRIORITY),
        (PLAIN, EACH, True, v2.TRANSACTION),
        (GROUPED, EACH, False, v2.FIFO),
        (LATER, EACH, False, v2.DELAY),
        (OVER, EACH, False, v2.NORMAL),
        (RANKED, EACH, False, v2.NORMAL),
        (RANKED, (v2.PRIORITY,), False, v2.PRIORITY),
    ],
)
def test_the_type_of_a_message(
    message: Message, accepted: tuple[v2.MessageType.ValueType, ...], is_half: bool, kind: v2.MessageType.ValueType
):
    assert message_type(message, accepted, NOW, is_half=is_half) == kind


@cases(
    ("message", "accepted", "is_half", "code"),
    [
        (GROUPED, (v2.NORMAL,), False, Code.BAD_REQUEST),
        (LATER, (v2.NORMAL, v2.FIFO), False, Code.BAD_REQUEST),
        (PLAIN, (v2.DELAY,), False, Code.BAD_REQUEST),
        (GROUPED, EACH, True, Code.BAD_REQUEST),
        (replace(LATER, message_group="g"), EACH, False, Code.BAD_REQUEST),
        (replace(PLAIN, system={SystemProperty.DELIVER_AT_MS: "soon"}), EACH, False, Code.ILLEGAL_DELIVERY_TIME),
        (replace(PLAIN, system={SystemProperty.DELIVER_AT_MS: 10**15 - 1}), EACH, False, Code.ILLEGAL_DELIVERY_TIME),
    ],
)
def test_what_no_type_fits(message: Message, accepted: tuple[v2.MessageType.ValueType, ...], is_half: bool, code: Code):
    with pytest.raises(EntrepotError) as refused:
        message_type(message, accepted, NOW, is_half=is_half)
    assert refused.value.code == code


def test_what_a_cluster_adds_is_no_property_of_the_producer():
    wire = to_wire(Message("t", b"x", message_group="line", properties=(("a", "1"),)), v2.FIFO, HOME)
    wire.user_properties["__SHARDINGKEY"] = "line"
    wire.user_properties["__transactionId__"] = "01"
    found = from_wire(wire, HOME)
    assert (found.message_group, found.properties) == ("line", (("a", "1"),))
