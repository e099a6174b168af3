"""Restoring: a data directory made of a backup; and the check of one.

The store is a new one, with an id of its own: members of the old one are not taken for its replicas, and their receipt
handles do not hold. Its first start derives all from the log. In a broker group one replica begins with it, and the
others with empty directories, under new controllers.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from entrepot.broker.backup.copying import copy_durably, digest_of
from entrepot.broker.backup.manifest import FILE, LOG, Manifest, manifest_of
from entrepot.broker.inspect.log_files import Gap, LogFiles
from entrepot.broker.server.identity import BrokerIdentity
from entrepot.broker.store.disk import OsDisk
from entrepot.broker.store.small_files import make_directories_durably, sync_directory
from entrepot.broker.store.store_files import StoreFiles, StoreIdentity
from entrepot.domain.errors import Code, CorruptedError, EntrepotError


def known_backup(folder: Path) -> Manifest:
    """Return the manifest of a backup. Raises BAD_REQUEST without one, CorruptedError, UNSUPPORTED."""
    found = manifest_of(folder)
    if found is None:
        raise EntrepotError(Code.BAD_REQUEST, f"{folder} has no backup: there is no {FILE}")
    return found


def problems(folder: Path) -> Iterator[str]:
    """Yield what is wrong with a backup, in words: missing, short or changed segments, gaps, and corrupted records.
    Raises as `known_backup`."""
    manifest = known_backup(folder)
    for one, other in pairwise(manifest.segments):
        if one.start + manifest.segment_size_bytes != other.start or one.end > other.start:
            yield f"the log has a gap between {one.end} and {other.start}"
    is_whole = True
    for segment in manifest.segments:
        path = folder / LOG / segment.name
        if path.exists() and digest_of(path, segment.bytes) == segment.sha256:
            continue
        is_whole = False
        found = "is not as it was saved: remove it" if path.exists() else "is missing"
        yield f"segment {segment.name} {found}; the next backup into the folder copies it again"
    if is_whole:
        yield from _gaps(folder, manifest)


def _gaps(folder: Path, manifest: Manifest) -> Iterator[str]:
    log = LogFiles(str(folder))
    log.segment_size = manifest.segment_size_bytes
    for found in log.scan():
        if isinstance(found, Gap) and found.start < manifest.end and found.used_end > found.start:
            yield f"a record at {found.start} is corrupted: {found.reason}"


def restore(folder: Path, data_dir: Path) -> StoreIdentity:
    """Make a data directory of a backup; return its new identity. Raises BAD_REQUEST for a directory that is not empty,
    CorruptedError for a backup that is not whole, OSError."""
    manifest = known_backup(folder)
    if data_dir.exists() and any(data_dir.iterdir()):
        raise EntrepotError(Code.BAD_REQUEST, f"{data_dir} is not empty: a backup is restored to a new directory")
    make_directories_durably(data_dir / LOG)
    try:
        for segment in manifest.segments:
            _put(folder / LOG / segment.name, data_dir / LOG / segment.name, segment.bytes, segment.sha256)
    except BaseException:
        shutil.rmtree(data_dir / LOG)
        raise
    sync_directory(data_dir / LOG)
    if manifest.broker is not None:
        broker = manifest.broker
        BrokerIdentity(broker.name, broker.number, broker.keeps_key_values, epoch=broker.order).save(data_dir)
    identity = StoreIdentity.new(manifest.segment_size_bytes, manifest.begin)
    StoreFiles(OsDisk(), str(data_dir)).put_identity(identity)  # the last: until then there is no store
    return identity


def _put(source: Path, target: Path, length: int, sha256: str) -> None:
    """Copy a segment, durably, and check the copy."""
    try:
        copy_durably(source, target, length)
    except FileNotFoundError:
        raise CorruptedError(f"{source} is missing: the backup is not whole") from None
    if digest_of(target, length) != sha256:
        raise CorruptedError(f"{source} is not as it was saved: the backup is not whole")
