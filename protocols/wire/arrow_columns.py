"""Parts of records as Arrow arrays, each made of a whole run at once.  Records are only visited one by one if they lie
out of order."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from entrepot.protocols.wire.records import RecordColumns

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
UPPER: Final = np.frombuffer(b"".join(b"%02X" % byte for byte in range(256)), np.uint16)
LOWER: Final = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.uint16)
"""The two hexadecimal digits of each byte."""
_MAX_INT32: Final = 2**31 - 1


def variable_array(columns: RecordColumns, name: str, kind: pa.DataType) -> pa.Array:
    """Return a part of variable length.  The values lie in one buffer with others between them.  An array of values and
    gaps needs no copy; taking every second element copies the values once."""
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


def times(columns: RecordColumns, name: str) -> pa.Array:
    """Return `store_time` or `born_time`."""
    return pa.array(columns.header[f"{name}_ms"].astype(np.int64) * 1000).view(TIMESTAMP)


def key_lists(columns: RecordColumns) -> pa.Array:
    """Return the keys, which records join by NUL; no keys give an empty list."""
    texts = variable_array(columns, "keys", pa.string())
    if not pc.any(pc.greater(pc.binary_length(texts), 0)).as_py():
        return empty_lists(len(texts), pa.string())
    lists = pc.split_pattern(texts, "\0")
    return pc.if_else(pc.equal(pc.binary_length(texts), 0), pa.scalar([], pa.list_(pa.string())), lists)


def empty_lists(count: int, kind: pa.DataType) -> pa.Array:
    """Return an array of empty lists of a type."""
    return pa.ListArray.from_arrays(pa.array(np.zeros(count + 1, np.int32)), pa.array([], kind))


def message_ids(columns: RecordColumns, digits: Any) -> pa.Array:
    """Return the message ids in hexadecimal; `digits`: UPPER or LOWER."""
    ids = variable_array(columns, "message_id", pa.binary())
    _, offsets, data = ids.buffers()
    raw = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    ends = np.frombuffer(offsets, np.int32)[ids.offset : ids.offset + len(ids) + 1]
    text = np.take(digits, raw[: ends[-1]])
    return pa.Array.from_buffers(pa.string(), len(ids), [None, pa.py_buffer(2 * ends), pa.py_buffer(text)])
