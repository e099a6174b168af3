"""The state file's rows, read without writing: SQLite would make files beside it even for a reader.

A file with a write-ahead log is copied with it to a temporary directory and read there. Otherwise the file is opened as
immutable: the caller has the directory's lock, and has waited for the last writer.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import struct
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

from entrepot.broker.store.state_file import Rows, read_meta, row_checksum
from entrepot.domain.errors import StoreFailedError

ROW_KINDS: Final = {
    "m": "position",
    "n": "namespace",
    "t": "topic",
    "g": "group",
    "q": "queue",
    "w": "window",
    "k": "key-value",
    "s": "sub-topic",
    "d": "timers",
    "x": "half message",
    "i": "index file",
    "b": "beginning",
    "e": "epochs",
}

WRITER_SECONDS: Final = 10.0
_FLOCK = struct.Struct("hhqqi4x")  # struct flock of 64-bit Linux
_SQLITE_LOCKS: Final = 0x40000000  # place of SQLite's locks, whatever the file's length
_SQLITE_LOCKS_SIZE: Final = 512


@dataclass(slots=True)
class StateReading:
    """The readable part of the state file. `problems`: reasons why a store would not take it, and derives all anew.
    `corruption`: SQLite's own findings, which need not keep the rows from being read."""

    exists: bool = False
    rows: Rows = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    corruption: str = ""

    @property
    def position(self) -> int | None:
        """Commit-log offset up to which the rows know everything."""
        meta = read_meta(self.rows)
        return None if meta is None else meta[0]

    @property
    def trusted(self) -> Rows | None:
        """The rows as a store that opens takes them."""
        return self.rows if self.exists and not self.problems else None

    def counts(self) -> dict[str, int]:
        found = Counter(ROW_KINDS.get(chr(key[0]), f"kind {key[:1]!r}") for key in self.rows if key)
        return dict(sorted(found.items()))


def wait_for_writer(path: str) -> None:
    """Wait for the process that a killed server leaves: it finishes its requests and closes the state file. Raises
    StoreFailedError if that takes too long."""
    deadline = time.monotonic() + WRITER_SECONDS
    while owner := _locked_by(path):
        if time.monotonic() > deadline:
            raise StoreFailedError(f"process {owner} has the state file {path} open: end it first")
        time.sleep(0.02)


def _locked_by(path: str) -> int:
    """Return the process with SQLite's lock on a file, else 0."""
    if not os.path.exists(path):
        return 0
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, _SQLITE_LOCKS, _SQLITE_LOCKS_SIZE, 0)
        kind, _, _, _, owner = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    finally:
        os.close(descriptor)
    return owner if kind != fcntl.F_UNLCK else 0


@contextmanager
def opened(path: str) -> Iterator[sqlite3.Connection]:
    """Open the state file at a path for reading. Raises sqlite3.Error, OSError."""
    with tempfile.TemporaryDirectory(prefix="entrepot-state-") as scratch:
        source = f"file:{quote(os.path.abspath(path))}?mode=ro&immutable=1"
        if any(os.path.exists(path + suffix) for suffix in ("-wal", "-journal")):
            for suffix in ("", "-wal", "-journal"):
                if os.path.exists(path + suffix):
                    shutil.copyfile(path + suffix, f"{scratch}/state.db{suffix}")
            source = f"file:{quote(scratch)}/state.db"
        connection = sqlite3.connect(source, uri=True)
        try:
            yield connection
        finally:
            connection.close()


def read_state(path: str) -> StateReading:
    """Return every whole row, and the problems."""
    reading = StateReading(exists=os.path.exists(path))
    if not reading.exists:
        return reading
    try:
        with opened(path) as connection:
            _read_rows(connection, reading)
            [(verdict,)] = connection.execute("PRAGMA integrity_check(1)").fetchall()
            reading.corruption = "" if verdict == "ok" else " ".join(str(verdict).split())
    except (sqlite3.Error, OSError) as error:
        reading.problems.append(f"the state file cannot be read: {error}")
    return reading


def _read_rows(connection: sqlite3.Connection, reading: StateReading) -> None:
    total = count = 0
    for key, crc, value in connection.execute("SELECT key, crc, value FROM state"):
        count += 1
        if not (isinstance(key, bytes) and isinstance(value, bytes) and isinstance(crc, int)):
            reading.problems.append(f"the state file's row {key!r} is not a row")
            continue
        total ^= crc
        if row_checksum(key, value) != crc:
            reading.problems.append(f"the state file's row {name_of_row(key)} fails its checksum")
        else:
            reading.rows[key] = value
    found = connection.execute("SELECT rows, sum FROM digest").fetchall()
    if found != [(count, total)]:
        told = f"{found[0][0]} rows with the sum {found[0][1]}" if len(found) == 1 else f"{len(found)} digests"
        reading.problems.append(f"the state file's digest says {told}; there are {count} rows with the sum {total}")
    elif read_meta(reading.rows) is None:
        reading.problems.append("the state file's row of the position is missing")


def name_of_row(key: bytes) -> str:
    """Return a row's key for people."""
    kind = ROW_KINDS.get(chr(key[0]) if key else "", "?")
    rest = key[1:]
    if kind == "queue":
        text = f"{rest[:-5].decode(errors='replace')}/{int.from_bytes(rest[-4:], 'big')}"
    elif kind == "window" and rest.count(b"\0") >= 2:
        group, topic, number = rest.split(b"\0", 2)
        text = f"{group.decode(errors='replace')} on {topic.decode(errors='replace')}/{int.from_bytes(number, 'big')}"
    elif kind == "timers":
        text = f"minute {int.from_bytes(rest[:4], 'big')} region {int.from_bytes(rest[4:], 'big')}"
    elif kind == "half message":
        text = str(int.from_bytes(rest, "big"))
    elif kind == "sub-topic":
        topic, _, number = rest.partition(b"\0")
        text = f"{topic.decode(errors='replace')} {number.hex() if number != b'!' else 'incomplete'}"
    else:
        text = rest.decode(errors="replace")
    return f"{kind} {text}".rstrip()
