"""Saving: the log of a data directory into a backup's folder, while its server runs.

A log only grows at its end, and what is before that never changes. So its segments are copied one by one, and sealed
ones once. The copy ends at the last whole record, and of a replica at what it keeps as confirmed. It is a moment of the
store as a crash would have left it. The manifest is written last. Until then the folder has the backup before: a
segment that is longer by now begins with the same bytes.

Only a replica that gives up what it had, as an unclean election makes it, has other bytes at the same place; then the
end of a sealed segment differs, and it is copied again.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from entrepot.broker.backup.copying import copy_durably
from entrepot.broker.backup.manifest import FORMAT, LOG, BrokerName, Manifest, SavedSegment, manifest_of
from entrepot.broker.inspect.log_files import LogFiles, Record, Segment
from entrepot.broker.replication.replica_files import ReplicaFiles
from entrepot.broker.server.identity import identity_kept
from entrepot.broker.store.disk import OsDisk
from entrepot.broker.store.small_files import make_directories_durably, sync_directory
from entrepot.broker.store.store_files import StoreFiles, StoreIdentity
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.route import mastership_order

TAIL_BYTES: Final = 64 << 10
"""End of a sealed segment by which it is known to be the one that was saved."""
MAX_ELECTIONS: Final = 1000
"""Elections after a backup that what is restored is later than: gateways follow the latest."""
TRIES: Final = 3
"""Looks at the log: retention may remove its first segments meanwhile."""


@dataclass(frozen=True, slots=True)
class Saved:
    """The result: the manifest, and the bytes and segments that were copied this time."""

    manifest: Manifest
    copied_bytes: int
    copied_segments: int


def save(data_dir: Path, folder: Path, now_ms: int) -> Saved:
    """Bring a folder up to the log of a data directory. Raises BAD_REQUEST for a folder with another store's backup or
    other files, StoreFailedError, CorruptedError, OSError."""
    identity = StoreFiles(OsDisk(), str(data_dir)).identity()
    if identity is None:
        raise EntrepotError(Code.BAD_REQUEST, f"{data_dir} has no store")
    before = _checked(folder, identity)
    make_directories_durably(folder / LOG)
    for left in range(TRIES - 1, -1, -1):
        try:
            return _save(data_dir, folder, identity, before, now_ms)
        except FileNotFoundError:  # retention has removed a segment
            if not left:
                raise
    raise AssertionError("it has returned or raised")


def _checked(folder: Path, identity: StoreIdentity) -> Manifest | None:
    """Return the manifest of an earlier backup of this store."""
    found = manifest_of(folder)
    if found is None and folder.is_dir() and any(each.name != LOG for each in folder.iterdir()):
        raise EntrepotError(Code.BAD_REQUEST, f"{folder} has other files, and no backup: name an empty folder")
    if found is not None and found.store_id != identity.store_id:
        raise EntrepotError(
            Code.BAD_REQUEST, f"{folder} has a backup of store {found.store_id}, not of {identity.store_id}"
        )
    return found


def _save(data_dir: Path, folder: Path, identity: StoreIdentity, before: Manifest | None, now_ms: int) -> Saved:
    log = LogFiles(str(data_dir))
    end = _end_of(data_dir, log)
    known = {segment.start: segment for segment in (before.segments if before is not None else ())}
    saved: list[SavedSegment] = []
    copied_bytes = copied = 0
    for segment in log.segments:
        length = min(segment.start + identity.segment_size_bytes, end) - segment.start
        if length <= 0:
            break
        length = min(length, segment.end - segment.start)
        earlier = known.get(segment.start)
        if earlier is None or earlier.bytes != length or not _is_saved(segment, earlier, folder):
            earlier = _copied(segment, length, folder)
            copied_bytes, copied = copied_bytes + length, copied + 1
        saved.append(earlier)
    sync_directory(folder / LOG)
    begin = saved[0].start if saved else identity.began_at
    end = saved[-1].end if saved else begin
    manifest = Manifest(
        FORMAT, identity.store_id, identity.segment_size_bytes, begin, end, _broker(data_dir), now_ms, tuple(saved)
    )
    manifest.save(folder)
    _remove_others(folder, {each.name for each in saved})
    return Saved(manifest, copied_bytes, copied)


def _broker(data_dir: Path) -> BrokerName | None:
    """Return the name of a directory's broker, or None where it was never reachable from elsewhere."""
    kept, replica = identity_kept(data_dir), ReplicaFiles(data_dir).kept()
    if kept is None:
        return None
    later = 0 if replica is None else mastership_order(replica.promise.epoch + MAX_ELECTIONS, 0)
    return BrokerName(kept.name, kept.number, kept.keeps_key_values, max(kept.epoch, later))


def _end_of(data_dir: Path, log: LogFiles) -> int:
    """Return the end of what is whole, and of a replica confirmed."""
    if not log.segments:
        return 0
    end = last = log.segments[-1].start
    for found in log.scan(last):
        if not isinstance(found, Record):
            break
        end = found.header.commit_log_offset + found.header.length
    replica = ReplicaFiles(data_dir)
    return end if replica.kept() is None else min(end, replica.confirmed.kept)


def _is_saved(segment: Segment, earlier: SavedSegment, folder: Path) -> bool:
    """True if the folder has a segment as it is now, by its length and its end."""
    path = folder / LOG / earlier.name
    if not path.exists() or path.stat().st_size != earlier.bytes:
        return False
    return _tail(Path(segment.path), earlier.bytes) == _tail(path, earlier.bytes)


def _tail(path: Path, length: int) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, length - TAIL_BYTES))
        return file.read(min(length, TAIL_BYTES))


def _copied(segment: Segment, length: int, folder: Path) -> SavedSegment:
    """Copy the first bytes of a segment, durably, and put the copy in place."""
    name = f"{segment.start:020d}"
    path, draft = folder / LOG / name, folder / LOG / f"{name}.draft"
    draft.unlink(missing_ok=True)
    digest = copy_durably(Path(segment.path), draft, length)
    if draft.stat().st_size != length:
        raise EntrepotError(Code.UNAVAILABLE, f"{segment.path} became shorter while it was copied: try again")
    draft.replace(path)
    return SavedSegment(segment.start, length, digest)


def _remove_others(folder: Path, names: set[str]) -> None:
    """Remove segments that retention has removed, once the manifest no longer names them."""
    for path in (folder / LOG).iterdir():
        if path.name not in names:
            path.unlink()
