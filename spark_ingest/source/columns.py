"""The columns of every topic, as Arrow arrays made from whole runs of records.

Only properties, where they are asked for, go through records one by one.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from entrepot.protocols.wire.arrow_columns import UPPER, key_lists, message_ids, times, variable_array
from entrepot.protocols.wire.records import RecordColumns
from entrepot.protocols.wire.stored_record import PROPERTIES

ENVELOPE: Final[dict[str, str]] = {
    "topic": "string",
    "queue_id": "int",
    "queue_offset": "bigint",
    "sub_topic": "string",
    "keys": "array<string>",
    "tag": "string",
    "message_group": "string",
    "message_id": "string",
    "born_time": "timestamp",
    "store_time": "timestamp",
    "properties": "map<string,string>",
    "body": "binary",
}
"""Names of the columns with their Spark types."""
PLACE: Final = ("topic", "queue_id", "queue_offset")
"""Columns of a message's place: with them a table can be checked against the log."""


def envelope_array(name: str, columns: RecordColumns, topic: str, queue_id: int) -> pa.Array:
    """One column of a run that was read from a queue of a topic."""
    count = len(columns)
    match name:
        case "topic":
            return pa.repeat(pa.scalar(topic, pa.string()), count)
        case "queue_id":
            return pa.array(np.full(count, queue_id, np.int32))
        case "queue_offset":
            return pa.array(columns.queue_offsets)
        case "sub_topic":
            return variable_array(columns, "sub_topic", pa.string())
        case "tag" | "message_group":
            return null_if_empty(variable_array(columns, name, pa.string()))
        case "keys":
            return key_lists(columns)
        case "message_id":
            return message_ids(columns, UPPER)
        case "born_time" | "store_time":
            return times(columns, name)
        case "properties":
            return _properties(columns)
        case "body":
            return variable_array(columns, "body", pa.binary())
    raise KeyError(name)


def null_if_empty(texts: pa.Array) -> pa.Array:
    """Texts, with null for empty ones."""
    return pc.if_else(pc.equal(pc.binary_length(texts), 0), pa.scalar(None, pa.string()), texts)


def _properties(columns: RecordColumns) -> pa.Array:
    """The user's properties, and the well-known ones under their own names; of a repeated name the last value."""
    starts, lengths = columns.spans("properties")
    data = columns.data
    found: list[list[tuple[str, str]]] = []
    for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
        if not length:
            found.append([])
            continue
        system, user = PROPERTIES.decode(data[start : start + length])
        found.append(property_map(system, user))
    return pa.array(found, pa.map_(pa.string(), pa.string()))


def property_map(system: Mapping[str, Any], user: Iterable[tuple[str, Any]]) -> list[tuple[str, str]]:
    """Well-known properties and the user's as pairs, each name once: of a repeated one the last value."""
    merged: dict[str, Any] = {**system, **dict(user)}
    return [(name, _text(value)) for name, value in merged.items()]


def _text(value: str | bytes) -> str:
    """Text, or base64 of bytes that are not text."""
    if isinstance(value, str):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return b64encode(value).decode()
