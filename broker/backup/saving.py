"""Saving: the log of a data directory into a backup, while its server runs.

A log only grows at its end, and what is before that never changes. So it is saved in parts, one by one, and whole ones
once. The copy ends at the last whole record, and of a replica at what it keeps as confirmed, or knows so while it runs.
It is a moment of the store as a crash would have left it. The list is written last. Until then the place has the backup
before: no part is changed, as its name has its digest.

Only a replica that gives up what it had, as an unclean election makes it, has other bytes at the same place. So a part
is the same if its segment's file was not written to since, or if its digest is.

ADR 77: a backup is the log. Invariant: until its list is written, the place has the backup before.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from msgspec import structs

from entrepot.broker.backup.manifest import (
    FORMAT,
    LOG,
    PART_BYTES,
    BrokerName,
    Manifest,
    SavedPart,
    manifest_of,
    place_of,
)
from entrepot.broker.backup.sealing import OVERHEAD
from entrepot.broker.backup.target import BackupTarget
from entrepot.broker.inspect.log_files import LogFiles, Record, Segment
from entrepot.broker.metadata.identity import identity_kept
from entrepot.broker.replication.files.replica_files import ReplicaFiles
from entrepot.broker.store.disk import OsDisk
from entrepot.broker.store.store_files import StoreFiles, StoreIdentity
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.route import mastership_order

MAX_ELECTIONS: Final = 1000
"""Elections after a backup that what is restored is later than: gateways follow the latest."""
TRIES: Final = 3
"""Looks at the log: retention may remove its first segments meanwhile."""
STALE_MS: Final = 86_400_000
"""Age at which objects in no list are removed."""


@dataclass(frozen=True, slots=True)
class Saved:
    """The result: the manifest, and the bytes and parts that were saved this time."""

    manifest: Manifest
    copied_bytes: int
    copied_parts: int


def save(
    data_dir: Path,
    target: BackupTarget,
    now_ms: int,
    check: Callable[[], None] = lambda: None,
    confirmed: int | None = None,
) -> Saved:
    """Bring a backup up to the log of a data directory. `check`: called before each part; it may raise. `confirmed`:
    confirmed end of the log, where it is known; else a replica's kept one, or the last whole record. Raises BAD_REQUEST
    for a place with another store's backup or other files, PRECONDITION_FAILED where another run was faster,
    StoreFailedError, CorruptedError, TierError, OSError."""
    identity = StoreFiles(OsDisk(), str(data_dir)).identity()
    if identity is None:
        raise EntrepotError(Code.BAD_REQUEST, f"{data_dir} has no store")
    before = _checked(target, identity)
    for left in range(TRIES - 1, -1, -1):
        try:
            return _Saving(data_dir, target, identity, before, check, confirmed).run(now_ms)
        except FileNotFoundError:  # retention has removed a segment
            if not left:
                raise
    raise AssertionError("it has returned or raised")


def _checked(target: BackupTarget, identity: StoreIdentity) -> Manifest | None:
    """Return the manifest of an earlier backup of this store."""
    found = manifest_of(target)
    if found is None:
        below, log = target.path(""), target.path(f"{LOG}/")
        if any(not each.path.startswith(log) for each in target.objects.objects(below)):
            raise EntrepotError(Code.BAD_REQUEST, f"{target.shown} has other files, and no backup: name an empty place")
    elif found.store_id != identity.store_id:
        raise EntrepotError(
            Code.BAD_REQUEST, f"{target.shown} has a backup of store {found.store_id}, not of {identity.store_id}"
        )
    return found


class _Saving:
    """One run."""

    def __init__(
        self,
        data_dir: Path,
        target: BackupTarget,
        identity: StoreIdentity,
        before: Manifest | None,
        check: Callable[[], None],
        confirmed: int | None,
    ) -> None:
        self._data_dir, self._target, self._identity, self._check = data_dir, target, identity, check
        self._before, self._confirmed = before, confirmed
        self._known = {part.start: part for part in (before.parts if before is not None else ())}
        below = target.path("")
        self._there = {each.path.removeprefix(below): each for each in target.objects.objects(target.path(f"{LOG}/"))}
        """Objects at the place when the run begins, by name."""
        self._copied_bytes = self._copied = 0

    def run(self, now_ms: int) -> Saved:
        log, identity = LogFiles(str(self._data_dir)), self._identity
        end = _end_of(self._data_dir, log, self._confirmed)
        parts = [part for segment in log.segments for part in self._parts(segment, end)]
        begin = parts[0].start if parts else identity.began_at
        manifest = Manifest(
            FORMAT,
            identity.store_id,
            identity.segment_size_bytes,
            begin,
            parts[-1].end if parts else begin,
            _broker(self._data_dir),
            now_ms,
            tuple(parts),
            "" if self._target.seal is None else self._target.seal.name,
        )
        self._check()
        if manifest_of(self._target) != self._before:
            told = f"another run has brought {self._target.shown} up to date meanwhile: nothing was changed"
            raise EntrepotError(Code.PRECONDITION_FAILED, told)
        manifest.save(self._target)
        self._remove_others({part.name for part in parts}, now_ms)
        return Saved(manifest, self._copied_bytes, self._copied)

    def _parts(self, segment: Segment, end: int) -> Iterator[SavedPart]:
        """Save a segment up to the log's end, part by part."""
        last = min(segment.start + self._identity.segment_size_bytes, segment.end, end)
        with open(segment.path, "rb") as file:
            stamp = _stamp(os.fstat(file.fileno()))
            for start in range(segment.start, last, PART_BYTES):
                self._check()
                length = min(PART_BYTES, last - start)
                known = self._known.get(start)
                if known is not None and (known.segment, known.bytes) != (segment.start, length):
                    known = None
                if known is None or known.stamp != stamp or not self._is_there(known):
                    file.seek(start - segment.start)
                    known = self._saved(segment, start, file.read(length), length, stamp, known)
                yield known

    def _saved(
        self, segment: Segment, start: int, data: bytes, length: int, stamp: str, known: SavedPart | None
    ) -> SavedPart:
        """Save a part, unless the one that is known has the same bytes."""
        if len(data) != length:
            raise EntrepotError(Code.UNAVAILABLE, f"{segment.path} became shorter while it was copied: try again")
        digest = self._digest(data)
        if known is not None and known.digest == digest and self._is_there(known):
            return structs.replace(known, stamp=stamp)
        if self._target.seal is not None:
            data = self._target.seal.seal(data, place_of(self._identity.store_id, segment.start, start, length))
        part = SavedPart(segment.start, start, length, hashlib.sha256(data).hexdigest(), digest, stamp)
        self._target.put(part.name, data)
        self._copied_bytes, self._copied = self._copied_bytes + length, self._copied + 1
        return part

    def _digest(self, data: bytes) -> str:
        """Return what tells whether bytes are the same, and with a key nothing else."""
        seal = self._target.seal
        return hashlib.sha256(data).hexdigest() if seal is None else seal.mac(data)

    def _is_there(self, part: SavedPart) -> bool:
        """True if the object is there, as long as it should be. `verify` reads it."""
        found = self._there.get(part.name)
        return found is not None and found.size == stored_bytes(part, self._target)

    def _remove_others(self, names: set[str], now_ms: int) -> None:
        """Remove old parts that neither this list nor the one before has: the one before may be another run's, which
        ends at this moment."""
        kept = names | {part.name for part in self._known.values()}
        old = [name for name, each in self._there.items() if each.modified_ms < now_ms - STALE_MS]
        self._target.delete([name for name in old if name not in kept])


def _stamp(found: os.stat_result) -> str:
    return f"{found.st_ino}-{found.st_mtime_ns}"


def stored_bytes(part: SavedPart, target: BackupTarget) -> int:
    """Return the length of a part's object."""
    return part.bytes + (0 if target.seal is None else OVERHEAD)


def _broker(data_dir: Path) -> BrokerName | None:
    """Return the name of a directory's broker, or None where it was never reachable from elsewhere."""
    kept, replica = identity_kept(data_dir), ReplicaFiles(data_dir).kept()
    if kept is None:
        return None
    later = 0 if replica is None else mastership_order(replica.promise.epoch + MAX_ELECTIONS, 0)
    return BrokerName(kept.name, kept.number, kept.keeps_key_values, max(kept.epoch, later))


def _end_of(data_dir: Path, log: LogFiles, confirmed: int | None) -> int:
    """Return the end of what is whole: what is known as confirmed, else the last whole record of the last segment."""
    replica = ReplicaFiles(data_dir)
    if confirmed is None and replica.kept() is not None:
        confirmed = replica.confirmed.kept
    if not log.segments or confirmed is not None:
        return confirmed or 0
    end = last = log.segments[-1].start
    for found in log.scan(last):
        if not isinstance(found, Record):
            break
        end = found.header.commit_log_offset + found.header.length
    return end
