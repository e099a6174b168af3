"""LogReading: the reading half of the commit log, and the scan that recovery makes."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from entrepot.broker.store import record
from entrepot.broker.store.damage import SCAN_CHUNK, DamagedLogError, proof_of_damage
from entrepot.broker.store.disk import Disk
from entrepot.broker.store.healer import NO_HEALER, Healer
from entrepot.broker.store.record import HEADER_SIZE, RecordHeader, RecordKind
from entrepot.broker.store.record_placement import Placement, decode_placement
from entrepot.broker.store.watermark import NO_END
from entrepot.domain.errors import CorruptedError
from entrepot.domain.message import StoredMessage
from entrepot.protocols.wire.stored_record import RECORD_MAGIC, InvalidRecordError, decode_message

FIRST_READ = 8192
DEFAULT_SEGMENT_SIZE = 1 << 30


@dataclass(frozen=True, slots=True)
class CommitLogLayout:
    """Sizes of the log, in bytes."""

    segment_size_bytes: int = DEFAULT_SEGMENT_SIZE
    preallocate_bytes: int = 64 << 20
    reserve_bytes: int = 16 << 20

    @property
    def max_record_bytes(self) -> int:
        """The largest record that fits a segment."""
        return self.segment_size_bytes - HEADER_SIZE


class LogReading:
    """The segments of a log, as far as they are durable.  `min_offset`: start of the first one."""

    def __init__(self, disk: Disk, layout: CommitLogLayout) -> None:
        self.layout = layout
        self.durable_offset = self.min_offset = 0
        self.scan_end = 0
        self.healer: Healer = NO_HEALER
        self._disk = disk
        self._segments: dict[int, int] = {}

    def message_at(
        self, commit_log_offset: int, kinds: frozenset[RecordKind] = record.MESSAGE_KINDS
    ) -> StoredMessage | None:
        """Return the message recorded at an offset of the durable log, or None if the record is of no kind in `kinds`.
        Raises CorruptedError."""
        if not self.min_offset <= commit_log_offset < self.durable_offset:
            return None
        data = self.read_span(commit_log_offset, commit_log_offset + FIRST_READ)
        length = record.peek_length(data, 0)
        if length > self._segment_rest(commit_log_offset):
            return None
        if length > len(data):
            data = self.read_span(commit_log_offset, commit_log_offset + length)
        try:
            header = record.decode_header(data, 0, commit_log_offset)
        except InvalidRecordError as error:
            if data[:4] == RECORD_MAGIC and int.from_bytes(data[16:24], "big") == commit_log_offset:
                raise self.corrupted(commit_log_offset, error) from error
            return None
        return decode_message(data, 0, commit_log_offset) if header.kind in kinds else None

    def read_header(self, commit_log_offset: int, size: int) -> RecordHeader:
        """Return a record's header, checked. Raises CorruptedError."""
        try:
            return record.decode_header(
                self.read_span(commit_log_offset, commit_log_offset + size), 0, commit_log_offset
            )
        except InvalidRecordError as error:
            raise self.corrupted(commit_log_offset, error) from error

    def corrupted(self, commit_log_offset: int, error: Exception | str) -> CorruptedError:
        """Return the error for a record that fails its check, and begin to heal the record."""
        self.healer.note(commit_log_offset)
        return CorruptedError(
            f"the record at commit-log offset {commit_log_offset} is corrupted: {error}", commit_log_offset
        )

    def read_span(self, start: int, end: int) -> bytes:
        """Return a range of one segment's bytes: fewer where it ends before, none where the disk cannot read them."""
        try:
            return self._read_span(start, end - start)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return b""

    def _read_span(self, offset: int, length: int) -> bytes:
        start = offset // self.layout.segment_size_bytes * self.layout.segment_size_bytes
        descriptor = self._segments.get(start)
        return b"" if descriptor is None else self._disk.read(descriptor, length, offset - start)

    # -- recovery ------------------------------------------------------------------------------------------------------

    def scan(
        self,
        from_offset: int,
        on_message: Callable[[Placement, int], None] | None = None,
        until: int = NO_END,
    ) -> Iterator[tuple[bytes, int, RecordHeader]]:
        """Yield every whole record from an offset on, as (bytes, position in them, header).

        The scan ends at `until` (the end of a record) or at the first record that is not whole; `scan_end` is its end.
        With `on_message`, plain messages go there instead, in their turn, as placement and commit-log offset. Most
        records are plain messages, and this halves the cost.
        """
        self.scan_end = from_offset
        chunk, base = b"", from_offset
        while self.scan_end < until:
            position = self.scan_end - base
            if self._segment_rest(self.scan_end) < HEADER_SIZE:
                self.scan_end += self._segment_rest(self.scan_end)
                chunk, base = b"", self.scan_end
                continue
            if on_message is not None and (placement := decode_placement(chunk, position, self.scan_end)) is not None:
                on_message(placement, self.scan_end)
                self.scan_end += placement.size
                continue
            try:
                header = record.decode_header(chunk, position, self.scan_end)
            except InvalidRecordError:
                if base == self.scan_end and chunk:
                    return
                needed = max(SCAN_CHUNK, record.peek_length(chunk, position) + HEADER_SIZE)
                base = self.scan_end
                chunk = self._read_chunk(base, min(needed, self._segment_rest(base), until - base))
                claimed = record.peek_length(chunk, 0)
                if len(chunk) < claimed <= self._segment_rest(base):
                    chunk = self._read_chunk(base, claimed)
                if not chunk:
                    return
                continue
            yield chunk, position, header
            self.scan_end += header.length

    def _read_chunk(self, offset: int, length: int) -> bytes:
        """Return a chunk of the log, or one record where the disk cannot read it. Raises DamagedLogError there."""
        try:
            return self._read_span(offset, length)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
        try:
            claimed = record.peek_length(self._read_span(offset, HEADER_SIZE), 0)
            return self._read_span(offset, max(claimed, HEADER_SIZE))
        except OSError as error:
            raise DamagedLogError(f"the disk cannot read the commit log at offset {offset}: {error}", offset) from error

    def _segment_rest(self, offset: int) -> int:
        return self.layout.segment_size_bytes - offset % self.layout.segment_size_bytes

    def proof_of_damage(self, offset: int) -> int | None:
        """Return the offset of a later record proving that the bad one was synced (`damage`)."""
        return proof_of_damage(self._disk, self._segments, self.layout.segment_size_bytes, offset)
