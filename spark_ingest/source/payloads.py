"""Bodies into columns: JSON and CBOR, with errors told beside and never lost.

The rule for JSON is `protocols/wire/json_rules.py`. Bodies that it allows go through pyarrow's reader as one block.
Where a body does not fit, a block is checked body by body (msgspec, by the same types), and the rest is read as a block
again. Values that do not fit are told in `_rescued` (`misfits.py`); bad bodies in `_error`, with the bytes in `_raw`.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, Final

import cbor2
import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from entrepot.domain.printable import printable
from entrepot.protocols.wire.json_blocks import (
    faults_of,
    has_byte,
    is_infinite,
    read_block,
    trimmed,
    without_signed_zeros,
)
from entrepot.protocols.wire.json_rules import decoded, said
from entrepot.spark_ingest.source.misfits import CBOR_TYPES, Names, RowParser, plain, spellings_pattern
from entrepot.spark_ingest.source.options import Parse
from entrepot.spark_ingest.source.payload_types import payload_type

MAX_ERROR_LENGTH: Final = 200


class PayloadParser:
    """A parser of bodies of one schema: Arrow `fields`, by their names in bodies.

    A body's columns do not depend on the others of its block, however they are read.
    """

    def __init__(self, parse: Parse, fields: Sequence[pa.Field]) -> None:
        self._fields = tuple(fields)
        self._is_json = parse is Parse.JSON
        self._schema = pa.schema([pa.field(field.name, _read_as(field.type)) for field in self._fields])
        self._struct = payload_type(self._fields, is_json=self._is_json)
        self._decode: Callable[[bytes], Any] = (
            msgspec.json.Decoder(self._struct).decode if self._is_json else self._decode_cbor
        )
        self._rows = RowParser(self._fields, None if self._is_json else _load_cbor, self._fits)
        self._names = Names(self._fields)
        self._spellings, self._escapes = spellings_pattern(self._fields)
        # types that pyarrow's reader cannot read go body by body
        self._reads_blocks = self._is_json and all(_is_read_by_pyarrow(field.type) for field in self._fields)

    def parse(self, bodies: pa.BinaryArray) -> tuple[list[pa.Array], pa.Array, pa.Array, pa.Array]:
        """Return the columns, `_rescued`, `_error` and `_raw` (null where the body was fine)."""
        count = len(bodies)
        asked = trimmed(bodies) if self._is_json else bodies
        faults = faults_of(asked) if self._is_json else {}
        alone = self._misspelt(asked, faults) if self._is_json else set()
        columns = self._block(asked, faults.keys() | alone)
        if columns is None:
            values, misfits = self._values(asked, faults.keys() | alone)
            alone |= misfits
            columns = self._block(asked, faults.keys() | alone)
            if columns is None:
                columns, misfits = self._columns(values)
                alone |= misfits
        rescued = pa.nulls(count, pa.string())
        if alone:
            columns, rescued = self._with_rows(columns, asked, sorted(alone), faults)
        if not faults:
            return columns, rescued, pa.nulls(count, pa.string()), pa.nulls(count, pa.binary())
        told = pa.array([_told(faults[at]) if at in faults else None for at in range(count)], pa.string())
        return columns, rescued, told, pc.if_else(pc.is_valid(told), bodies, pa.scalar(None, pa.binary()))

    def _misspelt(self, bodies: pa.BinaryArray, faults: Mapping[int, str]) -> set[int]:
        """Places of bodies that may have another spelling of a column's name: the reader of blocks passes over it."""
        found: set[int] = set()
        if faults:
            is_bad = np.zeros(len(bodies), np.bool_)
            is_bad[list(faults)] = True
            bodies = pc.if_else(pa.array(is_bad), pa.scalar(b"", pa.binary()), bodies)
        texts = bodies.view(pa.string())
        patterns = [self._spellings] if self._spellings else []
        if has_byte(bodies, "\\"):
            patterns.append(self._escapes)
        for pattern in patterns:
            is_match = pc.match_substring_regex(texts, pattern).to_numpy(zero_copy_only=False)
            found.update(np.flatnonzero(is_match).tolist())
        return found

    def _values(self, bodies: pa.BinaryArray, without: Set[int]) -> tuple[list[Any], set[int]]:
        """The values of bodies but some, one by one, None for the others; and the places of those that do not fit."""
        values: list[Any] = [None] * len(bodies)
        misfits = set()
        for at, body in enumerate(bodies.to_pylist()):
            if at not in without:
                try:
                    values[at] = self._decode(body)
                except MemoryError:
                    raise  # no fault of the body: another attempt may give its row
                except Exception:  # noqa: BLE001  # bodies are anybody's: it is looked at by itself
                    misfits.add(at)
        return values, misfits

    def _columns(self, values: Sequence[Any]) -> tuple[list[pa.Array], set[int]]:
        """The columns of decoded values; and the places of those that Arrow does not take: they are null."""
        given = [
            [None if value is None else plain(getattr(value, f"f{number}")) for value in values]
            for number in range(len(self._fields))
        ]
        misfits: set[int] = set()
        for field, of_field in zip(self._fields, given, strict=True):
            if self._column(of_field, field) is None:
                misfits |= {at for at, value in enumerate(of_field) if not self._fits(value, field)}
        for of_field in given:
            for at in misfits:
                of_field[at] = None
        columns = [self._column(of_field, field) for of_field, field in zip(given, self._fields, strict=True)]
        return [_made(column) for column in columns], misfits

    def _with_rows(
        self, columns: Sequence[pa.Array], bodies: pa.BinaryArray, places: Sequence[int], faults: dict[int, str]
    ) -> tuple[list[pa.Array], pa.Array]:
        """The columns with the rows of these places, which are read one by one; and what does not fit. It adds the
        faults that it finds."""
        rows: list[list[Any]] = []
        rescued: list[str | None] = [None] * len(bodies)
        nothing = [None] * len(self._fields)
        for at in places:
            values: list[Any] = nothing
            try:
                values, rescued[at] = self._rows.row(bodies[at].as_py())
            except MemoryError:
                raise  # no fault of the body: another attempt may give its row
            except Exception as error:  # noqa: BLE001  # bodies are anybody's: whatever they raise is theirs alone
                faults[at] = said(error)
            rows.append(values)
        order = np.arange(len(bodies))
        order[list(places)] = len(bodies) + np.arange(len(places))
        found: list[pa.Array] = []
        for number, (field, column) in enumerate(zip(self._fields, columns, strict=True)):
            made = _made(self._column([row[number] for row in rows], field))
            found.append(pa.concat_arrays([column, made]).take(pa.array(order)))
        return found, pa.array(rescued, pa.string())

    def _fits(self, value: Any, field: pa.Field) -> bool:
        return self._column([value], field) is not None

    def _nulls(self, count: int) -> list[pa.Array]:
        return [pa.nulls(count, field.type) for field in self._fields]

    def _block(self, bodies: pa.BinaryArray, without: Set[int]) -> list[pa.Array] | None:
        """The columns, read as a block of the bodies but some, with nulls in the places of these; None if one of the
        others does not fit."""
        if len(without) == len(bodies):
            return self._nulls(len(bodies))
        if not self._reads_blocks:
            return None
        is_good = np.ones(len(bodies), np.bool_)
        is_good[list(without)] = False
        table = read_block(bodies.filter(pa.array(is_good)) if without else bodies, self._schema, "ignore")
        if table is None:
            return None
        columns: list[pa.Array] = []
        for at, field in enumerate(self._fields):
            column = self._fitted(_one(table.column(at)), field)
            if column is None:
                return None
            columns.append(column)
        if not without:
            return columns
        places = pa.array(np.cumsum(is_good) - 1, mask=~is_good)
        return [column.take(places) for column in columns]

    def _fitted(self, column: pa.Array, field: pa.Field) -> pa.Array | None:
        """A column in its field's type; None if a number of JSON is too large for it."""
        fitted = column if column.type == field.type else column.cast(field.type)
        if not (self._is_json and _has_floats(field.type)):
            return fitted
        return None if is_infinite(fitted) else without_signed_zeros(fitted)

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
        value = _load_cbor(body)
        if isinstance(value, dict) and self._names.are_other_in(value):
            raise ValueError("a name differs from a column's only in case")
        return msgspec.convert(value, self._struct, builtin_types=CBOR_TYPES)


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
        raise ValueError("bytes after the CBOR value")
    return value


def _told(fault: str) -> str:
    """A fault as a text that Arrow takes, whatever it quotes."""
    return printable(fault)[:MAX_ERROR_LENGTH]


def _made(column: pa.Array | None) -> pa.Array:
    assert column is not None, "what fits alone fits beside others"
    return column


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


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
