"""Checkpoints of a Delta log: a snapshot as Parquet, so that a reader need not begin at version 0.

They are written here with pyarrow rather than by delta-rs: that works over every ObjectStore, stores the object by the
same `put_new`, and cleans up nothing unasked. Any writer's are read, in one part or several. They serve speed alone: a
corrupted or half-written one is skipped.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from entrepot.broker.tiered.delta_actions import (
    Action,
    AddFile,
    Format,
    Metadata,
    Protocol,
    RemoveFile,
    Transaction,
    decode_path,
    encode_path,
)
from entrepot.broker.tiered.objects import TierError
from entrepot.broker.tiered.snapshot import Replay, Snapshot
from entrepot.domain.errors import Code

T = TypeVar("T")
HINT_NAME: Final = "_last_checkpoint"
BATCH_ROWS: Final = 8_192
"""Rows of a checkpoint that are objects at a time."""
MAX_PARTS: Final = 10_000
"""Most parts of one checkpoint; more in a hint make it a corrupted one."""
_SINGLE: Final = re.compile(r"(\d{20})\.checkpoint\.parquet")
_PART: Final = re.compile(r"(\d{20})\.checkpoint\.(\d{10})\.(\d{10})\.parquet")
_COMMIT: Final = re.compile(r"(\d{20})\.json")

_TEXT: Final = pa.string()
_MAP: Final = pa.map_(pa.string(), pa.string())
_TYPES: Final[dict[str, pa.DataType]] = {
    "protocol": pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())]),
    "metaData": pa.struct(
        [
            ("id", _TEXT),
            ("name", _TEXT),
            ("description", _TEXT),
            ("format", pa.struct([("provider", _TEXT), ("options", _MAP)])),
            ("schemaString", _TEXT),
            ("partitionColumns", pa.list_(_TEXT)),
            ("configuration", _MAP),
            ("createdTime", pa.int64()),
        ]
    ),
    "txn": pa.struct([("appId", _TEXT), ("version", pa.int64()), ("lastUpdated", pa.int64())]),
    "remove": pa.struct([("path", _TEXT), ("deletionTimestamp", pa.int64()), ("dataChange", pa.bool_())]),
    "add": pa.struct(
        [
            ("path", _TEXT),
            ("partitionValues", _MAP),
            ("size", pa.int64()),
            ("modificationTime", pa.int64()),
            ("dataChange", pa.bool_()),
            ("tags", _MAP),
            ("stats", _TEXT),
        ]
    ),
}


class Hint(msgspec.Struct, frozen=True, omit_defaults=True):
    """Contents of `_last_checkpoint`, which may be behind. `size`: rows."""

    version: int
    size: int
    parts: int | None = None


def commit_name(version: int) -> str:
    """Return the name of a version's commit within the log."""
    return f"{version:020d}.json"


def version_of_commit(name: str) -> int | None:
    """Return the version of a commit's name, or None for other names."""
    match = _COMMIT.fullmatch(name)
    return int(match[1]) if match else None


def checkpoint_name(version: int) -> str:
    """Return the name of a checkpoint in one part."""
    return f"{version:020d}.checkpoint.parquet"


def version_of_checkpoint(name: str) -> int | None:
    """Return the version of a checkpoint's or its part's name, or None for other names."""
    match = _SINGLE.fullmatch(name) or _PART.fullmatch(name)
    return int(match[1]) if match else None


def complete_checkpoints(names: Iterable[str]) -> dict[int, list[str]]:
    """Return checkpoints with every part present, by version: the names of their parts."""
    whole: dict[int, list[str]] = {}
    parts: dict[tuple[int, int], list[str]] = {}
    for name in names:
        if match := _SINGLE.fullmatch(name):
            whole[int(match[1])] = [name]
        elif match := _PART.fullmatch(name):
            parts.setdefault((int(match[1]), int(match[3])), []).append(name)
    for (version, count), found in parts.items():
        if len(found) == count:
            whole.setdefault(version, sorted(found))
    return whole


def encode_hint(hint: Hint) -> bytes:
    """Return the object `_last_checkpoint`."""
    return msgspec.json.encode(hint)


def decode_hint(data: bytes) -> Hint | None:
    """Return the contents of `_last_checkpoint`, or None where it is corrupted."""
    try:
        hint = msgspec.json.decode(data, type=Hint)
    except ValueError:
        return None
    return hint if hint.version >= 0 and 1 <= (hint.parts or 1) <= MAX_PARTS else None


def names_of(hint: Hint) -> list[str]:
    """Return the names of the checkpoint's parts."""
    if hint.parts is None:
        return [checkpoint_name(hint.version)]
    return [
        f"{hint.version:020d}.checkpoint.{part:010d}.{hint.parts:010d}.parquet" for part in range(1, hint.parts + 1)
    ]


@dataclass(frozen=True, slots=True)
class EncodedCheckpoint:
    """A checkpoint to be stored, and the hint to it."""

    data: bytes
    hint: Hint


def encode_checkpoint(snapshot: Snapshot, tombstones_after_ms: int) -> EncodedCheckpoint:
    """Return the snapshot as a checkpoint of one part. Tombstones older than `tombstones_after_ms`, epoch milliseconds,
    are left out: their files are mere orphans from then on."""
    metadata = msgspec.to_builtins(snapshot.metadata)
    rows: dict[str, Iterable[Mapping[str, Any]]] = {
        "protocol": [msgspec.to_builtins(snapshot.protocol)],
        "metaData": [{**metadata, "configuration": list(snapshot.metadata.configuration.items())}],
        "txn": ({"appId": app_id, "version": version} for app_id, version in snapshot.transactions.items()),
        "remove": (
            {"path": encode_path(path), "deletionTimestamp": time, "dataChange": True}
            for path, time in snapshot.tombstones.items()
            if time >= tombstones_after_ms
        ),
        "add": map(_row_of, snapshot.files.values()),
    }
    sink = io.BytesIO()
    total = 0
    schema = pa.schema(list(_TYPES.items()))
    with pq.ParquetWriter(sink, schema, compression="snappy") as writer:
        for some in _batches((name, row) for name, of_name in rows.items() for row in of_name):
            columns = [pa.array([row if of == name else None for of, row in some], _TYPES[name]) for name in _TYPES]
            writer.write_table(pa.table(columns, schema=schema))
            total += len(some)
    return EncodedCheckpoint(sink.getvalue(), Hint(snapshot.version, total))


def _batches(items: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(items)
    while some := list(islice(rest, BATCH_ROWS)):
        yield some


def _row_of(file: AddFile) -> dict[str, Any]:
    return {
        "path": encode_path(file.path),
        "partitionValues": list(file.partition_values.items()),
        "size": file.size,
        "modificationTime": file.modification_time,
        "dataChange": file.data_change,
        "tags": None if file.tags is None else list(file.tags.items()),
        "stats": file.stats,
    }


def decode_checkpoint(
    version: int, parts: Mapping[str, bytes], newest_ms: int, check: Callable[[Iterable[Action]], None]
) -> Snapshot:
    """Return the table in a checkpoint. `parts`: objects by name; `check`: is asked about all actions. Raises TierError
    if it is corrupted, and what `check` raises."""
    name = " and ".join(parts)
    replay = Replay()
    try:
        for data in parts.values():
            for some in _actions_of(data):
                check(some)
                replay.begin(version, some)
    except TierError:
        raise
    except (pa.ArrowException, ValueError, KeyError, TypeError, OSError) as error:
        raise TierError(f"{name} is corrupted: {error}", Code.MESSAGE_CORRUPTED) from error
    return replay.snapshot(newest_ms, name)


def _actions_of(data: bytes) -> Iterator[list[Action]]:
    """Yield the actions in a part, some thousand at a time: a large table's are gigabytes as objects."""
    file = pq.ParquetFile(pa.BufferReader(data))
    known = [name for name in _TYPES if name in file.schema_arrow.names]
    for some in file.iter_batches(BATCH_ROWS, columns=known, use_threads=False):
        actions: list[Action] = []
        for name in known:
            actions.extend(_MAKERS[name](_fields_of(some.column(name).drop_null())))
        yield actions


def _fields_of(column: pa.StructArray) -> dict[str, list[Any]]:
    """Return the values of a struct's fields, each as a list; a map is a list of pairs or None."""
    names = [column.type.field(index).name for index in range(column.type.num_fields)]
    values = {
        name: array.to_pylist() if array.null_count < len(array) else [None] * len(array)
        for name, array in zip(names, column.flatten(), strict=True)
    }
    values[""] = [None] * len(column)
    return values


def _get(fields: dict[str, list[Any]], name: str) -> list[Any]:
    return fields.get(name, fields[""])


def _adds(fields: dict[str, list[Any]]) -> Iterable[Action]:
    columns = ("path", "size", "modificationTime", "dataChange", "stats", "tags", "partitionValues", "deletionVector")
    for path, size, modified, is_change, stats, tags, values, vector in zip(
        *(_get(fields, name) for name in columns), strict=True
    ):
        tagged = None if tags is None else dict(tags)
        yield AddFile(decode_path(path), size, modified, is_change, stats, tagged, dict(values or ()), vector)


def _removes(fields: dict[str, list[Any]]) -> Iterable[Action]:
    columns = ("path", "deletionTimestamp", "dataChange")
    for path, time, is_change in zip(*(_get(fields, name) for name in columns), strict=True):
        yield RemoveFile(decode_path(path), is_change, time)


def _transactions(fields: dict[str, list[Any]]) -> Iterable[Action]:
    for app_id, version, updated in zip(
        *(_get(fields, name) for name in ("appId", "version", "lastUpdated")), strict=True
    ):
        yield Transaction(app_id, version, updated)


def _metadata(fields: dict[str, list[Any]]) -> Iterable[Action]:
    for index, table_id in enumerate(fields["id"]):
        form = _get(fields, "format")[index] or {}
        yield Metadata(
            id=table_id,
            schema_string=fields["schemaString"][index],
            configuration=dict(_get(fields, "configuration")[index] or ()),
            created_time=_get(fields, "createdTime")[index],
            partition_columns=_get(fields, "partitionColumns")[index] or [],
            format=Format(form.get("provider") or "parquet", dict(form.get("options") or ())),
            name=_get(fields, "name")[index],
            description=_get(fields, "description")[index],
        )


def _protocols(fields: dict[str, list[Any]]) -> Iterable[Action]:
    for index, (reader, writer) in enumerate(zip(fields["minReaderVersion"], fields["minWriterVersion"], strict=True)):
        reader_features = _get(fields, "readerFeatures")[index]
        yield Protocol(reader, writer, reader_features, _get(fields, "writerFeatures")[index])


_MAKERS: Final = {
    "protocol": _protocols,
    "metaData": _metadata,
    "txn": _transactions,
    "remove": _removes,
    "add": _adds,
}
