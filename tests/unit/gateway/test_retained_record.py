"""Keys and values of retained messages."""

from __future__ import annotations

from dataclasses import fields

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.errors import CorruptedError
from entrepot.domain.key_value import MAX_KEY_BYTES, MAX_VALUE_BYTES, KeyValue, KeyValueChange, check_changes
from entrepot.domain.message import Message, SystemProperty
from entrepot.domain.retained import (
    MAX_RETAINED_BYTES,
    NEVER,
    RETAINED_PREFIX,
    expiry_of,
    is_over,
    name_in_key,
    retained_key,
)
from entrepot.gateway.retained.record import decode_retained, encode_retained, head_of
from entrepot.gateway.retained.retained import _size_at_most
from entrepot.protocols.mqtt.mapping import is_expired, to_properties
from entrepot.protocols.mqtt.properties import PropertyId
from tests.support.cases import cases

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
NAME = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="+#\0"), min_size=1, max_size=40)
VALUE = st.one_of(TEXT, st.binary(max_size=30))
MESSAGE = st.builds(
    Message,
    topic=TEXT,
    body=st.binary(min_size=1, max_size=100),
    sub_topic=NAME,
    qos=st.integers(0, 2),
    tag=TEXT,
    keys=st.lists(TEXT, max_size=3).map(tuple),
    message_group=TEXT,
    message_id=st.binary(max_size=20),
    born_time_ms=st.integers(0, 2**47),
    properties=st.lists(st.tuples(TEXT, VALUE), max_size=5).map(tuple),
    system=st.dictionaries(TEXT.filter(lambda name: name != SystemProperty.EXPIRES_AT_MS), VALUE, max_size=4),
)


@given(MESSAGE, st.one_of(st.none(), st.integers(1, 2**47)))
def test_a_message_comes_back_as_it_was(message, expires_at_ms):
    if expires_at_ms is not None:
        message.system = {**message.system, SystemProperty.EXPIRES_AT_MS: expires_at_ms}
    key, value = retained_key(message.sub_topic), encode_retained(message)
    check_changes([KeyValueChange(key, value)])
    back = decode_retained(KeyValue(key, value, 7))
    for field in fields(Message):
        if field.name not in ("queue_id", "filter_hash", "further_queues"):
            assert getattr(back, field.name) == getattr(message, field.name)
    assert (back.queue_offset, back.commit_log_offset, back.version) == (0, 0, 7)
    head = head_of(key, value)
    assert (head.name, head.expires_at_ms) == (message.sub_topic, expires_at_ms or NEVER)
    assert len(value) <= _size_at_most(message)


LONG = "a" * (MAX_KEY_BYTES - len(RETAINED_PREFIX))


@cases("name", ["a", "/", "a//b ", "größe/°C", "$x/y", LONG])
def test_names_that_keys_say(name):
    assert retained_key(name) == RETAINED_PREFIX + name
    assert name_in_key(retained_key(name)) == name


@cases("name", [LONG + "a", "ü" * 508, "a\x01", "a\u00a0b", "line\nfeed", "x" * 65_535])
def test_names_that_are_no_keys(name):
    key = retained_key(name)
    assert key.startswith(RETAINED_PREFIX + "#") and key.isprintable() and len(key) < 100
    assert name_in_key(key) is None
    assert key != retained_key(name + "b")
    assert head_of(key, encode_retained(Message("t", b"x", name))).name == name


def test_the_largest_message_fits_once_it_has_its_id_and_time():
    message = Message("t", b"", "t/x")
    message.body = b"x" * (MAX_RETAINED_BYTES - len(encode_retained(message)) - 10)
    assert len(encode_retained(message)) <= MAX_RETAINED_BYTES
    message.message_id, message.born_time_ms = b"i" * 16, 2**47
    assert len(encode_retained(message)) <= MAX_VALUE_BYTES


def test_mqtt_reads_it_as_any_stored_message():
    system = {SystemProperty.EXPIRES_AT_MS: 61000, SystemProperty.CORRELATION_ID: b"\x00\xff"}
    message = Message("t", b"x", "t/x", properties=(("a", "1"), ("a", "2")), system=system)
    back = decode_retained(KeyValue(retained_key("t/x"), encode_retained(message), 1))
    assert to_properties(back, 1000) == {
        PropertyId.MESSAGE_EXPIRY_INTERVAL: 60,
        PropertyId.CORRELATION_DATA: b"\x00\xff",
        PropertyId.USER_PROPERTY: [("a", "1"), ("a", "2")],
    }
    assert (is_expired(back, 60_999), is_expired(back, 61_000)) == (False, True)
    assert (is_over(expiry_of(back), 60_999), is_over(expiry_of(back), 61_000)) == (False, True)
    assert not is_over(NEVER, 10**15)


HASHED = retained_key("a\x01")


@cases(
    "key, value",
    [
        ("retained/a", b""),
        ("retained/a", b"text"),
        ("retained/a", msgspec.msgpack.encode([1])),
        ("retained/a", msgspec.msgpack.encode([2, "", 0])),
        ("retained/a", msgspec.msgpack.encode({"a": 1})),
        (HASHED, encode_retained(Message("t", b"x", "a"))),
        (HASHED, encode_retained(Message("t", b"x", "b\x01"))),
    ],
)
def test_what_is_no_retained_message_is_told_from_one(key, value):
    with pytest.raises(CorruptedError):
        head_of(key, value)
    with pytest.raises(CorruptedError):
        decode_retained(KeyValue(key, value, 1))
