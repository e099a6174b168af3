"""Restoring: a data directory made of a backup; and the check of one.

The store is a new one, with an id of its own: members of the old one are not taken for its replicas, and their receipt
handles do not hold. Its first start derives all from the log. In a broker group one replica begins with it, and the
others with empty directories, under new controllers.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from itertools import groupby, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from entrepot.broker.backup.manifest import FILE, Manifest, SavedPart, manifest_of, place_of
from entrepot.broker.backup.target import BackupTarget
from entrepot.broker.inspect.log_files import Gap, LogFiles
from entrepot.broker.metadata.identity import BrokerIdentity
from entrepot.broker.store.disk import OsDisk
from entrepot.broker.store.private_files import make_directories, open_private
from entrepot.broker.store.small_files import make_directories_durably, sync_directory
from entrepot.broker.store.store_files import StoreFiles, StoreIdentity
from entrepot.broker.tiered.objects import MissingObjectError
from entrepot.domain.errors import Code, CorruptedError, EntrepotError

LOG: Final = "commitlog"


def known_backup(target: BackupTarget) -> Manifest:
    """Return the manifest of a backup. Raises BAD_REQUEST without one, or for another key, CorruptedError, UNSUPPORTED,
    TierError."""
    found = manifest_of(target)
    if found is None:
        raise EntrepotError(Code.BAD_REQUEST, f"{target.shown} has no backup: there is no {FILE}")
    return found


def problems(target: BackupTarget) -> Iterator[str]:
    """Yield what is wrong with a backup, in words: missing or changed parts, gaps, and corrupted records. One segment
    at a time is put together in a temporary directory. Raises as `known_backup`."""
    manifest = known_backup(target)
    for one, other in pairwise(manifest.parts):
        full = one.segment - one.segment % manifest.segment_size_bytes + manifest.segment_size_bytes
        if other.start != (one.end if other.segment == one.segment else full):
            yield f"the log has a gap between {one.end} and {other.start}"
    for start, parts in _segments(manifest):
        with TemporaryDirectory(prefix="entrepot-backup-") as directory:
            yield from _problems_of(target, manifest, start, parts, directory)


def _problems_of(
    target: BackupTarget, manifest: Manifest, start: int, parts: list[SavedPart], directory: str
) -> Iterator[str]:
    make_directories(f"{directory}/{LOG}")
    if wrong := _put(target, manifest, start, parts, Path(directory)):
        yield from (f"{error.message}; once it is gone, the next backup saves it again" for error in wrong)
        return
    log = LogFiles(directory)
    log.segment_size = manifest.segment_size_bytes
    for found in log.scan():
        if isinstance(found, Gap) and found.start < manifest.end and found.used_end > found.start:
            yield f"a record at {found.start} is corrupted: {found.reason}"


def restore(target: BackupTarget, data_dir: Path) -> StoreIdentity:
    """Make a data directory of a backup; return its new identity. Raises BAD_REQUEST for a directory that is not empty,
    CorruptedError for a backup that is not whole, TierError, OSError."""
    manifest = known_backup(target)
    if data_dir.exists() and any(data_dir.iterdir()):
        raise EntrepotError(Code.BAD_REQUEST, f"{data_dir} is not empty: a backup is restored to a new directory")
    make_directories_durably(data_dir / LOG)
    try:
        for start, parts in _segments(manifest):
            if wrong := _put(target, manifest, start, parts, data_dir):
                raise wrong[0]
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


def _segments(manifest: Manifest) -> Iterator[tuple[int, list[SavedPart]]]:
    """Yield the start of each segment with its parts."""
    for start, parts in groupby(manifest.parts, lambda part: part.segment):
        yield start, list(parts)


def _put(
    target: BackupTarget, manifest: Manifest, start: int, parts: list[SavedPart], directory: Path
) -> list[CorruptedError]:
    """Put a segment together, durably; return what is wrong with its parts."""
    wrong: list[CorruptedError] = []
    path = directory / LOG / f"{start:020d}"
    with open(open_private(str(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
        for part in parts:
            file.seek(part.start - start)
            try:
                file.write(_read(target, manifest, part))
            except CorruptedError as error:
                wrong.append(error)
        file.flush()
        os.fsync(file.fileno())
    return wrong


def _read(target: BackupTarget, manifest: Manifest, part: SavedPart) -> bytes:
    """Return a part's bytes of the log. Raises CorruptedError for a missing or changed one, TierError."""
    try:
        data = target.get(part.name)
    except MissingObjectError:
        raise CorruptedError(f"{target.shown}/{part.name} is missing: the backup is not whole") from None
    if hashlib.sha256(data).hexdigest() != part.sha256:
        raise CorruptedError(f"{target.shown}/{part.name} is not as it was saved: the backup is not whole")
    if target.seal is not None:
        data = target.seal.open(data, place_of(manifest.store_id, part.segment, part.start, part.bytes))
    if len(data) != part.bytes:
        raise CorruptedError(f"{target.shown}/{part.name} is not as it was saved: the backup is not whole")
    return data
