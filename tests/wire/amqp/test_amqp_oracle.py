"""Another codec reads what this one writes, and the other way round: pamqp, of the clients aio-pika and aiormq."""

from __future__ import annotations

import dataclasses
import datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands, decode, encode, header
from pamqp import frame as pamqp_frame
from pamqp.base import Frame
from pamqp.body import ContentBody

from entrepot.protocols.amqp.content import ContentHeader, PropertyValues
from entrepot.protocols.amqp.delivery import content_frames
from entrepot.protocols.amqp.field_table import FieldTable, Timestamp, decode_table, encode_table
from entrepot.protocols.amqp.frames import METHOD, frame, header_payload
from entrepot.protocols.amqp.method_codec import AmqpMethod, decode_method, encode_method
from tests.wire.amqp.strategies import CLASSES, arguments, plain_texts, property_values, short_texts, tables, texts

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # basic.recover-async

RENAMED = {
    "is_global": "global_",
    "failed_class_id": "class_id",
    "failed_method_id": "method_id",
    "type": "message_type",
}

SIGNED = 63
"""Bits of its long integers that both take."""

small_tables = st.dictionaries(
    plain_texts,
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | texts
    | st.lists(st.integers(0, 9) | plain_texts, max_size=3),
    max_size=4,
)  # fmt: skip
"""What both codecs take without a difference of types."""


def names(method: type[AmqpMethod]) -> dict[str, str]:
    """The other codec's names of a method's fields."""
    fields = [field.name for field in dataclasses.fields(method)]  # type: ignore[arg-type]
    return {
        name: "exchange_type" if (method.name, name) == ("exchange.declare", "type") else RENAMED.get(name, name)
        for name in fields
    }


def theirs_of(value: Any) -> Any:
    """Values as the other codec gives them: long strings as text where they can be."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value
    return value


@pytest.mark.parametrize("name", CLASSES)
@given(data=st.data())
def test_the_other_reads_every_method(name: str, data: st.DataObject) -> None:
    for method in CLASSES[name]:
        ours = data.draw(st.builds(method, **arguments(method, short_texts, small_tables, SIGNED)))
        wire = frame(METHOD, 5, encode_method(ours))
        size, channel, theirs = pamqp_frame.unmarshal(wire)
        assert isinstance(theirs, Frame)
        assert (size, channel, theirs.index) == (len(wire), 5, method.index)
        assert theirs.name.lower() == method.name.replace("-", "")
        for mine, other in names(method).items():
            assert getattr(theirs, other) == theirs_of(getattr(ours, mine)), mine


@pytest.mark.parametrize("name", CLASSES)
@given(data=st.data())
def test_every_method_of_the_other_is_read(name: str, data: st.DataObject) -> None:
    for method in CLASSES[name]:
        chosen = data.draw(st.fixed_dictionaries(arguments(method, plain_texts, small_tables, SIGNED)))
        chosen = {name: value.hex().encode() if isinstance(value, bytes) else value for name, value in chosen.items()}
        renamed = {names(method)[name]: theirs_of(value) for name, value in chosen.items()}
        wire = pamqp_frame.marshal(commands.INDEX_MAPPING[method.index](**renamed), 5)
        found = decode_method(wire[7:-1])
        assert found == method(**chosen)


def plain(value: Any) -> Any:
    """A value of ours in the other codec's types."""
    if isinstance(value, Timestamp):
        seconds = value if value <= 0xFFFFFFFF else value / 1000
        return datetime.datetime.fromtimestamp(seconds, tz=datetime.UTC)
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value


def is_common(value: Any) -> bool:
    """Whether the other codec has it: its decimals are unsigned and rounded, and its times end with the year 9999."""
    if isinstance(value, dict):
        return all(map(is_common, value.values()))
    if isinstance(value, list):
        return all(map(is_common, value))
    if isinstance(value, Decimal):
        return False
    return not isinstance(value, Timestamp) or value < 200_000_000_000_000


@given(table=tables.filter(is_common))
def test_the_other_reads_tables(table: FieldTable) -> None:
    wire = encode_table(table)
    size, found = decode.field_table(wire)
    assert size == len(wire)
    assert found == plain(table)


@given(table=small_tables)
def test_tables_of_the_other_are_read(table: FieldTable) -> None:
    wire = encode.field_table(table)
    assert decode_table(wire, 0, len(wire)) == (table, len(wire))


@given(given=property_values, body=st.binary(max_size=200))
def test_the_other_reads_content(given: PropertyValues, body: bytes) -> None:
    chosen: dict[str, Any] = {**given}
    chosen["headers"] = {"a": 1, "b": ["c", None]}
    if chosen.get("timestamp", 0) > 0xFFFFFFFF:
        chosen["timestamp"] = 1_700_000_000
    data = ContentHeader.of(**chosen).data
    wire = content_frames(3, data, body, 4096)
    size, channel, found = pamqp_frame.unmarshal(wire)
    assert channel == 3
    assert isinstance(found, header.ContentHeader)
    assert found.body_size == len(body)
    for name, value in chosen.items():
        mine = plain(Timestamp(value)) if name == "timestamp" else value
        assert getattr(found.properties, RENAMED.get(name, name)) == mine
    if body:
        size2, channel, part = pamqp_frame.unmarshal(wire[size:])
        assert isinstance(part, ContentBody)
        assert (size + size2, channel, part.value) == (len(wire), 3, body)


@given(
    given=st.fixed_dictionaries(
        {},
        optional={
            "content_type": plain_texts,
            "headers": small_tables,
            "delivery_mode": st.sampled_from([1, 2]),
            "priority": st.integers(0, 255),
            "correlation_id": short_texts,
            "reply_to": short_texts,
            "expiration": plain_texts,
            "message_id": short_texts,
            "app_id": short_texts,
            "user_id": short_texts,
        },
    )
)
def test_content_of_the_other_is_read(given: dict[str, Any]) -> None:
    wire = pamqp_frame.marshal(header.ContentHeader(0, 7, commands.Basic.Properties(**given)), 3)
    payload = wire[7:-1]
    assert payload[:12] == header_payload(b"", 7)
    found = ContentHeader(payload[12:])
    assert found.values() == {name: value for name, value in given.items() if value != ""}  # left out over there
