"""Bodies into columns: JSON and CBOR, with errors told beside and never lost.

The rule for JSON is `protocols/remoting/json_rules.py`. What it allows goes through pyarrow's reader as one block.
Where a body does not fit, a block is checked body by body (msgspec, by the same types), and the rest is read as a block
again. Bad bodies are told in `_error`, with the bytes in `_raw`.
"""

from __future__ import annotations

import datetime
import decimal
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import cbor2
import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from entrepot.domain.printable import printable
from entrepot.protocols.remoting.json_blocks import faults_of, is_infinite, read_block, trimmed, without_signed_zeros
from entrepot.protocols.remoting.json_rules import decoded, said
from entrepot.spark_ingest.source.options import Parse
from entrepot.spark_ingest.source.payload_types import payload_type

MAX_ERROR_LENGTH: Final = 200
MAX_SHOWN: Final = 60
"""Longest part of a value in a fault."""
_CBOR_TYPES: Final = (bytes, bytearray, datetime.datetime, datetime.date, decimal.Decimal)


class PayloadParser:
    """A parser of bodies of one schema: Arrow `fields`, by their names in bodies.

    What becomes of a body does not depend on the others of its block, however they are read.
    """

    def __init__(self, parse: Parse, fields: Sequence[pa.Field]) -> None:
        self._fields = tuple(fields)
        self._is_json = parse is Parse.JSON
        self._schema = pa.schema([pa.field(field.name, _read_as(field.type)) for field in self._fields])
        self._struct = payload_type(self._fields)
        self._decode: Callable[[bytes], Any] = (
            msgspec.json.Decoder(self._struct).decode if self._is_json else self._decode_cbor
        )
        # types that pyarrow's reader cannot read go body by body
        self._reads_blocks = self._is_json and all(_is_read_by_pyarrow(field.type) for field in self._fields)

    def parse(self, bodies: pa.BinaryArray) -> tuple[list[pa.Array], pa.Array, pa.Array]:
        """Return the columns, `_error` and `_raw` (null where the body was fine)."""
        count = len(bodies)
        asked = trimmed(bodies) if self._is_json else bodies
        faults = faults_of(asked) if self._is_json else {}
        columns = self._block(asked, faults)
        if columns is None:
            values = self._values(asked, faults)
            columns = self._block(asked, faults)
            if columns is None:
                columns = self._columns(values, faults)
        if not faults:
            return columns, pa.nulls(count, pa.string()), pa.nulls(count, pa.binary())
        told = pa.array([_told(faults[at]) if at in faults else None for at in range(count)], pa.string())
        return columns, told, pc.if_else(pc.is_valid(told), bodies, pa.scalar(None, pa.binary()))

    def _block(self, bodies: pa.BinaryArray, faults: Mapping[int, str]) -> list[pa.Array] | None:
        """The columns, read as a block of the bodies without a fault, with nulls in the places of the others; None if
        one of them does not fit."""
        if len(faults) == len(bodies):
            return [pa.nulls(len(bodies), field.type) for field in self._fields]
        if not self._reads_blocks:
            return None
        is_good = np.ones(len(bodies), np.bool_)
        is_good[list(faults)] = False
        table = read_block(bodies.filter(pa.array(is_good)) if faults else bodies, self._schema, "ignore")
        if table is None:
            return None
        columns: list[pa.Array] = []
        for at, field in enumerate(self._fields):
            column = self._fitted(_one(table.column(at)), field)
            if column is None:
                return None
            columns.append(column)
        if not faults:
            return columns
        places = pa.array(np.cumsum(is_good) - 1, mask=~is_good)
        return [column.take(places) for column in columns]

    def _fitted(self, column: pa.Array, field: pa.Field) -> pa.Array | None:
        """A column in its field's type; None if a number of JSON is too large for it."""
        fitted = column if column.type == field.type else column.cast(field.type)
        if not (self._is_json and _has_floats(field.type)):
            return fitted
        return None if is_infinite(fitted) else without_signed_zeros(fitted)

    def _values(self, bodies: pa.BinaryArray, faults: dict[int, str]) -> list[Any]:
        """The values of bodies, one by one, None for those with a fault; it adds the faults that it finds."""
        values: list[Any] = [None] * len(bodies)
        for at, body in enumerate(bodies.to_pylist()):
            if at in faults:
                continue
            try:
                values[at] = self._decode(body)
            except MemoryError:
                raise  # no fault of the body: another attempt may give its row
            except Exception as error:  # noqa: BLE001  # bodies are anybody's: whatever they raise is theirs alone
                faults[at] = said(error)
        return values

    def _columns(self, values: Sequence[Any], faults: dict[int, str]) -> list[pa.Array]:
        """The columns of decoded values. A value that does not fit its column is its body's fault."""
        given = [
            [None if value is None else _plain(getattr(value, f"f{number}")) for value in values]
            for number in range(len(self._fields))
        ]
        while True:
            columns = [self._column(of_field, field) for of_field, field in zip(given, self._fields, strict=True)]
            if all(column is not None for column in columns):
                return columns
            known = len(faults)
            for field, column, of_field in zip(self._fields, columns, given, strict=True):
                for at in range(len(values)) if column is None else ():
                    if at not in faults and self._column([of_field[at]], field) is None:
                        faults[at] = f"{field.name}: {_shown(of_field[at])} does not fit its column"
            assert len(faults) > known, "what fits alone fits beside others"
            for of_field in given:
                for at in faults:
                    of_field[at] = None

    def _column(self, given: list[Any], field: pa.Field) -> pa.Array | None:
        """A column of Python's values; None if one does not fit."""
        try:
            column = pa.array(given, _read_as(field.type))
            return self._fitted(column, field)
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001  # Arrow has many words for it, and values are anybody's
            return None

    def _decode_cbor(self, body: bytes) -> Any:
        return msgspec.convert(_load_cbor(body), self._struct, builtin_types=_CBOR_TYPES)


def decode_any(parse: Parse, body: bytes) -> Any:
    """A body's value in Python; None for an invalid one."""
    try:
        return decoded(body) if parse is Parse.JSON else _load_cbor(body)
    except ValueError:
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


def _told(fault: str) -> str:
    """A fault as a text that Arrow takes, whatever it quotes."""
    return printable(fault)[:MAX_ERROR_LENGTH]


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "..."


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


def _has_floats(kind: pa.DataType) -> bool:
    """True if a column has numbers with a point, at any depth."""
    if pa.types.is_struct(kind):
        return any(_has_floats(field.type) for field in kind)
    if pa.types.is_list(kind):
        return _has_floats(kind.value_type)
    if pa.types.is_map(kind):
        return _has_floats(kind.item_type)
    return bool(pa.types.is_floating(kind))


def _read_as(kind: pa.DataType) -> pa.DataType:
    """The type to read for a column: doubles for short ones, so that all ways round in the same steps."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _read_as(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_read_as(kind.value_type))
    return pa.float64() if pa.types.is_float32(kind) else kind
