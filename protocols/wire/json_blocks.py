"""JSON object bodies as Arrow columns, many at once, by pyarrow's reader.

That reader takes more than `json_rules` allow, and what it takes or does not survive may depend on a body's
neighbours.  So `faults_of` refuses bodies before it reads; of the rest it refuses no less than msgspec does.
"""

from __future__ import annotations

import io
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
from numpy.typing import NDArray

from entrepot.protocols.wire.json_rules import MAX_BYTES, MAX_DEPTH, WHITESPACE, fault_of

BLOCK_BYTES: Final = 64 << 20
_LINE: Final = pa.scalar(b"\n", pa.binary())
_IS_SPACE: Final = np.isin(np.arange(256), np.frombuffer(WHITESPACE.encode(), np.uint8))
_IS_BEFORE_VALUE: Final = np.isin(np.arange(256), np.frombuffer(b":,[-" + WHITESPACE.encode(), np.uint8))


def trimmed(bodies: Any) -> Any:
    """Return bodies without whitespace around them, and an empty one for null; not copied where nothing changes."""
    if bodies.null_count:
        bodies = pc.fill_null(bodies, b"")
    bounds, values = _bytes_of(bodies)
    starts, ends = bounds[:-1], bounds[1:]
    is_long = ends > starts
    starts, ends = starts[is_long], ends[is_long]
    if not (_IS_SPACE[values[starts]].any() or _IS_SPACE[values[ends - 1]].any()):
        return bodies
    return pc.ascii_trim(bodies.view(pa.string()), characters=WHITESPACE).view(pa.binary())


def faults_of(bodies: Any) -> dict[int, str]:
    """Return the reasons, by place, why bodies (trimmed) are refused before pyarrow's reader gets the others.  Of the
    grammar only those faults are found that this reader does not see, or does not survive."""
    if not len(bodies):
        return {}
    bounds, values = _bytes_of(bodies)
    is_object = _are_objects(bounds, values)
    suspects = ~is_object | (np.diff(bounds) > MAX_BYTES) | _have_words(bounds, values)
    suspects |= _may_be_deep(bounds, values, int(is_object.sum()))
    try:
        bodies.view(pa.string()).validate(full=True)
    except pa.ArrowInvalid:
        suspects |= np.fromiter((not _is_utf8(body) for body in bodies.to_pylist()), np.bool_, len(bodies))
    found = {at: fault_of(bodies[at].as_py()) for at in np.flatnonzero(suspects).tolist()}
    return {at: fault for at, fault in found.items() if fault is not None}


def read_block(bodies: Any, schema: Any, unexpected: str) -> Any:
    """Return a table of the columns of bodies that `faults_of` passes; None if one does not fit the schema, or a number
    does not fit its column.  `unexpected`: treatment of fields outside the schema (pyarrow's
    `unexpected_field_behavior`)."""
    try:
        return _read(bodies, schema, unexpected)
    except pa.ArrowException:
        return None


def has_wide(bodies: Any, most: int) -> bool:
    """True if a body may have more than `most` names: a reader that infers makes a column of each."""
    bounds, values = _bytes_of(bodies)
    if not len(bodies) or int(np.diff(bounds).max()) <= most:
        return False
    colons = np.flatnonzero(values == ord(":"))
    return bool((np.diff(np.searchsorted(colons, bounds)) > most).any())


def names_in(bodies: Any) -> int:
    """Return the most names that bodies may have in all: their colons."""
    return int(np.count_nonzero(_bytes_of(bodies)[1] == ord(":")))


def has_byte(bodies: Any, byte: str) -> bool:
    """True if a body has this ASCII character."""
    return byte.encode() in _bytes_of(bodies)[1].tobytes()  # in bytes, a rare byte is found ten times as fast


def is_infinite(column: Any) -> bool:
    """True if a column, or one in it, has an infinite number: JSON has none, so one was too large."""
    if isinstance(column, pa.ChunkedArray):
        return any(is_infinite(chunk) for chunk in column.chunks)
    if pa.types.is_floating(column.type):
        return bool(pc.any(pc.is_inf(column)).as_py())
    if pa.types.is_struct(column.type):
        return any(is_infinite(part) for part in column.flatten())
    if pa.types.is_list(column.type) or pa.types.is_map(column.type):
        return is_infinite(column.flatten() if pa.types.is_list(column.type) else column.items)
    return False


def without_signed_zeros(column: Any) -> Any:
    """Return a column of numbers with a point, or of structs and lists of them, where each zero is the same: of `-0`
    some readers make `0.0`."""
    kind = column.type
    if pa.types.is_floating(kind):
        return pc.add(column, pa.scalar(0.0, kind))
    if pa.types.is_struct(kind):
        parts = [without_signed_zeros(part) for part in column.flatten()]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=column.is_null())
    if pa.types.is_list(kind):
        whole = column.take(np.arange(len(column))) if column.offset else column
        mask = whole.is_null() if whole.null_count else None
        return pa.ListArray.from_arrays(whole.offsets, without_signed_zeros(whole.values), type=kind, mask=mask)
    return column


def _read(bodies: Any, schema: Any, unexpected: str) -> Any:
    lines = pc.binary_join_element_wise(bodies, _LINE, b"")
    data = _data_of(lines)
    if len(data) > BLOCK_BYTES and len(bodies) > 1:
        half = len(bodies) // 2
        halves = [_read(part, schema, unexpected) for part in (bodies[:half], bodies[half:])]
        return None if any(part is None for part in halves) else pa.concat_tables(halves, promote_options="default")
    table = pyarrow.json.read_json(
        io.BytesIO(data) if isinstance(data, bytes) else pa.BufferReader(data),
        read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=max(len(data), 1)),
        parse_options=pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected),
    )
    if table.num_rows != len(bodies):  # one body had two objects
        return None
    return None if any(is_infinite(column) for column in table.columns) else table


def _data_of(lines: Any) -> Any:
    """Return the bytes of all values in sequence."""
    _, offsets, data = lines.buffers()
    bounds = np.frombuffer(offsets, np.int32)[lines.offset : lines.offset + len(lines) + 1]
    return data.slice(int(bounds[0]), int(bounds[-1] - bounds[0]))


def _bytes_of(bodies: Any) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Return the bounds of an array's values, from 0 on, and their bytes."""
    _, offsets, data = bodies.buffers()
    if not len(bodies) or data is None:
        return np.zeros(len(bodies) + 1, np.int32), np.empty(0, np.uint8)
    bounds = np.frombuffer(offsets, np.int32)[bodies.offset : bodies.offset + len(bodies) + 1]
    return bounds - bounds[0], np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]]


def _are_objects(bounds: NDArray[np.int32], values: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Mark bodies that begin and end like an object.  So none continues in the next, and none is empty: pyarrow's
    reader crashes on a block of nothing but `null`."""
    found: NDArray[np.bool_] = bounds[1:] > bounds[:-1]
    found[found] = (values[bounds[:-1][found]] == ord("{")) & (values[bounds[1:][found] - 1] == ord("}"))
    return found


def _may_be_deep(bounds: NDArray[np.int32], values: NDArray[np.uint8], objects: int) -> NDArray[np.bool_]:
    """Mark bodies with more opening brackets than levels are allowed.  `objects`: bodies that have at least one."""
    longest = int(np.diff(bounds).max())
    if longest <= MAX_DEPTH or sum(np.count_nonzero(values == each) for each in b"{[") < objects + MAX_DEPTH:
        return np.zeros(len(bounds) - 1, np.bool_)
    places = np.flatnonzero((values == ord("{")) | (values == ord("[")))
    found: NDArray[np.bool_] = np.diff(np.searchsorted(places, bounds)) > MAX_DEPTH
    return found


def _have_words(bounds: NDArray[np.int32], values: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Mark bodies with NaN or Infinity in the place of a value, or with NUL, at which pyarrow's reader ends."""
    found = np.zeros(len(bounds) - 1, np.bool_)
    data = values.tobytes()  # in bytes, a rare byte is found ten times as fast
    places = [np.flatnonzero(values == 0)] if 0 in data else []
    for word in (b"NaN", b"Inf"):
        if word[0] in data:
            at = np.flatnonzero(values[:-2] == word[0])
            at = at[(values[at + 1] == word[1]) & (values[at + 2] == word[2])]
            places.append(at[_IS_BEFORE_VALUE[values[at - 1]]])
    for each in places:
        found[np.searchsorted(bounds, each, side="right") - 1] = True
    return found


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True
