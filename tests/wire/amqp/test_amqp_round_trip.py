"""What is written is read again as it was; and what was read is written again with its bytes."""

from __future__ import annotations

import dataclasses
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.protocols.amqp.content import ContentHeader, PropertyValues
from entrepot.protocols.amqp.field_table import (
    FieldTable,
    Long,
    Timestamp,
    changed_table,
    check_table,
    decode_table,
    encode_table,
)
from entrepot.protocols.amqp.method_codec import decode_method, encode_method
from tests.support.cases import cases
from tests.wire.amqp.strategies import CLASSES, any_method, property_values, same, short_texts, tables


@pytest.mark.parametrize("name", CLASSES)
@given(data=st.data())
def test_every_method(name: str, data: st.DataObject) -> None:
    for method in CLASSES[name]:
        wanted = data.draw(any_method(method))
        wire = encode_method(wanted)
        found = decode_method(wire)
        assert type(found) is method
        assert same(
            [getattr(wanted, field.name) for field in dataclasses.fields(wanted)],  # type: ignore[arg-type]
            [getattr(found, field.name) for field in dataclasses.fields(found)],  # type: ignore[arg-type]
        )
        assert encode_method(found) == wire


@given(table=tables)
def test_tables_keep_values_types_order_and_bytes(table: FieldTable) -> None:
    wire = encode_table(table)
    found, end = decode_table(wire, 0, len(wire))
    assert end == len(wire) == check_table(wire, 0, len(wire))
    assert same(found, table)
    assert encode_table(found) == wire


@given(table=tables, other=tables)
def test_a_changed_table_keeps_the_bytes_of_what_stays(table: FieldTable, other: FieldTable) -> None:
    wire = encode_table(table)
    found = decode_table(wire, 0, len(wire))[0]
    assert changed_table(dict(found), found, wire, 0, len(wire)) == wire
    changed = changed_table({**found, **other}, found, wire, 0, len(wire))
    assert same(decode_table(changed, 0, len(changed))[0], {**table, **other})


def field(kind: bytes, value: bytes) -> bytes:
    content = b"\x01k" + kind + value
    return pack(">I", len(content)) + content


NARROW = {
    "b": b"\xff",
    "B": b"\xff",
    "s": b"\x80\0",
    "u": b"\x80\0",
    "i": b"\xff\xff\xff\xfe",
    "f": b"\x3f\x80\0\0",
    "l": bytes(8),
}


@pytest.mark.parametrize("kind", NARROW)
def test_narrow_types_stay_beside_a_field_that_is_added(kind: str) -> None:
    header = ContentHeader(b"\x20\0" + field(kind.encode(), NARROW[kind]))
    changed = header.replaced(headers={**(header.headers or {}), "n": Long(1)})
    assert b"\x01k" + kind.encode() + NARROW[kind] in changed.data
    assert b"\x01nl" + bytes(7) + b"\1" in changed.data


@cases(
    ("wire", "value"),
    [
        (field(b"t", b"\1"), True),
        (field(b"b", b"\xff"), -1),
        (field(b"B", b"\xff"), 255),
        (field(b"s", b"\x80\0"), -32768),
        (field(b"u", b"\x80\0"), 32768),
        (field(b"I", b"\xff\xff\xff\xfe"), -2),
        (field(b"i", b"\xff\xff\xff\xfe"), 4294967294),
        (field(b"l", b"\x80" + bytes(7)), -(2**63)),
        (field(b"L", b"\x80" + bytes(7)), -(2**63)),
        (field(b"f", b"\x3f\x80\0\0"), 1.0),
        (field(b"d", b"\x3f\xf0" + bytes(6)), 1.0),
        (field(b"T", bytes(7) + b"\x05"), Timestamp(5)),
        (field(b"S", b"\0\0\0\2\xc3\xa9"), "é"),
        (field(b"S", b"\0\0\0\1\xff"), b"\xff"),
        (field(b"x", b"\0\0\0\1a"), b"a"),
        (field(b"V", b""), None),
        (field(b"A", b"\0\0\0\4t\0VV"), [False, None, None]),
        (field(b"F", b"\0\0\0\4\1at\1"), {"a": True}),
    ],
)
def test_every_type_that_clients_send(wire: bytes, value: object) -> None:
    found, end = decode_table(wire, 0, len(wire))
    assert end == len(wire)
    assert same(found, {"k": value})
    assert check_table(wire, 0, len(wire)) == end


@given(given=property_values)
def test_properties(given: PropertyValues) -> None:
    header = ContentHeader.of(**given)
    found = ContentHeader(header.data)
    assert found.values() == given
    assert ContentHeader.of(**found.values()) == header
    for name in ("content_type", "headers", "priority", "timestamp", "cluster_id"):
        assert getattr(found, name) == given.get(name)


@given(
    given=property_values, other=property_values, dropped=st.sets(st.sampled_from(["headers", "type", "expiration"]))
)
def test_replacing_properties_touches_no_other(given: PropertyValues, other: PropertyValues, dropped: set[str]) -> None:
    wanted: dict[str, object] = {**other, **dict.fromkeys(dropped)}
    found = ContentHeader(ContentHeader.of(**given).data).replaced(**wanted)  # type: ignore[arg-type]
    expected = {name: value for name, value in {**given, **wanted}.items() if value is not None}
    assert found.values() == expected
    assert found == ContentHeader.of(**expected)  # type: ignore[arg-type]


@given(text=short_texts)
def test_bytes_of_untouched_properties_stay(text: str) -> None:
    """A header table with an 8-bit integer and a key twice, and a text that is not UTF-8: none could be written so
    here."""
    table = b"\x01kb\x05\x01kb\x06"
    data = b"\x24\x00" + pack(">I", len(table)) + table + b"\x02\xff\xfe"
    header = ContentHeader(data)
    assert header.headers == {"k": 6}
    assert header.correlation_id == "\ufffd\ufffd"
    changed = header.replaced(expiration=text)
    assert changed.data.startswith(b"\x25\x00" + data[2:])
    assert changed.expiration == text
    assert changed.replaced(expiration=None) == header
