"""Tables, methods and headers that are made here: what does not fit is the caller's error, and nothing leaks."""

from __future__ import annotations

from decimal import Decimal
from enum import IntEnum, StrEnum

import pytest

from entrepot.protocols.amqp import content, decoder, delivery
from entrepot.protocols.amqp.connection_events import Login, LoginContinues
from entrepot.protocols.amqp.content import PERSISTENT, ContentHeader, received_header
from entrepot.protocols.amqp.decoder import publish_target
from entrepot.protocols.amqp.delivery import content_template
from entrepot.protocols.amqp.field_table import MAX_DEPTH, MAX_TABLE_BYTES, Timestamp, decode_table, encode_table
from entrepot.protocols.amqp.method_codec import decode_method, encode_method
from entrepot.protocols.amqp.methods_basic import BasicAck, BasicQos
from entrepot.protocols.amqp.methods_connection import (
    ConnectionSecureOk,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionUpdateSecret,
)
from entrepot.protocols.amqp.methods_topology import QueueDeclare
from tests.support.cases import cases


class Number(IntEnum):
    ONE = 1


class Word(StrEnum):
    NO = "no"


def nested(depth: int, kind: type) -> object:
    value: object = 1
    for _ in range(depth):
        value = {"k": value} if kind is dict else [value]
    return value


@cases(
    ("value", "wire"),
    [
        (2**31 - 1, b"I\x7f\xff\xff\xff"),
        (2**31, b"l\0\0\0\0\x80\0\0\0"),
        (-(2**31) - 1, b"l\xff\xff\xff\xff\x7f\xff\xff\xff"),
        (True, b"t\x01"),
        (Number.ONE, b"I\0\0\0\1"),
        (Word.NO, b"S\0\0\0\2no"),
        ((1,), b"A\0\0\0\5I\0\0\0\1"),
        (bytearray(b"x"), b"x\0\0\0\1x"),
        (Decimal("-1.50"), b"D\2\xff\xff\xff\x6a"),
        (Decimal("1E+2"), b"D\0\0\0\0\x64"),
        (Decimal(-(2**31)), b"D\0\x80\0\0\0"),
        (1.5, b"d\x3f\xf8\0\0\0\0\0\0"),
        (Timestamp(1), b"T\0\0\0\0\0\0\0\1"),
    ],
)
def test_the_type_that_is_written(value: object, wire: bytes) -> None:
    content_bytes = b"\x01k" + wire
    assert encode_table({"k": value}) == len(content_bytes).to_bytes(4, "big") + content_bytes


@cases(
    "value",
    [
        2**63,
        -(2**63) - 1,
        Timestamp(-1),
        Decimal("NaN"),
        Decimal("Infinity"),
        Decimal(2**31),
        Decimal("1E+10"),
        Decimal("1E+999999"),
        Decimal("1E-256"),
        object(),
        {1},
        "\ud800",
        "x" * (MAX_TABLE_BYTES + 1),
        nested(MAX_DEPTH + 1, dict),
        nested(MAX_DEPTH + 1, list),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_values_that_no_table_holds(value: object) -> None:
    with pytest.raises(ValueError):
        encode_table({"k": value})


@cases("kind", [dict, list])
def test_as_deep_as_it_may_be(kind: type) -> None:
    table = {"k": nested(MAX_DEPTH, kind)}
    wire = encode_table(table)
    assert decode_table(wire, 0, len(wire)) == (table, len(wire))


def test_a_long_key_is_an_error() -> None:
    with pytest.raises(ValueError, match="256"):
        encode_table({"é" * 128: 1})


@cases(
    "method",
    [
        BasicAck(2**64),
        BasicAck(-1),
        BasicQos(prefetch_count=65_536),
        ConnectionTune(heartbeat=-1),
        QueueDeclare("q" * 256),
        QueueDeclare("\ud800"),
        QueueDeclare(arguments={"k": object()}),
        ConnectionSecureOk(bytes(1 << 21)),
        QueueDeclare(None),  # type: ignore[arg-type]
    ],
    ids=lambda method: type(method).__name__,
)
def test_methods_that_do_not_fit(method: BasicAck) -> None:
    with pytest.raises(ValueError, match="cannot be encoded"):
        encode_method(method)


@cases(
    "values", [{"priority": 256}, {"priority": -1}, {"timestamp": 2**64}, {"type": "x" * 256}, {"headers": {"k": {1}}}]
)
def test_properties_that_do_not_fit(values: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        ContentHeader.of(**values)  # type: ignore[arg-type]


def test_bits_that_nobody_declared_are_read_over() -> None:
    wire = bytearray(encode_method(BasicAck(5, multiple=True)))
    wire[-1] |= 0xF0
    assert decode_method(bytes(wire)) == BasicAck(5, multiple=True)


def test_a_header_says_only_what_is_there() -> None:
    header = ContentHeader.of(delivery_mode=PERSISTENT, headers={})
    assert (header.delivery_mode, header.headers, header.priority, header.timestamp) == (PERSISTENT, {}, None, None)
    assert ContentHeader().values() == {}
    assert header == ContentHeader(header.data)
    assert len({header, ContentHeader(header.data), ContentHeader()}) == 2
    assert header.replaced(delivery_mode=None, headers=None) == ContentHeader()


def test_headers_are_decoded_once() -> None:
    header = ContentHeader.of(headers={"k": 1})
    found = ContentHeader(header.data)
    assert found.headers is found.headers


def test_secrets_are_not_shown() -> None:
    secret = b"hunter2"
    for holder in (
        Login("PLAIN", secret, {}, "en_US"),
        LoginContinues(secret),
        ConnectionStartOk({}, "PLAIN", secret),
        ConnectionSecureOk(secret),
        ConnectionUpdateSecret(secret),
    ):
        assert "hunter2" not in repr(holder)


def test_what_is_kept_for_all_connections_has_an_end() -> None:
    for at in range(5000):
        data = ContentHeader.of(type=f"{at}").data
        assert received_header(data).type == f"{at}"
        assert publish_target(b"\0\0\x01e\x05%05d\0" % at) == ("e", f"{at:05}", False)
        content_template("e", f"{at}", data, b"")
    assert 0 < len(content._checked) <= content.HEADER_CACHE_ENTRIES
    assert 0 < len(decoder._targets) <= decoder.TARGET_CACHE_ENTRIES
    assert 0 < len(delivery._routes) <= delivery.ROUTE_CACHE_ENTRIES
    for header in (
        ContentHeader.of(message_id="unique"),
        ContentHeader.of(type="x" * 200),
        ContentHeader.of(timestamp=1),
    ):
        received_header(header.data)
        assert header.data not in content._checked
    target = publish_target(b"\0\0\xff" + b"e" * 255 + b"\0\0")
    assert target[0] == "e" * 255
    assert all(len(arguments) <= decoder.TARGET_CACHE_MAX_BYTES for arguments in decoder._targets)
