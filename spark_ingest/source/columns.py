"""The columns that every topic has, as Arrow arrays made from whole runs of records.

Nothing here goes through records one by one but properties, where they are asked for.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from protocols.remoting.records import RecordColumns
from protocols.remoting.stored_record import PROPERTIES

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
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
"""Names of the columns with their types in Spark's words."""
PLACE: Final = ("topic", "queue_id", "queue_offset")
"""Where a message is: with them a table can be checked against the log."""
MESSAGE_ID_BYTES: Final = 16
_MAX_INT32: Final = 2**31 - 1
_HEX: Final = np.frombuffer(b"".join(b"%02X" % byte for byte in range(256)), np.dtype("S2"))


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
            return _keys(variable_array(columns, "keys", pa.string()))
        case "message_id":
            return _message_ids(columns)
        case "born_time" | "store_time":
            return pa.array(columns.header[f"{name}_ms"].astype(np.int64) * 1000).view(TIMESTAMP)
        case "properties":
            return _properties(columns)
        case "body":
            return variable_array(columns, "body", pa.binary())
    raise KeyError(name)


def variable_array(columns: RecordColumns, name: str, kind: pa.DataType) -> pa.Array:
    """A part of variable length.  The values lie in one buffer with others between them: as an array of values and
    gaps it needs no copy, and taking each second one is a single copy of what is wanted."""
    starts, lengths = columns.spans(name)
    count = len(starts)
    if not count:
        return pa.array([], kind)
    ends = starts + lengths
    if not bool((starts[1:] >= ends[:-1]).all()):
        data = columns.data
        places = zip(starts.tolist(), ends.tolist(), strict=True)
        return pa.array([data[start:end] for start, end in places], pa.binary()).cast(kind)
    base = int(starts[0])
    bounds = np.empty(2 * count, np.int64)
    bounds[0::2], bounds[1::2] = starts - base, ends - base
    buffer = pa.py_buffer(columns.data).slice(base, int(bounds[-1]))
    values = np.arange(0, 2 * count - 1, 2)
    if bounds[-1] > _MAX_INT32:
        large = pa.Array.from_buffers(pa.large_binary(), 2 * count - 1, [None, pa.py_buffer(bounds), buffer])
        return large.take(values).cast(pa.binary()).cast(kind)
    offsets = pa.py_buffer(bounds.astype(np.int32))
    return pa.Array.from_buffers(kind, 2 * count - 1, [None, offsets, buffer]).take(values)


def null_if_empty(texts: pa.Array) -> pa.Array:
    """Texts, with null for those without a character."""
    return pc.if_else(pc.equal(pc.binary_length(texts), 0), pa.scalar(None, pa.string()), texts)


def _keys(texts: pa.Array) -> pa.Array:
    """Keys are joined by NUL; none at all is an empty list."""
    if not pc.any(pc.greater(pc.binary_length(texts), 0)).as_py():
        offsets = pa.array(np.zeros(len(texts) + 1, np.int32))
        return pa.ListArray.from_arrays(offsets, pa.array([], pa.string()))
    lists = pc.split_pattern(texts, "\0")
    return pc.if_else(pc.equal(pc.binary_length(texts), 0), pa.scalar([], pa.list_(pa.string())), lists)


def _message_ids(columns: RecordColumns) -> pa.Array:
    """In hexadecimal digits, as operators see them."""
    starts, lengths = columns.spans("message_id")
    if bool((lengths == MESSAGE_ID_BYTES).all()) and len(starts):
        raw = np.frombuffer(columns.data, np.uint8)[starts[:, None] + np.arange(MESSAGE_ID_BYTES)]
        digits = _HEX[raw].tobytes()
        width = 2 * MESSAGE_ID_BYTES
        offsets = pa.py_buffer(np.arange(0, len(digits) + 1, width, dtype=np.int32))
        return pa.Array.from_buffers(pa.string(), len(starts), [None, offsets, pa.py_buffer(digits)])
    data = columns.data
    places = zip(starts.tolist(), lengths.tolist(), strict=True)
    return pa.array([data[start : start + length].hex().upper() for start, length in places], pa.string())


def _properties(columns: RecordColumns) -> pa.Array:
    """The user's properties, and the well-known ones under their own names; of a name that repeats the last one."""
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
    """Well-known properties and the user's as pairs, each name once: of one that repeats the last value."""
    merged: dict[str, Any] = {**system, **dict(user)}
    return [(name, _text(value)) for name, value in merged.items()]


def _text(value: str | bytes) -> str:
    """Bytes that are no text are told in base64."""
    if isinstance(value, str):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return b64encode(value).decode()
