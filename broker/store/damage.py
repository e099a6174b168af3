"""Damage to kept data, told from a torn tail by the records written after it."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from entrepot.broker.store import record
from entrepot.broker.store.disk import Disk
from entrepot.broker.store.record import HEADER_SIZE
from entrepot.domain.errors import CorruptedError
from entrepot.protocols.wire.stored_record import RECORD_MAGIC, InvalidRecordError

SCAN_CHUNK: Final = 4 * 1024 * 1024


class DamagedLogError(CorruptedError):
    """Corruption of kept data where recovery reads it: the store does not open. `commit_log_offset`: its place.
    `finding`: what was found, without the advice for a store that has it alone."""

    commit_log_offset: int

    def __init__(self, finding: str, commit_log_offset: int) -> None:
        super().__init__(f"{finding}. Restore the data directory from a copy", commit_log_offset)
        self.finding = finding


@dataclass(slots=True)
class RecoveryReport:
    """The findings and actions of opening the store."""

    was_unclean: bool = False
    scanned_bytes: int = 0
    cut_bytes: int = 0
    missing_bytes: int = 0
    """Bytes missing at the log's end, which the state file knew of."""
    missing_first_bytes: int = 0
    """Bytes missing at the log's beginning, which retention had not removed."""
    missing_messages: int = 0
    """Messages among the missing bytes, as far as queues still had them."""
    rebuilt_queues: int = 0

    @property
    def damage(self) -> str:
        """Missing kept data as a sentence for people; empty where nothing is known to be missing."""
        found: list[str] = []
        if self.missing_first_bytes:
            count = f", {self.missing_messages} messages or more" if self.missing_messages else ""
            found.append(f"the first {self.missing_first_bytes} bytes of the log are missing{count}")
        if self.missing_bytes:
            found.append(f"the last {self.missing_bytes} bytes of the log are missing")
        return "; ".join(found)


def proof_of_damage(disk: Disk, segments: Mapping[int, int], segment_size: int, offset: int) -> int | None:
    """Return the offset of a whole record after a bad one that was written after the bad one had been synced.

    Such a record proves that the bad one is damage to kept data. None: it is a torn tail. `segments`: descriptors by
    the offsets where the segments begin.
    """
    for start in sorted(s for s in segments if s + segment_size > offset):
        position = max(offset - start, 0)
        length = disk.size(segments[start])
        while position < length:
            data = _readable(disk, segments[start], SCAN_CHUNK + HEADER_SIZE, position)
            found = data.find(RECORD_MAGIC)
            while found >= 0:
                place = start + position + found
                claimed = record.peek_length(data, found)
                whole = _readable(disk, segments[start], min(claimed, segment_size), position + found)
                try:
                    if record.decode_header(whole, 0, place).durable_floor > offset:
                        return place
                except InvalidRecordError:
                    pass
                found = data.find(RECORD_MAGIC, found + 1)
            position += SCAN_CHUNK
    return None


def _readable(disk: Disk, descriptor: int, length: int, position: int) -> bytes:
    """Return bytes of a segment, or none where the disk cannot read them."""
    try:
        return disk.read(descriptor, length, position)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return b""
