"""Manifests: lists of files, and lists of these lists, as Avro.

A manifest never changes. A snapshot has a list of manifests, of which the next one keeps most.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final

import msgspec

from entrepot.broker.tiered.delta_actions import AddFile
from entrepot.broker.tiered.iceberg.avro import decode_file, encode_file
from entrepot.broker.tiered.iceberg.bounds import bounds_of


class Status(IntEnum):
    """Use that a snapshot makes of a file."""

    EXISTING = 0
    ADDED = 1
    DELETED = 2


def _field(number: int, name: str, kind: Any) -> dict[str, Any]:
    optional = {"default": None} if isinstance(kind, list) else {}
    return {"name": name, "field-id": number, "type": kind, **optional}


def _map(key: int, value: int, kind: str) -> list[Any]:
    pair = {
        "type": "record",
        "name": f"k{key}_v{value}",
        "fields": [_field(key, "key", "int"), _field(value, "value", kind)],
    }
    return ["null", {"type": "array", "logicalType": "map", "items": pair}]


_DATA_FILE: Final = {
    "type": "record",
    "name": "r2",
    "fields": [
        _field(134, "content", "int"),
        _field(100, "file_path", "string"),
        _field(101, "file_format", "string"),
        _field(102, "partition", {"type": "record", "name": "r102", "fields": []}),
        _field(103, "record_count", "long"),
        _field(104, "file_size_in_bytes", "long"),
        _field(109, "value_counts", _map(119, 120, "long")),
        _field(110, "null_value_counts", _map(121, 122, "long")),
        _field(125, "lower_bounds", _map(126, 127, "bytes")),
        _field(128, "upper_bounds", _map(129, 130, "bytes")),
    ],
}
_ENTRY: Final = {
    "type": "record",
    "name": "manifest_entry",
    "fields": [
        _field(0, "status", "int"),
        _field(1, "snapshot_id", ["null", "long"]),
        _field(3, "sequence_number", ["null", "long"]),
        _field(4, "file_sequence_number", ["null", "long"]),
        _field(2, "data_file", _DATA_FILE),
    ],
}
_LISTED: Final = (
    (500, "manifest_path", "string"),
    (501, "manifest_length", "long"),
    (502, "partition_spec_id", "int"),
    (517, "content", "int"),
    (515, "sequence_number", "long"),
    (516, "min_sequence_number", "long"),
    (503, "added_snapshot_id", "long"),
    (504, "added_files_count", "int"),
    (505, "existing_files_count", "int"),
    (506, "deleted_files_count", "int"),
    (512, "added_rows_count", "long"),
    (513, "existing_rows_count", "long"),
    (514, "deleted_rows_count", "long"),
)
_LIST: Final = {"type": "record", "name": "manifest_file", "fields": [_field(*each) for each in _LISTED]}


class Manifest(msgspec.Struct, frozen=True):
    """A manifest as in its list, by Iceberg's names. `manifest_path`: its URI; `min_sequence_number`: of its files."""

    manifest_path: str
    manifest_length: int
    sequence_number: int
    min_sequence_number: int
    added_snapshot_id: int
    added_files_count: int
    existing_files_count: int
    deleted_files_count: int
    added_rows_count: int
    existing_rows_count: int
    deleted_rows_count: int
    partition_spec_id: int = 0
    content: int = 0

    @property
    def files(self) -> int:
        """The files that it has, without those that it tells as deleted."""
        return self.added_files_count + self.existing_files_count

    @property
    def rows(self) -> int:
        """The rows of these files."""
        return self.added_rows_count + self.existing_rows_count


class DataFile(msgspec.Struct, frozen=True):
    """A file of the table, by Iceberg's names. `file_path`: its URI; the maps by the numbers of columns."""

    file_path: str
    record_count: int
    file_size_in_bytes: int
    value_counts: dict[int, int]
    null_value_counts: dict[int, int]
    lower_bounds: dict[int, bytes]
    upper_bounds: dict[int, bytes]
    content: int = 0
    file_format: str = "PARQUET"
    partition: dict[str, Any] = {}


class Entry(msgspec.Struct, frozen=True):
    """A file in a manifest. `snapshot_id`: of the snapshot that added it, or deleted it."""

    status: int
    snapshot_id: int
    sequence_number: int
    file_sequence_number: int
    data_file: DataFile


def data_file(file: AddFile, uri: str, columns: Iterable[tuple[int, str, str]]) -> DataFile:
    """Return a file of Delta's as one of Iceberg's. `columns`: number, name and type of those that may have bounds.
    Raises MESSAGE_CORRUPTED for a file without the number of its rows."""
    bounds = bounds_of(file, columns)
    return DataFile(uri, bounds.rows, file.size, bounds.values, bounds.nulls, bounds.lower, bounds.upper)


def encode_manifest(entries: Sequence[Entry], schema: Mapping[str, Any], sync: bytes) -> bytes:
    """Return the file of a manifest. `schema`: of Iceberg, with its number."""
    told = {
        "schema": json.dumps(schema),
        "schema-id": str(schema["schema-id"]),
        "partition-spec": "[]",
        "partition-spec-id": "0",
        "format-version": "2",
        "content": "data",
    }
    return encode_file(_ENTRY, told, map(msgspec.structs.asdict, map(_plain, entries)), sync)


def _plain(entry: Entry) -> Entry:
    return msgspec.structs.replace(entry, data_file=msgspec.structs.asdict(entry.data_file))


def decode_manifest(data: bytes) -> list[Entry]:
    """Return the files in a manifest. Raises ValueError for a corrupted one, or another program's."""
    return msgspec.convert(decode_file(_ENTRY, data), list[Entry])


def manifest_of(entries: Sequence[Entry], uri: str, length: int, snapshot_id: int, sequence: int) -> Manifest:
    """Return a new manifest, as in its list."""
    files, rows = [0, 0, 0], [0, 0, 0]
    for entry in entries:
        files[entry.status] += 1
        rows[entry.status] += entry.data_file.record_count
    least = min((each.sequence_number for each in entries if each.status != Status.DELETED), default=sequence)
    added, existing, deleted = Status.ADDED, Status.EXISTING, Status.DELETED
    return Manifest(
        uri,
        length,
        sequence,
        least,
        snapshot_id,
        files[added],
        files[existing],
        files[deleted],
        rows[added],
        rows[existing],
        rows[deleted],
    )


def encode_list(
    manifests: Iterable[Manifest], snapshot_id: int, parent: int | None, sequence: int, sync: bytes
) -> bytes:
    """Return the file of a list of manifests, which a snapshot has."""
    told = {
        "snapshot-id": str(snapshot_id),
        "parent-snapshot-id": "null" if parent is None else str(parent),
        "sequence-number": str(sequence),
        "format-version": "2",
    }
    return encode_file(_LIST, told, map(msgspec.structs.asdict, manifests), sync)


def decode_list(data: bytes) -> list[Manifest]:
    """Return the manifests of a list. Raises ValueError for a corrupted one, or another program's."""
    return msgspec.convert(decode_file(_LIST, data), list[Manifest])
