"""Bodies into columns: JSON and CBOR, with errors told beside and never lost.

JSON goes through pyarrow's reader as one block. A block with a bad body is checked body by body (msgspec, by the same
types): bad ones are told in `_error` with the bytes in `_raw`, and the rest is read as a block again.
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

from entrepot.protocols.remoting.json_blocks import are_objects, read_block
from entrepot.spark_ingest.source.options import Parse
from entrepot.spark_ingest.source.payload_types import payload_type

MAX_ERROR_LENGTH: Final = 200
_CBOR_TYPES: Final = (bytes, bytearray, datetime.datetime, datetime.date, decimal.Decimal)


class PayloadParser:
    """A parser of bodies of one schema: Arrow `fields`, by their names in bodies."""

    def __init__(self, parse: Parse, fields: Sequence[pa.Field]) -> None:
        self._fields = tuple(fields)
        self._schema = pa.schema(self._fields)
        self._struct = payload_type(self._fields)
        self._decode: Callable[[bytes], Any] = (
            msgspec.json.Decoder(self._struct).decode if parse is Parse.JSON else self._decode_cbor
        )
        # types that pyarrow's reader cannot read go body by body
        self._reads_blocks = parse is Parse.JSON and all(_is_read_by_pyarrow(field.type) for field in self._fields)

    def parse(self, bodies: pa.BinaryArray) -> tuple[list[pa.Array], pa.Array, pa.Array]:
        """Return the columns, `_error` and `_raw` (null where the body was fine)."""
        count = len(bodies)
        if self._reads_blocks:
            block = self._block(bodies)
            if block is not None:
                return block, pa.nulls(count, pa.string()), pa.nulls(count, pa.binary())
        return self._one_by_one(bodies)

    def _block(self, bodies: pa.BinaryArray) -> list[pa.Array] | None:
        """The columns if all bodies fit, else None."""
        count = len(bodies)
        if not count:
            return [pa.array([], field.type) for field in self._fields]
        if not are_objects(bodies).all():
            return None
        table = read_block(bodies, self._schema, "ignore")
        return None if table is None else [_one(table.column(field.name)) for field in self._fields]

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
        """The columns, read as a block of the good bodies, with nulls in the places of the others."""
        is_good = np.fromiter((error is None for error in errors), np.bool_, len(errors))
        if not is_good.any():
            return None
        block = self._block(bodies.filter(pa.array(is_good)))
        if block is None:
            return None
        places = pa.array(np.cumsum(is_good) - 1, mask=~is_good)
        return [column.take(places) for column in block]

    def _columns(self, values: list[Any], errors: list[str | None]) -> list[pa.Array]:
        """The columns of decoded bodies. A value that Arrow refuses makes its body a bad one."""
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
    """A body's value in Python; None for an invalid one."""
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
    """True if pyarrow's JSON reader agrees with Spark's on a type: it reads times and decimals differently."""
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
