"""StateFile: the state derived from the log, as rows in an embedded transactional store (SQLite).

    state    key, crc32c of key and value, value     one row per topic, group, queue, window, key-value ...
    digest   number of rows, sum (xor) of their checksums

`PRAGMA user_version` is the version of both tables.

A checkpoint is one transaction that writes only the changed rows (`changed_rows.py`). The sync process writes it, so
that nobody here waits for the disk. Reading checks every row and the digest: on any mismatch there is no state, and
everything is derived from the log again.
"""

from __future__ import annotations

import os
import sqlite3
import struct
from collections.abc import Sequence
from typing import Final, Protocol

from google_crc32c import extend as crc32c_extend
from google_crc32c import value as crc32c

from entrepot.broker.rows.changed_rows import Change

Rows = dict[bytes, bytes]

META_KEY: Final = b"m"
STATE_VERSION: Final = 1
"""Version of the tables and rows, kept as SQLite's `user_version`."""
_META = struct.Struct(">QQI")
_CHANGE = struct.Struct(">IHI")
_GONE: Final = 0xFFFFFFFF


class StateFile(Protocol):
    """The rows of the last checkpoint."""

    path: str

    def load(self) -> Rows | None:
        """Return every row, or None where there are none or they are corrupted."""

    def discard(self) -> None:
        """Remove the corrupted file; the next checkpoint begins anew."""


class SqliteStateFile:
    """The state file in SQLite, at a path."""

    def __init__(self, path: str) -> None:
        self.path = path

    def load(self) -> Rows | None:
        if not os.path.exists(self.path):
            return None
        try:
            connection = sqlite3.connect(self.path)
            try:
                connection.execute(
                    "PRAGMA locking_mode = EXCLUSIVE"
                )  # no shared memory: a full disk has no room for it
                return _checked(connection)
            finally:
                connection.close()
        except sqlite3.Error:
            return None

    def discard(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            if os.path.exists(self.path + suffix):
                os.unlink(self.path + suffix)


def _checked(connection: sqlite3.Connection) -> Rows | None:
    if connection.execute("PRAGMA user_version").fetchall() != [(STATE_VERSION,)]:
        return None  # of another version: everything is derived from the log again
    found = connection.execute("SELECT rows, sum FROM digest").fetchall()
    if len(found) != 1:
        return None
    rows: Rows = {}
    total = 0
    for key, crc, value in connection.execute("SELECT key, crc, value FROM state"):
        if not (isinstance(key, bytes) and isinstance(value, bytes)) or row_checksum(key, value) != crc:
            return None
        rows[key] = value
        total ^= crc
    return rows if found[0] == (len(rows), total) else None


def row_checksum(key: bytes, value: bytes) -> int:
    """Return the crc32c over key and value."""
    checksum: int = crc32c_extend(crc32c(key), value)
    return checksum


def encode_changes(changes: Sequence[Change]) -> bytes:
    """Encode changes for the sync process: per change u32 checksum, u16 key length, u32 value length (all ones: the row
    is gone), key, value."""
    parts: list[bytes] = []
    for key, value in changes:
        if value is None:
            parts += (_CHANGE.pack(0, len(key), _GONE), key)
        else:
            parts += (_CHANGE.pack(row_checksum(key, value), len(key), len(value)), key, value)
    return b"".join(parts)


def meta_change(position: int, end: int, recovery_epoch: int) -> Change:
    """Return the row of (position, end, recovery epoch): rows know all before `position`, nothing after `end`."""
    return META_KEY, _META.pack(position, end, recovery_epoch)


def read_meta(rows: Rows) -> tuple[int, int, int] | None:
    """Return (position, end, recovery epoch), or None where the row is missing."""
    value = rows.get(META_KEY)
    if value is None or len(value) != _META.size:
        return None
    position, end, epoch = _META.unpack(value)
    return position, end, epoch
