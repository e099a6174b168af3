"""CommitLog: the one place of messages, consumption and metadata, in the order in which they were taken.

Segment files are named by the 20-digit commit-log offset of their first byte and have no header. A record never crosses
segments: a padding record fills the rest. Space is reserved ahead of the end of the log, so a full disk is met before a
record is taken, not while it is written. `reserve_bytes` of it are kept for consumption, which must go on when
publishing is refused.

Invariants: there is one appender. Appended records are in memory (`_pending`) until `write`, or slice by slice until
`write_ahead` has written large ones; nobody reads them there. Bytes before `durable_offset` never change. Each record
states that all before its `floor` was durable.
"""

from __future__ import annotations

import errno

from entrepot.broker.store import record
from entrepot.broker.store.cleared_end import is_cleared, used_end
from entrepot.broker.store.disk import Disk, is_want_of_room, refusal_of
from entrepot.broker.store.log_reading import CommitLogLayout, LogReading
from entrepot.broker.store.record import HEADER_SIZE, RecordKind, encode_new
from entrepot.broker.store.record_trailer import put_at
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message
from entrepot.protocols.wire.stored_record import CRC_START

AHEAD_BYTES = 4 << 20
"""Bytes written in one turn of the event loop while more than twice as many are pending."""
LEAST_STEP = 1 << 20
"""Bytes reserved at a time where a whole step has no room (or the bytes needed, if more)."""
MESSAGE = RecordKind.MESSAGE
NEW_KINDS = record.KEPT_KINDS | {MESSAGE}
"""Kinds that may not use the reserve, which is for consuming."""


class CommitLog(LogReading):
    """The log in `<root>/commitlog`. It starts empty, or at the end that recovery found (`recover_end`)."""

    def __init__(self, disk: Disk, root: str, layout: CommitLogLayout) -> None:
        super().__init__(disk, layout)
        self.directory = f"{root}/commitlog"
        self.floor = self.end = self.written_offset = 0
        self._pending: list[bytes | memoryview] = []
        self._ahead = 0  # bytes of the pending records that are written already
        self._allocated_end = 0
        self._room_end = 0  # end of the room for records that need neither space nor a new segment
        self._message_room_end = 0  # the same for new messages, which leave the reserve
        disk.make_directory(self.directory)
        for name in filter(is_segment_name, disk.names(self.directory)):
            start = int(name)
            self._segments[start] = disk.open(f"{self.directory}/{name}")
        self.min_offset = min(self._segments, default=0)

    # -- appending ---------------------------------------------------------------------------------------------

    def append_new(self, message: Message, queue_offset: int, now_ms: int) -> tuple[int, int]:
        """Take one new message; return (commit-log offset, size). Raises StorageFullError, MESSAGE_BODY_TOO_LARGE."""
        offset = self.end
        parts = encode_new(message, offset, self.floor, now_ms, queue_offset)
        size = len(parts[1]) + CRC_START if len(parts) == 2 else sum(map(len, parts))
        if offset + size > self._message_room_end:
            return self.append_message(message, queue_offset, now_ms)
        self._pending += parts
        self.end = offset + size
        return offset, size

    def append_message(
        self,
        message: Message,
        queue_offset: int,
        now_ms: int,
        kind: RecordKind = MESSAGE,
        trailer: bytes = b"",
        trailer_flag: int = 0,
    ) -> tuple[int, int]:
        """Take one message of any kind; return and raise as `append_new`."""
        offset = self.end
        encode, floor = record.encode_message, self.floor
        parts = encode(message, kind, offset, floor, now_ms, queue_offset, trailer, trailer_flag)
        size = sum(map(len, parts))
        is_new = kind in NEW_KINDS
        if offset + size > (self._message_room_end if is_new else self._room_end):
            offset = self._make_room(size, self.layout.reserve_bytes if is_new else 0, now_ms)
            parts = encode(message, kind, offset, floor, now_ms, queue_offset, trailer, trailer_flag)
        self._pending += parts
        self.end = offset + size
        return offset, size

    def append_payload(self, kind: RecordKind, payload: bytes, now_ms: int) -> int:
        """Take a record without a message; return its commit-log offset. It may use the reserve."""
        offset = self.make_space(len(payload), now_ms)
        self._pending.append(record.encode_record(kind, payload, offset, self.floor, now_ms))
        self.end = offset + HEADER_SIZE + len(payload)
        return offset

    def append_carried(self, made: bytearray, now_ms: int) -> int:
        """Take a record by `carried_forward`; return its commit-log offset. Raises as `append_new`."""
        offset = self.end
        if offset + len(made) > self._message_room_end:
            offset = self._make_room(len(made), self.layout.reserve_bytes, now_ms)
        self._pending.append(put_at(made, offset, self.floor))
        self.end = offset + len(made)
        return offset

    def has_space(self, payload_bytes: int) -> bool:
        """True if a record with so many bytes after its header fits at the end of the log as it is."""
        return self.end + HEADER_SIZE + payload_bytes <= self._room_end

    def make_space(self, payload_bytes: int, now_ms: int) -> int:
        """Reserve space for such a record, in the next segment if this one is too full; return its offset."""
        if not self.has_space(payload_bytes):
            return self._make_room(HEADER_SIZE + payload_bytes, 0, now_ms)
        return self.end

    def write(self) -> None:
        """Write all pending records, which lie in one segment, with one call to the operating system."""
        if self._pending:
            data = b"".join(self._pending)
            self._pending.clear()
            self._write_at(self.written_offset + self._ahead, data)
            self.written_offset += self._ahead + len(data)
            self._ahead = 0

    def write_ahead(self) -> bool:
        """Write some of many pending bytes, so that a turn of the event loop stays short; return False if `write` can
        take what is left. `written_offset` does not move: it is always the end of a record."""
        if self.end - self.written_offset - self._ahead <= 2 * AHEAD_BYTES:
            return False
        taken: list[bytes | memoryview] = []
        used = size = 0
        while size < AHEAD_BYTES:
            piece, room = self._pending[used], AHEAD_BYTES - size
            if len(piece) > room:
                view = memoryview(piece)
                taken.append(view[:room])
                self._pending[used] = view[room:]
                size += room
            else:
                taken.append(piece)
                size += len(piece)
                used += 1
        del self._pending[:used]
        self._write_at(self.written_offset + self._ahead, b"".join(taken))
        self._ahead += size
        return True

    def _write_at(self, offset: int, data: bytes) -> None:
        start = self.written_offset // self.layout.segment_size_bytes * self.layout.segment_size_bytes
        self._disk.write(self._segments[start], data, offset - start)

    def append_run(self, offset: int, data: bytes) -> None:
        """Append whole records of one segment of another replica's log. On StorageFullError nothing is changed."""
        assert offset == self.end == self.written_offset, "a run goes to the end of the log"
        self._allocate_until(offset + len(data), to_the_last=True)
        start = offset // self.layout.segment_size_bytes * self.layout.segment_size_bytes
        self._disk.write(self._segments[start], data, offset - start)  # the next append asks for room anew:
        self.end = self.written_offset = self._room_end = self._message_room_end = offset + len(data)

    def begin_at(self, offset: int) -> None:
        """Begin an empty log in the middle: at the first segment that another replica has kept."""
        assert not self._segments, "only an empty log begins anywhere"
        self.min_offset = self.end = self.written_offset = self._allocated_end = offset
        self.durable_offset = self.floor = offset
        self._room_end = self._message_room_end = offset

    def files_between(self, start: int, end: int) -> list[str]:
        """Return the paths of the segment files that hold [start, end)."""
        size = self.layout.segment_size_bytes
        return [self._path(offset) for offset in range(start // size * size, max(end, start + 1), size)]

    def _make_room(self, size: int, reserve: int, now_ms: int) -> int:
        """Reserve space, and begin the next segment if this one is too full; return the record's offset."""
        segment_size = self.layout.segment_size_bytes
        if size > self.layout.max_record_bytes:
            raise EntrepotError(Code.MESSAGE_BODY_TOO_LARGE, "the message does not fit into a segment of the log")
        left = segment_size - self.end % segment_size
        rolls = size > left
        start = self.end + left if rolls else self.end
        self._allocate_until(start + size + reserve, to_the_last=not reserve)
        if rolls:
            self._pad(left, now_ms)
        elif left == segment_size:
            self.write()  # the last record filled its segment to the very end: pending records belong there
        segment_end = start - start % segment_size + segment_size
        self._room_end = min(segment_end, self._allocated_end)
        self._message_room_end = min(segment_end, self._allocated_end - self.layout.reserve_bytes)
        return start

    def _pad(self, left: int, now_ms: int) -> None:
        """Close the segment. The padding record is whole once its header is written: the rest of it reads as zeros."""
        if left >= HEADER_SIZE:
            self._pending.append(record.encode_padding(left, self.end, self.floor, now_ms))
        self.write()
        self.end += left
        self.written_offset = self.end

    def _allocate_until(self, target: int, *, to_the_last: bool) -> None:
        """Reserve space up to an offset at least, by whole steps, or by smaller ones where the disk has no room.
        `to_the_last`: by the bytes needed, if there is no more."""
        size = self.layout.segment_size_bytes
        while self._allocated_end < target:
            rest = size - self._allocated_end % size
            least = min(target - self._allocated_end, rest)
            whole = max(self.layout.preallocate_bytes, least)
            small = max(min(LEAST_STEP, whole), least)
            steps = (whole, small, least) if to_the_last else (whole, small)
            want = 0
            for step in dict.fromkeys(min(step, rest) for step in steps):
                want = self._allocate(step)
                if not want:
                    break
            if want:
                raise refusal_of(want)

    def _allocate(self, step: int) -> int:
        """Reserve so many more bytes of one segment; return 0, or the errno of the want of room."""
        start = self._allocated_end // self.layout.segment_size_bytes * self.layout.segment_size_bytes
        try:
            descriptor = self._segments.get(start)
            if descriptor is None:
                descriptor = self._segments[start] = self._disk.open(self._path(start))
            self._disk.allocate(descriptor, self._allocated_end - start, step)
        except OSError as error:
            if is_want_of_room(error):
                return error.errno or errno.ENOSPC
            raise
        self._allocated_end += step
        return 0

    def overwrite(self, commit_log_offset: int, data: bytes) -> str:
        """Overwrite corrupted bytes of one segment with good ones; return the path of the file to be synced."""
        start = commit_log_offset - commit_log_offset % self.layout.segment_size_bytes
        self._disk.write(self._segments[start], data, commit_log_offset - start)
        return self._path(start)

    # -- recovery ------------------------------------------------------------------------------------------------------

    def recover_end(self, end: int) -> int:
        """Clear all bytes after `end`, so that no stale record is ever met there; return how many had been in use. The
        space stays reserved: a full disk would not give it again."""
        size = self.layout.segment_size_bytes
        kept = last = end
        for start in sorted(start for start in self._segments if start + size > end):
            position, length = max(end - start, 0), self._disk.size(self._segments[start])
            used = used_end(self._disk, self._segments[start], position, length)
            last = start + used if used > position else last
            if start <= kept and is_cleared(self._disk, self._segments[start], position, used, length):
                kept = max(kept, start + length)
            elif start >= end and start > 0:
                self._disk.close(self._segments.pop(start))
                self._disk.remove(self._path(start))
            else:
                self._disk.truncate(self._segments[start], position)
        self.end = self.written_offset = self._room_end = self._message_room_end = end
        self._allocated_end = kept
        return last - end

    # -- retention ---------------------------------------------------------------------------------------------

    @property
    def first_segment_end(self) -> int:
        """End of the first segment."""
        return self.min_offset - self.min_offset % self.layout.segment_size_bytes + self.layout.segment_size_bytes

    def delete_first_segment(self) -> None:
        """Delete the first segment (`ConfirmedLog.remove_first_segment`)."""
        start, end = min(self._segments), self.first_segment_end
        assert end <= self.durable_offset, "it is written still"
        self._disk.close(self._segments.pop(start))
        self._disk.remove(self._path(start))
        self.min_offset = end

    def path_of(self, offset: int) -> str | None:
        """Return the path of the segment that holds an offset, or None."""
        start = offset - offset % self.layout.segment_size_bytes
        return self._path(start) if start in self._segments else None

    def sizes(self) -> dict[str, int]:
        """Return the paths of the segments with their lengths on disk."""
        return {self._path(s): self._disk.size(d) for s, d in sorted(self._segments.items())}

    def close(self) -> None:
        while self._segments:
            self._disk.close(self._segments.popitem()[1])

    def _path(self, start: int) -> str:
        return f"{self.directory}/{start:020d}"


def is_segment_name(name: str) -> bool:
    """True if a file in the log's directory is a segment; all others are foreign."""
    return len(name) == 20 and name.isascii() and name.isdecimal()
