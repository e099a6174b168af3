"""JSON object bodies as Arrow columns, many at once, by pyarrow's reader."""

from __future__ import annotations

import io
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
from numpy.typing import NDArray

BLOCK_BYTES: Final = 64 << 20
_LINE: Final = pa.scalar(b"\n", pa.binary())


def are_objects(bodies: Any) -> NDArray[np.bool_]:
    """Return a mask of the bodies, none null, that begin and end like an object.  So none is empty, and none continues
    in the next.  (pyarrow's reader crashes on a block of nothing but `null`.)"""
    _, offsets, data = bodies.buffers()
    bounds = np.frombuffer(offsets, np.int32)[bodies.offset : bodies.offset + len(bodies) + 1]
    found: NDArray[np.bool_] = bounds[1:] > bounds[:-1]
    if data is not None and found.any():
        values = np.frombuffer(data, np.uint8)
        found[found] = (values[bounds[:-1][found]] == ord("{")) & (values[bounds[1:][found] - 1] == ord("}"))
    return found


def read_block(bodies: Any, schema: Any, unexpected: str) -> Any:
    """Return a table of the object bodies' columns; None if one does not fit the schema.  `unexpected`: treatment of
    fields outside the schema (pyarrow's `unexpected_field_behavior`)."""
    lines = pc.binary_join_element_wise(bodies, _LINE, b"")
    assert isinstance(lines, pa.BinaryArray)
    data = _values_of(lines)
    if len(data) > BLOCK_BYTES and len(bodies) > 1:
        half = len(bodies) // 2
        halves = [read_block(part, schema, unexpected) for part in (bodies[:half], bodies[half:])]
        return None if any(part is None for part in halves) else pa.concat_tables(halves, promote_options="default")
    try:
        table = pyarrow.json.read_json(
            io.BytesIO(data) if isinstance(data, bytes) else pa.BufferReader(data),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=max(len(data), 1)),
            parse_options=pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected),
        )
    except pa.ArrowInvalid:
        return None
    return table if table.num_rows == len(bodies) else None  # else one body had two objects


def _values_of(lines: Any) -> Any:
    """Return the bytes of all values in sequence."""
    _, offsets, data = lines.buffers()
    bounds = np.frombuffer(offsets, np.int32)[lines.offset : lines.offset + len(lines) + 1]
    return data.slice(int(bounds[0]), int(bounds[-1] - bounds[0]))
