"""Bytes of a Raft member's files: state, snapshot, log.

    state, snapshot    magic, crc32c of the rest, msgpack
    log                a header, then records: crc32c of the rest, size, place, floor, index, term, kind, data

`place`: offset of the record in its file. `floor`: durable bytes of the file before it was written. An entry replaces
the one at its index and all later ones: a log is never cut, only extended.

A record that is not whole ends the log: a torn tail. It is damage where a later whole record has a floor beyond it, or
where it lies in the bytes put in place with the header. Damage within the last writes, followed by no record, cannot be
told from a torn tail.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
from google_crc32c import value as crc32c

from entrepot.broker.raft.effects import HardState
from entrepot.broker.raft.entry import Entry, EntryKind
from entrepot.broker.raft.snapshot import Snapshot

T = TypeVar("T")

STATE_MAGIC: Final = b"ERS1"
SNAPSHOT_MAGIC: Final = b"ERP1"
LOG_MAGIC: Final = b"ERL1"
_CRC: Final = struct.Struct(">I")
_END: Final = struct.Struct(">IQQ")
_HEADER: Final = struct.Struct(">QQQ")
_RECORD: Final = struct.Struct(">IQQQQB")
KINDS: Final = frozenset(EntryKind)
HEADER_BYTES: Final = len(LOG_MAGIC) + _CRC.size + _HEADER.size
RECORD_BYTES: Final = _CRC.size + _RECORD.size


class RaftDamageError(Exception):
    """A difference between durable bytes and those that were written."""


class StoredState(NamedTuple):
    """The contents of a state file. `member`: id of the directory's member."""

    member: int
    state: HardState


class DecodedLog(NamedTuple):
    """A log. `base`, `base_term`: of the entry before the first one. `end`: offset after the last whole record."""

    base: int
    base_term: int
    entries: tuple[Entry, ...]
    end: int


def encode_end(base: int, end: int) -> bytes:
    """Return the bytes of a note on the synced end of the log after an index."""
    body = _END.pack(0, base, end)[_CRC.size :]
    return _CRC.pack(crc32c(body)) + body


def decode_end(data: bytes) -> tuple[int, int]:
    """Return what a note says: an index, and the synced bytes of the log after it. A torn one says nothing."""
    if len(data) != _END.size or _CRC.unpack_from(data)[0] != crc32c(data[_CRC.size :]):
        return 0, 0
    _, base, end = _END.unpack(data)
    return base, end


def _sealed(magic: bytes, data: bytes) -> bytes:
    return magic + _CRC.pack(crc32c(data)) + data


def _opened(magic: bytes, data: bytes, kind: type[T]) -> T:
    start = len(magic) + _CRC.size
    body = data[start:]
    if data[: len(magic)] != magic or len(data) < start or _CRC.unpack_from(data, len(magic))[0] != crc32c(body):
        raise RaftDamageError("its checksum does not hold")
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise RaftDamageError(str(error)) from error


def encode_state(stored: StoredState) -> bytes:
    return _sealed(STATE_MAGIC, msgspec.msgpack.encode(stored))


def decode_state(data: bytes) -> StoredState:
    """Return the state in a file. Raises RaftDamageError."""
    return _opened(STATE_MAGIC, data, StoredState)


def encode_snapshot(snapshot: Snapshot) -> bytes:
    return _sealed(SNAPSHOT_MAGIC, msgspec.msgpack.encode(snapshot))


def decode_snapshot(data: bytes) -> Snapshot:
    """Return the snapshot in a file. Raises RaftDamageError."""
    return _opened(SNAPSHOT_MAGIC, data, Snapshot)


def encode_log(base: int, base_term: int, entries: Sequence[Entry]) -> bytes:
    """Return a whole log, to be put in place at once."""
    records = encode_records(entries, HEADER_BYTES, 0)
    header = _HEADER.pack(base, base_term, HEADER_BYTES + len(records))
    return _sealed(LOG_MAGIC, header) + records


def encode_records(entries: Sequence[Entry], place: int, floor: int) -> bytes:
    """Return records for the end of a log, at `place`."""
    parts: list[bytes] = []
    for entry in entries:
        head = _RECORD.pack(len(entry.data), place, floor, entry.index, entry.term, entry.kind)
        covered = head + entry.data
        parts += (_CRC.pack(crc32c(covered)), covered)
        place += _CRC.size + len(covered)
    return b"".join(parts)


def decode_log(data: bytes) -> DecodedLog:
    """Return the entries of a log, as far as it is whole. Raises RaftDamageError."""
    header = data[len(LOG_MAGIC) + _CRC.size : HEADER_BYTES]
    if data[:HEADER_BYTES] != _sealed(LOG_MAGIC, header) or len(header) < _HEADER.size:
        raise RaftDamageError("its header's checksum does not hold")
    base, base_term, whole = _HEADER.unpack(header)
    entries: list[Entry] = []
    at = HEADER_BYTES
    while (found := _record_at(data, at)) is not None:
        entry, _, end = found
        if not base < entry.index <= base + len(entries) + 1:
            raise RaftDamageError(f"entry {entry.index} does not follow entry {base + len(entries)}")
        del entries[entry.index - base - 1 :]
        entries.append(entry)
        at = end
    if at < whole or _was_durable(data, at):
        raise RaftDamageError(f"the record at {at} had been durable and is not whole")
    return DecodedLog(base, base_term, tuple(entries), at)


def _record_at(data: bytes, at: int) -> tuple[Entry, int, int] | None:
    """Return entry, floor and end of a whole record, or None."""
    if at + RECORD_BYTES > len(data):
        return None
    start = at + _CRC.size
    size, place, floor, index, term, kind = _RECORD.unpack_from(data, start)
    end = at + RECORD_BYTES + size
    if place != at or end > len(data) or _CRC.unpack_from(data, at)[0] != crc32c(data[start:end]):
        return None
    if kind not in KINDS:
        raise RaftDamageError(f"entry {index} is of the unknown kind {kind}")
    return Entry(index, term, EntryKind(kind), data[at + RECORD_BYTES : end]), floor, end


def _was_durable(data: bytes, bad: int) -> bool:
    """True if a later whole record was written when the bad place was durable."""
    places: Any = struct.Struct(">Q")
    offset = _CRC.size + 4  # of `place` in a record
    for at in range(bad + 1, len(data) - RECORD_BYTES + 1):
        if places.unpack_from(data, at + offset)[0] == at:
            found = _record_at(data, at)
            if found is not None and found[1] > bad:
                return True
    return False
