"""Columns: the rows of a tiered topic, and their messages.

A row has all of a stored message, so that its message equals the one of the log. Spark, DuckDB, polars and pandas read
these names and types without configuration.

    queue_id, queue_offset     the place; the queue's number is global (`domain.broker_of_queue`)
    store_time, born_time      UTC, microseconds; a born time that no clock shows is null here, and in odd_born_ms
    message_id                 hexadecimal: those of gateways begin with their time, so minima and maxima prune
    filter_hash                the 64 bits of the hash, as a signed number
    properties, system         of the user and well-known: pairs in order, a name may repeat; a value is text or bytes
    further                    the other queues in which the message lies
    log_offset                 place of its record in the commit log of the broker that wrote the row
    flags                      bits: 1 its record was corrupted: only the place is known, the rest is null or empty
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from entrepot.domain.message import (
    NO_SYSTEM_PROPERTIES,
    Properties,
    PropertyValue,
    SharedProperties,
    StoredMessage,
    SystemValue,
    of_texts,
)
from entrepot.protocols.wire.arrow_columns import TIMESTAMP

PAIRS: Final = pa.list_(pa.struct([("name", pa.string()), ("text", pa.string()), ("bytes", pa.binary())]))
PLACES: Final = pa.list_(pa.struct([("topic", pa.string()), ("queue_id", pa.int32()), ("queue_offset", pa.int64())]))
SCHEMA: Final = pa.schema(
    [
        ("queue_id", pa.int32()),
        ("queue_offset", pa.int64()),
        ("store_time", TIMESTAMP),
        ("born_time", TIMESTAMP),
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
        ("properties", PAIRS),
        ("system", PAIRS),
        ("further", PLACES),
        ("log_offset", pa.int64()),
        ("flags", pa.int32()),
    ]
)
FLAGS: Final = "flags"
CORRUPTED: Final = 1
"""Flag of a row whose record could not be read."""
MAX_BORN_MS: Final = 253_402_300_799_999
"""End of the year 9999, in epoch milliseconds: no reader of tables can show a later time."""


def delta_schema() -> str:
    """Return the schema as Delta tables have it: Spark's, as JSON."""
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


def is_corrupted(rows: Any) -> NDArray[np.bool_]:
    """Return a mask of the rows with only a known place."""
    found: NDArray[np.bool_] = rows.column(FLAGS).to_numpy() & CORRUPTED != 0
    return found


def by_queue(rows: Any) -> Iterator[Any]:
    """Yield the rows of each queue; of a queue with rows apart, each part."""
    queues = rows.column("queue_id").to_numpy()
    for start, stop in pairwise([0, *(np.flatnonzero(np.diff(queues)) + 1).tolist(), len(queues)]):
        if stop > start:
            yield rows.slice(start, stop - start)


def to_messages(rows: Any) -> list[StoredMessage]:
    """Return the messages of rows, which have all columns; corrupted rows have none."""
    if (corrupted := is_corrupted(rows)).any():
        rows = rows.filter(pa.array(~corrupted))
    if not len(rows):
        return []
    places = _places(rows)
    properties, system = _properties(rows)
    return list(
        map(
            StoredMessage,
            _seldom(rows, "topic"),
            _values(rows, "body"),
            _seldom(rows, "sub_topic"),
            _values(rows, "queue_id"),
            _values(rows, "qos"),
            _seldom(rows, "tag"),
            _keys(rows),
            _seldom(rows, "message_group"),
            map(bytes.fromhex, _values(rows, "message_id")),
            born_times(rows).tolist(),
            _unsigned(rows, "filter_hash"),
            properties,
            system,
            [tuple([(topic, queue_id) for topic, queue_id, _ in each]) if each else () for each in places],
            _values(rows, "queue_offset"),
            _values(rows, "log_offset"),
            _milliseconds(rows, "store_time"),
            places,
        )
    )


def _values(rows: Any, name: str) -> list[Any]:
    found: list[Any] = rows.column(name).to_numpy().tolist()
    return found


def _unsigned(rows: Any, name: str) -> list[int]:
    found: list[int] = rows.column(name).to_numpy().view(np.uint64).tolist()
    return found


def _milliseconds(rows: Any, name: str) -> list[int]:
    found: list[int] = (rows.column(name).cast(pa.int64()).fill_null(0).to_numpy() // 1000).tolist()
    return found


def born_times(rows: Any) -> NDArray[np.uint64]:
    """Return the born times of rows, in epoch milliseconds."""
    shown = rows.column("born_time").cast(pa.int64()).fill_null(0).to_numpy() // 1000
    found: NDArray[np.uint64] = shown.view(np.uint64)
    odd = rows.column("odd_born_ms")
    for at in np.flatnonzero(odd.is_valid().to_numpy()).tolist() if odd.null_count < len(odd) else ():
        found[at] = int(odd[at].as_py())
    return found


def _seldom(rows: Any, name: str) -> list[str]:
    """Return texts of which many are equal: those are one object."""
    encoded = one_array(rows.column(name)).dictionary_encode()
    texts: list[str] = encoded.dictionary.to_pylist()
    if len(texts) == 1:
        return texts * len(encoded)
    return [texts[at] for at in encoded.indices.to_numpy().tolist()]


def _keys(rows: Any) -> list[tuple[str, ...]]:
    indices, distinct = distinct_lists(one_array(rows.column("keys")))
    lists = [tuple(keys) for keys in distinct.to_pylist()]
    return [lists[at] for at in indices.tolist()]


def _properties(rows: Any) -> tuple[list[Properties], list[Mapping[str, SystemValue]]]:
    """Return the user's properties, and the well-known ones; messages with the same share them."""
    indices, distinct = distinct_properties(rows)
    shared = [
        (user, SharedProperties(of_texts(system), user) if system or user else NO_SYSTEM_PROPERTIES)
        for user, system in distinct
    ]
    found = indices.tolist()
    return [shared[at][0] for at in found], [shared[at][1] for at in found]


def distinct_properties(rows: Any) -> tuple[NDArray[np.int64], list[tuple[Properties, dict[str, PropertyValue]]]]:
    """Return each row's number among the distinct properties, and these: the user's, and the well-known ones."""
    users, of_user = distinct_lists(one_array(rows.column("properties")))
    systems, of_system = distinct_lists(one_array(rows.column("system")))
    pairs = [tuple([(pair["name"], _value(pair)) for pair in each]) for each in of_user.to_pylist()]
    named = [{pair["name"]: _value(pair) for pair in each} for each in of_system.to_pylist()]
    both, indices = np.unique(users * len(named) + systems, return_inverse=True)
    return indices, [(pairs[each // len(named)], named[each % len(named)]) for each in both.tolist()]


def distinct_lists(lists: Any) -> tuple[NDArray[np.int64], Any]:
    """Return for each list (of texts or of structs of these) the number of an equal one, and the distinct lists."""
    bounds = lists.offsets.to_numpy().astype(np.int64)
    if bounds[0] == bounds[-1]:
        return np.zeros(len(lists), np.int64), lists[:1]
    values = lists.values.slice(int(bounds[0]), int(bounds[-1] - bounds[0]))
    parts = values.flatten() if pa.types.is_struct(values.type) else [values]
    encoded = [part.dictionary_encode().indices.fill_null(-1).to_numpy() for part in parts]
    codes = np.stack(encoded, axis=1).astype(np.int32)
    ends = ((bounds - bounds[0]) * codes.itemsize * len(parts)).astype(np.int32)
    as_bytes = pa.Array.from_buffers(pa.binary(), len(lists), [None, pa.py_buffer(ends), pa.py_buffer(codes)])
    indices = as_bytes.dictionary_encode().indices.to_numpy()
    _, firsts = np.unique(indices, return_index=True)
    return indices.astype(np.int64), lists.take(pa.array(firsts))


def _places(rows: Any) -> list[tuple[tuple[str, int, int], ...]]:
    lists = one_array(rows.column("further"))
    if lists.offsets[0] == lists.offsets[-1]:
        return [()] * len(lists)
    return [tuple([tuple(place.values()) for place in each]) for each in lists.to_pylist()]


def rows_at(rows: Any, places: NDArray[np.int64]) -> Any:
    """Return the rows at ascending places; neighbours are not copied."""
    if len(places) and places[-1] - places[0] + 1 == len(places):
        return rows.slice(int(places[0]), len(places))
    return rows.take(pa.array(places))


def one_array(column: Any) -> Any:
    """Return a column of a table as one array."""
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _value(pair: dict[str, Any]) -> PropertyValue:
    value: PropertyValue = pair["bytes"] if pair["text"] is None else pair["text"]
    return value
