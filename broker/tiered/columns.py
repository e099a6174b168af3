"""Columns: the rows of a tiered topic, and the messages that they are.

A row has all of a stored message, so that the message made of it equals the one of the log.  Names and types are those
that Spark, DuckDB, polars and pandas read without being told anything.

    queue_id, queue_offset     the place; the queue's number is the world's (`domain.shard`)
    store_time, born_time      UTC, microseconds; a born time that no clock shows is null, and in odd_born_ms
    message_id                 hexadecimal: those of gateways begin with their time, so minima and maxima prune
    filter_hash                the 64 bits of the hash, as a signed number
    properties, system         of the user and well-known: pairs in order, a name may repeat; a value is text or bytes
    further                    the other queues in which the message lies
    log_offset                 place of its record in the commit log of the broker that wrote the row
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa

from domain.message import PropertyValue, StoredMessage, as_texts, of_texts

_PAIRS: Final = pa.list_(pa.struct([("name", pa.string()), ("text", pa.string()), ("bytes", pa.binary())]))
_PLACES: Final = pa.list_(pa.struct([("topic", pa.string()), ("queue_id", pa.int32()), ("queue_offset", pa.int64())]))
_TIME: Final = pa.timestamp("us", "UTC")
SCHEMA: Final = pa.schema(
    [
        ("queue_id", pa.int32()),
        ("queue_offset", pa.int64()),
        ("store_time", _TIME),
        ("born_time", _TIME),
        ("odd_born_ms", pa.decimal128(20)),
        ("message_id", pa.string()),
        ("topic", pa.string()),
        ("sub_topic", pa.string()),
        ("message_group", pa.string()),
        ("tag", pa.string()),
        ("keys", pa.list_(pa.string())),
        ("filter_hash", pa.int64()),
        ("qos", pa.int32()),
        ("body", pa.binary()),
        ("properties", _PAIRS),
        ("system", _PAIRS),
        ("further", _PLACES),
        ("log_offset", pa.int64()),
    ]
)
_MAX_BORN_MS: Final = 253_402_300_799_999
"""The end of the year 9999: what comes later no reader of tables can show."""
_SIGN: Final = 1 << 63


def delta_schema() -> str:
    """The schema as Delta tables have it: Spark's, as JSON."""
    return json.dumps({"type": "struct", "fields": [_field(field) for field in SCHEMA]})


def _field(field: Any) -> dict[str, Any]:
    return {"name": field.name, "type": _type(field.type), "nullable": True, "metadata": {}}


def _type(kind: Any) -> Any:
    if pa.types.is_list(kind):
        return {"type": "array", "elementType": _type(kind.value_type), "containsNull": True}
    if pa.types.is_struct(kind):
        return {"type": "struct", "fields": [_field(kind.field(at)) for at in range(kind.num_fields)]}
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp"
    return {pa.int32(): "integer", pa.int64(): "long", pa.string(): "string", pa.binary(): "binary"}[kind]


def to_table(messages: Sequence[StoredMessage]) -> Any:
    """The rows of messages, in their order."""
    born = [message.born_time_ms for message in messages]
    columns: dict[str, list[Any]] = {
        "queue_id": [message.queue_id for message in messages],
        "queue_offset": [message.queue_offset for message in messages],
        "store_time": [1000 * message.store_time_ms for message in messages],
        "born_time": [1000 * ms if ms <= _MAX_BORN_MS else None for ms in born],
        "odd_born_ms": [None if ms <= _MAX_BORN_MS else ms for ms in born],
        "message_id": [message.message_id.hex() for message in messages],
        "topic": [message.topic for message in messages],
        "sub_topic": [message.sub_topic for message in messages],
        "message_group": [message.message_group for message in messages],
        "tag": [message.tag for message in messages],
        "keys": [message.keys for message in messages],
        "filter_hash": [(message.filter_hash ^ _SIGN) - _SIGN for message in messages],
        "qos": [message.qos for message in messages],
        "body": [message.body for message in messages],
        "properties": [_pairs(message.properties) for message in messages],
        "system": [_pairs(as_texts(message.system).items()) for message in messages],
        "further": [message.further_places for message in messages],
        "log_offset": [message.commit_log_offset for message in messages],
    }
    return pa.table([pa.array(columns[field.name], field.type) for field in SCHEMA], schema=SCHEMA)


def _pairs(properties: Iterable[tuple[str, PropertyValue]]) -> list[tuple[str, str | None, bytes | None]]:
    return [(name, value, None) if isinstance(value, str) else (name, None, value) for name, value in properties]


def to_messages(table: Any) -> list[StoredMessage]:
    """The messages of rows, which have all columns."""
    columns = {name: table.column(name).to_pylist() for name in table.column_names if name not in _AS_NUMBERS}
    for name in _AS_NUMBERS:
        columns[name] = table.column(name).cast(pa.int64()).to_pylist()
    return [_message(*row) for row in zip(*(columns[field.name] for field in SCHEMA), strict=True)]


_AS_NUMBERS: Final = ("store_time", "born_time")


def _message(
    queue_id: int,
    queue_offset: int,
    store_us: int,
    born_us: int | None,
    odd_born_ms: Any,
    message_id: str,
    topic: str,
    sub_topic: str,
    message_group: str,
    tag: str,
    keys: list[str],
    filter_hash: int,
    qos: int,
    body: bytes,
    properties: list[dict[str, Any]],
    system: list[dict[str, Any]],
    further: list[dict[str, Any]],
    log_offset: int,
) -> StoredMessage:
    places = tuple((place["topic"], place["queue_id"], place["queue_offset"]) for place in further)
    return StoredMessage(
        topic,
        body,
        sub_topic,
        queue_id,
        qos,
        tag,
        tuple(keys),
        message_group,
        bytes.fromhex(message_id),
        int(odd_born_ms) if born_us is None else born_us // 1000,
        filter_hash & (2 * _SIGN - 1),
        tuple((pair["name"], _value(pair)) for pair in properties),
        of_texts({pair["name"]: _value(pair) for pair in system}),
        tuple((name, queue) for name, queue, _ in places),
        queue_offset,
        log_offset,
        store_us // 1000,
        places,
    )


def _value(pair: dict[str, Any]) -> PropertyValue:
    value: PropertyValue = pair["bytes"] if pair["text"] is None else pair["text"]
    return value
