"""Avro's container files, as far as Iceberg's manifests need them.

Files are read by the very schema with which they were written: another program's are refused. A record is a dict by
field name, an array with the logical type `map` a dict by its keys.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

MAGIC: Final = b"Obj\x01"
SYNC_BYTES: Final = 16
MAX_BLOCK_BYTES: Final = 64 << 20
"""Most bytes of a block, unpacked; a corrupted one does not take more memory."""
_RAW: Final = -15
"""zlib's window without a header, which is Avro's codec `deflate`."""

Schema = Any
"""A schema of Avro: the name of a type, a dict, or ["null", schema]."""


def encode_file(
    schema: Schema, metadata: Mapping[str, str], records: Iterable[Mapping[str, Any]], sync: bytes
) -> bytes:
    """Return a file of records, which are one block. `sync`: its marker, of SYNC_BYTES."""
    block = bytearray()
    count = 0
    for record in records:
        _write(schema, record, block)
        count += 1
    told = {**metadata, "avro.schema": json.dumps(schema), "avro.codec": "deflate"}
    out = bytearray(MAGIC)
    _write_int(len(told), out)
    for key, text in told.items():
        _write("string", key, out)
        _write("string", text, out)
    _write_int(0, out)
    out += sync
    if count:
        packer = zlib.compressobj(wbits=_RAW)
        _write_int(count, out)
        _write("bytes", packer.compress(bytes(block)) + packer.flush(), out)
        out += sync
    return bytes(out)


def decode_file(schema: Schema, data: bytes) -> list[dict[str, Any]]:
    """Return the records of a file. Raises ValueError for a corrupted file, or one with another schema."""
    source = _Source(data)
    if source.take(len(MAGIC)) != MAGIC:
        raise ValueError("it is not a file of Avro")
    told: dict[str, str] = {}
    while count := source.integer():
        for _ in range(count):
            key = source.text()
            told[key] = source.text()
    if told.get("avro.codec") != "deflate" or told.get("avro.schema") != json.dumps(schema):
        raise ValueError("another program wrote it")
    sync = source.take(SYNC_BYTES)
    found: list[dict[str, Any]] = []
    while not source.is_at_end:
        count, packed = source.integer(), source.take(source.integer())
        if source.take(SYNC_BYTES) != sync:
            raise ValueError("a block does not end where it says")
        block = _Source(_unpacked(packed))
        found += [_read(schema, block) for _ in range(count)]
        if not block.is_at_end:
            raise ValueError("a block has more than its records")
    return found


def _unpacked(packed: bytes) -> bytes:
    unpacker = zlib.decompressobj(wbits=_RAW)
    try:
        data = unpacker.decompress(packed, MAX_BLOCK_BYTES)
    except zlib.error as error:
        raise ValueError(f"a block cannot be unpacked: {error}") from None
    if not unpacker.eof:
        raise ValueError("a block is cut, or too large")
    return data


def _write_int(value: int, out: bytearray) -> None:
    left = (value << 1) ^ (value >> 63)
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)


def _write(schema: Schema, value: Any, out: bytearray) -> None:
    if isinstance(schema, list):
        _write_int(int(value is not None), out)
        if value is not None:
            _write(schema[1], value, out)
    elif isinstance(schema, dict):
        _write_dict(schema, value, out)
    elif schema in ("int", "long"):
        _write_int(value, out)
    else:
        data = value.encode() if schema == "string" else value
        _write_int(len(data), out)
        out += data


def _write_dict(schema: dict[str, Any], value: Any, out: bytearray) -> None:
    if schema["type"] == "record":
        for field in schema["fields"]:
            _write(field["type"], value[field["name"]], out)
        return
    if value:
        _write_int(len(value), out)
        for key, of_key in value.items():
            _write(schema["items"], {"key": key, "value": of_key}, out)
    _write_int(0, out)


def _read(schema: Schema, source: _Source) -> Any:
    if isinstance(schema, list):
        return _read(schema[1], source) if source.integer() else None
    if isinstance(schema, dict):
        if schema["type"] == "record":
            return {field["name"]: _read(field["type"], source) for field in schema["fields"]}
        found: dict[Any, Any] = {}
        while count := source.integer():
            for _ in range(count):
                pair = _read(schema["items"], source)
                found[pair["key"]] = pair["value"]
        return found
    if schema in ("int", "long"):
        return source.integer()
    return source.text() if schema == "string" else source.take(source.integer())


class _Source:
    """Bytes that are read from the first to the last. Every read raises ValueError where they end."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def is_at_end(self) -> bool:
        return self._at == len(self._data)

    def take(self, count: int) -> bytes:
        if not 0 <= count <= len(self._data) - self._at:
            raise ValueError("it ends too early")
        self._at += count
        return self._data[self._at - count : self._at]

    def integer(self) -> int:
        value = shift = 0
        while True:
            [byte] = self.take(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            if shift > 63:
                raise ValueError("a number is too long")

    def text(self) -> str:
        return self.take(self.integer()).decode()
