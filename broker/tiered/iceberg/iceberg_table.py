"""IcebergTable: a table's metadata for readers of Iceberg, made of Delta's log, which stays the one truth.

ADR 71: Iceberg beside Delta. Invariant: it is behind the log, and never in its way; it can be deleted, and is made
anew. A snapshot keeps the manifests of the one before, but for those with removed files, and for many small ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from random import Random
from typing import Any, Final

import msgspec

from entrepot.broker.tiered.delta_actions import AddFile
from entrepot.broker.tiered.iceberg.avro import SYNC_BYTES
from entrepot.broker.tiered.iceberg.manifests import (
    Entry,
    Manifest,
    Status,
    data_file,
    decode_list,
    decode_manifest,
    encode_list,
    encode_manifest,
    manifest_of,
)
from entrepot.broker.tiered.iceberg.metadata import DELTA_VERSION, Ground, decode_metadata, next_metadata, next_schema
from entrepot.broker.tiered.iceberg.schemas import plain_columns
from entrepot.broker.tiered.iceberg.versions import Versions
from entrepot.broker.tiered.objects import MissingObjectError, ObjectStore
from entrepot.broker.tiered.snapshot import Snapshot
from entrepot.broker.tiered.table import TopicTable
from entrepot.domain.clock import Clock

REQUESTS: Final = 9
"""Requests of a new snapshot, about."""
MANIFEST_FILES: Final = 2_000
"""Most files of a manifest: about a megabyte in memory."""
MAX_SMALL: Final = 16
"""Most manifests with fewer files than that; with more they are written as one."""


class IcebergTable:
    """The metadata of one table, not for several threads at once. `grace_ms`: time for which removed files stay.

    Calls raise TierError for a failing store, and PRECONDITION_FAILED where another has written meanwhile: the next
    call begins with what is there.
    """

    def __init__(self, objects: ObjectStore, root: str, clock: Clock, random: Random, grace_ms: int) -> None:
        self._versions = Versions(objects, root)
        self._clock, self._random, self._grace_ms = clock, random, grace_ms
        self._version = 0
        self._manifests: list[Manifest] = []
        self._holders: dict[str, int] = {}
        """Place, among the manifests, of the one that has a file, by the file's path."""
        self._held: int | None = None
        """The snapshot of which these are."""
        self._done: tuple[str, int] | None = None
        self._oldest_ms: int | None = None

    def follow(self, table: TopicTable) -> bool:
        """Write a snapshot of the table's present version, unless there is one; True if it was written."""
        if self._done == (table.snapshot.metadata.id, table.snapshot.version) and not self._is_prune_due():
            return False
        version, data = self._versions.newest(self._version)
        table.refresh()  # after the look at Iceberg's: so Delta's version is no older, unless its table went back
        if table.fence is not None:
            table.fence.check(table.root, table.snapshot)
        snapshot = table.snapshot
        ground = decode_metadata(version, data, snapshot.metadata.id, self._versions.location) if version else None
        self._note_oldest(ground)
        is_new = ground is None or ground.delta_version != snapshot.version or self._is_prune_due()
        if is_new:
            is_new = self._write(version, ground, snapshot)
        self._version = version + is_new
        self._versions.hint(self._version)
        self._done = (snapshot.metadata.id, snapshot.version)
        return is_new

    def sweep(self, table: TopicTable) -> int:
        """Delete metadata that no reader needs any more; return the number of objects."""
        return self._versions.sweep(self._clock.now_ms() - self._grace_ms, table.snapshot.metadata.id)

    def _write(self, version: int, ground: Ground | None, snapshot: Snapshot) -> bool:
        """Write the version after a ground; False where that has the same files and columns."""
        known = self._holders if self._holds(ground) else None
        schema, last_column = next_schema(snapshot.metadata.schema_string, ground)
        has_same_columns = ground is not None and schema is ground.schema
        new = [path for path in snapshot.files if path not in (known or ())]
        removed = {path for path in known or () if path not in snapshot.files}
        if known is not None and has_same_columns and not new and not removed and not self._is_prune_due():
            return False
        self._held = None  # until the version is there; after a failure its manifests are looked at again
        change = _Change(self._versions, self._random, snapshot, schema, ground)
        is_append = ground is None
        if known is None:
            manifests, holders = change.first(snapshot.files[path] for path in new)  # all of them: not at once
        else:
            added = [snapshot.files[path] for path in new]
            manifests, holders = change.later(self._manifests, known, added, removed)
            is_append = not removed and all(each.data_change for each in added)
        told = change.told(manifests, self._later_ms(ground), "append" if is_append else "overwrite")
        metadata = next_metadata(
            ground,
            told,
            schema,
            table_id=snapshot.metadata.id,
            location=self._versions.location,
            last_column=last_column,
            kept_since_ms=told["timestamp-ms"] - self._grace_ms // 2,
        )
        self._versions.commit(version + 1, msgspec.json.encode(metadata))
        self._note_oldest(Ground(version + 1, metadata))
        self._manifests, self._holders, self._held = manifests, holders, told["snapshot-id"]
        return True

    def _note_oldest(self, ground: Ground | None) -> None:
        """Note the time of the oldest snapshot besides the current one: it goes before its files do."""
        current = None if ground is None else ground.current
        others = () if ground is None else ground.told["snapshots"]
        times = [each["timestamp-ms"] for each in others if each is not current]
        self._oldest_ms = min(times, default=None)

    def _is_prune_due(self) -> bool:
        return self._oldest_ms is not None and self._oldest_ms < self._clock.now_ms() - self._grace_ms // 2

    def _later_ms(self, ground: Ground | None) -> int:
        """Return the time of a new snapshot: after that of the one before, whatever the clock says."""
        current = None if ground is None else ground.current
        now_ms = self._clock.now_ms()
        return now_ms if current is None else max(now_ms, current["timestamp-ms"] + 1)

    def _holds(self, ground: Ground | None) -> bool:
        """Have the manifests of a ground here; False where there are none, or some are lost."""
        current = None if ground is None else ground.current
        if current is None:
            return False
        if self._held == current["snapshot-id"]:
            return True
        self._held = None
        cut = len(self._versions.table) + 1
        with suppress(MissingObjectError, ValueError):
            manifests = decode_list(self._versions.get(current["manifest-list"]))
            holders: dict[str, int] = {}
            for at, manifest in enumerate(manifests):
                entries = decode_manifest(self._versions.get(manifest.manifest_path))
                holders.update(
                    (each.data_file.file_path[cut:], at) for each in entries if each.status != Status.DELETED
                )
            self._manifests, self._holders, self._held = manifests, holders, current["snapshot-id"]
        return self._held is not None


class _Change:
    """A snapshot in the making. Its manifests are stored as they come."""

    def __init__(
        self, versions: Versions, random: Random, snapshot: Snapshot, schema: dict[str, Any], ground: Ground | None
    ) -> None:
        self._versions, self._random, self._snapshot, self._schema = versions, random, snapshot, schema
        self._columns = list(plain_columns(schema))
        self._parent = None if ground is None else ground.told["current-snapshot-id"]
        self._sequence: int = 1 if ground is None else ground.told["last-sequence-number"] + 1
        self._id = random.getrandbits(62) + 1
        self._attempt = f"{random.getrandbits(64):016x}"
        self._count = 0

    def first(self, files: Iterable[AddFile]) -> tuple[list[Manifest], dict[str, int]]:
        """Store manifests of all files; return them, and the place of each file's."""
        return self._stored([], {}, map(self._added, files))

    def later(
        self, before: Sequence[Manifest], holders: dict[str, int], added: Sequence[AddFile], removed: set[str]
    ) -> tuple[list[Manifest], dict[str, int]]:
        """Store the manifests that differ from the ones before; return all, and the place of each file's."""
        empty = {at for at, manifest in enumerate(before) if not manifest.files}
        old = {holders[path] for path in removed}
        small = {at for at, each in enumerate(before) if each.files < MANIFEST_FILES} - old - empty
        if len(small) > MAX_SMALL:
            old |= small
        places = {at: place for place, at in enumerate(at for at in range(len(before)) if at not in old | empty)}
        kept = [before[at] for at in places]
        held = {path: places[at] for path, at in holders.items() if at in places}
        gone = {f"{self._versions.table}/{path}" for path in removed}
        manifests, held = self._stored(kept, held, self._again([before[at] for at in sorted(old)], gone))
        return self._stored(manifests, held, map(self._added, added))

    def _added(self, file: AddFile) -> Entry:
        found = data_file(file, f"{self._versions.table}/{file.path}", self._columns)
        return Entry(Status.ADDED, self._id, self._sequence, self._sequence, found)

    def _again(self, manifests: Sequence[Manifest], gone: set[str]) -> Iterator[Entry]:
        """Yield the files of manifests that are written anew, and those that are deleted now."""
        for manifest in manifests:
            for entry in decode_manifest(self._versions.get(manifest.manifest_path)):
                if entry.status == Status.DELETED:
                    continue
                if entry.data_file.file_path in gone:
                    yield msgspec.structs.replace(entry, status=Status.DELETED, snapshot_id=self._id)
                else:
                    yield msgspec.structs.replace(entry, status=Status.EXISTING)

    def _stored(
        self, manifests: list[Manifest], holders: dict[str, int], entries: Iterable[Entry]
    ) -> tuple[list[Manifest], dict[str, int]]:
        cut = len(self._versions.table) + 1
        rest = iter(entries)
        while some := list(islice(rest, MANIFEST_FILES)):
            name = f"{self._attempt}-m{self._count}.avro"
            self._count += 1
            data = encode_manifest(some, self._schema, self._random.randbytes(SYNC_BYTES))
            self._versions.put(name, data)
            live = (each.data_file.file_path[cut:] for each in some if each.status != Status.DELETED)
            holders.update(dict.fromkeys(live, len(manifests)))
            manifests.append(manifest_of(some, self._versions.uri(name), len(data), self._id, self._sequence))
        return manifests, holders

    def told(self, manifests: Sequence[Manifest], now_ms: int, operation: str) -> dict[str, Any]:
        """Store the list of the manifests; return the snapshot as in the metadata."""
        name = f"snap-{self._id}-{self._attempt}.avro"
        data = encode_list(manifests, self._id, self._parent, self._sequence, self._random.randbytes(SYNC_BYTES))
        self._versions.put(name, data)
        own = [each for each in manifests if each.added_snapshot_id == self._id]
        counts = {
            "added-data-files": sum(each.added_files_count for each in own),
            "added-records": sum(each.added_rows_count for each in own),
            "deleted-data-files": sum(each.deleted_files_count for each in own),
            "deleted-records": sum(each.deleted_rows_count for each in own),
            "total-data-files": sum(each.files for each in manifests),
            "total-records": sum(each.rows for each in manifests),
            "total-files-size": self._snapshot.files.bytes,
            "total-delete-files": 0,
            "total-position-deletes": 0,
            "total-equality-deletes": 0,
            DELTA_VERSION: self._snapshot.version,
        }
        return {
            "snapshot-id": self._id,
            **({} if self._parent is None else {"parent-snapshot-id": self._parent}),
            "sequence-number": self._sequence,
            "timestamp-ms": now_ms,
            "schema-id": self._schema["schema-id"],
            "manifest-list": self._versions.uri(name),
            "summary": {"operation": operation, **{key: str(value) for key, value in counts.items()}},
        }
