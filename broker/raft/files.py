"""RaftFiles: the directory of one Raft member. Nothing in it is told before it is durable.

    state             term and vote, and the member whose directory it is
    snapshot-INDEX    state of the machine with all entries up to an index
    log-INDEX         entries after that index
    end               index of the log, and its synced bytes: a shorter log has lost what was told as durable

Each is put in place whole and durable, except entries, which are written at the log's end and synced. A snapshot goes
first, then the log after it. The earlier two are removed last, and the later ones count. Files of a new index never
overwrite those of another, so a full disk leaves the earlier ones. Only `end` is overwritten in place, after each sync
and without one of its own: what it has is at most what is durable.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

import structlog

from entrepot.broker.raft.effects import HardState, Write
from entrepot.broker.raft.entry import Entry
from entrepot.broker.raft.records import (
    DecodedLog,
    RaftDamageError,
    StoredState,
    decode_end,
    decode_log,
    decode_snapshot,
    decode_state,
    encode_end,
    encode_log,
    encode_records,
    encode_snapshot,
    encode_state,
)
from entrepot.broker.raft.snapshot import NO_SNAPSHOT, Snapshot
from entrepot.broker.raft.state import Stored
from entrepot.broker.store.private_files import open_private
from entrepot.broker.store.small_files import make_directories_durably, put_durably, sync_directory, sync_file
from entrepot.domain.errors import StoreFailedError

STATE: Final = "state"
DRAFT: Final = ".draft"
SNAPSHOT: Final = "snapshot-"
LOG: Final = "log-"
END: Final = "end"
log = structlog.get_logger(__name__)


class Directory(Protocol):
    """Files of one directory. All calls raise OSError; after an error nothing is sure, and the member stops."""

    def names(self) -> list[str]: ...

    def read(self, name: str) -> bytes: ...

    def put(self, name: str, data: bytes) -> None:
        """Put a file in place whole and durable: after a crash it is there with these bytes, or as before."""

    def write(self, name: str, data: bytes, offset: int) -> None:
        """Write at the end of a file; not durable yet."""

    def truncate(self, name: str, size: int) -> None:
        """Let a file end earlier; not durable yet."""

    def sync(self, name: str) -> None:
        """Make a file, its size and its name durable."""

    def remove(self, name: str) -> None:
        """Remove a file; it may be back after a crash."""


class OsDirectory:
    """A directory of the operating system, made for this user alone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        make_directories_durably(path)

    def names(self) -> list[str]:
        return sorted(os.listdir(self.path))

    def read(self, name: str) -> bytes:
        return (self.path / name).read_bytes()

    def put(self, name: str, data: bytes) -> None:
        put_durably(self.path / name, data)

    def write(self, name: str, data: bytes, offset: int) -> None:
        descriptor = open_private(str(self.path / name), os.O_WRONLY)
        try:
            written = 0
            while written < len(data):
                written += os.pwrite(descriptor, data[written:], offset + written)
        finally:
            os.close(descriptor)

    def truncate(self, name: str, size: int) -> None:
        os.truncate(self.path / name, size)

    def sync(self, name: str) -> None:
        sync_file(str(self.path / name))
        sync_directory(self.path)

    def remove(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)


class RaftFiles:
    """The files of the member with this id. `perform` waits for the disk: call it where waiting is fine."""

    def __init__(self, directory: Directory, member: int) -> None:
        self._directory, self._member = directory, member
        self._snapshot: Snapshot = NO_SNAPSHOT
        self._entries: list[Entry] = []
        self._end = self._synced = 0  # offsets in the log's file

    def create(self, stored: Stored) -> None:
        """Begin a member's directory, from `first_stored` or as an empty learner.

        The id is new: a member that lost its directory comes back with another id, as it may have voted and
        acknowledged. Raises StoreFailedError where a member's files are there, and OSError.
        """
        if found := [name for name in self._directory.names() if not name.endswith(DRAFT)]:
            raise StoreFailedError(f"the directory of member {self._member} is not empty: it has {found[0]}")
        self._directory.put(END, encode_end(0, 0))
        self._put_log(NO_SNAPSHOT, list(stored.entries))
        self._put_state(stored.state)

    def load(self) -> Stored:
        """Return the directory's contents, synced again: a process that died may have written and not synced. Raises
        StoreFailedError where something is missing or damaged, or another member's, and OSError."""
        try:
            return self._load()
        except RaftDamageError as error:
            raise StoreFailedError(f"the files of member {self._member} are damaged: {error}") from error

    def _load(self) -> Stored:
        names = self._directory.names()
        if STATE not in names:
            raise StoreFailedError(f"member {self._member} has no state: with an empty directory it needs a new id")
        found = decode_state(self._directory.read(STATE))
        if found.member != self._member:
            raise StoreFailedError(f"the directory is that of member {found.member}, not of {self._member}")
        self._directory.sync(STATE)
        snapshots, logs = _indexes(names, SNAPSHOT), _indexes(names, LOG)
        if snapshots:
            self._snapshot = self._load_snapshot(self._directory.read(_name(SNAPSHOT, snapshots[-1])))
            if self._snapshot.index != snapshots[-1]:
                raise RaftDamageError(f"the snapshot up to {snapshots[-1]} is one up to {self._snapshot.index}")
            self._directory.sync(_name(SNAPSHOT, snapshots[-1]))
        if not logs or logs[-1] > self._snapshot.index:
            raise RaftDamageError(f"a log after a snapshot is there, and not both: {names}")
        if END not in names:  # of an earlier version
            self._directory.put(END, encode_end(0, 0))
        self._load_log(logs[-1])
        self._remove_earlier()
        return Stored(found.state, self._snapshot, tuple(self._entries))

    def _load_snapshot(self, data: bytes) -> Snapshot:
        return decode_snapshot(data)

    def _load_log(self, base: int) -> None:
        """Take the log as far as it is whole, and cut a torn tail."""
        name, snapshot = _name(LOG, base), self._snapshot
        data = self._directory.read(name)
        decoded = decode_log(data)
        self._entries = list(decoded.entries)
        if decoded.base < snapshot.index:  # the crash was before its successor was in place
            self._put_log(snapshot, _behind(decoded, snapshot))
            return
        if decoded.base_term != snapshot.term:
            raise RaftDamageError(f"{name} does not follow the snapshot")
        known_base, known_end = decode_end(self._directory.read(END))
        if known_base == base and decoded.end < known_end:
            raise RaftDamageError(f"{name} has {decoded.end} whole bytes, and {known_end} were durable")
        if decoded.end < len(data):
            log.warning("a torn write is cut", file=name, at=decoded.end, bytes=len(data) - decoded.end)
            self._directory.truncate(name, decoded.end)
        self._directory.sync(name)
        self._end = self._synced = decoded.end

    def perform(self, writes: Sequence[Write]) -> None:
        """Make writes durable, in order, with one sync for entries that follow each other.  Raises OSError."""
        for write in writes:
            if write.snapshot is not None:
                self._put_snapshot(write.snapshot)
            if write.state is not None:
                self._put_state(write.state)
            if write.entries:
                self._append(write.entries)
        self._sync()

    def has(self, entry: Entry) -> bool:
        """True where an entry is durable here, by itself or in the snapshot."""
        place = entry.index - self._snapshot.index - 1
        return place < 0 or (place < len(self._entries) and self._entries[place] == entry)

    def _put_state(self, state: HardState) -> None:
        self._directory.put(STATE, encode_state(StoredState(self._member, state)))

    def _append(self, entries: tuple[Entry, ...]) -> None:
        data = encode_records(entries, self._end, self._synced)
        self._directory.write(_name(LOG, self._snapshot.index), data, self._end)
        self._end += len(data)
        del self._entries[entries[0].index - self._snapshot.index - 1 :]
        self._entries += entries

    def _sync(self) -> None:
        if self._synced < self._end:
            self._directory.sync(_name(LOG, self._snapshot.index))
            self._synced = self._end
            self._note_end()

    def _note_end(self) -> None:
        self._directory.write(END, encode_end(self._snapshot.index, self._synced), 0)

    def _put_snapshot(self, snapshot: Snapshot) -> None:
        self._sync()
        before = DecodedLog(self._snapshot.index, self._snapshot.term, tuple(self._entries), 0)
        self._directory.put(_name(SNAPSHOT, snapshot.index), encode_snapshot(snapshot))
        self._put_log(snapshot, _behind(before, snapshot))
        self._remove_earlier()

    def _put_log(self, snapshot: Snapshot, entries: list[Entry]) -> None:
        data = encode_log(snapshot.index, snapshot.term, entries)
        self._directory.put(_name(LOG, snapshot.index), data)
        self._snapshot, self._entries = snapshot, entries
        self._end = self._synced = len(data)
        self._note_end()

    def _remove_earlier(self) -> None:
        kept = (STATE, _name(SNAPSHOT, self._snapshot.index), _name(LOG, self._snapshot.index))
        for name in self._directory.names():
            if name not in kept and (name.startswith((SNAPSHOT, LOG)) or name.endswith(DRAFT)):
                self._directory.remove(name)


def _behind(before: DecodedLog, snapshot: Snapshot) -> list[Entry]:
    """Return a log's entries after a snapshot: all that follow its last entry, if that is in the log."""
    place = snapshot.index - before.base - 1
    if place < len(before.entries) and before.entries[place].term == snapshot.term:
        return list(before.entries[place + 1 :])
    return []


def _name(kind: str, index: int) -> str:
    return f"{kind}{index:020d}"


def _indexes(names: Sequence[str], kind: str) -> list[int]:
    found = [name[len(kind) :] for name in names if name.startswith(kind)]
    return sorted(int(number) for number in found if number.isdigit())
