"""Bodies into columns: JSON and CBOR, with what is wrong told beside and never lost.

JSON goes through pyarrow's reader as one block.  A block with a body that does not fit is looked at body by body
(msgspec, by the same types): those that do not fit are told in `_error` with the bytes in `_raw`, the rest is read as
a block again.
"""

from __future__ import annotations

import datetime
import decimal
import io
from collections.abc import Callable, Sequence
from typing import Any, Final

import cbor2
import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from spark_ingest.source.options import Parse
from spark_ingest.source.payload_types import payload_type

BLOCK_BYTES: Final = 64 << 20
MAX_ERROR_LENGTH: Final = 200
_CBOR_TYPES: Final = (bytes, bytearray, datetime.datetime, datetime.date, decimal.Decimal)
_LINE = pa.scalar(b"\n", pa.binary())


class PayloadParser:
    """Parses bodies of one schema: `fields` of Arrow, by the names they have in bodies."""

    def __init__(self, parse: Parse, fields: Sequence[pa.Field]) -> None:
        self._fields = tuple(fields)
        self._schema = pa.schema(self._fields)
        self._struct = payload_type(self._fields)
        self._decode: Callable[[bytes], Any] = (
            msgspec.json.Decoder(self._struct).decode if parse is Parse.JSON else self._decode_cbor
        )
        # what pyarrow's reader has no words for goes body by body
        self._reads_blocks = parse is Parse.JSON and all(_is_read_by_pyarrow(field.type) for field in self._fields)

    def parse(self, bodies: pa.BinaryArray) -> tuple[list[pa.Array], pa.Array, pa.Array]:
        """The columns, `_error` and `_raw` (null where the body was fine)."""
        count = len(bodies)
        if self._reads_blocks:
            block = self._block(bodies)
            if block is not None:
                return block, pa.nulls(count, pa.string()), pa.nulls(count, pa.binary())
        return self._one_by_one(bodies)

    def _block(self, bodies: pa.BinaryArray) -> list[pa.Array] | None:
        """The columns of bodies that all fit; None where one does not."""
        count = len(bodies)
        if not count:
            return [pa.array([], field.type) for field in self._fields]
        if not _are_objects(bodies):
            return None
        lines = pc.binary_join_element_wise(bodies, _LINE, b"")
        assert isinstance(lines, pa.BinaryArray)
        data = _values_of(lines)
        if len(data) > BLOCK_BYTES and count > 1:
            halves = [self._block(bodies.slice(0, count // 2)), self._block(bodies.slice(count // 2))]
            if halves[0] is None or halves[1] is None:
                return None
            return [pa.concat_arrays(pair) for pair in zip(halves[0], halves[1], strict=True)]
        try:
            table = pyarrow.json.read_json(
                io.BytesIO(data) if isinstance(data, bytes) else pa.BufferReader(data),
                read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=max(len(data), 1)),
                parse_options=pyarrow.json.ParseOptions(
                    explicit_schema=self._schema, unexpected_field_behavior="ignore"
                ),
            )
        except pa.ArrowInvalid:
            return None
        if table.num_rows != count:
            return None  # two objects in one body
        return [_one(table.column(field.name)) for field in self._fields]

    def _one_by_one(self, bodies: pa.BinaryArray) -> tuple[list[pa.Array], pa.Array, pa.Array]:
        values: list[Any] = []
        errors: list[str | None] = []
        for body in bodies.to_pylist():
            try:
                values.append(self._decode(body))
                errors.append(None)
            except (msgspec.DecodeError, ValueError, TypeError, RecursionError, OverflowError) as error:
                values.append(None)
                errors.append(str(error)[:MAX_ERROR_LENGTH] or type(error).__name__)
        columns = self._block_of_good(bodies, errors) if self._reads_blocks else None
        if columns is None:
            columns = self._columns(values, errors)
        told = pa.array(errors, pa.string())
        raw = pc.if_else(pc.is_valid(told), bodies, pa.scalar(None, pa.binary()))
        return columns, told, raw

    def _block_of_good(self, bodies: pa.BinaryArray, errors: list[str | None]) -> list[pa.Array] | None:
        """The columns, read as a block of those bodies that are good, with nulls in the places of the others."""
        is_good = np.fromiter((error is None for error in errors), np.bool_, len(errors))
        if not is_good.any():
            return None
        block = self._block(bodies.filter(pa.array(is_good)))
        if block is None:
            return None
        places = pa.array(np.cumsum(is_good) - 1, mask=~is_good)
        return [column.take(places) for column in block]

    def _columns(self, values: list[Any], errors: list[str | None]) -> list[pa.Array]:
        """The columns of decoded bodies.  A value that Arrow does not take makes its body a bad one."""
        columns = []
        for number, field in enumerate(self._fields):
            given = [None if value is None else _plain(getattr(value, f"f{number}")) for value in values]
            try:
                columns.append(pa.array(given, field.type))
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError):
                for at, value in enumerate(given):
                    try:
                        pa.scalar(value, field.type)
                    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError) as error:
                        errors[at] = f"{field.name}: {error}"[:MAX_ERROR_LENGTH]
                        values[at] = None
                return self._columns(values, errors)
        return columns

    def _decode_cbor(self, body: bytes) -> Any:
        return msgspec.convert(_load_cbor(body), self._struct, builtin_types=_CBOR_TYPES)


def decode_any(parse: Parse, body: bytes) -> Any:
    """A body's value as Python has it; None where it is none."""
    try:
        return msgspec.json.decode(body) if parse is Parse.JSON else _load_cbor(body)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None


def _load_cbor(body: bytes) -> Any:
    stream = io.BytesIO(body)
    try:
        value = cbor2.load(stream)
    except (cbor2.CBORError, EOFError) as error:
        raise ValueError(f"not CBOR: {error}") from error
    if stream.tell() != len(body):
        raise ValueError("bytes behind the CBOR value")
    return value


def _are_objects(bodies: pa.BinaryArray) -> bool:
    """Whether each begins and ends as an object does.

    Then none is empty, none goes on in the next, and as many rows as bodies are a row for each.  (pyarrow's reader
    does not survive a block of nothing but `null`.)
    """
    _, offsets, data = bodies.buffers()
    bounds = np.frombuffer(offsets, np.int32)[bodies.offset : bodies.offset + len(bodies) + 1]
    if not bool((bounds[1:] > bounds[:-1]).all()):
        return False
    values = np.frombuffer(data, np.uint8)
    return bool((values[bounds[:-1]] == ord("{")).all() and (values[bounds[1:] - 1] == ord("}")).all())


def _values_of(lines: pa.BinaryArray) -> pa.Buffer:
    """The bytes of all values, one behind the other."""
    _, offsets, data = lines.buffers()
    bounds = np.frombuffer(offsets, np.int32)[lines.offset : lines.offset + len(lines) + 1]
    return data.slice(int(bounds[0]), int(bounds[-1] - bounds[0]))


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _plain(value: Any) -> Any:
    """Structs of msgspec as dictionaries."""
    if isinstance(value, msgspec.Struct):
        names = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
        return {name: _plain(getattr(value, attribute)) for name, attribute in names}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return [(name, _plain(item)) for name, item in value.items()]
    return value


def _is_read_by_pyarrow(kind: pa.DataType) -> bool:
    """Whether pyarrow's JSON reader makes of JSON what Spark's readers would: times and decimals it reads otherwise."""
    if pa.types.is_struct(kind):
        return all(_is_read_by_pyarrow(field.type) for field in kind)
    if pa.types.is_list(kind):
        return _is_read_by_pyarrow(kind.value_type)
    return bool(
        pa.types.is_boolean(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_float32(kind)
        or pa.types.is_float64(kind)
        or pa.types.is_string(kind)
    )
